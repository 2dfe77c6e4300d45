"""Earlier ends of a log, and `--now`, for commands that do more than show records."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from je_tools.recovery.snapshot import Snapshot
from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools, rows_of
from tests.je_tools.snapshots import contents_of, snapshot_of

HOME = FIXTURES / "v17-crash-txn" / "env"
SEVERAL = FIXTURES / "v17-erase-after" / "env"


def middle_commit(home: Path) -> dict[str, object]:
    done = je_tools("dump", home, "--type", "Commit", "--format", "jsonl")
    rows = rows_of(done.out)
    return rows[len(rows) * 2 // 3]


def lsn_of(text: str) -> int:
    file_no, offset = (int(part, 16) for part in text.split("/"))
    return file_no << 32 | offset


def changed(a: Snapshot, b: Snapshot) -> dict[str, set[tuple[str, bytes]]]:
    """Return the differences by database, computed with plain sets."""
    found = {}
    before, after = contents_of(a), contents_of(b)
    for name in before | after:
        old, new = dict(before.get(name, [])), dict(after.get(name, []))
        rows = {("only-a", key) for key in old.keys() - new.keys()}
        rows |= {("only-b", key) for key in new.keys() - old.keys()}
        rows |= {("changed-a", key) for key in old.keys() & new.keys() if old[key] != new[key]}
        found[name] = rows
    return {name: rows for name, rows in found.items() if rows}


def test_diff_tells_what_changed_since() -> None:
    commit = middle_commit(HOME)
    lsn = str(commit["lsn"])
    expected = changed(snapshot_of(HOME, to_lsn=lsn_of(lsn)), snapshot_of(HOME))
    assert expected
    done = je_tools("diff", HOME, HOME, "--to-lsn", lsn, "--show", "records", "--format", "jsonl")
    assert done.code == 3
    found: dict[str, set[tuple[str, bytes]]] = {}
    for row in rows_of(done.out):
        if row["change"] != "changed-b":
            found.setdefault(row["db"], set()).add((row["change"], bytes.fromhex(row["key"])))
    assert found == expected
    assert je_tools("diff", HOME, HOME).code == 0


def test_missing_tells_of_an_earlier_state_what_it_kept_then(tmp_path: Path) -> None:
    """The result is that of a log that was cut there."""
    files = sorted(SEVERAL.glob("*.jdb"))
    rows = rows_of(je_tools("dump", files[-1], "--type", "Commit", "--format", "jsonl").out)
    row = rows[len(rows) // 2]
    lsn = lsn_of(row["lsn"])
    home = shutil.copytree(SEVERAL, tmp_path / "env")
    last = home / files[-1].name
    stop = (lsn & 0xFFFFFFFF) + row["header_size"] + row["item_size"]
    last.write_bytes(last.read_bytes()[:stop])
    options = ("--without", "0", "--format", "jsonl", "--now", "2000-01-01")
    cut = je_tools("missing", home, *options)
    earlier = je_tools("missing", SEVERAL, *options, "--to-lsn", row["lsn"])
    assert earlier.out == cut.out != b""
    assert earlier.out != je_tools("missing", SEVERAL, *options).out


def test_trees_are_checked_as_they_were(tmp_path: Path) -> None:
    """Damage to a later entry is no fault of the earlier tree."""
    whole = snapshot_of(SEVERAL)
    home = shutil.copytree(SEVERAL, tmp_path / "env")
    first = rows_of(je_tools("dump", home, "--type", "CkptEnd", "--format", "jsonl").out)[0]
    before = snapshot_of(SEVERAL, to_lsn=lsn_of(first["lsn"]))
    last_no = whole.end.files[-1].file_no
    people = next(each for each in whole.databases.values() if each.name == "people")
    lsns = [lsn for batch in whole.records(people) for lsn in batch.lsn.tolist()]
    lsn = max(lsn for lsn in lsns if before.end.last_lsn < lsn < last_no << 32)
    path = home / f"{lsn >> 32:08x}.jdb"
    data = bytearray(path.read_bytes())
    data[(lsn & 0xFFFFFFFF) + 20] ^= 0xFF
    path.write_bytes(data)
    damaged = je_tools("verify", home, "--tree", "--format", "jsonl").out
    options = ("--tree", "--format", "jsonl", "--to-lsn", first["lsn"])
    earlier = je_tools("verify", home, *options).out
    codes = [{row["code"] for row in rows_of(out)} for out in (damaged, earlier)]
    assert "tree-record" in codes[0]
    assert codes[1] == codes[0] - {"tree-record"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("verify", HOME, "--to-lsn", "0x0/0x300"), "--to-lsn needs --tree"),
        (
            ("verify", HOME, "--tree", "--utilization", "--to-vlsn", "7"),
            "--utilization counts the whole log, but --to-vlsn cuts it: give one of them",
        ),
        (
            ("diff", HOME, HOME, "--show", "files", "--to-time", "2026-01-01"),
            "--show files compares whole files: omit --to-time",
        ),
        (
            ("missing", HOME, "--to-lsn", "0x0/0x300", "--to-vlsn", "3"),
            "--to-lsn and --to-vlsn: a log has one end: give one of them",
        ),
    ],
)
def test_ends_that_cannot_be(arguments: tuple[str | Path, ...], told: str) -> None:
    done = je_tools(*arguments)
    assert (done.code, done.out) == (2, b"")
    assert told in done.err


def test_salvage_leaves_out_what_has_expired_by_then(tmp_path: Path) -> None:
    home = FIXTURES / "v15-ttl" / "env"
    everything = salvaged(home, tmp_path / "a")
    now = sorted(row["expires_ms"] for row in everything if "expires_ms" in row)
    at = now[len(now) // 2] + 1
    kept = salvaged(home, tmp_path / "b", "--now", f"{at}ms")
    assert kept == [row for row in everything if row.get("expires_ms", at) >= at]
    assert len(kept) < len(everything)


def salvaged(home: Path, folder: Path, *options: str) -> list[dict[str, object]]:
    done = je_tools("salvage", home, "--output", folder, "--format", "jsonl", *options)
    assert done.code == 0
    report = [json.loads(line) for line in (folder / "report.jsonl").read_text().splitlines()]
    rows = []
    for one in (row for row in report if row["kind"] == "database"):
        own = [json.loads(line) for line in (folder / one["file"]).read_text().splitlines()]
        assert len(own) == sum(one["records"].values()) - one.get("expired", 0)
        rows += own
    return rows
