"""A log on disk: which files it has, in which order, and what their headers say.

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
"""Number of the file that an unfinished network restore or a found corruption leaves."""

DEFAULT_VERSION = LOG_VERSION_MAX
"""Taken where neither a file's header nor another file's tells its version."""

_LOG_NAME = re.compile(r"([0-9a-fA-F]{8})\.(jdb|del|bad|bup)(?:\.[0-9]+)?", re.IGNORECASE)
_DATA_DIRECTORY = re.compile(r"data[0-9]{3}")
_BAD_SUM = "checksum is wrong"


class FileHeader(Struct, frozen=True):
    """The first entry of a file, as far as it can be told.

    Attributes:
        good: type, size and checksum are right and the version is one this reader knows.
        file_no, created_ms, last_entry_in_prev_file_offset, version: as stored; None where the
            file is too short to hold them.
        problem: what is wrong, in words; None when good.
        is_unsupported: nothing is wrong but that the version is none this reader knows.
        claim: of a damaged one, the version that it seems to name.
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
    """What tells the log version of a file, the surest first."""

    HEADER = "header"
    """Its header, whose checksum is right."""
    ENTRIES = "entries"
    """Its entries, which make sense of this version."""
    FILES = "files"
    """The nearest file of which it is known."""
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
        path: where it is.
        file_no: the number in its name, or in its header where the name has none.
        size: bytes when the environment was opened.
        header: what its first entry says.
        version: log version of its entries.
        by: what tells it.
        fits: where the header is bad, versions of which the file's entries make sense.
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
        """Whether the version is not what a good header says, and there is something to read."""
        return self.by is not VersionBy.HEADER and self.size > FILE_HEADER_SIZE

    @property
    def version_text(self) -> str:
        """As what it is read, and why."""
        return f"read as log version {self.version}, {_BY_TEXTS[self.by]}"

    @property
    def is_begun(self) -> bool:
        """Whether more is there than what a writer leaves that died over the file's header."""
        return self.header.good or self.size > FILE_HEADER_SIZE

    @property
    def home(self) -> Path:
        """The environment's home as far as the place of the file tells."""
        return _home(self.path)


class Unreadable(Struct, frozen=True):
    """A log file that is there and cannot be opened.

    Attributes:
        path: where it is.
        file_no: the number in its name.
        size: bytes; 0 where not even that is told.
        reason: what the system says.
    """

    path: Path
    file_no: int
    size: int
    reason: str

    def as_log_file(self) -> LogFile:
        """The file beside others, without anything that it holds."""
        header = FileHeader(good=False, problem=self.reason)
        by = VersionBy.NOTHING
        return LogFile(self.path, self.file_no, self.size, header, DEFAULT_VERSION, by)


class Misnamed(Struct, frozen=True):
    """A log file that was renamed or swapped.

    Attributes:
        path: where it is.
        name_no, header_no: the number in its name, and that in its header.
        file_no: of the two the one under which it is read.
    """

    path: Path
    name_no: int
    header_no: int
    file_no: int

    @property
    def text(self) -> str:
        """Under which number it is read, and why."""
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
        name: as the user spelled it; of several files named one by one, the home they lie in.
        files: in the order of the log; the marker file is not among them.
        marker: the file 7fffffff.jdb, if there is one.
        is_directory: a whole environment, where a missing file means something.
        folders: names of the data directories, in order; none where the files lie in the home.
        unreadable: files that could not be opened, by number, where that was to be no error.
    """

    name: str
    files: tuple[LogFile, ...]
    marker: LogFile | None
    is_directory: bool
    folders: tuple[str, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def numbers(self) -> list[int]:
        """Of the files that are there, whether they could be opened or not."""
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

        A crash right after a file was begun leaves it empty, or with a header alone; the engine
        then takes the file before it for the last; an environment that has no more than that is
        refused, so nothing of it is an end. Of files named one by one, each is a last one that is
        not followed by the next number. Nor does a log end in front of a file that cannot be read.

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
        """Ranges (first, last) of numbers of which a whole environment has no files to read."""
        return self._without(file.file_no for file in self.files)

    @property
    def absent(self) -> tuple[tuple[int, int], ...]:
        """Those of which it has no files either that cannot be opened."""
        return self._without(self.numbers)

    def _without(self, numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
        """Ranges of numbers that are not among these, which ascend, in a whole environment."""
        ranges = []
        expected = 0
        for number in numbers if self.is_directory else ():
            if number > expected:
                ranges.append((expected, number - 1))
            expected = number + 1
        return tuple(ranges)

    def spelled(self, file_no: int | None) -> str:
        """What a finding about a file calls the log: a file that was named itself, by its path.

        With that name the file is found again, whatever its suffix.
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
        """Where in `files` each path is."""
        return {file.path: i for i, file in enumerate(self.files)}


