"""Environments: the files of a log in their order, and the numbers that are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from je_tools.errors import InputError
from je_tools.formats.files.remote_path import RemotePath
from je_tools.formats.je.header import FILE_HEADER_SIZE
from je_tools.log.file_names import log_file_no
from je_tools.log.log_files import LogFile, Misnamed, UnreadableFile


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
    unreadable: tuple[UnreadableFile, ...] = ()

    @property
    def size(self) -> int:
        """Total bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def home(self) -> Path:
        """The directory that `name` names, if this is one."""
        if not self.is_remote:
            return Path(self.name)
        # `name` may be a text that no user could give as a URI, so it is not parsed.
        folder = self.files[0].path.parent
        return folder.parent if folder.name in self.folders else folder

    @property
    def is_remote(self) -> bool:
        """True if the files are read from an object store, whose locks nobody can see."""
        return any(isinstance(file.path, RemotePath) for file in self.files)

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
        return self._ranges_between(file.file_no for file in self.files)

    @property
    def absent(self) -> tuple[tuple[int, int], ...]:
        """Ranges (first, last) of numbers that no file of a whole environment has."""
        return self._ranges_between(self.numbers)

    def _ranges_between(self, numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
        """Return the ranges below and between ascending numbers; none without the directory."""
        ranges = []
        expected = 0
        for number in numbers if self.is_directory else ():
            if number > expected:
                ranges.append((expected, number - 1))
            expected = number + 1
        return tuple(ranges)

    def name_in_findings(self, file_no: int | None) -> str:
        """Return the name of the log in a finding; if files were named, the path of the file.

        A path leads to the file again, whatever its suffix.
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


def check_numbers(environment: Environment) -> None:
    """Check that no two files have the same number, so that an LSN means one place.

    Raises:
        InputError: two files have the same number.
    """
    found: list[LogFile | UnreadableFile] = [*environment.files, *environment.unreadable]
    found.sort(key=lambda file: (file.file_no, str(file.path)))
    for one, other in pairwise(found):
        if one.file_no == other.file_no:
            raise InputError(
                f"{same_number_text(one, other)}. Find out which one belongs to this log "
                "(`je-tools summary` shows what is in each), and read a copy without the other; "
                "`je-tools salvage FILE --output DIR` reads each by itself"
            )


def same_number_text(one: LogFile | UnreadableFile, other: LogFile | UnreadableFile) -> str:
    """Return the error text for two files with the same number."""
    return (
        f"{one.path} and {other.path} both are file {one.file_no:#x} of the log, so an LSN would "
        "be ambiguous"
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
