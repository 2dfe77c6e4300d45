"""The formats of whole environments: records, findings, and the replication stream."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from je_tools.btree.key_ranges import KeyRange
from je_tools.errors import DamageError, InputError, UsageError
from je_tools.spark.findings import FINDING_ROWS
from je_tools.spark.jefindings import JefindingsSource
from je_tools.spark.jerecords import JerecordsSource
from je_tools.spark.jevlsn import JevlsnSource
from je_tools.spark.records import RECORDS
from je_tools.spark.vlsns import VLSNS
from tests.corpus import FIXTURES, Environment, marked_beyond_fixtures, recorded_environments
from tests.je_tools.corpus_snapshots import newest_ms
from tests.je_tools.dumped import je_tools
from tests.spark.reading import assert_same, in_spark, read, reader
from tests.truth.contents import read_contents

RECORDED = [
    (each, path) for each, path in recorded_environments() if not each.name.startswith("v6-halt")
]
"""Recorded environments except `v6-halt`, whose duplicates no release used here replays."""

REPLICATED = ["v26-rep-committed/node1", "v15-rep-uncommitted/node1"]


@pytest.mark.parametrize(
    ("home", "path"),
    [pytest.param(each.home, path, marks=marked_beyond_fixtures(each)) for each, path in RECORDED],
    ids=[each.name for each, _ in RECORDED],
)
def test_records_are_those_written_down(home: Path, path: Path) -> None:
    known = read_contents(path)
    table = read(home, JerecordsSource, columns="env,db,key,data", now=f"{newest_ms(home)}ms")
    found: dict[str, list[tuple[bytes, bytes]]] = {name: [] for name in known}
    for row in table.to_pylist():
        assert row["env"] == str(home)
        found[row["db"]].append((row["key"], row["data"]))
    assert found == known


def exported(home: Path, folder: Path, *arguments: str) -> pa.Table:
    """Return the output of `export --format parquet` in the columns of `jerecords`."""
    shutil.rmtree(folder, ignore_errors=True)
    done = je_tools("export", home, "--all", "--format", "parquet", "--output", folder, *arguments)
    assert done.code == 0, done.err
    tables = [pq.read_table(file) for file in sorted(folder.glob("*.parquet"))]
    whole = pa.concat_tables(table.unify_dictionaries() for table in tables)
    return in_spark(whole, str(home), RECORDS.schema())


def in_order(table: pa.Table) -> pa.Table:
    """Return records by database; a database's are in key order already."""
    by_name = {name: i for i, name in enumerate(sorted(set(table["db"].to_pylist())))}
    order = sorted(range(len(table)), key=lambda row: by_name[table["db"][row].as_py()])
    return table.take(order)


@pytest.mark.parametrize(
    ("name", "options", "arguments"),
    [
        ("v17-basic/env", {}, []),
        ("v26-dbops/env", {"internal": "true"}, ["--internal"]),
        ("v17-dups/env", {"data": "hash"}, ["--data", "hash"]),
        ("v17-basic/env", {"key_range": "user00000007..user00000021"}, ["--key-range", "="]),
        ("v15-ttl/env", {"now": "2030-01-01"}, ["--now", "="]),
        (
            "v15-ttl/env",
            {"show_expired": "true", "now": "2030-01-01"},
            ["--show-expired", "--now", "="],
        ),
    ],
)
def test_records_are_those_of_export(
    name: str, options: dict[str, str], arguments: list[str], tmp_path: Path
) -> None:
    values = [value for value in options.values() if value != "true"]
    given = [values[0] if word == "=" else word for word in arguments]
    expected = exported(FIXTURES / name, tmp_path / "out", *given)
    found = read(FIXTURES / name, JerecordsSource, **options)
    assert len(found) == len(expected)
    assert_same(in_order(found), in_order(expected))


