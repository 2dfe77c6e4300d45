"""Tasks of a read of entries: files or pieces of files, and how to read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.core.shares import shares_of
from je_tools.dump.entries import ResolvedSelection
from je_tools.formats.files.remote_path import RemotePath
from je_tools.formats.je.header import lsn_of
from je_tools.log.file_scan import FilePiece
from je_tools.log.scan import Scanner
from je_tools.spark.entry_names import NameResolver
from je_tools.spark.entry_reading import EntryTask, LogPieces

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.log.selection import Selection
    from je_tools.spark.query import CommonOptions, Task

CUT_RATIO = 2
"""Size, in shares of a task, above which a file is cut: cutting it reads all its headers.

A file in an object store is left whole: its headers lie in blocks that would be fetched twice.
"""


class LogPiece(Struct, frozen=True):
    """A piece of a file, and the index of its log."""

    log_no: int
    piece: FilePiece

    @property
    def size(self) -> int:
        """Number of bytes to read."""
        return _stop(self.piece) - self.piece.place.at


class EntryQuery(Struct, frozen=True):
    """Parsed options of a read of entries.

    Attributes:
        common: options that all sources have.
        selection: entries to read; databases and times are resolved later.
        masking: masking of keys and values, the same in every task.
        databases: names and ids of the wanted databases; empty for all.
        file_nos: ranges (first, last) of the numbers of wanted files; empty for all.
        check: True to verify the checksum of every entry.
    """

    common: CommonOptions
    selection: Selection
    masking: Masking
    databases: tuple[str, ...] = ()
    file_nos: tuple[tuple[int, int], ...] = ()
    check: bool = True

    def tasks(self, columns: tuple[str, ...], cores: int) -> list[Task]:
        """Return tasks that together yield every selected entry once.

        Names and times are found by reading a whole log. If one task reads all of a log, it does
        that; otherwise it is done here. Apart from that, files are only opened, and the headers of
        large ones read.

        Raises:
            UsageError: a wanted database is not in the only log.
            StoppedError: a file shrank, vanished or was replaced meanwhile.
            InputError: a file cannot be read.
        """
        logs = self.common.places.readable()
        files = [(no, f) for no, log in enumerate(logs) for f in log.environment.files]
        wanted = [(no, file) for no, file in files if self.wants(file.file_no)]
        share = self.common.share(sum(file.size for _, file in wanted), cores)
        pieces = [LogPiece(no, each) for no, f in wanted for each in self.cut(FilePiece(f), share)]
        resolver = self.resolver("db" in columns, must_exist=len(logs) == 1)
        counts = Counter(each.log_no for each in pieces)
        known: dict[int, ResolvedSelection] = {}

        def part_of(log_no: int, own: tuple[FilePiece, ...]) -> LogPieces:
            log = logs[log_no]
            if not resolver.is_needed:
                return LogPieces(log.env, own, ResolvedSelection({}, self.selection))
            if len(logs) > 1 and len(own) == counts[log_no]:
                return LogPieces(log.env, own, None, resolver, log.environment)
            if log_no not in known:
                known[log_no] = resolver.resolve(log.environment)
            return LogPieces(log.env, own, known[log_no])

        return self.tasks_for(pieces, share, part_of, columns)

    def resolver(self, shows_names: bool, *, must_exist: bool) -> NameResolver:
        """Return the resolver of names and times for this read."""
        return NameResolver(self.selection, self.databases, shows_names, self.check, must_exist)

    def wants(self, file_no: int) -> bool:
        """Return whether a file may hold entries that are selected."""
        in_ranges = any(first <= file_no <= last for first, last in self.file_nos)
        return (in_ranges or not self.file_nos) and self.selection.file_is_wanted(file_no)

    def tasks_for(
        self,
        pieces: Sequence[LogPiece],
        share: int,
        part_of: Callable[[int, tuple[FilePiece, ...]], LogPieces],
        columns: tuple[str, ...],
    ) -> list[Task]:
        """Return tasks for pieces, in their order.

        Args:
            pieces: pieces, those of one log together.
            share: approximate number of bytes of a task.
            part_of: returns the input for pieces of one log.
            columns: names of the columns, in order.
        """
        tasks: list[Task] = []
        for group in shares_of(pieces, lambda piece: piece.size, share):
            by_log = groupby(group, lambda each: each.log_no)
            parts = tuple(part_of(no, tuple(each.piece for each in own)) for no, own in by_log)
            tasks.append(EntryTask(parts, columns, self.masking, self.check))
        return tasks

    def cut(self, piece: FilePiece, share: int) -> Iterator[FilePiece]:
        """Yield a piece of a file, or parts of it if it is a large whole file on this host."""
        is_remote = isinstance(piece.file.path, RemotePath)
        if piece.place.at or is_remote or piece.file.size <= CUT_RATIO * share:
            yield piece
            return
        scanner = Scanner(check=self.check, threads=1)
        for part in scanner.cut(piece.file, share):
            if _is_wanted(part, self.selection):
                yield part


def _stop(piece: FilePiece) -> int:
    return piece.file.size if piece.stop is None else piece.stop


def _is_wanted(piece: FilePiece, selection: Selection) -> bool:
    """Return True if any LSN of a piece can be selected."""
    file_no = piece.file.file_no
    first = lsn_of(file_no, piece.place.at)
    last = lsn_of(file_no, _stop(piece) - 1)
    too_early = selection.from_lsn is not None and last < selection.from_lsn
    return not too_early and (selection.to_lsn is None or first <= selection.to_lsn)
