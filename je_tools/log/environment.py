"""Environments: the files of a log on disk, their order and their headers.

Opening takes no lock and writes nothing.

Source: je-log.md "Files" and "The file header"; FileManager, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.errors import InputError, StoppedError, UsageError
from je_tools.formats.je.entries import EntryError, decode_entry, entry_checksum
from je_tools.formats.je.header import FILE_HEADER_SIZE
from je_tools.formats.je.types import FILE_HEADER_NO, LOG_VERSION_MAX
from je_tools.formats.je.versions import fitting_versions, stored_version
from je_tools.formats.source import Source, SourceChangedError

MARKER_FILE_NO = 0x7FFFFFFF
"""Number of the file that an unfinished network restore or a detected corruption leaves."""

DEFAULT_VERSION = LOG_VERSION_MAX
"""Log version assumed if a file's header, its entries and other files do not give it."""

_LOG_NAME = re.compile(r"([0-9a-fA-F]{8})\.(jdb|del|bad|bup)(?:\.[0-9]+)?", re.IGNORECASE)
_DATA_DIRECTORY = re.compile(r"data[0-9]{3}")
_BAD_SUM = "checksum is wrong"


class FileHeader(Struct, frozen=True):
    """The first entry of a file, as far as it can be read.

    Attributes:
        good: True if type, size and checksum are right and the version is supported.
        file_no, created_ms, last_entry_in_prev_file_offset, version: as stored; None if the
            header does not decode.
        problem: description of what is wrong; None if good.
        is_unsupported: True if nothing is wrong except that the version is not supported.
        claim: version that a damaged header seems to name.
    """

    good: bool
    file_no: int | None = None
    created_ms: int | None = None
    last_entry_in_prev_file_offset: int | None = None
    version: int | None = None
    problem: str | None = None
    is_unsupported: bool = False
    claim: int | None = None


class VersionBy(StrEnum):
    """Source of a file's log version, the most certain first."""

    HEADER = "header"
    """Its header, with a right checksum."""
    ENTRIES = "entries"
    """Its entries, which make sense in this version."""
    FILES = "files"
    """The nearest file whose version is known."""
    CLAIM = "claim"
    """A damaged header."""
    NOTHING = "nothing"


_BY_TEXTS = {
    VersionBy.HEADER: "as its header says",
    VersionBy.ENTRIES: "which its entries fit",
    VersionBy.FILES: "as a file beside it",
    VersionBy.CLAIM: "which a damaged header names",
    VersionBy.NOTHING: "the newest, for want of anything that tells it",
}


class LogFile(Struct, frozen=True):
    """One log file.

    Attributes:
        path: path of the file.
        file_no: number in its name, or in its header if the name has none.
        size: bytes when the environment was opened.
        header: its first entry.
        version: log version of its entries.
        by: source of the version.
        fits: if the header is bad, versions in which the file's entries make sense.
    """

    path: Path
    file_no: int
    size: int
    header: FileHeader
    version: int
    by: VersionBy = VersionBy.HEADER
    fits: frozenset[int] = frozenset()

    @property
    def is_guessed(self) -> bool:
        """True if the version is not that of a good header, and there is something to read."""
        return self.by is not VersionBy.HEADER and self.size > FILE_HEADER_SIZE

    @property
    def version_text(self) -> str:
        """The version and its source in words."""
        return f"read as log version {self.version}, {_BY_TEXTS[self.by]}"

    @property
    def is_begun(self) -> bool:
        """True unless the file's writer died before its header was complete."""
        return self.header.good or self.size > FILE_HEADER_SIZE

    @property
    def home(self) -> Path:
        """Home directory of the environment, derived from the file's path."""
        return _home(self.path)


class Unreadable(Struct, frozen=True):
    """A log file that exists and cannot be opened.

    Attributes:
        path: path of the file.
        file_no: number in its name.
        size: bytes; 0 if unknown.
        reason: error of the operating system.
    """

    path: Path
    file_no: int
    size: int
    reason: str

    def as_log_file(self) -> LogFile:
        """Return the file as a log file without content."""
        header = FileHeader(good=False, problem=self.reason)
        by = VersionBy.NOTHING
        return LogFile(self.path, self.file_no, self.size, header, DEFAULT_VERSION, by)


