"""Slots with keys outside the range of their node: stale copies, or records out of reach."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from je_tools.btree.check.cleaner_metadata import CleanerMetadata
from je_tools.btree.check.run import check_trees
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.opening import take_snapshot
from tests.builders.trees import DUPLICATES, TreeLog, slot

KEY = b"p"
GONE_LSN = 0x7FFF << 32 | 0x100
OTHER_DB = 7
NO_METADATA = CleanerMetadata()


def problems_of(
    home: Path, cleaner: CleanerMetadata = NO_METADATA
) -> list[tuple[str, bytes | None]]:
    """Return the code and the key of each problem but those of ids above the last one."""
    snapshot = take_snapshot(open_environment([home]), Scanner(threads=1), now_ms=0)
    found = []
    for database, problems in check_trees(snapshot, cleaner):
        assert not problems.unlisted
        listed = [each for each in problems.listed if "the last id" not in each.expected]
        assert database.name == "db" or not listed
        found += [(each.code, each.low) for each in listed]
    return found


def grown(log: TreeLog, stray_lsn: int, *in_place: dict[str, Any], **more: Any) -> None:
    """Add a closed tree: its first BIN has a slot of KEY, which belongs to the second."""
    first = log.node([slot(b"a", log.ln(b"a", b"1")), slot(KEY, stray_lsn)])
    second = log.node([slot(b"h", log.ln(b"h", b"1")), *in_place])
    root = log.node([slot(b"", first), slot(b"h", second)], level=2, is_root=True)
    log.database(b"db", root, **more)
    log.checkpoint()


def nothing(_: TreeLog) -> None:
    pass


def deleted(log: TreeLog) -> None:
    log.ln(KEY, None)


def written(log: TreeLog) -> None:
    log.ln(KEY, b"2")


def deleted_and_committed(log: TreeLog) -> None:
    log.ln(KEY, None, txn=5)
    log.end(5)


def deleted_and_aborted(log: TreeLog) -> None:
    log.ln(KEY, None, txn=5)
    log.end(5, name="Abort")


def deleted_without_an_end(log: TreeLog) -> None:
    log.end(5)
    log.ln(KEY, None, txn=5)
    log.end(6)


def others_deleted(log: TreeLog) -> None:
    for key in (b"o", b"pp", b""):
        log.ln(key, None)
    log.ln(KEY, None, db=OTHER_DB)


LATER: list[tuple[Callable[[TreeLog], None], str]] = [
    (nothing, "tree-bounds"),
    (deleted, "tree-stray"),
    (written, "tree-stray"),
    (deleted_and_committed, "tree-stray"),
    (deleted_and_aborted, "tree-bounds"),
    (deleted_without_an_end, "tree-bounds"),
    (others_deleted, "tree-bounds"),
]


@pytest.mark.parametrize(("later", "code"), LATER, ids=[each.__name__ for each, _ in LATER])
def test_a_newer_version_in_the_log_decides(
    later: Callable[[TreeLog], None], code: str, tmp_path: Path
) -> None:
    log = TreeLog()
    lsn = log.ln(KEY, b"1")
    later(log)
    grown(log, lsn)
    assert problems_of(log.write(tmp_path / "env")) == [(code, KEY)]


@pytest.mark.parametrize(("end", "code"), [("Commit", "tree-bounds"), ("Abort", "tree-stray")])
def test_a_version_counts_if_it_is_committed(end: str, code: str, tmp_path: Path) -> None:
    log = TreeLog()
    lsn = log.ln(KEY, b"1", txn=5)
    log.end(5, name=end)
    grown(log, lsn)
    assert problems_of(log.write(tmp_path / "env")) == [(code, KEY)]


@pytest.mark.parametrize(("is_newer", "code"), [(True, "tree-stray"), (False, "tree-bounds")])
def test_a_version_in_its_place_decides(is_newer: bool, code: str, tmp_path: Path) -> None:
    log = TreeLog()
    lsns = sorted([log.ln(KEY, b"1"), log.ln(KEY, b"2")], reverse=is_newer)
    grown(log, lsns[1], slot(KEY, lsns[0]))
    assert problems_of(log.write(tmp_path / "env")) == [(code, KEY)]


@pytest.mark.parametrize(("key", "code"), [(KEY, "tree-stray"), (b"o", "tree-bounds")])
def test_what_is_gone_was_not_needed(key: bytes, code: str, tmp_path: Path) -> None:
    """The entry is missing, or is that of another record."""
    log = TreeLog()
    grown(log, GONE_LSN if key == KEY else log.ln(key, b"1"))
    assert problems_of(log.write(tmp_path / "env")) == [(code, KEY)]


def test_what_the_cleaner_lists_is_stale(tmp_path: Path) -> None:
    log = TreeLog()
    lsn = log.ln(KEY, b"1")
    grown(log, lsn)
    cleaner = CleanerMetadata(np.array([lsn], np.int64))
    assert problems_of(log.write(tmp_path / "env"), cleaner) == [("tree-stray", KEY)]


def test_the_same_key_in_several_nodes(tmp_path: Path) -> None:
    """One search finds the newest version for all of them."""
    log = TreeLog()
    lsns = [log.ln(KEY, b"%d" % number) for number in range(4)]
    nodes = [
        log.node([slot(each, log.ln(each, b"1")), slot(KEY, lsn)])
        for each, lsn in zip((b"a", b"b", b"c"), (lsns[1], lsns[3], lsns[0]), strict=True)
    ]
    last = log.node([slot(KEY, lsns[2])])
    slots = [slot(b"", nodes[0]), slot(b"b", nodes[1]), slot(b"c", nodes[2]), slot(b"h", last)]
    log.database(b"db", log.node(slots, level=2, is_root=True))
    log.checkpoint()
    found = problems_of(log.write(tmp_path / "env"))
    assert found == [("tree-stray", KEY), ("tree-stray", KEY), ("tree-bounds", KEY)]


def test_a_key_with_its_data(tmp_path: Path) -> None:
    """With duplicates, the cleaner lists no LN, and only the log tells."""
    log = TreeLog()
    keys = [b"pd\1", b"pe\1"]
    lsns = [log.ln(key, b"") for key in keys]
    log.ln(keys[0], None)
    pair = [slot(key, lsn) for key, lsn in zip(keys, lsns, strict=True)]
    first = log.node([slot(b"ax\1", log.ln(b"ax\1", b"")), *pair])
    second = log.node([slot(b"hx\1", log.ln(b"hx\1", b""))])
    root = log.node([slot(b"\0", first), slot(b"hx\1", second)], level=2, is_root=True)
    log.database(b"db", root, db_flags=DUPLICATES)
    log.checkpoint()
    found = problems_of(log.write(tmp_path / "env"))
    assert found == [("tree-stray", keys[0]), ("tree-bounds", keys[1])]


@pytest.mark.parametrize("is_twice", [False, True])
def test_a_node_of_stale_copies_is_in_no_other_place(is_twice: bool, tmp_path: Path) -> None:
    log = TreeLog()
    old, new = log.ln(KEY, b"1"), log.ln(KEY, b"2")
    first = log.node([slot(KEY, old)])
    second = first if is_twice else log.node([slot(KEY, new)])
    root = log.node([slot(b"", first), slot(b"h", second)], level=2, is_root=True)
    log.database(b"db", root)
    log.checkpoint()
    found = problems_of(log.write(tmp_path / "env"))
    if is_twice:
        assert found == [("tree-node", None)]
    else:
        assert found == [("tree-stray", KEY)]