def open_environment(
    paths: Sequence[Path], known: Environment | None = None, *, keep_going: bool = False
) -> Environment:
    """Open a log: one directory (with its data001… directories), or one or more files.

    Args:
        paths: what the user named.
        known: the same log at an earlier look. Only names are looked at then, and files opened
            that are new, were the last one, or had no good header and no entries either.
        keep_going: a file that cannot be opened goes to `unreadable`, as long as another can.

    Raises:
        InputError: nothing there, or not a log; a file cannot be opened.
        UsageError: nothing named, several logs, or two files of one number.
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
    """A file that has been read, once more.

    Args:
        path: the file.
        size: bytes that it had.

    Raises:
        StoppedError: it has vanished or is shorter now, also while it is in use.
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
    """Make sure that an LSN means one place.

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
    """The same log, files with a good header under the number that it has.

    A name is lost with a rename or a careless restore; the header is part of the file, and summed.
    `Environment.misnamed` has the files of which the two differ. A number that is in the headers of
    several files, or also in the name of one without a good header, tells nothing: those files
    keep the numbers in their names.

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
    """The file number in a log file's name; None for a name that is not one."""
    match = _LOG_NAME.fullmatch(path.name)
    return int(match[1], 16) if match else None


def read_file_header(source: Source) -> FileHeader:
    """The file header of an open log file; never raises on damaged bytes."""
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
    """What files of one log are called together: one by its path, several by their home.

    Raises:
        UsageError: they are not of one log, as far as the places tell.
        InputError: one is no file.
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
    """The environment's home as far as a file's place tells; where links lead does not count."""
    folder = path.parent
    if not is_data_directory_name(folder.absolute().name):
        return folder
    return folder.parent if folder.name else Path("..")


def _complete_files(known: Environment | None) -> dict[Path, LogFile]:
    """The files that an engine does not write to any more, and that need no second look."""
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
    """What a folder holds of a kind; a name costs no look at its file."""
    with os.scandir(folder) as entries:
        return [folder / entry.name for entry in entries if is_wanted(entry)]


def is_data_directory_name(name: str) -> bool:
    """Whether a folder of this name is one of an environment's data directories."""
    return _DATA_DIRECTORY.fullmatch(name) is not None


def is_jdb_name(name: str) -> bool:
    """Whether a file of this name is part of the log: not one put aside, as `.del` or `.bad`."""
    match = _LOG_NAME.fullmatch(name)
    return match is not None and match[2].lower() == "jdb"


def _is_data_directory(entry: os.DirEntry[str]) -> bool:
    return is_data_directory_name(entry.name) and entry.is_dir()


def _is_log(entry: os.DirEntry[str]) -> bool:
    return is_jdb_name(entry.name) and entry.is_file()


class _Files(Struct):
    """The files of a log as they are opened.

    Attributes:
        complete: those of an earlier look that need no second one.
        keep_going: those that cannot be opened are no error.
        opened, unreadable: the files, in any order.
    """

    complete: Mapping[Path, LogFile]
    keep_going: bool
    opened: list[LogFile] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)

    def open(self, paths: Iterable[Path]) -> None:
        """Open files.

        Raises:
            InputError: one cannot be opened, and that is an error, or not one of them can.
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
    """What the system says of a file that cannot be opened."""
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
        # That it is there is all that counts.
        marker = unreadable.pop().as_log_file()
    return Environment(
        name, tuple(_with_versions(kept)), marker, is_directory, folders, tuple(unreadable)
    )


def _check_named(files: Sequence[LogFile]) -> None:
    """Of files named one by one, each is of a log, and a number must say which is meant.

    Raises:
        InputError: one has neither the name of a log file nor a header, whose damage would be a
            finding in a file of that name.
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

    It is one of which their entries make sense: of several, that which the header names, or the
    nearest file. Where there are no entries it is that of the nearest file, before rather than
    behind, else what some header names.
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
    """For each 0 the number before that is none, or of the first ones the first."""
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
