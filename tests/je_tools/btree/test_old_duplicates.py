"""Duplicates of log versions before 8: faults in their trees are reported, and reading ends."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from je_tools.btree.fault_kinds import FaultKind
from je_tools.recovery.snapshot import Snapshot
from tests.builders.trees import DUPLICATES, OldDuplicates, slot
from tests.je_tools.corpus_snapshots import database_named
from tests.je_tools.dumped import je_tools
from tests.je_tools.snapshots import records_of, snapshot_of


def log_of(log: OldDuplicates, slots: list[dict[str, object]], folder: Path) -> Path:
    """Write a log whose database `db` has these slots."""
    log.database(b"db", log.tree(slots), db_flags=DUPLICATES)
    log.checkpoint()
    return log.write(folder / "env")


def read(home: Path, name: str) -> tuple[Snapshot, list[tuple[bytes, bytes]]]:
    snapshot = snapshot_of(home)
    return snapshot, records_of(snapshot, database_named(snapshot, name))


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Return an environment in which an upper node of one key's duplicates is damaged."""
    log = OldDuplicates()
    kept = log.duplicates(b"a", b"1", b"2")
    lower = log.duplicates(b"b", b"3", b"4")
    upper = log.duplicate_node(b"b", [slot(b"3", lower)], level=2)
    log.file.data[-1] ^= 1
    # Recovery looks for the end of the log in the last file.
    log.next_file()
    return log_of(log, [slot(b"a", kept), slot(b"b", upper)], tmp_path)


def test_a_damaged_node_is_told_and_its_duplicates_are_left_out(damaged: Path) -> None:
    snapshot, found = read(damaged, "db")
    assert found == [(b"a", b"1"), (b"a", b"2")]
    assert [(each.kind, each.low) for each in snapshot.faults] == [(FaultKind.DAMAGED, b"b")]
    counting = snapshot_of(damaged)
    assert counting.count(database_named(counting, "db")) == len(found)
    assert len(list(counting.faults)) == 1


@pytest.mark.parametrize("words", [["count"], ["export", "--db", "db"], ["databases"]])
def test_commands_end_with_the_exit_code_of_damage(damaged: Path, words: list[str]) -> None:
    verb, *others = words
    done = je_tools(verb, damaged, *others)
    assert done.code == 3
    assert "the record of key hex:62 of db" in done.err


def test_verify_tells_of_a_damaged_node(damaged: Path) -> None:
    done = je_tools("verify", damaged, "--tree", "--format", "jsonl")
    assert done.code == 3
    (line,) = (line for line in done.out.splitlines() if b'"tree-node"' in line)
    assert b"a node with the duplicates of the key" in line


@pytest.mark.timeout(60)
def test_a_node_that_names_itself_twice(tmp_path: Path) -> None:
    """Each level would have twice the slots of the one above."""
    log = OldDuplicates()
    good = log.duplicates(b"b", b"1", b"2")
    here = log.here
    log.duplicate_node(b"a", [slot(b"1", here), slot(b"2", here)], level=2)
    home = log_of(log, [slot(b"a", here), slot(b"b", good)], tmp_path)
    snapshot, found = read(home, "db")
    assert found == [(b"b", b"1"), (b"b", b"2")]
    assert {(each.kind, each.low) for each in snapshot.faults} == {(FaultKind.SHARED, b"a")}


@pytest.mark.timeout(60)
def test_more_ways_than_anybody_can_go(tmp_path: Path) -> None:
    log = OldDuplicates()
    node = log.duplicates(b"a", b"1")
    for level in range(2, 40):
        slots = [slot(b"%d" % i, node) for i in range(5)]
        node = log.duplicate_node(b"a", slots, level=level)
    snapshot, found = read(log_of(log, [slot(b"a", node)], tmp_path), "db")
    assert found == [(b"a", b"1")]
    assert len(snapshot.faults.damage) + snapshot.faults.left_out_count == 38


@pytest.mark.timeout(60)
def test_keys_that_share_their_duplicates(tmp_path: Path) -> None:
    """Reads of the shared node do not grow with the number of BINs whose slots name it."""
    log = OldDuplicates()
    shared = log.duplicates(b"00", *(b"%03d" % i for i in range(100)))
    slots = [slot(b"%02d" % i, shared) for i in range(60)]
    leaves = [log.node(slots[first : first + 2]) for first in range(0, 60, 2)]
    children = [slot(b"%02d" % (2 * i) if i else b"", lsn) for i, lsn in enumerate(leaves)]
    log.database(b"db", log.node(children, level=2, is_root=True), db_flags=DUPLICATES)
    log.checkpoint()
    snapshot, found = read(log.write(tmp_path / "env"), "db")
    assert found == [(b"00", b"%03d" % i) for i in range(100)]
    assert [each.low for each in snapshot.faults] == [b"%02d" % i for i in range(1, 60)]
    assert {each.kind for each in snapshot.faults} == {FaultKind.OTHER_KEY}


def test_duplicates_whose_upper_node_lies_in_a_missing_file(tmp_path: Path) -> None:
    log = OldDuplicates()
    kept = log.duplicates(b"a", b"1", b"2")
    log.next_file()
    lost = log.duplicates(b"b", b"1")
    records = [
        slot(b"%d" % i, log.put("LN", {"db_id": 6, "key": b"c", "data": b"%d" % i})) for i in (1, 2)
    ]
    upper = log.duplicate_node(b"c", [slot(b"1", log.duplicate_node(b"c", records))], level=2)
    log.next_file()
    home = log_of(log, [slot(b"a", kept), slot(b"b", lost), slot(b"c", upper)], tmp_path)
    named = je_tools("missing", home, "--without", "00000001.jdb", "--format", "jsonl")
    shutil.copytree(home, tmp_path / "left")
    (tmp_path / "left" / "00000001.jdb").unlink()
    gone = je_tools("missing", tmp_path / "left", "--format", "jsonl")
    for done in (named, gone):
        assert b'"key":"62"' in done.out.replace(b" ", b""), done.out
        assert b'"key":"63"' in done.out.replace(b" ", b"")
        assert b'"key":"61"' not in done.out.replace(b" ", b"")
