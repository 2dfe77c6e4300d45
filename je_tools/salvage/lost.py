"""Losses of a log: gaps, and the records that the rest of the log refers to but cannot reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.je.identity import identities, newest_of
from je_tools.formats.rows import read_only
from je_tools.log.names import FIXED_NAMES
from je_tools.salvage.choice import Choice, Confidence, Mode
from je_tools.salvage.dangling import FindNamed, Named, joined_named, no_named
from je_tools.salvage.extents import NO_TYPE

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.salvage.content import Content

_FILE = 1 << 32
_LARGEST = (1 << 64) - 1
NAMES_ID = 1
"""Id of the database whose keys are the names of all other databases."""

INTERNAL = "_je"
"""Prefix of the names of the engine's internal databases."""


class HoleKind(StrEnum):
    """Cause of a gap."""

    DAMAGED = "damaged"
    """Bytes between entries that are no entry, or an entry with a wrong checksum."""
    END_OF_FILE = "end-of-file"
    """Bytes after the last entry of a file that another file follows."""
    TAIL = "tail"
    """Bytes after the last entry of the log: the writer died, or they were never written."""
    WHOLE_FILE = "whole-file"
    """A file without a single good entry."""
    NO_FILE = "no-file"
    """Files that do not exist: lost, or deleted by the cleaner."""
    UNREADABLE = "unreadable-file"
    """A file that the system cannot open."""


class Hole(Struct, frozen=True):
    """A gap: a range of the log that cannot be read.

    Attributes:
        kind: the cause.
        start, stop: LSNs, in the same file unless files are missing.
        before, after: types of the entries around it; NO_TYPE if there is none.
        named: number of distinct entries in it that the rest of the log names.
        keys: number of lost records whose newest version was in it.
        held: number of records that were in it and come back all the same.
        reason: error of the system for a file that cannot be opened.
    """

    kind: HoleKind
    start: int
    stop: int
    before: int
    after: int
    named: int = 0
    keys: int = 0
    held: int = 0
    reason: str | None = None

    @property
    def is_damage(self) -> bool:
        """True if an intact log would not have it.

        A file that the cleaner has deleted held nothing that is missed, and no entry before the
        end of the log names what a crash left after it.
        """
        if self.kind is HoleKind.NO_FILE:
            return self.keys + self.held > 0
        return self.kind is not HoleKind.TAIL or self.named > 0

    @property
    def file_count(self) -> int:
        """Number of files in it; 0 for a range of a file that can be opened."""
        if self.kind is HoleKind.UNREADABLE:
            return 1
        return (self.stop - self.start) >> 32 if self.kind is HoleKind.NO_FILE else 0


class Lost(Struct, frozen=True):
    """Everything that cannot be read.

    Attributes:
        holes: gaps, in log order.
        named: records that the rest of the log names and whose newest version is lost: one of
            each record; in the mode `everything` one of each version.
        comes_back: bool, of `named`: the record is known all the same.
        has_older: bool, of `named`: an older version comes back in its place.
    """

    holes: list[Hole]
    named: Named
    comes_back: Mask
    has_older: Mask


def find_lost(
    environment: Environment,
    scanner: Scanner,
    content: Content,
    choice: Choice,
    mode: Mode,
    *,
    internal: bool,
) -> tuple[Lost, Choice]:
    """Find what is lost, and downgrade or withdraw records that turn out to be outdated.

    The log is read a second time unless it is a whole directory, without erased entries, in which
    only the tail is unreadable.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
        InputError: a file cannot be read.
    """
    holes = _holes(environment, content)
    erases = len(content.kept.start) != len(content.solid.start)
    # Files that were named one by one may be any part of a log.
    is_whole = environment.is_directory and not erases
    if is_whole and all(hole.kind is HoleKind.TAIL for hole in holes):
        nothing = np.empty(0, np.bool_)
        return Lost(holes, no_named(), nothing, nothing), choice
    find = FindNamed(content, newest_leaves(content), _excluded(content, mode, internal))
    named: list[Named] = []
    lsns: list[Ints] = [np.empty(0, np.int64)]
    for part in replace(scanner, progress=None, check=True).scan(environment, find):
        for found in part.results:
            named += found.named
            lsns.append(found.lsns)
    everything = joined_named(named)
    lost, choice = _settled(content, choice, mode, everything)
    return replace(lost, holes=_counted(holes, np.unique(np.concatenate(lsns)), lost)), choice


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


