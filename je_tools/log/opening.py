"""Opening an environment: the files of a directory, or files named one by one.

Opening takes no lock and writes nothing.

Source: je-log.md "Files"; FileManager, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Self

from msgspec import Struct, field

from je_tools.errors import InputError, NoLogError, UsageError
from je_tools.formats.files.remote_path import RemotePath, scandir
from je_tools.formats.je.header import FILE_HEADER_SIZE
from je_tools.formats.je.log.reader import FILE_SIZE_MAX
from je_tools.formats.je.versions import fitting_versions
from je_tools.log.environment import Environment, same_number_text
from je_tools.log.file_headers import read_file_header
from je_tools.log.file_names import (
    MARKER_FILE_NO,
    home_of,
    is_data_directory_name,
    is_jdb_name,
    log_file_no,
)
from je_tools.log.file_versions import with_versions
from je_tools.log.log_files import LogFile, UnreadableFile, VersionBy
from je_tools.log.sources import reason_of, reopened

_OPENERS = 16
"""Number of threads that open remote files."""


def open_environment(
    paths: Sequence[Path], known: Environment | None = None, *, keep_going: bool = False
) -> Environment:
    """Open a log: one directory (with its data001… directories), or one or more files.

    Args:
        paths: paths that the user named.
        known: the same log opened earlier. Then only files are opened that are new, were the
            last one, or had neither a good header nor entries that fit a version.
        keep_going: put files that cannot be opened into `unreadable`, unless none can be opened.
            Anything else with the name of a log file, such as a directory, is always put there.

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
    files = _OpenedFiles(_complete_files(known), keep_going)
    if len(paths) == 1 and paths[0].is_dir():
        return _open_directory(paths[0], str(paths[0]), files)
    name = _name_of_files(paths)
    files.open(paths)
    return _make(name, files, is_directory=False)


def _name_of_files(paths: Sequence[Path]) -> str:
    """Return a name for files of one log: the path of a single file, the home of several.

    Raises:
        UsageError: they lie in different environments, or one of several is a directory.
        InputError: one is not a file.
    """
    for path in paths:
        if path.is_dir():
            raise UsageError(
                f"{path}: a directory beside other paths. One command reads one log: run one "
                "command for each directory, or name only log files of one log"
            )
        if not path.is_file():
            raise InputError(f"{path}: neither a directory nor a regular file")
    homes: dict[Path, Path] = {}
    for path in paths:
        homes.setdefault(home_of(path), path)
    (home, first), *others = homes.items()
    for other, path in others:
        if other.resolve() != home.resolve():
            raise UsageError(
                f"{first} and {path} are in different directories. One command reads one log, "
                "whose files lie in one directory (data001, data002, ... of one environment count "
                "as one): run one command per directory"
            )
    return str(paths[0] if len(paths) == 1 else home)


def _complete_files(known: Environment | None) -> dict[Path, LogFile]:
    """Return the files that the engine no longer writes and that need no second opening."""
    files = known.files if known is not None else ()
    return {file.path: file for file in files[:-1] if file.header.good or file.fits}


def _open_directory(path: Path, name: str, files: _OpenedFiles) -> Environment:
    try:
        listed = _List.of(path)
        folders = sorted(listed.folders)
        below = [listed, *map(_List.of, folders)]
    except OSError as error:
        raise InputError(f"{error.filename or path}: {error.strerror}") from error
    found = [each for folder in below for each in folder.logs]
    if not found:
        raise NoLogError(
            f"{path}: no .jdb files here. Name the environment's home, the directory that holds "
            "the .jdb files (of a StarRocks or Doris front end: meta/bdb).",
            path,
        )
    files.open(found)
    files.add_others(each for folder in below for each in folder.others)
    return _make(name, files, is_directory=True, folders=tuple(p.name for p in folders))


