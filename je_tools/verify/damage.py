"""Findings of damage inside one file: entries, gaps, breaks of the chain, and the file's end."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.findings import CODES, Finding, Severity
from je_tools.formats.je.header import (
    FILE_HEADER_SIZE,
    MAX_HEADER_SIZE,
    MIN_HEADER_SIZE,
    EntryError,
    entry_checksum,
    read_header,
)
from je_tools.formats.je.log.places import SINGLE, ChainBreak, Gap
from je_tools.formats.je.log.reader import FILE_SIZE_MAX
from je_tools.formats.je.log.walk import NEVER_ERASED, NO_OFFSET, erased_no
from je_tools.formats.je.types import (
    ENTRY_TYPES,
    MODERN_READ_MIN,
    OLD_BIN_DELTA_NO,
    RESTORE_REQUIRED_NO,
    mask_of,
    type_name,
)
from je_tools.log.file_findings import finding
from je_tools.log.sources import reopened
from je_tools.verify.consistency import restore_reason

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.files.source import Source
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile
    from je_tools.log.scan import FileState, Part

LISTED = 50_000
"""Largest number of findings listed for one file; a file full of damage could have millions."""

_PIECE = 1 << 20


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

    def take(self, other: Unlisted) -> None:
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

    def behind(self, before: OldDeltas | None) -> OldDeltas:
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
    index = np.flatnonzero((rows.type == erased_no(rows.version)) & (rows.item_size > 0))
    if not len(index):
        return []
    starts = rows.offset[index].astype(np.int64) - rows.base + rows.header_size[index]
    stops = starts + rows.item_size[index]
    borders = np.stack((starts, stops), axis=1).ravel()
    # `reduceat` refuses a segment that begins at the end of the data.
    borders = borders[:-1] if borders[-1] == len(rows.data) else borders
    index = index[np.maximum.reduceat(rows.data, borders)[::2] != 0]
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


def _joined(spots: Iterable[Erased]) -> Iterator[Erased]:
    """Merge adjacent spots that were read in different windows."""
    before: Erased | None = None
    for spot in spots:
        if before is not None and before.stop == spot.start:
            before = Erased(before.start, spot.stop, before.count + spot.count)
            continue
        if before is not None:
            yield before
        before = spot
    if before is not None:
        yield before


class PartFindings(Struct):
    """Findings of a part of a file.

    Attributes:
        found: listed findings, in the order of their offsets.
        unlisted: counts of the others.
    """

    found: list[Finding] = field(default_factory=list)
    unlisted: Unlisted = field(default_factory=Unlisted)

    def add(self, found: Iterable[Finding], room: int) -> None:
        """Add findings; keep the first `room` by offset and count the others."""
        merged = sorted(chain(self.found, found), key=lambda each: each.offset or 0)
        self.found = merged[:room]
        for each in merged[room:]:
            self.unlisted.add_found(each)


class FileDamage:
    """Converter of the damage seen in one file into findings.

    Args:
        environment: the log.
        file: the file.
        is_last: True if the log may end in it.
    """

    def __init__(self, environment: Environment, file: LogFile, *, is_last: bool) -> None:
        self.environment = environment
        self.file = file
        self.is_last = is_last

    def of_part(self, part: Part[Any], seen: Iterable[RowDamage], room: int) -> PartFindings:
        """Return the findings of one part of the file, in the order of their offsets.

        Args:
            part: part of the scan.
            seen: damage of its entries.
            room: largest number of findings to list.
        """
        told = PartFindings()
        found = [*self.of_gaps(part.gaps[:room]), *self.of_breaks(part.chain_breaks[:room])]
        told.unlisted.take(self._counted_gaps(part.gaps.numbers[room:]))
        starts = part.chain_breaks.numbers[room:, 0]
        told.unlisted.add("prev-offset-mismatch", starts, starts + MIN_HEADER_SIZE)
        damages = list(seen)
        for damage in damages:
            found += self.of_rows(damage)
            told.unlisted.take(damage.unlisted)
        found += self._of_erased(chain.from_iterable(each.erased for each in damages))
        told.add(found, room)
        return told

    def _counted_gaps(self, gaps: Ints) -> Unlisted:
        counted = Unlisted()
        single = gaps[:, 2] & SINGLE != 0
        for code, chosen in (("damaged-entry", single), ("damaged-gap", ~single)):
            counted.add(code, gaps[chosen, 0], gaps[chosen, 1])
        return counted

    def of_rows(self, damage: RowDamage) -> Iterator[Finding]:
        """Yield findings of single entries, except a damaged file header."""
        for spot in damage.bad:
            if spot.offset:
                yield self._of_spot("damaged-entry", spot, resume=spot.offset + spot.length)
        for spot in damage.unknown:
            yield self._of_spot("unknown-type", spot)
        for spot in damage.restore:
            yield self._of_spot("restore-marker", spot)

    def _of_erased(self, erased: Iterable[Erased]) -> Iterator[Finding]:
        for each in _joined(erased):
            words = f"{each.count} entries with other bytes"
            spot = Spot(each.start, each.stop - each.start, "zeros", words)
            yield self._of_spot("erased-not-zero", spot)

    def of_bad(self, ranges: Sequence[tuple[int, int]]) -> Iterator[Finding]:
        """Yield findings of damaged entries known only by their range; see `FileState.bad`."""
        if not ranges:
            return
        with reopened(self.file.path, ranges[-1][1]) as source:
            for start, stop in ranges:
                if start:
                    words = self._header_words(source, start, stop)[0]
                    spot = Spot(start, stop - start, "an entry", words)
                    yield self._of_spot("damaged-entry", spot, resume=stop)

    def of_gaps(self, gaps: Sequence[Gap]) -> Iterator[Finding]:
        """Yield findings of gaps that are followed by entries."""
        if not gaps:
            return
        with reopened(self.file.path, gaps[-1].stop) as source:
            for gap in gaps:
                start = self._behind_header(gap.start)
                if start >= gap.stop:
                    continue
                expected = "an entry" if gap.single else "entries"
                spot = Spot(start, gap.stop - start, expected, self._words(source, gap))
                code = "damaged-entry" if gap.single else "damaged-gap"
                yield self._of_spot(code, spot, resume=gap.stop)

    def of_breaks(self, breaks: Sequence[ChainBreak]) -> Iterator[Finding]:
        """Yield findings of entries whose prevOffset is not that of the entry before them."""
        for each in breaks:
            moved = "" if not each.shift else f"; from here on moved by {each.shift:+,} bytes"
            found = f"prevOffset {each.found:#x}{moved}"
            spot = Spot(each.offset, MIN_HEADER_SIZE, f"prevOffset {each.expected:#x}", found)
            yield self._of_spot("prev-offset-mismatch", spot)

    def of_old_deltas(self, deltas: OldDeltas | None) -> Iterator[Finding]:
        """Yield the finding of a file that modern engines truncate; a bad header prevents that."""
        if deltas is not None and self.file.header.good:
            yield finding(
                self.environment,
                "old-delta-in-v8",
                file_no=self.file.file_no,
                offset=deltas.first,
                found=f"{deltas.count:,} old BIN-deltas, this the first",
            )

    def of_unlisted(self, unlisted: Unlisted) -> Iterator[Finding]:
        """Yield the finding that sums up damage that is counted and not listed."""
        if unlisted.codes:
            counts = (f"{count:,} {code}" for code, count in sorted(unlisted.codes.items()))
            is_error = any(CODES[code].severity is Severity.ERROR for code in unlisted.codes)
            spot = Spot(unlisted.start, unlisted.stop - unlisted.start, found=", ".join(counts))
            yield self._of_spot(
                "more-damage", spot, Severity.ERROR if is_error else Severity.WARNING
            )

    def of_end(self, state: FileState, named_last: int | None) -> Iterator[Finding]:
        """Yield findings of the file's end and of bytes that could not be read.

        Args:
            state: state of the file.
            named_last: offset of its last entry according to the next file's header, if known.
        """
        for start, stop in state.unreadable:
            yield self._of_spot("unreadable", Spot(start, stop - start))
        if self._behind_header(state.tail) < state.size:
            yield self._of_tail(state, named_last)
        elif self.file.size == 0 and self.is_last:
            spot = Spot(0, 0, "a file header", "an empty file")
            yield self._of_spot("torn-tail", spot, Severity.NOTE)
        elif state.last != NO_OFFSET:
            yield self._of_spot("clean-end", Spot(state.size, 0))

    def _behind_header(self, start: int) -> int:
        """Return the start of damage apart from a bad file header, which has its own finding."""
        in_header = start < FILE_HEADER_SIZE and not self.file.header.good
        begun = self.is_last and self.file.size <= FILE_HEADER_SIZE
        return FILE_HEADER_SIZE if in_header and not begun else start

    def _of_tail(self, state: FileState, named_last: int | None) -> Finding:
        start = self._behind_header(state.tail)
        with reopened(self.file.path, state.size) as source:
            blank = _is_blank(source, start, min(state.size, FILE_SIZE_MAX))
            words, is_whole = self._header_words(source, start, state.size)
        expected = None
        if named_last is not None and named_last >= start:
            expected = f"entries up to one at {named_last:#x}, as the next file's header says"
        spot = Spot(start, state.size - start, expected, "zeros" if blank else words)
        if blank:
            severity = Severity.NOTE if self.is_last else Severity.ERROR
            return self._of_spot("zero-tail", spot, severity)
        if self.is_last and 0 < state.size < FILE_HEADER_SIZE:
            return self._of_torn_header(spot)
        if self.is_last:
            return self._of_spot("torn-tail", spot)
        if is_whole and (named_last is None or named_last <= start):
            return self._of_spot("damaged-entry", spot)
        if named_last is not None and named_last < state.tail:
            expected = "the end of the file, as the next file's header says"
            return self._of_spot("damaged-gap", Spot(spot.offset, spot.length, expected, words))
        return self._of_spot("truncated-file", spot)

    def _of_torn_header(self, spot: Spot) -> Finding:
        """Return the finding of a last file that ends inside its header.

        An engine writes a header in one piece, so the file was longer once.
        Source: FileManager.writeFileHeader, JE 18.3.12.
        """
        found = f"{spot.found}; engines write headers whole, so the rest of the file was cut off"
        torn = self._of_spot("torn-tail", replace(spot, found=found), Severity.ERROR)
        return replace(torn, hint="Look for a copy of the file: what it held is lost.")

    def _words(self, source: Source, gap: Gap) -> str:
        if gap.inserted:
            return "bytes between two entries that name each other"
        if _is_blank(source, gap.start, min(gap.stop, gap.start + _PIECE)):
            return "zeros"
        return self._header_words(source, gap.start, gap.stop)[0]

    def _header_words(self, source: Source, start: int, stop: int) -> tuple[str, bool]:
        """Return a description of the header at `start`, and whether its entry ends at `stop`."""
        try:
            header = read_header(
                source.read_bytes(start, start + MAX_HEADER_SIZE), self.file.version
            )
        except EntryError:
            return f"{stop - start} bytes of a header", False
        end = start + header.size + header.item_size
        words = f"{type_name(header.type_no)} with prevOffset {header.prev_offset:#x}"
        if header.item_size < 0 or header.type_no == 0:
            return f"{words} and an item of {header.item_size:,} bytes", False
        size = self.file.size
        claims = f"{words} that ends at {end:#x}"
        claims += f", but the file at {size:#x}" if end > size else ""
        return (f"{claims}, its checksum wrong" if end == stop else claims), end == stop

    def _of_spot(
        self, code: str, spot: Spot, severity: Severity | None = None, resume: int | None = None
    ) -> Finding:
        hint = CODES[code].hint
        if self.is_last and resume is not None:
            cut = self.file.size - spot.offset
            hint = f"An engine takes this for the end of the log and cuts off {cut:,} bytes. {hint}"
        return finding(
            self.environment,
            code,
            severity,
            file_no=self.file.file_no,
            offset=spot.offset,
            length=spot.length,
            resume_offset=resume,
            expected=spot.expected,
            found=spot.found,
            hint=hint,
        )


def _is_blank(source: Source, start: int, stop: int) -> bool:
    """Return whether bytes [start, stop) are all zero."""
    return not any(
        source.read(at, min(at + _PIECE, stop)).any() for at in range(start, stop, _PIECE)
    )
