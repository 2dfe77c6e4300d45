"""`export`, `count`, `databases` and `get` on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from je_tools.formats.je.header import NULL_LSN
from tests.builders.trees import DUPLICATES, TreeLog, slot
from tests.corpus import FIXTURES
from tests.je_tools.corpus_snapshots import database_named, pairs_of, snapshot_of
from tests.je_tools.dumped import Done, je_tools, rows_of

CRASH, DBOPS = FIXTURES / "v17-crash-txn" / "env", FIXTURES / "v8-dbops" / "env"
FILES = FIXTURES / "v17-erase-after" / "env"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["export"], "no database is selected"),
        (["export", "--db", "people", "--all"], "--db and --all"),
        (["export", "--db", "people", "--internal"], "--internal needs --all: add it"),
        (
            ["export", "--db", "nobody"],
            "--db nobody: there is no such database. The log has: deferred (id:7)",
        ),
        (["export", "--all"], "--format dump holds one database per file"),
        (["export", "--all", "--format", "csv", "--print"], "--print needs --format dump"),
        (["export", "--db", "people", "--format", "parquet"], "--format parquet needs --output"),
        (["export", "--db", "people", "--key-range", "x"], "--key-range x: a range is written"),
        (["get", "--db", "people", "hex:0"], "KEY hex:0: '0' is not pairs"),
        (["get", "--db", "people", "x", "--history", "--show-expired"], "--history also shows"),
        (["count", "--db", "id:77"], "--db id:77: there is no such database"),
        (["count", "--to-lsn", "0x0/0x1", "--to-vlsn", "1"], "--to-lsn and --to-vlsn"),
        (["count", "--to-lsn", "0x9/0x1"], "--to-lsn 0x9/0x1: "),
    ],
)
def test_wrong_use(words: list[str], told: str) -> None:
    verb, *others = words
    done = je_tools(verb, DBOPS, *others)
    assert (done.code, done.out) == (2, b"")
    assert done.err.startswith(f"je-tools: {told}")


def test_a_file_for_each_database(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    assert je_tools("export", DBOPS, "--all", "--output", folder).code == 0
    names = {path.name for path in folder.iterdir()}
    assert names == {f"{name}.dump" for name in DATABASES}
    for name in DATABASES:
        alone = je_tools("export", DBOPS, "--db", name)
        assert alone.out == (folder / f"{name}.dump").read_bytes()
    again = je_tools("export", DBOPS, "--all", "--output", folder)
    assert (again.code, again.err.split(": ")[1:]) == (
        6,
        [str(folder), "exists; name a file that does not\n"],
    )


def test_a_database_that_is_named_twice_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    listed = rows_of(je_tools("databases", DBOPS, "--format", "jsonl").out)
    (db_id,) = (row["db_id"] for row in listed if row["db"] == "people")
    words = ("--db", "people", "--db", f"id:{db_id}", "--db", "people", "--output", folder)
    assert je_tools("export", DBOPS, *words, "--format", "csv").code == 0
    assert folder.is_file()


DATABASES = ("deferred", "emptied", "new-name", "people", "plain")


def test_nothing_is_written_into_the_environment(tmp_path: Path) -> None:
    home = tmp_path / "env"
    shutil.copytree(DBOPS, home)
    done = je_tools("export", home, "--all", "--output", home / "records")
    assert done.code == 6
    assert not (home / "records").exists()


@pytest.mark.parametrize("home", [CRASH, FIXTURES / "v17-dups" / "env"], ids=["crash", "dups"])
def test_all_forms_say_the_same(tmp_path: Path, home: Path) -> None:
    lines = je_tools("export", home, "--all", "--format", "jsonl")
    table = tmp_path / "all.parquet"
    done = je_tools("export", home, "--all", "--format", "parquet", "--output", table)
    assert (lines.code, done.code) == (0, 0)
    snapshot = snapshot_of(home)
    told = [(row["db"], row["key"], row["data"]) for row in rows_of(lines.out)]
    names = sorted({name for name, _, _ in told})
    expected = [
        (name, key.hex(), (data or b"").hex())
        for name in names
        for key, data in pairs_of(snapshot.records(database_named(snapshot, name)))
    ]
    assert told == expected
    files = sorted(table.glob("*.parquet"))
    assert [path.stem for path in files] == names
    rows = [row for path in files for row in pq.read_table(path).to_pylist()]
    assert [(row["db"], row["key"].hex(), row["data"].hex()) for row in rows] == told


def _lost(tmp_path: Path) -> tuple[Path, bytes]:
    """Return an environment with the entry of one record damaged, and the key of that record."""
    home = tmp_path / "env"
    shutil.copytree(FILES, home)
    snapshot = snapshot_of(home)
    records = next(iter(snapshot.records(database_named(snapshot, "people"))))
    row = int(np.flatnonzero((records.lsn >> 32 == 0) & (records.lsn != NULL_LSN))[0])
    path = home / "00000000.jdb"
    data = bytearray(path.read_bytes())
    data[(int(records.lsn[row]) & 0xFFFFFFFF) + 20] ^= 1
    path.write_bytes(data)
    return home, records.key[row] or b""


def test_a_record_without_its_data_is_left_out_and_told(tmp_path: Path) -> None:
    home, key = _lost(tmp_path)
    before = rows_of(je_tools("export", FILES, "--db", "people", "--format", "jsonl").out)
    done = je_tools("export", home, "--db", "people", "--format", "jsonl")
    assert done.code == 3
    assert f"the record of key hex:{key.hex()} of people" in done.err
    assert rows_of(done.out) == [row for row in before if row["key"] != key.hex()]
    assert je_tools("export", home, "--db", "people", "--exit-zero").code == 0
    assert je_tools("count", home, "--db", "people").code == 0
    got = je_tools("get", home, "--db", "people", f"hex:{key.hex()}", "--format", "jsonl")
    assert got.code == 3
    assert [row["data"] for row in rows_of(got.out)] == [None]


def test_a_duplicate_whose_key_is_not_one_is_left_out_and_told(tmp_path: Path) -> None:
    """Its key should end with its data, but the border between the two is unknown."""
    log = TreeLog()
    both = (b"akd\x01", b"b\xff")
    slots = [slot(key, log.ln(key, b"")) for key in both]
    log.database(b"dup", log.tree(slots), db_flags=DUPLICATES)
    log.checkpoint()
    home = log.write(tmp_path / "env")
    done = je_tools("export", home, "--db", "dup", "--format", "jsonl")
    assert done.code == 3
    assert "expected the record of key hex:62ff of dup; found a key that does not end" in done.err
    assert [(row["key"], row["data"]) for row in rows_of(done.out)] == [("61", "6b64")]
    assert je_tools("count", home, "--db", "dup").code == 0


def test_what_has_expired_is_shown_when_asked_for() -> None:
    home = FIXTURES / "v15-ttl" / "env"
    far = ("--now", "2100-01-01T00:00:00")

    def counted(*more: str) -> int:
        done = je_tools("count", home, "--format", "jsonl", *more)
        return sum(row["records"] for row in rows_of(done.out))

    assert counted(*far) < counted(*far, "--show-expired") == counted("--show-expired")
    shown = je_tools("export", home, "--all", "--format", "jsonl", *far, "--show-expired")
    assert len(rows_of(shown.out)) == counted("--show-expired")


def test_an_earlier_end() -> None:
    done: Done = je_tools("count", CRASH, "--to-lsn", "0x0/0x39f56", "--format", "jsonl")
    (row,) = (json.loads(line) for line in done.out.splitlines())
    assert row["records"] > 0
    whole = rows_of(je_tools("count", CRASH, "--format", "jsonl").out)
    assert row != whole[0]


def test_counts_tell_a_file_that_is_missing(tmp_path: Path) -> None:
    whole = FIXTURES / "v8-cleaned" / "env"
    home = tmp_path / "env"
    home.mkdir()
    shutil.copyfile(whole / "00000003.jdb", home / "00000003.jdb")
    for verb in ("count", "databases"):
        done = je_tools(verb, home)
        assert done.code == 3
        assert "missing-file at 00000002.jdb; expected a file that the log" in done.err
        assert "`je-tools missing` lists" in done.err
        assert je_tools(verb, home, "--exit-zero").code == 0
        # Files 0 and 1 were cleaned.
        assert (je_tools(verb, whole).code, je_tools(verb, whole).err) == (0, "")