def test_records_of_a_fleet(tmp_path: Path) -> None:
    names = ["v17-basic", "v26-dbops", "v8-dbops"]
    for name in names:
        shutil.copytree(FIXTURES / name / "env", tmp_path / name)
    single = [read(tmp_path / name, JerecordsSource) for name in names]
    for tasks in ("1", "3"):
        found = read(tmp_path, JerecordsSource, tasks=tasks)
        assert_same(found, pa.concat_tables(single))
    people = read(tmp_path, JerecordsSource, db="people", columns="env,db")
    assert {row["db"] for row in people.to_pylist()} == {"people"}
    with pytest.raises(UsageError, match="option db: nobody: there is no such database"):
        read(tmp_path / "v17-basic", JerecordsSource, db="nobody")


@pytest.mark.parametrize(
    "home",
    [pytest.param(each.home, marks=marked_beyond_fixtures(each)) for each, _ in RECORDED],
    ids=[each.name for each, _ in RECORDED],
)
def test_ranges_of_keys_have_the_records_of_one_task(home: Path) -> None:
    now = f"{newest_ms(home)}ms"
    whole = read(home, JerecordsSource, tasks="1", now=now)
    for tasks in ("4", "50"):
        assert_same(read(home, JerecordsSource, tasks=tasks, now=now), whole)


def key_ranges(home: Path, **options: str) -> list[KeyRange | None]:
    """Return the range of keys of each database in each task."""
    tasks = [each.value for each in reader(home, JerecordsSource, **options).partitions()]
    return [inside for task in tasks for part in task.parts for _, inside in part.ranges or ()]


def test_ranges_of_keys_of_databases_with_duplicates() -> None:
    home = FIXTURES / "v17-dups" / "env"
    ranges = key_ranges(home, tasks="40")
    assert len(ranges) == 40
    # They are cut between keys, not between the records of a key.
    keys = set(read(home, JerecordsSource, columns="key").column("key").to_pylist())
    assert {each.low for each in ranges if each is not None and each.low is not None} <= keys


def test_ranges_of_keys_within_an_asked_range() -> None:
    home = FIXTURES / "v17-dups" / "env"
    keys = sorted(set(read(home, JerecordsSource, columns="key").column("key").to_pylist()))
    inside = f"hex:{keys[len(keys) // 3].hex()}..hex:{keys[len(keys) // 2].hex()}"
    some = read(home, JerecordsSource, key_range=inside, tasks="1")
    assert len(some) > 0
    assert len(key_ranges(home, key_range=inside, tasks="40")) >= 5
    assert_same(read(home, JerecordsSource, key_range=inside, tasks="40"), some)


def test_tasks_of_a_growing_environment_have_the_same_records(tmp_path: Path) -> None:
    home = tmp_path / "env"
    shutil.copytree(FIXTURES / "v17-basic" / "env", home)
    expected = read(home, JerecordsSource)
    planned = reader(home, JerecordsSource, tasks="5")
    partitions = planned.partitions()
    assert len(partitions) == 5
    with (home / "00000000.jdb").open("ab") as file:
        file.write((home / "00000000.jdb").read_bytes()[:5000])
    found = [batch for each in partitions for batch in planned.read(each)]
    assert_same(pa.Table.from_batches(found, planned.schema), expected)


def test_few_tasks_if_recovery_replays_much(monkeypatch: pytest.MonkeyPatch) -> None:
    home = FIXTURES / "v17-crash-txn" / "env"
    monkeypatch.setattr("je_tools.core.shares.TASK_SIZES", (1000, 10_000))
    many = key_ranges(home, tasks="40")
    few = key_ranges(home)
    assert 1 <= len(few) < len(many)


def damaged_copy(folder: Path) -> Path:
    """Copy an environment, and overwrite a part of its log that holds records."""
    home = folder / "env"
    shutil.copytree(FIXTURES / "v17-basic" / "env", home)
    with (home / "00000000.jdb").open("r+b") as file:
        file.seek(200_000)
        file.write(bytes(3000))
    return home


