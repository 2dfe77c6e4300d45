"""Problems of the records that the slots of BINs name.

Source: je-log.md "Nodes"; BtreeVerifier.verifyLSN, verifyDataRecord, JE 25.3.17.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.btree.check.checked_nodes import CheckedNodes, suspect_keys
from je_tools.btree.check.expected_records import (
    ExpectedRecords,
    FoundRecord,
    classify_records,
)
from je_tools.btree.check.fault_problems import of_duplicates
from je_tools.btree.check.problems import TreeProblem, TreeProblems
from je_tools.btree.fault_kinds import FAULT_TEXTS, FaultKind
from je_tools.btree.old_duplicates import expand_duplicates
from je_tools.formats.je.expirations import HOUR_MS
from je_tools.formats.je.flags import SlotState
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.fetch import fetch
from je_tools.formats.je.log.fingerprints import HOURS_MAX
from je_tools.formats.je.types import type_name
from je_tools.recovery.slot_matching import match_slots

if TYPE_CHECKING:
    from je_tools.btree.check.cleaner_metadata import CleanerMetadata
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.btree.slots import Slots

EXPIRATION_MAX_MS = HOURS_MAX * HOUR_MS
"""Latest expiration accepted, in 2084: later ones were multiplied by a bug of an engine."""


_TEXTS = {
    FoundRecord.ABSENT: FAULT_TEXTS[FaultKind.MISSING],
    FoundRecord.DAMAGED: FAULT_TEXTS[FaultKind.DAMAGED],
    FoundRecord.ERASED: "an erased entry",
    FoundRecord.OTHER_DATABASE: "a record of another database",
    FoundRecord.OTHER_KEY: "a record of another key",
    FoundRecord.DELETION: "a deletion",
    FoundRecord.BLANK: "an entry that is erased in kind: its key is zeros",
}
_GONE = (FoundRecord.ABSENT, FoundRecord.ERASED)
"""States in which the cleaner or an eraser leaves a record that no read needs."""


class _CheckedSlots(Struct, frozen=True):
    """Slots whose records are checked.

    Attributes:
        slots: columns.
        row: int64; row of each among the slots of the part, -1 in a tree of old duplicates.
        is_read: bool; True if only the LN holds the data, so that reads need it.
    """

    slots: Slots
    row: Ints
    is_read: Mask


def record_problems(part: CheckedNodes, expected: ExpectedRecords) -> TreeProblems:
    """Return the problems of the records of some BINs."""
    problems = TreeProblems()
    chosen = _chosen(part, expected, problems)
    slots = chosen.slots
    if not len(slots):
        return problems
    entries = fetch(part.tree.image, slots.lsn)
    found, expires_ms = classify_records(part.tree, entries, slots, expected.family)
    gone = np.isin(found, _GONE)
    expired = (slots.expires_ms > 0) & (slots.expires_ms < expected.now_ms)
    # The cleaner discards LNs that no read needs: expired ones, and those with data in the slot.
    unread = gone | np.isin(found, (FoundRecord.DAMAGED, FoundRecord.BLANK))
    ignored = np.where(chosen.is_read, expired & gone, unread)
    wrong = (found != FoundRecord.GOOD) & ~ignored
    problems.add(
        "tree-record",
        np.flatnonzero(wrong),
        lambda row: _of_record(part, chosen, row, _text(found[row], int(entries.type[row]))),
    )
    good = found == FoundRecord.GOOD
    _expirations(part, chosen, good, expires_ms, problems)
    _garbage_records(part, chosen, good & chosen.is_read & ~expired, expected.cleaner, problems)
    return problems


def _text(found: int, type_no: int) -> str:
    if found == FoundRecord.OTHER_TYPE:
        return f"an entry of type {type_name(type_no)}"
    return _TEXTS[FoundRecord(found)]


def _chosen(part: CheckedNodes, expected: ExpectedRecords, problems: TreeProblems) -> _CheckedSlots:
    tree, slots = part.tree, part.nodes.slots
    live = ~slots.deleted & ~suspect_keys(part) & (slots.lsn != NULL_LSN)
    if len(expected.overlay):
        live &= ~match_slots(tree, expected.overlay.key, slots)[1]
    # The key is unknown if embedded key and data cannot be split.
    live &= (slots.state & SlotState.EMBEDDED == 0) | (slots.data_size >= 0)
    row = np.flatnonzero(live)
    if expected.checks is not None:
        checks, asks_noted = expected.checks, not tree.two_part
        row = row[checks.doubtful(slots, row, tree.db_id, asks_noted=asks_noted)]
    slots = slots.select(row)
    if tree.old_duplicates:
        slots, faults = expand_duplicates(tree, slots)
        problems.listed += map(of_duplicates, faults)
        slots = slots.select(~slots.deleted & (slots.lsn != NULL_LSN))
        row = np.full(len(slots), -1, np.int64)
    embedded = slots.state & SlotState.EMBEDDED != 0
    is_read = ~embedded & np.full(len(slots), not tree.two_part)
    return _CheckedSlots(slots, row, is_read)


def _of_record(part: CheckedNodes, chosen: _CheckedSlots, row: int, found: str) -> TreeProblem:
    return _problem("tree-record", part, chosen, row, "the record of the slot's key", found)


def _problem(
    code: str,
    part: CheckedNodes,
    chosen: _CheckedSlots,
    row: int,
    expected: str,
    found: str,
    *,
    loses: bool = True,
) -> TreeProblem:
    parent_lsn, slot = NULL_LSN, -1
    if chosen.row[row] >= 0:
        node, slot = part.slot_no(int(chosen.row[row]))
        parent_lsn = int(part.nodes.lsn[node])
    key = chosen.slots.key[row]
    lsn = int(chosen.slots.lsn[row])
    return TreeProblem(
        code=code,
        db_id=part.tree.db_id,
        lsn=lsn,
        parent_lsn=parent_lsn,
        slot=slot,
        expected=expected,
        found=found,
        low=key,
        high=key,
        loses=loses,
    )


def _expirations(
    part: CheckedNodes, chosen: _CheckedSlots, good: Mask, expires_ms: Ints, problems: TreeProblems
) -> None:
    own = chosen.slots.expires_ms
    differs = good & (expires_ms >= 0) & (expires_ms != own)
    problems.add(
        "tree-expiration",
        np.flatnonzero(differs | (own > EXPIRATION_MAX_MS)),
        lambda row: _problem(
            "tree-expiration",
            part,
            chosen,
            row,
            f"the record's expiration, {_time(int(expires_ms[row]))}",
            f"{_time(int(own[row]))} in the slot",
            loses=False,
        ),
    )


def _time(ms: int) -> str:
    if ms < 0:
        return "which is out of range"
    return f"{np.datetime64(ms, 'ms')}Z" if ms else "never"


def _garbage(cleaner: CleanerMetadata, lsns: Ints) -> Iterator[tuple[str, Mask, str]]:
    """Yield a code, a mask of the LSNs that the cleaner treats as garbage, and the reason."""
    yield "tree-obsolete", cleaner.is_obsolete(lsns), "the cleaner counts it as obsolete"
    yield (
        "tree-reserved",
        cleaner.is_reserved(lsns),
        "a reserved file, which the engine will delete",
    )


def _garbage_records(
    part: CheckedNodes,
    chosen: _CheckedSlots,
    active: Mask,
    cleaner: CleanerMetadata,
    problems: TreeProblems,
) -> None:
    """Report records that reads need but that the cleaner treats as garbage."""
    for code, is_garbage, found in _garbage(cleaner, chosen.slots.lsn):
        problems.add(
            code,
            np.flatnonzero(active & is_garbage),
            partial(
                _problem,
                code,
                part,
                chosen,
                expected="a record that the cleaner keeps",
                found=found,
            ),
        )


def garbage_nodes(part: CheckedNodes, cleaner: CleanerMetadata) -> TreeProblems:
    """Return problems of nodes that a tree needs but that the cleaner treats as garbage."""
    problems = TreeProblems()
    logged, fulls = part.loaded.logged
    deltas = np.flatnonzero(logged.is_delta)
    rows = np.concatenate((np.flatnonzero(part.nodes.good), deltas[fulls.good]))
    lsns = np.concatenate((part.nodes.lsn[part.nodes.good], fulls.lsn[fulls.good]))
    for code, is_garbage, found in _garbage(cleaner, lsns):
        problems.add(
            code,
            rows[is_garbage],
            partial(
                part.of_node,
                code,
                expected="a node that the cleaner keeps",
                found=found,
                loses=True,
            ),
        )
    return problems
