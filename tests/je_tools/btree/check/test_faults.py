"""Faults of trees: all are counted, but only those that are reported are kept or built."""

from __future__ import annotations

import gc
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from je_tools.btree.check.findings import open_trees, tree_findings
from je_tools.btree.check.problems import LISTED
from je_tools.btree.fault_kinds import Fault, FaultKind
from je_tools.btree.faults import (
    KEPT_MAX,
    UNREADABLE_KINDS,
    WARNING_KINDS,
    Faults,
    UnreadableRecords,
)
from je_tools.findings import Finding
from je_tools.formats.spans import Spans
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery import findings
from je_tools.recovery.end import Refusal
from je_tools.recovery.findings import snapshot_findings
from tests.builders.trees import FIRST_ID, NULL, TreeLog, lsn_of, slot
from tests.je_tools.snapshots import NOW_MS, snapshot_of

NO_FILE = 7


def fault(lsn: int, kind: FaultKind = FaultKind.MISSING, *, key: bytes = b"k") -> Fault:
    return Fault(kind, FIRST_ID, lsn, NULL, key, key)


def lacking(first: int, count: int, kind: int = 0) -> UnreadableRecords:
    """Return missing records at `count` LSNs from `first` on, all of one key."""
    zeros = np.zeros(count, np.int64)
    key = Spans(np.frombuffer(b"k", np.uint8), zeros, zeros + 1)
    return UnreadableRecords(
        FIRST_ID, np.full(count, kind, np.uint8), first + np.arange(count), key
    )


def in_parts(parts: list[Faults]) -> Faults:
    found = Faults()
    for part in parts:
        found.extend(part)
    return found


def test_the_first_are_kept_and_all_are_counted() -> None:
    found = Faults()
    assert not found
    found.add_unreadable(lacking(0, KEPT_MAX - 1))
    assert (len(found.damage), found.left_out_count) == (KEPT_MAX - 1, 0)
    found.add_unreadable(lacking(KEPT_MAX - 1, 1000, 1))
    assert [each.lsn for each in found.damage] == list(range(KEPT_MAX))
    assert [each.kind for each in found.damage[-2:]] == [UNREADABLE_KINDS[0], UNREADABLE_KINDS[1]]
    assert found.left_out_count == 999
    assert found


