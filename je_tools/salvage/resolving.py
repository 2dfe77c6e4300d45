"""Resolution of dangling references: which lost records are newer than the LNs in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.salvage.choice import Confidence, Mode, RecordChoice
from je_tools.salvage.extents import ordered

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.salvage.content import Content
    from je_tools.salvage.dangling_rows import DanglingRows
    from je_tools.salvage.extents import Ordered
    from je_tools.salvage.record_versions import RecordVersions


class DanglingRecords(Struct, frozen=True):
    """Records that the log names and whose newest version is lost.

    Attributes:
        rows: one reference to each record; in the mode `everything`, one to each version.
        comes_back: bool; the record is known nevertheless.
        has_older: bool; an older version comes back in its place.
    """

    rows: DanglingRows
    comes_back: Mask
    has_older: Mask


def resolve(
    content: Content,
    lns: RecordVersions,
    choice: RecordChoice,
    dangling: DanglingRows,
    mode: Mode,
) -> tuple[DanglingRecords, RecordChoice]:
    """Decide which lost records count, and downgrade or withdraw LNs that are outdated.

    A lost version of a record counts if it is newer than all LNs of the record.

    Args:
        content: contents of the log.
        lns: all LNs of some records.
        choice: the LNs that would come back if nothing were lost.
        dangling: all references to these records.
        mode: extent of the salvage.
    """
    known = choice.newest.copy()
    known[known] = np.isin(lns.first[known], dangling.first)
    rows = np.flatnonzero(known)
    first = np.concatenate((lns.first[rows], dangling.first))
    second = np.concatenate((lns.second[rows], dangling.second))
    lsn = ordered(np.concatenate((lns.lsn[rows], dangling.lsn)))
    has_data = dangling.data_size >= 0
    # Of several references to one version, the one that has its data counts.
    sure = np.concatenate((np.full(len(rows), 2), has_data & ~dangling.gone)).astype(np.int64)
    order = np.lexsort((sure, lsn, second, first))
    same = (np.diff(first[order]) == 0) & (np.diff(second[order]) == 0)
    is_last = np.append(~same, True)[: len(order)]
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(np.append(0, ~same))[: len(order)]
    winners = order[is_last]
    winner = winners[group]
    counts = winner[len(rows) :] == np.arange(len(rows), len(first))
    if mode is Mode.EVERYTHING:
        counts = _one_of_each(first, second, lsn, order)[len(rows) :]
    chosen, has_data = dangling.select(counts), has_data[counts]
    is_record = choice.taken[rows] & (winner[: len(rows)] >= len(rows))
    replaces = np.concatenate((np.zeros(len(rows), np.bool_), _replace_older(content, dangling)))
    older = is_record & ~replaces[winner[: len(rows)]]
    with_older = np.zeros(len(winners), np.bool_)
    with_older[group[: len(rows)][older]] = True
    has_older = with_older[group[len(rows) :][counts]]
    # A lost deletion is not a loss, unless it brings an older version back.
    missed = ~chosen.gone | has_older
    comes_back = (has_data & ~chosen.gone)[missed]
    taken, confidence = choice.taken.copy(), choice.confidence.copy()
    confidence[rows[older]] = Confidence.OLDER
    if mode is Mode.COMMITTED:
        taken[rows[is_record & ~older]] = False
    lost = DanglingRecords(chosen.select(missed), comes_back, has_older[missed])
    return lost, replace(choice, taken=taken, confidence=confidence)


def _one_of_each(first: Ints, second: Ints, lsn: Ordered, order: Ints) -> Mask:
    """Return a mask of one row of each version: the last in an order that sorts by the columns."""
    columns = (first[order], second[order], lsn[order])
    same = np.logical_and.reduce([np.diff(column) == 0 for column in columns])
    last = np.zeros(len(order), np.bool_)
    last[order[np.append(~same, True)[: len(order)]]] = True
    return last


def _replace_older(content: Content, dangling: DanglingRows) -> Mask:
    """Return a mask of the lost versions that replace older ones: those whose data is known.

    A lost deletion replaces nothing, since it may have been undone. In an erased place it does: the
    eraser overwrites only obsolete entries, so the deletion was not undone.
    """
    lsn = dangling.lsn
    is_erased = content.unerased.is_lost(lsn) & ~content.readable.is_lost(lsn)
    replaces: Mask = np.where(dangling.gone, is_erased, dangling.data_size >= 0)
    return replaces
