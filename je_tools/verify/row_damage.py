"""Damage of the entries of a range, as values: wrong checksums, unknown types, erased bytes."""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING

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


class Erased(Struct, frozen=True):
    """Adjacent erased entries that still hold bytes: their range [start, stop) and number."""

    start: int
    stop: int
    count: int


class RowDamage(Struct):
    """Damage of some entries of a file, as plain values; the first LISTED of each kind.

    Attributes:
        bad: entries with a wrong checksum.
        unknown: entries with a right checksum and a type that files of that version do not have.
        erased: adjacent erased entries that still hold bytes.
        restore: RestoreRequired entries.
        unlisted: counts of the other entries of these kinds.
        lost: int64; offsets of all entries with a wrong checksum.
        lost_size: total bytes of these.
    """

    bad: list[Spot] = field(default_factory=list)
    unknown: list[Spot] = field(default_factory=list)
    erased: list[Erased] = field(default_factory=list)
    restore: list[Spot] = field(default_factory=list)
    unlisted: Unlisted = field(default_factory=Unlisted)
    lost: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    lost_size: int = 0


def row_damage(rows: Rows) -> RowDamage | None:
    """Return the damage of entries of one file; None if there is none, at almost no cost."""
    type_counts = rows.survey.counts
    unknown = _unknown_types(rows.version)
    with_unknown = bool(type_counts[unknown].any())
    erased = int(type_counts[erased_no(rows.version) % 256]) if rows.version >= 17 else 0
    if not (rows.survey.bad or with_unknown or erased or type_counts[RESTORE_REQUIRED_NO]):
        return None
    bad = np.flatnonzero(~rows.good)
    damage = RowDamage()
    good = rows.good
    damage.lost = rows.offset[bad].astype(np.int64)
    damage.lost_size = int(rows.size[bad].sum())
    damage.bad = [_bad_spot(rows, row) for row in _listed(rows, bad, "damaged-entry", damage)]
    if with_unknown:
        index = np.flatnonzero(unknown[rows.type] & good)
        listed = _listed(rows, index, "unknown-type", damage)
        damage.unknown = [_unknown_spot(rows, row) for row in listed]
    if erased:
        damage.erased = _erased_spots(rows, damage.unlisted)
    index = np.flatnonzero((rows.type == RESTORE_REQUIRED_NO) & good)
    for row in _listed(rows, index, "restore-marker", damage):
        reason = restore_reason(rows.entry_bytes(row), rows.version)
        damage.restore.append(_spot(rows, row, found=reason))
    return damage


def _listed(rows: Rows, index: Ints, code: str, damage: RowDamage) -> list[int]:
    """Return the first LISTED rows of `index` and count the others in `damage`."""
    rest = index[LISTED:]
    starts = rows.offset[rest].astype(np.int64)
    damage.unlisted.add(code, starts, starts + rows.size[rest])
    return [int(row) for row in index[:LISTED]]


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
def types_to_look_at(version: int) -> Mask:
    """Return the types that may be damage though their checksum is right: bool (256,)."""
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


def _spot(rows: Rows, row: int, expected: str | None = None, found: str | None = None) -> Spot:
    return Spot(int(rows.offset[row]), rows.size_of(row), expected, found)


def _bad_spot(rows: Rows, row: int) -> Spot:
    computed = entry_checksum(rows.entry_bytes(row), rows.version)
    stored = int(rows.stored_checksum[row])
    what = type_name(int(rows.type[row]))
    return _spot(rows, row, f"checksum {stored:#010x} of {what}", f"checksum {computed:#010x}")


def _unknown_spot(rows: Rows, row: int) -> Spot:
    no = int(rows.type[row])
    known = ENTRY_TYPES.get(no)
    expected = f"a type of log version {rows.version}"
    if known is None:
        return _spot(rows, row, expected, f"type {no}")
    versions = f"{known.first_version} to {known.last_version}"
    return _spot(rows, row, expected, f"type {no}, {known.name} of log versions {versions}")


def _erased_spots(rows: Rows, unlisted: Unlisted) -> list[Erased]:
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
    return [Erased(*each) for each in zip(*columns, strict=True)]