@pytest.mark.parametrize("count", [1, KEPT_MAX, KEPT_MAX + 1, 5000])
def test_what_is_met_again_counts_once(count: int) -> None:
    """This holds for columns and for single faults, in one piece or in parts."""
    ones = [fault(lsn) for lsn in range(count)]
    expected = (ones[:KEPT_MAX], max(count - KEPT_MAX, 0))
    whole, half = Faults(), Faults()
    whole.add_unreadable(lacking(0, count))
    half.extend(ones[count // 2 :])
    again = Faults()
    again.extend(ones)
    for parts in ([whole], [whole, half], [again, whole], [whole, half, again, whole]):
        found = in_parts(parts)
        assert (found.damage, found.left_out_count) == expected
    again.add_unreadable(lacking(0, count))
    assert (again.damage, again.left_out_count) == expected


def test_places_that_are_none_count_each() -> None:
    found, part = Faults(), Faults()
    found.extend(fault(lsn) for lsn in range(KEPT_MAX))
    part.extend(fault(NULL, key=b"%d" % i) for i in range(KEPT_MAX + 50))
    assert (len(part.damage), part.left_out_count) == (KEPT_MAX, 50)
    found.extend(part)
    assert (len(found.damage), found.left_out_count) == (KEPT_MAX, KEPT_MAX + 50)
    again = in_parts([found])
    assert (again.damage, again.left_out_count) == (found.damage, found.left_out_count)


def test_databases_and_kinds_are_counted_apart() -> None:
    found = Faults()
    found.extend(fault(lsn) for lsn in range(KEPT_MAX))
    for kind in (FaultKind.MISSING, FaultKind.SHARED):
        for db_id in (3, 4):
            found.append(Fault(kind, db_id, 5, NULL, None, None))
    assert found.left_out_count == 4


def test_what_is_foretold_is_no_damage() -> None:
    kind = FaultKind.STRAY_SLOTS
    part = Faults()
    part.extend(fault(lsn, kind) for lsn in range(300))
    found = in_parts([part, part])
    assert (found.damage, found.left_out_count) == ([], 0)
    assert list(found.warnings.values()) == [fault(0, kind)]
    assert found.warning_count(kind, FIRST_ID) == 300
    assert list(found) == [fault(0, kind)]
    assert found
    assert findings._WARNING_CODES.keys() == WARNING_KINDS


def test_many_times_those_that_are_remembered_take_little_memory() -> None:
    """This holds even if all are met twice and can no longer be told apart."""
    remembered, size, parts = 1 << 14, 5000, 40
    tracemalloc.start()
    found = Faults(_room=remembered)
    for way in range(2):
        for number in range(parts):
            part = Faults()
            part.add_unreadable(lacking(number * size, size))
            found.extend(part)
        if way == 0:
            assert found.left_out_count == parts * size - KEPT_MAX
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * remembered * 8
    assert parts * size - KEPT_MAX <= found.left_out_count <= 2 * parts * size


def bottoms(log: TreeLog, count: int, each: int) -> list[tuple[bytes, int]]:
    """Write BINs whose records are in a missing file; return the first key and LSN of each."""
    made = []
    for number in range(count):
        keys = [b"%03d%03d" % (number, i) for i in range(each)]
        lsns = [lsn_of(NO_FILE, 100 + number * each + i) for i in range(each)]
        slots = [slot(key, lsn) for key, lsn in zip(keys, lsns, strict=True)]
        made.append((keys[0], log.node(slots)))
    return made


def home_of(folder: Path, count: int, each: int) -> Path:
    log = TreeLog()
    children = [
        slot(key if i else b"", lsn) for i, (key, lsn) in enumerate(bottoms(log, count, each))
    ]
    log.database(b"db", log.node(children, level=2, is_root=True))
    log.checkpoint()
    return log.write(folder)


def test_records_of_a_missing_file(tmp_path: Path) -> None:
    """Each is counted once, however often the tree is read, and few are kept."""
    snapshot = snapshot_of(home_of(tmp_path / "env", 100, 100), threads=2)
    database = snapshot.databases[FIRST_ID]
    gc.collect()
    before = sum(isinstance(each, Fault) for each in gc.get_objects())
    for _ in range(2):
        for batch in snapshot.records(database):
            assert (batch.data.sizes < 0).all()
    kept = sum(isinstance(each, Fault) for each in gc.get_objects()) - before
    assert kept <= 2 * KEPT_MAX
    told = snapshot_findings(snapshot)
    assert [each.code for each in told].count("tree-damage") == KEPT_MAX
    assert [each.found for each in told if each.code == "more-tree-damage"] == ["9900 more places"]


def test_ids_of_nodes_are_not_all_told(tmp_path: Path) -> None:
    """The builder's checkpoint knows no ids."""
    home = home_of(tmp_path / "env", 120, 1)
    env, scanner = open_environment([home]), Scanner(threads=1)
    found: list[Finding] = list(
        tree_findings(env, scanner, partial(open_trees, env, scanner, NOW_MS))
    )
    of_ids = [each for each in found if each.code == "tree-node-id"]
    of_db = [each for each in of_ids if each.tree is not None and each.tree.database == "db"]
    assert len(of_db) == LISTED
    assert "21 more tree-node-id in database db" in [each.found for each in found]


def test_a_name_of_the_engine_behind_many_that_are_lost(tmp_path: Path) -> None:
    """The refusal that the engine would give does not depend on the number of reported faults."""
    log = TreeLog()
    log.database(b"db", log.tree([slot(b"a", log.ln(b"a", b"1"))]))
    names = [b"%03d" % number for number in range(2 * KEPT_MAX)] + [b"_jeUtilization"]
    log.named += [slot(name, lsn_of(NO_FILE, 100 + i)) for i, name in enumerate(names)]
    log.checkpoint()
    snapshot = snapshot_of(log.write(tmp_path / "env"))
    assert snapshot.refusals == (Refusal.OWN_DATABASE_LOST,)
    assert snapshot.faults.left_out_count == KEPT_MAX + 1
