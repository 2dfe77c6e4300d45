"""Damage of the entries of a range, as values: wrong checksums, unknown types, erased bytes."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from msgspec import Struct, field

from je_tools.formats.je.header import entry_checksum
from je_tools.formats.je.log.erased import unfinished_rows
from je_tools.formats.je.log.reader import FILE_SIZE_MAX
from je_tools.formats.je.log.walk import NEVER_ERASED, erased_no
from je_tools.formats.je.types import (
    ENTRY_TYPES,
    MODERN_READ_MIN,
    OLD_BIN_DELTA_NO,
    RESTORE_REQUIRED_NO,
    mask_of,
    type_name,
)
from je_tools.verify.consistency import restore_reason

if TYPE_CHECKING:
    import numpy.typing as npt

    from je_tools.findings import Finding
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.entry_rows import Rows

LISTED = 50_000
"""Largest number of findings listed for one file; a file full of damage could have millions."""


class Spot(Struct, frozen=True):
    """A place in a file, with the expected and the found content."""

    offset: int
    length: int
    expected: str | None = None
    found: str | None = None


class Unlisted(Struct):
    """Damage that is counted and not listed.

    Attributes:
        codes: number of places of each code.
        start, stop: range from the first place to the last.
    """

    codes: Counter[str] = field(default_factory=Counter)
    start: int = FILE_SIZE_MAX
    stop: int = 0

    def add(self, code: str, starts: Ints, stops: Ints) -> None:
        """Count places [starts, stops) of one code."""
        if len(starts):
            self.codes[code] += len(starts)
            self.start = min(self.start, int(starts.min()))
            self.stop = max(self.stop, int(stops.max()))

    def add_found(self, found: Finding) -> None:
        """Count a finding that has a place."""
        start = np.array([found.offset or 0])
        self.add(found.code, start, start + (found.length or 0))

    def merge(self, other: Unlisted) -> None:
        """Add the counts of another."""
        self.codes += other.codes
        self.start = min(self.start, other.start)
        self.stop = max(self.stop, other.stop)


class DamagedEntries(Struct):
    """Entries of a range with one kind of damage, in the order of their offsets.

    A hostile file has millions of them, so they are columns, and become spots when they are listed.

    Attributes:
        code: code of their findings.
        offset, length: int64; their ranges in the file.
    """

    code: ClassVar[str]
    offset: Ints
    length: Ints

    def spots(self, room: int) -> Iterator[Spot]:
        """Yield the places of the first `room` of them."""
        columns = (self.offset[:room].tolist(), self.length[:room].tolist())
        for i, (offset, length) in enumerate(zip(*columns, strict=True)):
            yield Spot(offset, length, *self._contents(i))

    def count_rest(self, room: int, unlisted: Unlisted) -> None:
        """Count those after the first `room`."""
        starts = self.offset[room:]
        unlisted.add(self.code, starts, starts + self.length[room:])

    def _contents(self, i: int) -> tuple[str | None, str | None]:
        """Return the expected and the found content of one."""
        raise NotImplementedError


class WrongSums(DamagedEntries):
    """Entries with a wrong checksum: their types, and the stored and computed checksums."""

    code = "damaged-entry"
    type_no: npt.NDArray[np.uint8]
    stored: npt.NDArray[np.uint32]
    computed: list[int]

    def _contents(self, i: int) -> tuple[str, str]:
        what = type_name(int(self.type_no[i]))
        return f"checksum {self.stored[i]:#010x} of {what}", f"checksum {self.computed[i]:#010x}"


class UnknownTypes(DamagedEntries):
    """Entries with a right checksum and a type that files of that log version do not have."""

    code = "unknown-type"
    type_no: npt.NDArray[np.uint8]
    version: int

    def _contents(self, i: int) -> tuple[str, str]:
        no = int(self.type_no[i])
        known = ENTRY_TYPES.get(no)
        expected = f"a type of log version {self.version}"
        if known is None:
            return expected, f"type {no}"
        versions = f"{known.first_version} to {known.last_version}"
        return expected, f"type {no}, {known.name} of log versions {versions}"


class RestoreMarkers(DamagedEntries):
    """RestoreRequired entries, and their reasons."""

    code = "restore-marker"
    reasons: list[str | None]

    def _contents(self, i: int) -> tuple[None, str | None]:
        return None, self.reasons[i]


class ErasedRun(Struct, frozen=True):
    """Adjacent erased entries that still hold bytes: their range [start, stop) and number."""

    start: int
    stop: int
    count: int


class RowDamage(Struct):
    """Damage of some entries of a file; the first LISTED of each kind.

    Attributes:
        entries: damaged entries, one item for each kind.
        erased: adjacent erased entries that still hold bytes.
        unlisted: counts of the other entries of these kinds.
        lost: int64; offsets of all entries with a wrong checksum.
        lost_size: total bytes of these.
    """

    entries: list[DamagedEntries] = field(default_factory=list)
    erased: list[ErasedRun] = field(default_factory=list)
    unlisted: Unlisted = field(default_factory=Unlisted)
    lost: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    lost_size: int = 0

    def first(self, rows: Rows, index: Ints, kind: type[DamagedEntries]) -> Ints:
        """Return the first LISTED rows of `index`, and count the others as of a kind."""
        starts, sizes = _ranges(rows, index[LISTED:])
        self.unlisted.add(kind.code, starts, starts + sizes)
        return index[:LISTED]


def row_damage(rows: Rows) -> RowDamage | None:
    """Return the damage of entries of one file, or None, which costs almost nothing."""
    type_counts = rows.survey.counts
    unknown = _unknown_types(rows.version)
    with_unknown = bool(type_counts[unknown].any())
    erased = int(type_counts[erased_no(rows.version) % 256]) if rows.version >= 17 else 0
    if not (rows.survey.bad or with_unknown or erased or type_counts[RESTORE_REQUIRED_NO]):
        return None
    good = rows.good
    bad = np.flatnonzero(~good)
    damage = RowDamage(lost=rows.offset[bad].astype(np.int64), lost_size=int(rows.size[bad].sum()))
    # A damaged file header has its own finding.
    damage.entries.append(
        _wrong_sums(rows, damage.first(rows, bad[rows.offset[bad] > 0], WrongSums))
    )
    if with_unknown:
        index = damage.first(rows, np.flatnonzero(unknown[rows.type] & good), UnknownTypes)
        found = UnknownTypes(*_ranges(rows, index), rows.type[index], rows.version)
        damage.entries.append(found)
    if type_counts[RESTORE_REQUIRED_NO]:
        is_marker = (rows.type == RESTORE_REQUIRED_NO) & good
        index = damage.first(rows, np.flatnonzero(is_marker), RestoreMarkers)
        reasons = [restore_reason(rows.entry_bytes(int(row)), rows.version) for row in index]
        damage.entries.append(RestoreMarkers(*_ranges(rows, index), reasons))
    if erased:
        damage.erased = _erased_spots(rows, damage.unlisted)
    return damage


def _wrong_sums(rows: Rows, index: Ints) -> WrongSums:
    computed = [entry_checksum(rows.entry_bytes(int(row)), rows.version) for row in index]
    return WrongSums(*_ranges(rows, index), rows.type[index], rows.stored_checksum[index], computed)


def _ranges(rows: Rows, index: Ints) -> tuple[Ints, Ints]:
    """Return the offsets and the sizes of rows, as int64."""
    return rows.offset[index].astype(np.int64), rows.size[index].astype(np.int64)


class OldDeltas(Struct, frozen=True):
    """Old BIN-deltas in a file that a modern engine opens, and truncates at the first of them.

    Attributes:
        count: number of old BIN-deltas.
        first: offset of the first.
    """

    count: int
    first: int

    def after(self, before: OldDeltas | None) -> OldDeltas:
        """Return these merged with those before them in the file."""
        return self if before is None else OldDeltas(before.count + self.count, before.first)


def old_deltas(rows: Rows) -> OldDeltas | None:
    """Return the old BIN-deltas of one file if modern engines read its version, else None."""
    if not (_has_old_deltas(rows.version) and rows.survey.counts[OLD_BIN_DELTA_NO]):
        return None
    good = (rows.type == OLD_BIN_DELTA_NO) & rows.good
    offsets = rows.offset[good]
    return OldDeltas(len(offsets), int(offsets[0])) if len(offsets) else None


def _has_old_deltas(version: int) -> bool:
    return MODERN_READ_MIN <= version <= ENTRY_TYPES[OLD_BIN_DELTA_NO].last_version


@functools.cache
def suspect_types(version: int) -> Mask:
    """Return the types of entries to check even if their checksum is right, bool (256,)."""
    kinds = [RESTORE_REQUIRED_NO]
    kinds += [OLD_BIN_DELTA_NO] if _has_old_deltas(version) else []
    kinds += [erased_no(version)] if erased_no(version) != NEVER_ERASED else []
    return _unknown_types(version) | mask_of(kinds)


@functools.cache
def _unknown_types(version: int) -> Mask:
    unknown = np.ones(256, np.bool_)
    for no, entry_type in ENTRY_TYPES.items():
        unknown[no] = not entry_type.first_version <= version <= entry_type.last_version
    return unknown


def _erased_spots(rows: Rows, unlisted: Unlisted) -> list[ErasedRun]:
    """Return runs of erased entries with non-zero bytes: the first LISTED; count the others."""
    index = unfinished_rows(rows)
    if not len(index):
        return []
    begins = rows.offset[index].astype(np.int64)
    ends = begins + rows.size[index]
    first = np.concatenate(([True], begins[1:] != ends[:-1]))
    groups = np.flatnonzero(first)
    counts = np.diff(np.concatenate((groups, [len(index)])))
    starts = begins[groups]
    stops = ends[np.concatenate((groups[1:], [len(index)])) - 1]
    unlisted.add("erased-not-zero", starts[LISTED:], stops[LISTED:])
    columns = (each[:LISTED].tolist() for each in (starts, stops, counts))
    return [ErasedRun(*each) for each in zip(*columns, strict=True)]