class Misnamed(Struct, frozen=True):
    """A log file that was renamed or swapped.

    Attributes:
        path: path of the file.
        name_no, header_no: number in its name, and in its header.
        file_no: the one of the two under which it is read.
    """

    path: Path
    name_no: int
    header_no: int
    file_no: int

    @property
    def text(self) -> str:
        """The number under which it is read and the reason, in words."""
        if self.file_no == self.header_no:
            return f"read as file {self.file_no:#x}, as its header says"
        return (
            f"read as file {self.file_no:#x}, as its name says, since another file may be "
            f"{self.header_no:#x} too; if it is a copy, what it holds is older than it seems: "
            "salvage the others without it"
        )


class Environment(Struct, frozen=True, dict=True):
    """A directory of log files, or files named one by one.

    Attributes:
        name: as the user wrote it; the home directory of several files named one by one.
        files: in log order, without the marker file unless it is the only file.
        marker: the file 7fffffff.jdb, if there is one.
        is_directory: True for a whole environment, in which a missing file means something.
        folders: names of the data directories, in order; empty if the files lie in the home.
        unreadable: files that could not be opened, by number; empty unless `keep_going` was set.
    """

    name: str
    files: tuple[LogFile, ...]
    marker: LogFile | None
    is_directory: bool
    folders: tuple[str, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()

    @property
    def size(self) -> int:
        """Total bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def numbers(self) -> list[int]:
        """Numbers of the existing files, ascending, whether or not they could be opened."""
        opened = [file.file_no for file in self.files]
        return sorted({*opened, *(file.file_no for file in self.unreadable)})

    @property
    def misnamed(self) -> tuple[Misnamed, ...]:
        """Files whose good header has another number than their name."""
        found = []
        for file in self.files:
            name_no, header_no = log_file_no(file.path), file.header.file_no
            if file.header.good and header_no is not None and name_no not in (None, header_no):
                found.append(Misnamed(file.path, name_no, header_no, file.file_no))
        return tuple(found)

    @cached_property
    def ends(self) -> frozenset[int]:
        """Indexes of the files in which the log may end, so that a torn tail there is no damage.

        A crash right after a file was created leaves it empty, or with a header alone; the engine
        then uses the file before it as the last. The engine refuses an environment that holds
        nothing but torn headers, so none of its files is an end. Among files named one by one,
        each file that is not followed by the next number is a last one. A log does not end before
        a file that cannot be read.

        Source: LastFileReader.startAtLastGoodFile, RecoveryManager.findEndOfLog, JE 7.5.11.
        """
        files = self.files
        if self.is_directory and not any(file.is_begun for file in files):
            return frozenset()
        ends: set[int] = set()
        if not self.is_directory:
            numbers = set(self.numbers)
            ends = {i for i, file in enumerate(files) if file.file_no + 1 not in numbers}
        if self.unreadable and self.unreadable[-1].file_no > files[-1].file_no:
            return frozenset(ends)
        for i in reversed(range(len(files))):
            ends.add(i)
            if files[i].size > FILE_HEADER_SIZE:
                break
        return frozenset(ends)

    @cached_property
    def missing(self) -> tuple[tuple[int, int], ...]:
        """Ranges (first, last) of file numbers that a whole environment lacks or cannot read."""
        return self._without(file.file_no for file in self.files)

    @property
    def absent(self) -> tuple[tuple[int, int], ...]:
        """Ranges (first, last) of numbers that no file of a whole environment has."""
        return self._without(self.numbers)

    def _without(self, numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
        """Return the ranges between ascending numbers, from 0; none if not a whole environment."""
        ranges = []
        expected = 0
        for number in numbers if self.is_directory else ():
            if number > expected:
                ranges.append((expected, number - 1))
            expected = number + 1
        return tuple(ranges)

    def spelled(self, file_no: int | None) -> str:
        """Return the name of the log in a finding: the path of a file that was named itself.

        This name finds the file again, whatever its suffix.
        """
        return self.name if file_no is None else self._named.get(file_no, self.name)

    @cached_property
    def _named(self) -> Mapping[int, str]:
        if self.is_directory:
            return {}
        files = [*self.files, *([self.marker] if self.marker else [])]
        return {file.file_no: str(file.path) for file in files}

    @cached_property
    def places(self) -> Mapping[Path, int]:
        """Index in `files` of each path."""
        return {file.path: i for i, file in enumerate(self.files)}


def open_environment(
    paths: Sequence[Path], known: Environment | None = None, *, keep_going: bool = False
) -> Environment:
    """Open a log: one directory (with its data001… directories), or one or more files.

    Args:
        paths: paths that the user named.
        known: the same log opened earlier. Then only files are opened that are new, were the
            last one, or had neither a good header nor entries that fit a version.
        keep_going: put files that cannot be opened into `unreadable`, unless none can.

    Raises:
        InputError: nothing found, or not a log; a file cannot be opened.
        UsageError: nothing named, several logs, or two files with one number.
        StoppedError: a file vanished between listing and opening it.
    """
    if not paths:
        raise UsageError("no environment directory and no log file was named")
    for path in paths:
        try:
            exists = path.exists()
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
        if not exists:
            raise InputError(f"{path}: no such file or directory")
    files = _Files(_complete_files(known), keep_going)
    if len(paths) == 1 and paths[0].is_dir():
        return _open_directory(paths[0], str(paths[0]), files)
    name = _name_of_files(paths)
    files.open(paths)
    return _make(name, files, is_directory=False)


@contextmanager
def reopened(path: Path, size: int = 0) -> Iterator[Source]:
    """Reopen a file that has been read before.

    Args:
        path: path of the file.
        size: bytes that it had then.

    Raises:
        StoppedError: it has vanished or is shorter now, or changes during the body.
        InputError: it cannot be read any more.
    """
    try:
        with Source(path) as source:
            if source.size < size:
                raise StoppedError(
                    f"{path}: shrank from {size} to {source.size} bytes while the log was read"
                )
            yield source
    except SourceChangedError as error:
        raise StoppedError(str(error)) from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def check_numbers(environment: Environment) -> None:
    """Check that no two files have the same number, so that an LSN means one place.

    Raises:
        InputError: two files have the same number.
    """
    found: list[LogFile | Unreadable] = [*environment.files, *environment.unreadable]
    found.sort(key=lambda file: (file.file_no, str(file.path)))
    for one, other in pairwise(found):
        if one.file_no == other.file_no:
            raise InputError(
                f"{_same_number(one, other)}. Find out which one belongs to this log "
                "(`je-tools summary` shows what is in each), and look at a copy without the other; "
                "`je-tools salvage FILE --output DIR` reads each by itself"
            )


def _same_number(one: LogFile | Unreadable, other: LogFile | Unreadable) -> str:
    return (
        f"{one.path} and {other.path} both are file {one.file_no:#x} of the log, so an LSN would "
        "not tell which is meant"
    )


def _by_header(file: LogFile) -> LogFile:
    if not file.header.good or file.header.file_no is None:
        return file
    return replace(file, file_no=file.header.file_no)


def numbered_by_headers(environment: Environment) -> Environment:
    """Return the log with each file under the number in its good header.

    A rename or a careless restore changes a name; the header is part of the file and has a
    checksum. `Environment.misnamed` lists the files whose numbers differ. Files keep the numbers
    in their names if a number is in several headers, or in one header and the name of a file
    without a good header.

    Raises:
        InputError: two files have the same number in their names.
    """
    check_numbers(environment)
    files = list(map(_by_header, environment.files))
    while True:
        counts = Counter([file.file_no for file in files])
        counts.update(file.file_no for file in environment.unreadable)
        pairs = list(zip(files, environment.files, strict=True))
        doubtful = [file for file, named in pairs if file != named and counts[file.file_no] > 1]
        if not doubtful:
            break
        files = [named if file in doubtful else file for file, named in pairs]
    files.sort(key=lambda file: (file.file_no, str(file.path)))
    return replace(environment, files=tuple(files))


def log_file_no(path: Path) -> int | None:
    """Return the file number in a log file's name, or None if it is not such a name."""
    match = _LOG_NAME.fullmatch(path.name)
    return int(match[1], 16) if match else None


def read_file_header(source: Source) -> FileHeader:
    """Read the file header of an open log file; never raise on damaged bytes."""
    data = source.read_bytes(0, FILE_HEADER_SIZE)
    if len(data) < FILE_HEADER_SIZE:
        return FileHeader(good=False, problem=f"{len(data)} bytes, a header has {FILE_HEADER_SIZE}")
    if data[4] != FILE_HEADER_NO:
        found = f"entry type {data[4]} instead of {FILE_HEADER_NO}"
        return FileHeader(good=False, problem=found, claim=stored_version(data))
    try:
        fields = decode_entry(data, LOG_VERSION_MAX).fields
    except EntryError as error:
        return FileHeader(good=False, problem=str(error), claim=stored_version(data))
    problem: str | None = None
    version = fields["log_version"]
    is_supported = 1 <= version <= LOG_VERSION_MAX
    if entry_checksum(data, version) != int.from_bytes(data[:4], "little"):
        problem = _BAD_SUM
    elif not is_supported:
        problem = f"log version {version}, known are 1 to {LOG_VERSION_MAX}"
    return FileHeader(
        good=problem is None,
        file_no=fields["header_file_no"],
        created_ms=fields["created_ms"],
        last_entry_in_prev_file_offset=fields["last_entry_in_prev_file_offset"],
        version=version,
        problem=problem,
        is_unsupported=not is_supported and problem != _BAD_SUM,
        claim=stored_version(data) if problem == _BAD_SUM else None,
    )


def _name_of_files(paths: Sequence[Path]) -> str:
    """Return a name for files of one log: the path of a single file, the home of several.

    Raises:
        UsageError: they lie in different environments, or one of several is a directory.
        InputError: one is not a file.
    """
    for path in paths:
        if path.is_dir():
            raise UsageError(
                f"{path}: a directory beside other paths. One command reads one log: run one with "
                "each directory, or name log files of one"
            )
        if not path.is_file():
            raise InputError(f"{path}: neither a directory nor a regular file")
    homes: dict[Path, Path] = {}
    for path in paths:
        homes.setdefault(_home(path), path)
    (home, first), *others = homes.items()
    for other, path in others:
        if other.resolve() != home.resolve():
            raise UsageError(
                f"{first} and {path} are in different directories. One command reads one log, "
                "whose files lie in one directory (data001, data002, ... of one environment count "
                "as one): run one command per directory"
            )
    return str(paths[0] if len(paths) == 1 else home)


def _home(path: Path) -> Path:
    """Return the environment's home by the path of a file; symbolic links are not followed."""
    folder = path.parent
    if not is_data_directory_name(folder.absolute().name):
        return folder
    return folder.parent if folder.name else Path("..")


def _complete_files(known: Environment | None) -> dict[Path, LogFile]:
    """Return the files that the engine no longer writes and that need no second opening."""
    files = known.files if known is not None else ()
    return {file.path: file for file in files[:-1] if file.header.good or file.fits}


def _open_directory(path: Path, name: str, files: _Files) -> Environment:
    try:
        folders = sorted(_names(path, _is_data_directory))
        found = [p for folder in (path, *folders) for p in _names(folder, _is_log)]
    except OSError as error:
        raise InputError(f"{error.filename or path}: {error.strerror}") from error
    if not found:
        raise InputError(
            f"{path}: no .jdb files here. Name the environment's home, the directory that holds "
            "00000000.jdb and its like (of a StarRocks or Doris front end: meta/bdb)."
        )
    files.open(found)
    return _make(name, files, is_directory=True, folders=tuple(p.name for p in folders))


def _names(folder: Path, is_wanted: Callable[[os.DirEntry[str]], bool]) -> list[Path]:
    """Return the wanted paths in a folder, without a stat of each file."""
    with os.scandir(folder) as entries:
        return [folder / entry.name for entry in entries if is_wanted(entry)]


def is_data_directory_name(name: str) -> bool:
    """Return whether a folder of this name is a data directory of an environment."""
    return _DATA_DIRECTORY.fullmatch(name) is not None


def is_jdb_name(name: str) -> bool:
    """Return whether a file of this name is part of the log, not put aside as `.del` or `.bad`."""
    match = _LOG_NAME.fullmatch(name)
    return match is not None and match[2].lower() == "jdb"


def _is_data_directory(entry: os.DirEntry[str]) -> bool:
    return is_data_directory_name(entry.name) and entry.is_dir()


def _is_log(entry: os.DirEntry[str]) -> bool:
    return is_jdb_name(entry.name) and entry.is_file()


class _Files(Struct):
    """Files of a log as they are opened.

    Attributes:
        complete: files of an earlier opening that need no second one.
        keep_going: files that cannot be opened are no error.
        opened, unreadable: the files, in any order.
    """

    complete: Mapping[Path, LogFile]
    keep_going: bool
    opened: list[LogFile] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)

    def open(self, paths: Iterable[Path]) -> None:
        """Open files.

        Raises:
            InputError: one cannot be opened and `keep_going` is not set, or none can be opened.
            StoppedError: one has vanished since it was listed.
        """
        refused: InputError | None = None
        for path in paths:
            try:
                self.opened.append(self.complete.get(path) or _open_file(path))
            except InputError as error:
                refused = refused or error
                file_no = log_file_no(path)
                if not self.keep_going or file_no is None:
                    raise
                self.unreadable.append(Unreadable(path, file_no, _size(path), reason_of(error)))
        if refused is not None and not self.opened:
            raise refused