class _List(Struct):
    """The paths in one folder that belong to a log.

    Attributes:
        folders: data directories.
        logs: log files.
        others: paths that have the name of a log file and are no file.
    """

    folders: list[Path] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)
    others: list[Path] = field(default_factory=list)

    @classmethod
    def of(cls, folder: Path) -> Self:
        """List a folder once, without a stat of each file."""
        found = cls()
        with scandir(folder) as entries:
            for entry in entries:
                if is_data_directory_name(entry.name) and entry.is_dir():
                    found.folders.append(folder / entry.name)
                elif is_jdb_name(entry.name):
                    kept = found.logs if entry.is_file() else found.others
                    kept.append(folder / entry.name)
        return found


def _kind(path: Path) -> str:
    """Describe a path that is not a regular file."""
    if path.is_dir():
        return "a directory, not a file"
    if path.is_symlink() and not path.exists():
        return f"a link to {str(path.readlink())!r}, which does not exist"
    return "a pipe, a socket or a device, not a file"


class _OpenedFiles(Struct):
    """Files of a log as they are opened.

    Attributes:
        complete: files of an earlier opening that need no second one.
        keep_going: True if a file that cannot be opened is no error.
        opened, unreadable: the files, in any order.
    """

    complete: Mapping[Path, LogFile]
    keep_going: bool
    opened: list[LogFile] = field(default_factory=list)
    unreadable: list[UnreadableFile] = field(default_factory=list)

    def open(self, paths: Iterable[Path]) -> None:
        """Open files.

        Raises:
            InputError: one cannot be opened and `keep_going` is not set, or none can be opened.
            StoppedError: one has vanished since it was listed.
        """
        refused: InputError | None = None
        for path, result in _opened(paths, self.complete):
            try:
                self.opened.append(result())
            except InputError as error:
                refused = refused or error
                file_no = log_file_no(path)
                if not self.keep_going or file_no is None:
                    raise
                reason = reason_of(error).removeprefix(f"{path}: ")
                self.unreadable.append(UnreadableFile(path, file_no, _size(path), reason))
        if refused is not None and not self.opened:
            raise refused

    def add_others(self, paths: Iterable[Path]) -> None:
        """Add paths that are no files: the engine takes them for log files, and fails or waits."""
        for path in paths:
            file_no = log_file_no(path)
            assert file_no is not None
            self.unreadable.append(UnreadableFile(path, file_no, 0, _kind(path)))


def _opened(
    paths: Iterable[Path], complete: Mapping[Path, LogFile]
) -> Iterator[tuple[Path, Callable[[], LogFile]]]:
    """Yield paths with functions that return the file or raise why it cannot be opened.

    Remote files are opened ahead, by threads: each mostly waits for its store.
    """

    def opened(path: Path) -> LogFile:
        return complete.get(path) or open_log_file(path)

    paths = list(paths)
    if not any(isinstance(path, RemotePath) for path in paths):
        yield from ((path, partial(opened, path)) for path in paths)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_OPENERS) as pool:
        futures = [pool.submit(opened, path) for path in paths]
        yield from ((path, future.result) for path, future in zip(paths, futures, strict=True))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def open_log_file(path: Path) -> LogFile:
    """Open a file and read its header.

    Raises:
        InputError: it cannot be opened, or is so large that scanning it could take hours.
        StoppedError: it has vanished since it was listed.
    """
    fits: frozenset[int] = frozenset()
    with reopened(path) as source:
        header = read_file_header(source)
        size = source.size
        if size > FILE_SIZE_MAX:
            raise InputError(
                f"{path}: {size:,} bytes, but offsets in a log have 32 bits: no engine writes a "
                "file of more than 4 GiB"
            )
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
    name: str, found: _OpenedFiles, *, is_directory: bool, folders: tuple[str, ...] = ()
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
        name, tuple(with_versions(kept)), marker, is_directory, folders, tuple(unreadable)
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
            text = f"{file.path}: not a JE log file: {file.header.problem}"
            raise NoLogError(text, file.path)
    for one, other in pairwise(files):
        if one.file_no == other.file_no:
            raise UsageError(f"{same_number_text(one, other)}. Run one command with each")
