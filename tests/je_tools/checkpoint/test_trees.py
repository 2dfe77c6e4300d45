"""Trees whose nodes become too full in a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from je_tools.btree.check.findings import open_trees, tree_findings
from je_tools.checkpoint.apply import apply_checkpoint
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.formats.je.entry.entries import decode_entry
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from tests.builders.trees import FIRST_ID, TreeLog, slot
from tests.formats.logs import log_rows
from tests.je_tools.checkpoint.test_checkpoint import content_of, snapshot_of

IN, SIZES = 12, 4
PROVISIONAL = 0x80
GONE_LSN = 0x7FFF << 32 | 0x100
UNKNOWN_IDS = {"tree-node-id"}
"""Codes of a log of TreeLog: its checkpoints name no last ids."""

NARROW = {"max_entries": 4}


def key(number: int) -> bytes:
    return b"k%03d" % number


def bin_of(log: TreeLog, numbers: Iterable[int]) -> int:
    slots = [slot(key(number), log.ln(key(number), b"old")) for number in numbers]
    return log.node(slots, **NARROW)


def codes_in(home: Path) -> list[str]:
    """Return the codes of the findings in the trees of a log."""
    environment, scanner = open_environment([home]), Scanner(threads=1)
    found = tree_findings(environment, scanner, lambda: open_trees(environment, scanner, 0))
    return [each.code for each in found]


def written(log: TreeLog, folder: Path) -> list[dict[str, Any]]:
    """Return the upper nodes that a checkpoint writes; assert that records and trees stay sound."""
    home = log.write(folder)
    before = content_of(snapshot_of(home, 0))
    _, outcome = apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(), 0)
    assert content_of(snapshot_of(home, 0)) == before
    assert not codes_in(home)
    assert outcome.checkpoint is not None
    found = []
    for rows in log_rows(home / "00000000.jdb"):
        for row in np.flatnonzero((rows.type == IN) & (rows.lsn > outcome.checkpoint.start_lsn)):
            fields = decode_entry(rows.entry_bytes(int(row)), rows.version).fields
            if fields["db_id"] == FIRST_ID:
                found.append(fields)
    return found


def test_a_node_above_others_has_a_free_slot(tmp_path: Path) -> None:
    """The engine splits a child before its parent, which must have slots for both halves."""
    log = TreeLog()
    bins = [bin_of(log, range(first, first + 4)) for first in (0, 10, 20)]
    slots = [slot(key(10 * number), lsn) for number, lsn in enumerate(bins)]
    upper = log.node(slots, level=2, **NARROW)
    log.database(b"db", log.node([slot(b"", upper)], level=3, is_root=True, **NARROW))
    log.checkpoint()
    log.ln(key(15), b"new")
    *lower, root = written(log, tmp_path)
    assert sorted(len(node["slots"]) for node in lower) == [2, 2]
    assert len(root["slots"]) == 2


@pytest.mark.parametrize("levels", [0, 1, 2])
def test_the_first_slot_may_have_any_key(tmp_path: Path, levels: int) -> None:
    """It stands for all keys below the second, even those below its own key."""
    log = TreeLog()
    low, high = bin_of(log, [40, 41, 42, 43]), bin_of(log, [80])
    for level in range(2, 2 + levels):
        low = log.node([slot(key(40), low)], level=level, **NARROW)
        high = log.node([slot(key(80), high)], level=level, **NARROW)
    slots = [slot(key(40), low), slot(key(80), high)]
    log.database(b"db", log.node(slots, level=2 + levels, is_root=True))
    log.checkpoint()
    for number in range(1, 10):
        log.ln(key(number), b"new")
    for node in written(log, tmp_path):
        keys = [each["key"] for each in node["slots"]]
        assert keys == sorted(keys)


@pytest.mark.parametrize("up_to", ["a node above", "the root"])
def test_what_was_written_with_nodes_above_loses_what_is_not_its(
    tmp_path: Path, up_to: str
) -> None:
    """A BIN took over keys of its neighbour, but the node that records this was not logged."""
    log, left, root = TreeLog(), 7, 8
    slots = [slot(key(10), bin_of(log, [10])), slot(key(15), bin_of(log, [15]))]
    right = slot(key(20), log.node([slot(key(20), bin_of(log, [20]))], level=2))
    slots = [slot(key(10), log.node(slots, level=2, node_id=left)), right]
    log.database(b"db", log.node(slots, level=3, is_root=True, node_id=root))
    taken = [slot(key(number), log.ln(key(number), b"new")) for number in (15, 25)]
    first = slot(key(10), bin_of(log, [10]))
    log.checkpoint()
    slots = [first, slot(key(15), log.node(taken, flags=PROVISIONAL))]
    ends = up_to == "a node above"
    lower = log.node(slots, level=2, node_id=left, flags=0 if ends else PROVISIONAL)
    if not ends:
        log.node([slot(key(10), lower), right], level=3, is_root=True, node_id=root)
    assert len(written(log, tmp_path)) == 2


@pytest.mark.parametrize("is_newer", [False, True])
def test_a_first_key_below_its_bound_leads_no_scan_astray(tmp_path: Path, is_newer: bool) -> None:
    """A crash leaves a node whose parent is older; it kept a key that is not in its range."""
    log, root = TreeLog(), 8
    bins = [bin_of(log, [number, number + 1]) for number in (10, 37, 50)]
    low = slot(key(10), log.node([slot(key(10), bins[0])], level=2))
    slots = [slot(key(35), bins[1]), slot(key(50), bins[2])]
    high = slot(key(37), log.node(slots, level=2))
    log.database(b"db", log.node([low, high], level=3, is_root=True, node_id=root))
    log.checkpoint()
    if is_newer:
        high = slot(key(37), log.node(slots, level=2, flags=PROVISIONAL))
        log.node([low, high], level=3, is_root=True, node_id=root)
    else:
        log.ln(key(52), b"new")
    upper, _ = written(log, tmp_path)
    assert upper["identifier_key"] == upper["slots"][0]["key"] == key(37)


def test_no_delta_keeps_an_identifier_of_another_node(tmp_path: Path) -> None:
    log = TreeLog()
    slots = [slot(key(number), log.ln(key(number), b"old")) for number in range(40, 60)]
    sized = [each | {"logged_size": 25} for each in slots]
    high = log.node(sized, identifier_key=key(20), booleans=SIZES)
    slots = [slot(key(10), bin_of(log, [10])), slot(key(40), high)]
    log.database(b"db", log.node(slots, level=2, is_root=True))
    log.checkpoint()
    log.ln(key(41), b"new")
    assert len(written(log, tmp_path)) == 1


def test_the_slot_before_a_stray_one_ends_with_its_node(tmp_path: Path) -> None:
    log = TreeLog()
    bins = [bin_of(log, [number, number + 3]) for number in (10, 35, 40)]
    slots = [slot(key(number), lsn) for number, lsn in zip((10, 35, 40), bins, strict=True)]
    low = slot(key(10), log.node(slots, level=2))
    high = slot(key(37), log.node([slot(key(37), bin_of(log, [37]))], level=2))
    log.database(b"db", log.node([low, high], level=3, is_root=True))
    log.checkpoint()
    log.ln(key(11), b"new")
    upper, _ = written(log, tmp_path)
    assert [each["key"] for each in upper["slots"]] == [key(10), key(35)]


def test_a_stale_copy_that_no_change_leads_to_stays_a_warning(tmp_path: Path) -> None:
    """Only reading all nodes would find it, so the checkpoint does not change the verdict."""
    log = TreeLog()
    stray = slot(key(60), log.ln(key(60), b"older"))
    low = log.node([slot(key(10), log.ln(key(10), b"old")), stray])
    slots = [slot(key(10), low), slot(key(50), bin_of(log, [50, 60]))]
    log.database(b"db", log.node(slots, level=2, is_root=True))
    log.checkpoint()
    log.ln(key(60), None)
    home = log.write(tmp_path)
    assert set(codes_in(home)) == {"tree-stray", *UNKNOWN_IDS}
    apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(), 0)
    assert codes_in(home) == ["tree-stray"]


@pytest.mark.parametrize("second", [36, 37])
def test_slots_that_no_key_leads_to_are_not_written(tmp_path: Path, second: int) -> None:
    """Of several first slots below the bound, the last one stands for the keys from it on.

    The nodes of the others may be gone: the cleaner finds no use of them.
    """
    log, root = TreeLog(), 8
    bins = {number: bin_of(log, [number, number + 1]) for number in (10, 35, second, 50)}
    bins[35] = GONE_LSN
    low = slot(key(10), log.node([slot(key(10), bins.pop(10))], level=2))
    slots = [slot(key(number), lsn) for number, lsn in bins.items()]
    high = slot(key(37), log.node(slots, level=2, identifier_key=key(50)))
    log.database(b"db", log.node([low, high], level=3, is_root=True, node_id=root))
    log.checkpoint()
    log.ln(key(52), b"new")
    upper, _ = written(log, tmp_path)
    assert [each["key"] for each in upper["slots"]] == [key(37), key(50)]
