"""Entries of a log, selected and encoded in the threads that read them, in log order."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from je_tools.entries import EntryTable, build_table
from je_tools.environment import Environment, LogFile, open_environment
from je_tools.formats.je.columns import MAX_ROWS
from je_tools.formats.je.reader import Rows
from je_tools.formats.je.walk import NO_OFFSET
from je_tools.names import NamePart, collect_names, resolve
from je_tools.scan import FileState, Scanner
from je_tools.selection import Selection, TimeMarks, collect_times, time_index

E = TypeVar("E")
Encode = Callable[[EntryTable], E]

POLL_SECONDS = 0.5
"""How often `follow` looks whether the log has grown."""


@dataclass(frozen=True, slots=True)
class Encoded(Generic[E]):
    """Some entries in the form of an output, and how many they are."""

    count: int
    content: E


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a pass over the log in advance has told.

    Attributes:
        names: database names by id.
        selection: with its times, where it asks for them.
    """

    names: Mapping[int, str]
    selection: Selection


@dataclass(frozen=True, slots=True)
class _Told:
    names: NamePart
    times: TimeMarks | None


def read_names_and_times(
    environment: Environment, selection: Selection, scanner: Scanner
) -> Prepared:
    """Names of databases, and times where the selection needs them, from the whole log."""
    fast = scanner.is_fast(environment.size)

    def collect(rows: Rows) -> _Told:
        times = collect_times(rows, fast=fast) if selection.needs_times else None
        return _Told(collect_names(rows, fast=fast), times)

    told = [result for part in scanner.scan(environment, collect) for result in part.results]
    names = resolve(one.names for one in told)
    if selection.needs_times:
        marks = time_index(one.times for one in told if one.times is not None)
        selection = replace(selection, times=marks)
    return Prepared(names, selection)


@dataclass(frozen=True)
class Dump(Generic[E]):
    """How entries are chosen and encoded.

    Attributes:
        selection: which.
        encode: what becomes of a table of them; runs in several threads at once.
        scanner: how the log is read.
        backward: from the end of the log to its beginning.
        limit: how many at most; None for all.
        notice: shown all rows before the selection; runs in several threads at once.
    """

    selection: Selection
    encode: Encode[E]
    scanner: Scanner
    backward: bool = False
    limit: int | None = None
    notice: Callable[[Rows], None] | None = None

    def run(
        self, environment: Environment, ended: Callable[[FileState], None]
    ) -> Iterator[Encoded[E]]:
        """The entries of a log; `ended` is called for each file that was read to its end."""
        wanted = tuple(f for f in environment.files if self.selection.file_is_wanted(f.file_no))
        chosen = replace(environment, files=wanted)
        work = self._work(self.scanner.is_fast(environment.size))
        scan = self.scanner.scan_backward if self.backward else self.scanner.scan
        left = self.limit
        for part in scan(chosen, work):
            for tables in part.results:
                for encode, count in tables[:: -1 if self.backward else 1]:
                    most = count if left is None else min(count, left)
                    yield Encoded(most, encode(most))
                    left = None if left is None else left - most
                    if left == 0:
                        return
            if part.end is not None:
                ended(part.end)

    def _work(self, fast: bool) -> Callable[[Rows], list[tuple[Callable[[int], E], int]]]:
        def work(rows: Rows) -> list[tuple[Callable[[int], E], int]]:
            if self.notice is not None:
                self.notice(rows)
            rows = self.selection.of_headers(rows)
            results = []
            for start in range(0, len(rows), MAX_ROWS):
                some = rows.take(np.arange(start, min(start + MAX_ROWS, len(rows))))
                some = self.selection.of_payloads(some, fast=fast)
                if len(some):
                    results.append((self._encoder(some, fast), len(some)))
            return results

        return work

    def _encoder(self, rows: Rows, fast: bool) -> Callable[[int], E]:
        """Encode at once; with a limit keep a copy, since only later it is known how many."""
        if self.limit is None:
            content = self.encode(build_table(self._ordered(rows), fast=fast))
            return lambda _: content
        first = self._ordered(rows)
        first = first.take(np.arange(min(len(rows), self.limit)))
        kept = replace(first, data=first.data.copy())
        return lambda most: self.encode(build_table(kept.take(np.arange(most)), fast=fast))

    def _ordered(self, rows: Rows) -> Rows:
        return rows.take(np.arange(len(rows))[::-1]) if self.backward else rows


def follow(
    dump: Dump[E], paths: Iterable[Path], environment: Environment, states: list[FileState]
) -> Iterator[Encoded[E]]:
    """Entries that a running engine appends behind what was read, across file flips, for ever.

    Args:
        dump: how they are chosen and encoded.
        paths: what `open_environment` opens.
        environment: what was read already.
        states: the state of its files at their ends.
    """
    paths = list(paths)
    last = environment.files[-1]
    at = next((s.tail for s in states if s.file.file_no == last.file_no), 0)
    while True:
        environment = open_environment(paths)
        later = [f for f in environment.files if f.file_no >= last.file_no]
        for file in later:
            start = at if file.file_no == last.file_no else 0
            end = yield from _read_on(dump, environment, file, start)
            last, at = file, end
        time.sleep(POLL_SECONDS)


def _read_on(
    dump: Dump[E], environment: Environment, file: LogFile, start: int
) -> Generator[Encoded[E], None, int]:
    """Entries of one file from `start`; gives where the last whole one ends."""
    if file.size <= start:
        return start
    one = replace(environment, files=(file,))
    scanner = replace(dump.scanner, start=start)
    ends: list[FileState] = []
    yield from replace(dump, scanner=scanner).run(one, ends.append)
    tail = ends[-1].tail if ends else start
    return tail if tail != NO_OFFSET else start
