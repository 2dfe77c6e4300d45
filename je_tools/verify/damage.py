"""Findings of damage inside one file: entries, gaps, breaks of the chain, and the file's end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.findings import CODES, Finding, Severity
from je_tools.formats.je.header import (
    FILE_HEADER_SIZE,
    MAX_HEADER_SIZE,
    MIN_HEADER_SIZE,
    EntryError,
    read_header,
)
from je_tools.formats.je.log.places import SINGLE, ChainBreak, Gap
from je_tools.formats.je.log.reader import FILE_SIZE_MAX
from je_tools.formats.je.log.walk import NO_OFFSET
from je_tools.formats.je.types import (
    type_name,
)
from je_tools.log.file_findings import finding
from je_tools.log.sources import reopened
from je_tools.verify.row_damage import (
    DamagedEntries,
    ErasedRun,
    OldDeltas,
    RowDamage,
    Spot,
    Unlisted,
)

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.files.source import Source
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import FileState, ScanPart
    from je_tools.log.log_files import LogFile

_PIECE = 1 << 20


def _merged_runs(spots: Iterable[ErasedRun]) -> Iterator[ErasedRun]:
    """Merge adjacent spots that were read in different windows."""
    before: ErasedRun | None = None
    for spot in spots:
        if before is not None and before.stop == spot.start:
            before = ErasedRun(before.start, spot.stop, before.count + spot.count)
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
    """Converter of damage in one file into findings.

    Args:
        environment: the log.
        file: the file.
        is_last: True if the log may end in it.
    """

    def __init__(self, environment: Environment, file: LogFile, *, is_last: bool) -> None:
        self.environment = environment
        self.file = file
        self.is_last = is_last

    def of_part(self, part: ScanPart[Any], seen: Iterable[RowDamage], room: int) -> PartFindings:
        """Return the findings of one part of the file, in the order of their offsets.

        Args:
            part: part of the scan.
            seen: damage of its entries.
            room: largest number of findings to list.
        """
        result = PartFindings()
        found = [*self.of_gaps(part.gaps[:room]), *self.of_breaks(part.chain_breaks[:room])]
        result.unlisted.merge(self._counted_gaps(part.gaps.numbers[room:]))
        starts = part.chain_breaks.numbers[room:, 0]
        result.unlisted.add("prev-offset-mismatch", starts, starts + MIN_HEADER_SIZE)
        damages = list(seen)
        listed: Counter[str] = Counter()
        for damage in damages:
            for entries in damage.entries:
                left = room - listed[entries.code]
                found += self.of_entries(entries, left)
                entries.count_rest(left, result.unlisted)
                listed[entries.code] += min(len(entries.offset), left)
            result.unlisted.merge(damage.unlisted)
        found += self._of_erased(chain.from_iterable(each.erased for each in damages))
        result.add(found, room)
        return result

    def _counted_gaps(self, gaps: Ints) -> Unlisted:
        counted = Unlisted()
        single = gaps[:, 2] & SINGLE != 0
        for code, chosen in (("damaged-entry", single), ("damaged-gap", ~single)):
            counted.add(code, gaps[chosen, 0], gaps[chosen, 1])
        return counted

    def of_entries(self, entries: DamagedEntries, room: int) -> Iterator[Finding]:
        """Yield the findings of the first `room` of some damaged entries."""
        is_passed = entries.code == "damaged-entry"
        for spot in entries.spots(room):
            resume = spot.offset + spot.length if is_passed else None
            yield self._of_spot(entries.code, spot, resume=resume)

    def _of_erased(self, erased: Iterable[ErasedRun]) -> Iterator[Finding]:
        for each in _merged_runs(erased):
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
                start = self._after_header(gap.start)
                if start >= gap.stop:
                    continue
                expected = "an entry" if gap.single else "entries"
                spot = Spot(start, gap.stop - start, expected, self._words(source, gap))
                code = "damaged-entry" if gap.single else "damaged-gap"
                yield self._of_spot(code, spot, resume=gap.stop)

    def of_breaks(self, breaks: Sequence[ChainBreak]) -> Iterator[Finding]:
        """Yield findings of entries whose prevOffset is not that of the entry before them."""
        for each in breaks:
            moved = "" if not each.shift else f"; shifted by {each.shift:+,} bytes from here on"
            found = f"prevOffset {each.found:#x}{moved}"
            spot = Spot(each.offset, MIN_HEADER_SIZE, f"prevOffset {each.expected:#x}", found)
            yield self._of_spot("prev-offset-mismatch", spot)

    def of_old_deltas(self, deltas: OldDeltas | None) -> Iterator[Finding]:
        """Yield a finding if a file has old BIN-deltas, at which modern engines truncate it.

        A file with a bad header has no such finding: these engines do not open it.
        """
        if deltas is not None and self.file.header.good:
            yield finding(
                self.environment,
                "old-delta-in-v8",
                file_no=self.file.file_no,
                offset=deltas.first,
                found=f"{deltas.count:,} old BIN-deltas, the first one here",
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
        if self._after_header(state.tail) < state.size:
            yield self._of_tail(state, named_last)
        elif self.file.size == 0 and self.is_last:
            spot = Spot(0, 0, "a file header", "an empty file")
            yield self._of_spot("torn-tail", spot, Severity.NOTE)
        elif state.last != NO_OFFSET:
            yield self._of_spot("clean-end", Spot(state.size, 0))

    def _after_header(self, start: int) -> int:
        """Return the start of damage, or the end of a bad header, which has its own finding."""
        in_header = start < FILE_HEADER_SIZE and not self.file.header.good
        begun = self.is_last and self.file.size <= FILE_HEADER_SIZE
        return FILE_HEADER_SIZE if in_header and not begun else start

    def _of_tail(self, state: FileState, named_last: int | None) -> Finding:
        start = self._after_header(state.tail)
        with reopened(self.file.path, state.size) as source:
            blank = source.is_blank(start, min(state.size, FILE_SIZE_MAX))
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
        return replace(
            torn,
            hint="Look for a copy of the file in a backup of the same node: its content is lost.",
        )

    def _words(self, source: Source, gap: Gap) -> str:
        if gap.inserted:
            return "bytes between two adjacent entries"
        if source.is_blank(gap.start, min(gap.stop, gap.start + _PIECE)):
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
        return (f"{claims}, with a wrong checksum" if end == stop else claims), end == stop

    def _of_spot(
        self, code: str, spot: Spot, severity: Severity | None = None, resume: int | None = None
    ) -> Finding:
        hint = CODES[code].hint
        if self.is_last and resume is not None:
            cut = self.file.size - spot.offset
            hint = (
                f"The engine takes this for the end of the log, and cuts off {cut:,} bytes. {hint}"
            )
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
