"""`missing`: what it says is lost with a file is what lay there, known beforehand."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from je_tools.btree.tree import Children, Tree
from je_tools.environment import open_environment
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.keys import join_two_part, order_of
from je_tools.formats.je.layout import SLOT_EMBEDDED
from je_tools.missing import Loss, Report, report_missing
from je_tools.scan import Scanner
from je_tools.snapshot import Database, Snapshot, take_snapshot
from tests.corpus import Environment, environments, log_files
from tests.je_tools.dumped import je_tools

SEVERAL = [each for each in environments() if len(log_files(each.home)) > 1]


class Bin(NamedTuple):
    """A bottom node: its keys, the files of the nodes that lead to it, its slots.

    `slots` has for each key the LSN, and whether the record is in the slot itself.
    """

    low: bytes | None
    high: bytes | None
    files: frozenset[int]
    slots: dict[bytes, tuple[int, bool]]


def snapshot_of(home: Path) -> Snapshot:
    return take_snapshot(open_environment([home]), Scanner(threads=1), now_ms=0)


def bins_of(tree: Tree, children: Children, above: frozenset[int]) -> Iterator[Bin]:
    """The bottom nodes below some nodes, each node read alone."""
    for row in range(len(children)):
        leaves = tree.read(children.take(slice(row, row + 1)))
        logged, _ = leaves.logged
        files = above | {int(logged.lsn[0]) >> 32}
        if logged.is_delta[0]:
            files |= {int(logged.last_full_lsn[0]) >> 32}
        if leaves.children.level > 1:
            yield from bins_of(tree, tree.children_of(leaves), files)
            continue
        slots, _ = tree.slots_in_range(leaves)
        own = {}
        for slot in range(len(slots)):
            is_here = tree.two_part or bool(slots.state[slot] & SLOT_EMBEDDED)
            own[slots.key[slot] or b""] = (int(slots.lsn[slot]), is_here)
        yield Bin(children.low[row], children.high[row], files, own)


def holds(low: bytes | None, high: bytes | None, key: bytes, *, two_part: bool) -> bool:
    at = order_of(key, two_part=two_part)
    return (low is None or order_of(low, two_part=two_part) <= at) and (
        high is None or at < order_of(high, two_part=two_part)
    )


def needs_of(snapshot: Snapshot, database: Database) -> dict[bytes, frozenset[int]]:
    """The files without which each record of a database is lost."""
    tree = snapshot.tree(database)
    bins = list(bins_of(tree, tree.root(), frozenset()))
    place = {key: each for each in bins for key in each.slots}
    needs = {}
    for batch in snapshot.records(database, show_expired=True):
        for row in range(len(batch)):
            key, lsn = batch.key[row] or b"", int(batch.lsn[row])
            if tree.two_part:
                key = join_two_part(key, batch.data[row])
            if key not in place:
                place[key] = next(
                    each for each in bins if holds(each.low, each.high, key, two_part=tree.two_part)
                )
            named, is_here = place[key].slots.get(key, (NULL_LSN, False))
            own = frozenset() if is_here and named == lsn else frozenset({lsn >> 32})
            needs[key] = place[key].files | own
    return needs


@functools.cache
def lain(home: Path) -> dict[str, dict[bytes, frozenset[int]]]:
    """By database and key, the files without which a record is lost."""
    snapshot = snapshot_of(home)
    found = {
        database.name or f"id:{database.db_id}": needs_of(snapshot, database)
        for database in snapshot.databases.values()
        if database.root_lsn != NULL_LSN
    }
    for database in snapshot.databases.values():
        name = database.name or f"id:{database.db_id}"
        if database.map_ln_lsn != NULL_LSN and name in found:
            descriptor = found["_jeIdMap"][str(database.db_id).encode()]
            found[name] = {key: files | descriptor for key, files in found[name].items()}
    return found


def is_lost(loss: Loss | None, key: bytes, *, two_part: bool) -> bool:
    if loss is None:
        return False
    if loss.descriptor_lsn is not None:
        return True
    if key in {loss.keys[row] for row in range(len(loss.keys))}:
        return True
    return any(holds(one.low, one.high, key, two_part=two_part) for one in loss.ranges)


def report_of(home: Path, without: tuple[int, ...] = ()) -> Report:
    return report_missing(open_environment([home]), Scanner(threads=1), without, 0)


def lost_keys(
    report: Report, whole: Snapshot, keys: dict[str, dict[bytes, frozenset[int]]]
) -> dict[str, set[bytes]]:
    losses = {loss.name: loss for loss in report.losses}
    lost = {}
    for database in whole.databases.values():
        name = database.name or f"id:{database.db_id}"
        found = {
            key
            for key in keys.get(name, {})
            if is_lost(losses.get(name), key, two_part=database.has_duplicates)
        }
        if found:
            lost[name] = found
    return lost


CASES = [(each, int(path.stem, 16)) for each in SEVERAL for path in log_files(each.home)]


@pytest.mark.parametrize(("each", "file_no"), CASES, ids=lambda case: getattr(case, "name", case))
def test_what_would_be_lost_is_what_lies_there(each: Environment, file_no: int) -> None:
    keys = lain(each.home)
    expected = {
        name: lost
        for name, records in keys.items()
        if (lost := {key for key, files in records.items() if file_no in files})
    }
    report = report_of(each.home, (file_no,))
    assert lost_keys(report, snapshot_of(each.home), keys) == expected
