"""Losses of a log: gaps, and the records that the rest of the log refers to but cannot reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.je.entry.identity import identities, newest_of
from je_tools.formats.rows import read_only
from je_tools.log.names import FIXED_NAMES
from je_tools.salvage.choice import Confidence, Mode, RecordChoice
from je_tools.salvage.dangling import DanglingReferences, FindDangling, joined_dangling, no_dangling
from je_tools.salvage.gaps import GapKind, LogGap, find_gaps

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.salvage.content import Content


NAMES_ID = 1
"""Id of the database whose keys are the names of all other databases."""

INTERNAL = "_je"
"""Prefix of the names of the engine's internal databases."""


class LostEntries(Struct, frozen=True):
    """Everything that cannot be read.

    Attributes:
        gaps: gaps, in log order.
        dangling: records that the rest of the log names and whose newest version is lost: one of
            each record; in the mode `everything` one of each version.
        comes_back: bool, of `dangling`: the record is known all the same.
        has_older: bool, of `dangling`: an older version comes back in its place.
    """

    gaps: list[LogGap]
    dangling: DanglingReferences
    comes_back: Mask
    has_older: Mask


def find_lost(
    environment: Environment,
    scanner: Scanner,
    content: Content,
    choice: RecordChoice,
    mode: Mode,
    *,
    internal: bool,
) -> tuple[LostEntries, RecordChoice]:
    """Find what is lost, and downgrade or withdraw records that turn out to be outdated.

    The log is read a second time unless it is a whole directory, without erased entries, in which
    only the tail is unreadable.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
        InputError: a file cannot be read.
    """
    gaps = find_gaps(environment, content)
    erases = len(content.unerased.start) != len(content.readable.start)
    # Files that were named one by one may be any part of a log.
    is_whole = environment.is_directory and not erases
    if is_whole and all(gap.kind is GapKind.TAIL for gap in gaps):
        nothing = np.empty(0, np.bool_)
        return LostEntries(gaps, no_dangling(), nothing, nothing), choice
    find = FindDangling(content, newest_leaves(content), _excluded(content, mode, internal))
    dangling: list[DanglingReferences] = []
    lsns: list[Ints] = [np.empty(0, np.int64)]
    for part in replace(scanner, progress=None, check=True).scan(environment, find):
        for found in part.results:
            dangling += found.dangling
            lsns.append(found.lsns)
    everything = joined_dangling(dangling)
    lost, choice = _resolve(content, choice, mode, everything)
    return replace(lost, gaps=count_lost(gaps, np.unique(np.concatenate(lsns)), lost)), choice


def newest_leaves(content: Content) -> Ints:
    """Return the sorted LSNs of each bottom node's newest version and newest full version."""
    leaves = content.leaves
    n = len(leaves.lsn)
    # A crafted log could choose ids that collide in a hash table, so their keyed digests are used.
    sizes = np.full(n, leaves.node_id.itemsize, np.int64)
    data = read_only(np.ascontiguousarray(leaves.node_id).view(np.uint8))
    starts = np.cumsum(sizes) - sizes
    ids = identities(data, starts, sizes, leaves.db_id, content.seed)
    newest = newest_of(*ids, np.ones(n, np.bool_))
    full = newest_of(*ids, ~leaves.is_delta)
    return leaves.lsn[newest | full]


def _excluded(content: Content, mode: Mode, internal: bool) -> Ints:
    """Return the ids of the databases of which nothing comes back."""
    # The database of names stays in: the keys of its slots are the names.
    found = set() if internal else set(FIXED_NAMES) - {NAMES_ID}
    for db_id, database in content.databases.items():
        is_internal = database.name.startswith(INTERNAL)
        is_gone = database.removed and mode is Mode.COMMITTED
        if (is_internal and not internal) or is_gone:
            found.add(db_id)
    return np.array(sorted(found), np.int64)


def _resolve(
    content: Content, choice: RecordChoice, mode: Mode, dangling: DanglingReferences
) -> tuple[LostEntries, RecordChoice]:
    """Decide which named records count next to the LNs that are in the log.

    The versions of each record are put in order; a version that is named and lost counts if it is
    the newest.
    """
    lns = content.lns
    known = choice.newest.copy()
    known[known] = np.isin(lns.first[known], dangling.first)
    rows = np.flatnonzero(known)
    first = np.concatenate((lns.first[rows], dangling.first))
    second = np.concatenate((lns.second[rows], dangling.second))
    lsn = np.concatenate((lns.lsn[rows], dangling.records.lsn))
    # Of several references to one version, the one that has its data counts.
    sure = np.concatenate(
        (np.full(len(rows), 2), (dangling.records.data.sizes >= 0) & ~dangling.gone)
    ).astype(np.int64)
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
    chosen = dangling.select(counts)
    is_record = choice.taken[rows] & (winner[: len(rows)] >= len(rows))
    replaces = np.concatenate((np.zeros(len(rows), np.bool_), _replace_older(content, dangling)))
    older = is_record & ~replaces[winner[: len(rows)]]
    with_older = np.zeros(len(winners), np.bool_)
    with_older[group[: len(rows)][older]] = True
    has_older = with_older[group[len(rows) :][counts]]
    # A lost deletion is not a loss, unless it brings an older version back.
    missed = ~chosen.gone | has_older
    chosen, has_older = chosen.select(missed), has_older[missed]
    comes_back = (chosen.records.data.sizes >= 0) & ~chosen.gone
    taken, confidence = choice.taken.copy(), choice.confidence.copy()
    confidence[rows[older]] = Confidence.OLDER
    if mode is Mode.COMMITTED:
        taken[rows[is_record & ~older]] = False
    lost = LostEntries([], chosen, comes_back, has_older)
    return lost, replace(choice, taken=taken, confidence=confidence)


def _one_of_each(first: Ints, second: Ints, lsn: Ints, order: Ints) -> Mask:
    """Return a mask of the last row of each version."""
    columns = (first[order], second[order], lsn[order])
    same = np.logical_and.reduce([np.diff(column) == 0 for column in columns])
    last = np.zeros(len(order), np.bool_)
    last[order[np.append(~same, True)[: len(order)]]] = True
    return last


def _replace_older(content: Content, dangling: DanglingReferences) -> Mask:
    """Return a mask of the named versions that replace older ones: those that are known.

    A lost deletion does not replace anything: it may have been undone. The eraser overwrites only
    entries that are obsolete, so in an erased place the slot is right.
    """
    lsn = dangling.records.lsn
    is_erased = content.unerased.is_lost(lsn) & ~content.readable.is_lost(lsn)
    replaces: Mask = np.where(dangling.gone, is_erased, dangling.records.data.sizes >= 0)
    return replaces


def count_lost(gaps: Sequence[LogGap], lsns: Ints, lost: LostEntries) -> list[LogGap]:
    """Return the gaps with the counts of what is in them."""
    # Columns store LSNs as int64: from file 0x80000000 on they are negative.
    first = np.array([gap.start for gap in gaps], np.uint64).view(np.int64)
    last = np.array([gap.stop - 1 for gap in gaps], np.uint64).view(np.int64)
    records = lost.dangling.records.lsn
    columns = (lsns, np.sort(records[~lost.comes_back]), np.sort(records[lost.comes_back]))
    counts = [
        (np.searchsorted(column, last, side="right") - np.searchsorted(column, first)).tolist()
        for column in columns
    ]
    return [
        replace(gap, dangling=dangling, keys=keys, held=held)
        for gap, dangling, keys, held in zip(gaps, *counts, strict=True)
    ]