def _settled(content: Content, choice: Choice, mode: Mode, named: Named) -> tuple[Lost, Choice]:
    """Decide which named records count next to the LNs that are in the log.

    The versions of each record are put in order; a version that is named and lost counts if it is
    the newest.
    """
    lns = content.lns
    known = choice.newest.copy()
    known[known] = np.isin(lns.first[known], named.first)
    rows = np.flatnonzero(known)
    first = np.concatenate((lns.first[rows], named.first))
    second = np.concatenate((lns.second[rows], named.second))
    lsn = np.concatenate((lns.lsn[rows], named.records.lsn))
    # Of several references to one version, the one that has its data counts.
    sure = np.concatenate(
        (np.full(len(rows), 2), (named.records.data.sizes >= 0) & ~named.gone)
    ).astype(np.int64)
    order = np.lexsort((sure, lsn, second, first))
    same = (np.diff(first[order]) == 0) & (np.diff(second[order]) == 0)
    is_last = np.append(~same, True)[: len(order)]
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(np.append(0, ~same))[: len(order)]
    winners = order[is_last]
    winner = winners[group]
    kept = winner[len(rows) :] == np.arange(len(rows), len(first))
    if mode is Mode.EVERYTHING:
        kept = _one_of_each(first, second, lsn, order)[len(rows) :]
    chosen = named.select(kept)
    is_record = choice.taken[rows] & (winner[: len(rows)] >= len(rows))
    settled = np.concatenate((np.zeros(len(rows), np.bool_), _settles(content, named)))
    older = is_record & ~settled[winner[: len(rows)]]
    with_older = np.zeros(len(winners), np.bool_)
    with_older[group[: len(rows)][older]] = True
    has_older = with_older[group[len(rows) :][kept]]
    # A lost deletion is not a loss, unless it brings an older version back.
    missed = ~chosen.gone | has_older
    chosen, has_older = chosen.select(missed), has_older[missed]
    comes_back = (chosen.records.data.sizes >= 0) & ~chosen.gone
    taken, confidence = choice.taken.copy(), choice.confidence.copy()
    confidence[rows[older]] = Confidence.OLDER
    if mode is Mode.COMMITTED:
        taken[rows[is_record & ~older]] = False
    lost = Lost([], chosen, comes_back, has_older)
    return lost, replace(choice, taken=taken, confidence=confidence)


def _one_of_each(first: Ints, second: Ints, lsn: Ints, order: Ints) -> Mask:
    """Return a mask of the last row of each version."""
    columns = (first[order], second[order], lsn[order])
    same = np.logical_and.reduce([np.diff(column) == 0 for column in columns])
    last = np.zeros(len(order), np.bool_)
    last[order[np.append(~same, True)[: len(order)]]] = True
    return last


def _settles(content: Content, named: Named) -> Mask:
    """Return a mask of the named versions that replace older ones: those that are known.

    A lost deletion does not replace anything: it may have been undone. The eraser overwrites only
    entries that are obsolete, so in an erased place the slot is right.
    """
    lsn = named.records.lsn
    is_erased = content.kept.is_lost(lsn) & ~content.solid.is_lost(lsn)
    settled: Mask = np.where(named.gone, is_erased, named.records.data.sizes >= 0)
    return settled


def _holes(environment: Environment, content: Content) -> list[Hole]:
    """Return every gap, in log order."""
    holes = [*_absent(environment), *_inside(environment, content)]
    return sorted(holes, key=lambda hole: hole.start)


def _absent(environment: Environment) -> Iterator[Hole]:
    """Yield the files that do not exist or cannot be opened."""
    for file in environment.unreadable:
        start = file.file_no * _FILE
        stop = start + max(file.size, 1)
        yield Hole(HoleKind.UNREADABLE, start, stop, NO_TYPE, NO_TYPE, reason=file.reason)
    if not environment.is_directory:
        return
    expected = 0
    for number in environment.numbers:
        if number > expected:
            yield Hole(HoleKind.NO_FILE, expected * _FILE, number * _FILE, NO_TYPE, NO_TYPE)
        expected = number + 1


def _inside(environment: Environment, content: Content) -> Iterator[Hole]:
    """Yield the gaps inside files that can be opened."""
    solid = content.solid
    run = 0
    ends = environment.ends
    for i, state in enumerate(content.states):
        file_no = state.file.file_no
        base = file_no * _FILE
        at, before, found = base, NO_TYPE, False
        while run < len(solid.start) and solid.start[run] >> 32 & 0xFFFFFFFF == file_no:
            start = int(solid.start[run]) & _LARGEST
            if start > at:
                yield Hole(HoleKind.DAMAGED, at, start, before, int(solid.first[run]))
            at, before, found = int(solid.stop[run]) & _LARGEST, int(solid.last[run]), True
            run += 1
        if at < base + state.size:
            yield Hole(_end_kind(i in ends, found), at, base + state.size, before, NO_TYPE)


def _end_kind(is_end: bool, found: bool) -> HoleKind:
    if is_end:
        return HoleKind.TAIL
    return HoleKind.END_OF_FILE if found else HoleKind.WHOLE_FILE


def _counted(holes: Sequence[Hole], lsns: Ints, lost: Lost) -> list[Hole]:
    """Return the gaps with the counts of what is in them."""
    # Columns store LSNs as int64: from file 0x80000000 on they are negative.
    first = np.array([hole.start for hole in holes], np.uint64).view(np.int64)
    last = np.array([hole.stop - 1 for hole in holes], np.uint64).view(np.int64)
    records = lost.named.records.lsn
    columns = (lsns, np.sort(records[~lost.comes_back]), np.sort(records[lost.comes_back]))
    counts = [
        (np.searchsorted(column, last, side="right") - np.searchsorted(column, first)).tolist()
        for column in columns
    ]
    return [
        replace(hole, named=named, keys=keys, held=held)
        for hole, named, keys, held in zip(holes, *counts, strict=True)
    ]
