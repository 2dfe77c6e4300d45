"""Dump: entries of a log, selected and encoded in the threads that read them, in log order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.core.worker_processes import PROCESSES_FROM
from je_tools.errors import InputError
from je_tools.formats.je.entry.columns import MAX_ROWS
from je_tools.formats.je.header import lsn_text
from je_tools.formats.spans import TooLongError
from je_tools.log.entry_table import EntryTable, build_table
from je_tools.log.names import NamePart, collect_names, resolve
from je_tools.log.scan import Scanner
from je_tools.log.scan_options import ENCODERS_MAX, Progress
from je_tools.log.time_filter import TimeMarks, collect_times, time_index
from je_tools.verify.watched_entries import watched_entries

if TYPE_CHECKING:
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import FileState, ScanPart
    from je_tools.log.selection import Selection
    from je_tools.verify.judge import InspectedRows, Judge

E = TypeVar("E")
W = TypeVar("W")
Encode = Callable[[EntryTable], E]


PACKED_READINGS = 2
"""Number of windows in a range whose pieces are packed into one: 5 MB of log."""


class Encoded(Struct, Generic[E], frozen=True):
    """Encoded entries, and their number."""

    count: int
    content: E


class ResolvedSelection(Struct, frozen=True):
    """A selection with everything that a pass over the log adds to it.

    Attributes:
        names: database names by id.
        selection: the selection, with times and ids of databases if it needs them.
    """

    names: Mapping[int, str]
    selection: Selection


class _PassResult(Struct, frozen=True):
    names: NamePart
    times: TimeMarks | None
    judged: InspectedRows | None


def read_names_and_times(
    environment: Environment, selection: Selection, scanner: Scanner, judge: Judge | None = None
) -> ResolvedSelection:
    """Read the names of databases, and times if the selection needs them, from the whole log.

    The judge sees the whole log, whatever is selected.
    """
    window = selection.window
    names: list[NamePart] = []

    def collect(rows: Rows) -> _PassResult:
        times = None if window is None else collect_times(rows, window)
        return _PassResult(collect_names(rows), times, judge.inspector(rows) if judge else None)

    def times() -> Iterator[TimeMarks]:
        # Decoding of times needs far more memory than the range itself: keep ranges narrow then.
        noting = replace(scanner, wide=window is None, watched=watched_entries)
        for part in noting.scan(environment, collect):
            if judge is not None:
                judge.merge(part, [result.judged for result in part.results if result.judged])
            for result in part.results:
                names.append(result.names)
                if result.times is not None:
                    yield result.times

    if window is None:
        list(times())
    else:
        selection = replace(selection, times=time_index(times(), window))
    if judge is not None:
        judge.finish()
    return ResolvedSelection(resolve(names), selection)


class Dump(Struct, Generic[E], frozen=True):
    """Selection and encoding of entries.

    Attributes:
        selection: the entries to encode.
        encode: encodes a table of entries; runs in several threads or processes at once.
        scanner: options of the scan.
        backward: go from the end of the log to its beginning.
        limit: largest number of entries; None for all.
        ships: True if encoded entries may be sent from one process to another.
        look_up: called with each table before it is encoded, in the same thread or process.
        inspector: called with all rows of a range; its result goes to `on_range` of `run`.
        pack: combines all pieces of a long range into one, in the process that reads it.
        build: decodes the fields that `encode` uses: `build_table`, or one that decodes less.
    """

    selection: Selection
    encode: Encode[E]
    scanner: Scanner
    backward: bool = False
    limit: int | None = None
    ships: bool = False
    look_up: Callable[[EntryTable], None] | None = None
    inspector: Callable[[Rows], InspectedRows] | None = None
    build: Callable[..., EntryTable] = build_table
    pack: Callable[[Iterator[Any]], E] | None = None

    def run(
        self,
        environment: Environment,
        on_file_end: Callable[[FileState], None],
        on_range: Callable[[ScanPart[Any], list[InspectedRows]], object] | None = None,
    ) -> Iterator[Encoded[E]]:
        """Yield the encoded entries of a log.

        Args:
            environment: the log.
            on_file_end: called for each file that was read to its end.
            on_range: called for each range, in log order, with the results of `inspector`;
                not called by a limited dump.
        """
        chosen = self.wanted_files(environment)
        if self.limit is not None:
            yield from self._run_limited(chosen, on_file_end)
            return
        work = partial(_encoded, replace(self, scanner=Scanner()))
        for part in self._parts(chosen, work):
            if on_range is not None:
                on_range(part, [result.seen for result in part.results if result.seen is not None])
            for result in _handed_over(part.results):
                yield from _handed_over(result.pieces)
                del result
            if part.end is not None:
                on_file_end(part.end)

    def wanted_files(self, environment: Environment) -> Environment:
        """Return the log without the files that hold nothing of the selection."""
        wanted = tuple(f for f in environment.files if self.selection.file_is_wanted(f.file_no))
        return replace(environment, files=wanted)

    def _parts(self, environment: Environment, work: Callable[[Rows], W]) -> Iterator[ScanPart[W]]:
        if self.backward:
            work = _with_progress(work, self.scanner.progress)
            return self.scanner.scan_backward(environment, work)
        processes = self.scanner.processes or self._suits_processes(environment)
        threads = self.scanner.threads or min(self.scanner.thread_count(), ENCODERS_MAX)
        scanner = replace(self.scanner, processes=processes, threads=threads)
        if self.inspector is not None:
            scanner = replace(scanner, watched=watched_entries)
        if self.pack is not None:
            pack = partial(_packed, self.pack)
            scanner = replace(scanner, processes=True, readings=PACKED_READINGS, pack=pack)
        return scanner.scan(environment, work)

    def _suits_processes(self, environment: Environment) -> bool:
        """Return whether processes are worth their start: encoding is mostly Python."""
        is_long = sum(file.size for file in environment.files) >= PROCESSES_FROM
        encodes_there = self.ships and self.limit is None
        return is_long and encodes_there

    def _run_limited(
        self, environment: Environment, on_file_end: Callable[[FileState], None]
    ) -> Iterator[Encoded[E]]:
        """Yield the first entries, encoded piece by piece as they are requested."""
        left = self.limit or 0
        for part in self._parts(environment, partial(_copied, self)):
            for rows in (rows for pieces in part.results for rows in pieces):
                some = rows.select(np.arange(min(left, len(rows))))
                yield _encode(self, some)
                left -= len(some)
                if not left:
                    return
            if part.end is not None:
                on_file_end(part.end)

    def encode_rows(self, rows: Rows) -> list[Encoded[E]]:
        """Return the selected entries of `rows`, encoded."""
        return [_encode(self, piece) for piece in self.choose(rows)]

    def choose(self, rows: Rows) -> Iterator[Rows]:
        """Yield the selected entries of `rows` in pieces of at most MAX_ROWS, in dump order."""
        rows = self.selection.of_headers(rows)
        starts = range(0, len(rows), MAX_ROWS)
        for start in reversed(starts) if self.backward else starts:
            some = rows.select(np.arange(start, min(start + MAX_ROWS, len(rows))))
            some = self.selection.of_payloads(some)
            if len(some):
                yield some.select(np.arange(len(some))[::-1]) if self.backward else some


def contents(pieces: Iterable[Encoded[E]]) -> Iterator[E]:
    """Return an iterator over the encoded contents that keeps none of them."""
    return map(attrgetter("content"), pieces)


def _with_progress(work: Callable[[Rows], W], progress: Progress | None) -> Callable[[Rows], W]:
    """Return work that reports its bytes as progress when it is done."""

    def reporting(rows: Rows) -> W:
        done = work(rows)
        if progress is not None:
            progress(int(rows.size.sum()))
        return done

    return reporting


def _handed_over(items: list[W]) -> Iterator[W]:
    """Yield the items and remove each from the list first: batches are large."""
    items.reverse()
    while items:
        yield items.pop()


class _RangeResult(Struct, Generic[E], frozen=True):
    """Result of an unlimited dump for some rows of a range."""

    pieces: list[Encoded[E]]
    seen: InspectedRows | None


def _encoded(dump: Dump[E], rows: Rows) -> _RangeResult[E]:
    """Encode rows for an unlimited dump."""
    seen = dump.inspector(rows) if dump.inspector is not None else None
    return _RangeResult(dump.encode_rows(rows), seen)


def _packed(
    pack: Callable[[Iterator[Any]], E], results: Iterator[_RangeResult[Any]]
) -> list[_RangeResult[E]]:
    """Return the results of a range with all their pieces, if any, packed into one."""
    seen: list[_RangeResult[E]] = []
    counts: list[int] = []

    def pieces() -> Iterator[Any]:
        for result in results:
            seen.append(_RangeResult([], result.seen))
            for piece in _handed_over(result.pieces):
                counts.append(piece.count)
                yield piece.content
                del piece

    coming = pieces()
    for first in coming:
        content = pack(chain([first], coming))
        return [*seen, _RangeResult([Encoded(sum(counts), content)], None)]
    return seen


def _encode(dump: Dump[E], rows: Rows) -> Encoded[E]:
    table = dump.build(rows)
    if dump.look_up is not None:
        dump.look_up(table)
    try:
        return Encoded(len(rows), dump.encode(table))
    except TooLongError as error:
        longest = int(rows.lsn[np.argmax(rows.item_size)])
        where = f"the entry at {lsn_text(longest)}"
        raise InputError(
            f"{where}: keys or values too long for this output ({error}); "
            "try --data length, or leave the entry out with --from-lsn and --to-lsn"
        ) from error


def _copied(dump: Dump[E], rows: Rows) -> list[Rows]:
    """Copy the chosen rows for a limited dump, which encodes only as many as it yields."""
    pieces = (p.select(np.arange(min(len(p), dump.limit or 0))) for p in dump.choose(rows))
    return [replace(piece, data=piece.data.copy()) for piece in pieces]