def reason_of(error: InputError) -> str:
    """Return the operating system's reason why a file cannot be opened."""
    cause = error.__cause__
    return (cause.strerror if isinstance(cause, OSError) else None) or str(error)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _open_file(path: Path) -> LogFile:
    fits: frozenset[int] = frozenset()
    with reopened(path) as source:
        header = read_file_header(source)
        size = source.size
        if size > FILE_HEADER_SIZE and not header.good and not header.is_unsupported:
            fits = fitting_versions(source)
    file_no = log_file_no(path)
    if file_no is None:
        is_known = header.good or header.is_unsupported
        file_no = header.file_no if is_known and header.file_no is not None else 0
    version = header.version if header.good and header.version is not None else 0
    by = VersionBy.HEADER if version else VersionBy.NOTHING
    return LogFile(path, file_no, size, header, version, by, fits)


def _make(
    name: str, found: _Files, *, is_directory: bool, folders: tuple[str, ...] = ()
) -> Environment:
    files = sorted(found.opened, key=lambda file: (file.file_no, str(file.path)))
    if not is_directory:
        _check_named(files)
    problems = "; ".join(f"{f.path}: {f.header.problem}" for f in files[:3])
    if all(file.header.is_unsupported for file in files):
        raise InputError(f"no file of a log version that this je-tools knows: {problems}")
    marker = next((f for f in files if f.file_no == MARKER_FILE_NO), None)
    kept = [file for file in files if file is not marker or len(files) == 1]
    unreadable = sorted(found.unreadable, key=lambda file: (file.file_no, str(file.path)))
    if unreadable and unreadable[-1].file_no == MARKER_FILE_NO:
        # Only the presence of the marker counts.
        marker = unreadable.pop().as_log_file()
    return Environment(
        name, tuple(_with_versions(kept)), marker, is_directory, folders, tuple(unreadable)
    )


