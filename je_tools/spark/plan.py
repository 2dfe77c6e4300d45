"""Tasks of a read: files or pieces of files, and how to read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from je_tools.dump.entries import read_names_and_times
from je_tools.formats.je.header import lsn_of
from je_tools.log.file_scan import FilePiece
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.log.selection import Selection, database_ids
from je_tools.spark.columns import spark_schema
from je_tools.spark.options import SourceOptions, as_option

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.log.log_files import LogFile

TASK_SIZE = 64 << 20
"""Bytes of log that a task reads: consecutive files, one file, or a piece of one."""

CUT_FROM = 256 << 20
"""Size in bytes above which a file is cut into pieces."""


class Task(Struct, frozen=True):
    """Input of one task; it pickles.

    Attributes:
        pieces: pieces of files, in log order.
        selection: entries to read.
        names: names of databases by id; empty if no column has them.
        masking: masking of keys and values, the same in every task.
        columns: names of the columns, in order.
        versions: log versions of the whole log, which determine the types of columns.
        check: True to verify the checksum of every entry.
    """

    pieces: tuple[FilePiece, ...]
    selection: Selection
    names: Mapping[int, str]
    masking: Masking
    columns: tuple[str, ...]
    versions: frozenset[int]
    check: bool

    @property
    def size(self) -> int:
        """Number of bytes to read."""
        return sum(_size(piece) for piece in self.pieces)


class Planner:
    """A read of one log, from its options to its tasks.

    Attributes:
        options: options of the read.
        masking: masking of keys and values.
        environment: the log as it is now.
    """

    def __init__(self, options: SourceOptions, masking: Masking) -> None:
        self.options = options
        self.masking = masking
        self.environment = open_environment(options.paths)

    @property
    def versions(self) -> frozenset[int]:
        """Log versions of the files."""
        return frozenset(file.version for file in self.environment.files)

    @property
    def schema(self) -> Any:
        """Arrow schema of the read."""
        return spark_schema(self.versions, self.options.columns)

    def tasks(self) -> list[Task]:
        """Return tasks that together yield every selected entry once.

        Names and times take the whole log, so it is read here if they are needed. Otherwise files
        are only opened, and large ones walked through.

        Raises:
            UsageError: a wanted database is not in the log.
            StoppedError: a file shrank, vanished or was replaced meanwhile.
            InputError: a file cannot be read.
        """
        columns = tuple(self.schema.names)
        selection = self.options.selection
        files = [f for f in self.environment.files if selection.file_is_wanted(f.file_no)]
        if not files:
            return []
        selection, names = self._resolved("db" in columns)
        scanner = Scanner(check=self.options.check, threads=1)
        return [
            Task(
                tuple(group),
                selection,
                names,
                self.masking,
                columns,
                self.versions,
                self.options.check,
            )
            for group in _groups(_pieces(files, scanner, selection))
        ]

    def _resolved(self, shows_names: bool) -> tuple[Selection, Mapping[int, str]]:
        """Return the selection with databases and times resolved, and the names to show."""
        selection, wanted = self.options.selection, self.options.databases
        if not (shows_names or wanted or selection.needs_times):
            return selection, {}
        scanner = Scanner(check=self.options.check)
        prepared = read_names_and_times(self.environment, selection, scanner)
        selection = prepared.selection
        if wanted:
            with as_option("db"):
                ids = database_ids(wanted, prepared.names)
            selection = replace(selection, db_ids=ids)
        return selection, prepared.names if shows_names else {}


def _size(piece: FilePiece) -> int:
    return (piece.file.size if piece.stop is None else piece.stop) - piece.place.at


def _pieces(
    files: Iterable[LogFile], scanner: Scanner, selection: Selection
) -> Iterator[FilePiece]:
    for file in files:
        if file.size > CUT_FROM:
            pieces = scanner.cut(file, TASK_SIZE)
            yield from (piece for piece in pieces if _is_wanted(piece, selection))
        else:
            yield FilePiece(file)


def _is_wanted(piece: FilePiece, selection: Selection) -> bool:
    """Return True if any LSN of a piece can be selected."""
    file_no = piece.file.file_no
    first = lsn_of(file_no, piece.place.at)
    last = lsn_of(file_no, (piece.file.size if piece.stop is None else piece.stop) - 1)
    too_early = selection.from_lsn is not None and last < selection.from_lsn
    return not too_early and (selection.to_lsn is None or first <= selection.to_lsn)


def _groups(pieces: Iterable[FilePiece]) -> Iterator[list[FilePiece]]:
    group: list[FilePiece] = []
    size = 0
    for piece in pieces:
        if group and size + _size(piece) > TASK_SIZE:
            yield group
            group, size = [], 0
        group.append(piece)
        size += _size(piece)
    if group:
        yield group