def test_records_that_damage_costs(tmp_path: Path) -> None:
    home = damaged_copy(tmp_path)
    whole = read(FIXTURES / "v17-basic" / "env", JerecordsSource)
    with pytest.raises(DamageError, match=r"rows may be missing: .*unreadable=skip"):
        read(home, JerecordsSource)
    left = read(home, JerecordsSource, unreadable="skip")
    assert 0 < len(left) < len(whole)
    with pytest.raises(DamageError, match=r"rows may be missing"):
        read(home, JerecordsSource, tasks="20")
    assert_same(read(home, JerecordsSource, unreadable="skip", tasks="20"), left)


def test_an_environment_without_records(tmp_path: Path) -> None:
    home = tmp_path / "none"
    home.mkdir()
    data = (FIXTURES / "v17-basic" / "env" / "00000000.jdb").read_bytes()
    (home / "00000000.jdb").write_bytes(data[:60])
    with pytest.raises(InputError):
        read(home, JerecordsSource)
    assert len(read(home, JerecordsSource, unreadable="skip")) == 0
    with pytest.raises(UsageError, match="single files; name the directory"):
        read(home / "00000000.jdb", JerecordsSource)


def verified(home: Path) -> list[dict[str, object]]:
    """Return the findings of `verify --format jsonl`."""
    done = je_tools("verify", home, "--format", "jsonl", "--exit-zero")
    assert done.code == 0
    return [json.loads(line) for line in done.out.splitlines()]


def assert_findings(home: Path, found: pa.Table) -> None:
    """Check that findings are those of `verify`, in the same order."""
    expected = verified(home)
    lsns = ("lsn", "resume_lsn")
    names = [name for name in FINDING_ROWS.schema().names if name not in ("env", *lsns)]
    rows = found.to_pylist()
    assert [[row[name] for name in names] for row in rows] == [
        [row.get(name) for name in names] for row in expected
    ]
    for row, known in zip(rows, expected, strict=True):
        for name in lsns:
            lsn = row[name]
            text = None if lsn is None else f"0x{lsn >> 32:x}/0x{lsn & 0xFFFFFFFF:x}"
            assert text == known.get(name)


def test_findings_are_those_of_verify(some_environment: Environment) -> None:
    home = some_environment.home
    assert_findings(home, read(home, JefindingsSource))


def test_findings_of_damage_and_of_what_cannot_be_opened(tmp_path: Path) -> None:
    home = damaged_copy(tmp_path)
    assert len(verified(home)) > 0
    found = read(home, JefindingsSource)
    assert_findings(home, found)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "00000000.jdb").symlink_to("nowhere")
    whole = read(tmp_path, JefindingsSource)
    (row,) = whole.slice(len(found)).to_pylist()
    assert (row["env"], row["code"], row["severity"]) == (str(broken), "unread", "error")
    assert "no .jdb files here" in row["found"]
    assert_same(whole.slice(0, len(found)), found)


def streamed(home: Path, out: Path, *arguments: str) -> pa.Table:
    """Return the output of `vlsn show --stream` in the columns of `jevlsn`."""
    out.unlink(missing_ok=True)
    done = je_tools("vlsn", "show", home, "--stream", "--format", "parquet", "-o", out, *arguments)
    assert done.code == 0, done.err
    return in_spark(pq.read_table(out), str(home), VLSNS.schema())


@pytest.mark.parametrize("name", REPLICATED)
def test_vlsns_are_those_of_vlsn_show(name: str, tmp_path: Path) -> None:
    home = FIXTURES / name
    out = tmp_path / "out.parquet"
    found = read(home, JevlsnSource)
    assert len(found) > 0
    assert_same(found, streamed(home, out))
    every = read(home, JevlsnSource, rolled_back="true")
    assert_same(every, streamed(home, out, "--rolled-back"))
    for row in found.slice(0, 400).to_pylist()[::97]:
        done = je_tools("vlsn", "show", home, "--map", str(row["vlsn"]), "--format", "csv")
        assert done.code == 0, done.err
        lsn = f"0x{row['lsn'] >> 32:x}/0x{row['lsn'] & 0xFFFFFFFF:x}"
        assert lsn in done.out.decode().splitlines()[1].split(",")