def _check_named(files: Sequence[LogFile]) -> None:
    """Check that files named one by one are log files with different numbers.

    Raises:
        InputError: one has neither the name of a log file nor a header. In a file with such a
            name a damaged header is a finding.
        UsageError: two have the same number.
    """
    for file in files:
        is_known = file.header.good or file.header.is_unsupported
        if not is_known and log_file_no(file.path) is None:
            raise InputError(f"{file.path}: not a JE log file: {file.header.problem}")
    for one, other in pairwise(files):
        if one.file_no == other.file_no:
            raise UsageError(f"{_same_number(one, other)}. Run one command with each")


def _with_versions(files: list[LogFile]) -> list[LogFile]:
    """Give files with a bad header a version.

    It is one in which their entries make sense: of several, the one that the header names, else
    that of the nearest file, else the newest. A file without entries gets the version of the
    nearest file, before rather than after it, else one that some damaged header names.
    """
    near = _filled([file.version for file in files])
    files = [_by_entries(file, one) for file, one in zip(files, near, strict=True)]
    claimed = [file.header.claim for file in files if file.header.claim]
    rest = [*claimed, DEFAULT_VERSION][0]
    by = VersionBy.CLAIM if claimed else VersionBy.NOTHING
    near = _filled([file.version for file in files])
    return [
        file
        if file.version
        else replace(file, version=one or rest, by=VersionBy.FILES if one else by)
        for file, one in zip(files, near, strict=True)
    ]


def _filled(versions: Sequence[int]) -> list[int]:
    """Replace each 0 by the last number before it that is not 0, or by the first after it."""
    last = next(filter(None, versions), 0)
    filled = []
    for version in versions:
        last = version or last
        filled.append(last)
    return filled


def _by_entries(file: LogFile, near: int) -> LogFile:
    if file.version or not file.fits:
        return file
    wanted = [version for version in (file.header.claim, near) if version in file.fits]
    version = wanted[0] if wanted else max(file.fits)
    return replace(file, version=version, by=VersionBy.ENTRIES)
