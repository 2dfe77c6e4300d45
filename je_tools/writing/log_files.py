"""Files of a log during an operation: their paths and sizes, and the room for more.

Source: FileManager.getFullFileNames, JE 7.5.11.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.core.properties import DATA_DIRECTORIES, read_settings
from je_tools.errors import RefusedError
from je_tools.writing.file_checks import check_no_link, check_own_file, log_paths
from je_tools.writing.refusing import changed_since, refusing, unlike_written
from je_tools.writing.stamps import FileStamp, stamp_of

if TYPE_CHECKING:
    from je_tools.log.environment import Environment


class LogFiles:
    """The files of a log during an operation, as they will be when pending bytes are written.

    Attributes:
        environment: the log before the operation.
        home: home of the environment.
        paths: paths of the files, by number.
        sizes: their sizes, by number.
        grown: numbers of files to which bytes were appended.
        new: paths of files that the operation begins, some of them not yet on the disk.
        can_copy: True if the command can write to a copy instead, which messages then advise.
    """

    def __init__(self, environment: Environment, *, can_copy: bool = True) -> None:
        self.environment = environment
        self.can_copy = can_copy
        self.home = Path(environment.name)
        self.paths = {file.file_no: file.path for file in environment.files}
        self.sizes = {file.file_no: file.size for file in environment.files}
        self.grown: set[int] = set()
        self.new: set[Path] = set()

    def least_room(self) -> tuple[Path, int]:
        """Return the folder of the log on the device with the least free space, and this in bytes.

        Raises:
            RefusedError: the system does not report it.
        """
        folders = {path.parent for path in self.paths.values()} | {self.home}
        with refusing():
            return min(((each, _free(each)) for each in sorted(folders)), key=lambda each: each[1])

    def check_own(self, file_nos: Iterable[int], moved: Iterable[int] = ()) -> None:
        """Make sure that files to be changed have no other names.

        Args:
            file_nos: numbers of files that are cut, appended to, or in which bits are flipped.
            moved: numbers of files that are taken out of the log.

        Raises:
            RefusedError: one is a link, or is to be changed and has another name, as in a backup
                made of hard links.
        """
        instead = "write to a copy (--output DIR), or " * self.can_copy
        with refusing():
            for file_no in sorted(set(file_nos)):
                check_own_file(self.paths[file_no], instead)
            for file_no in sorted(set(moved)):
                check_no_link(self.paths[file_no], instead)

    def check_unchanged(self, stamps: Mapping[Path, FileStamp]) -> None:
        """Refuse to write if the log is no longer as it was read.

        Args:
            stamps: states of the files before they were read.

        Raises:
            RefusedError: a file was added, removed, replaced or written to.
        """
        known = {file.path: file.size for file in self.environment.files}
        marker = self.environment.marker
        others = {marker.path} if marker is not None else set()
        others |= {each.path for each in self.environment.unreadable}
        for path in log_paths(self.home):
            if path not in known and path not in others:
                raise changed_since(path, "did not exist")
        for path, size in known.items():
            if not path.exists():
                raise changed_since(path, "existed")
            stamp = stamp_of(path)
            if stamp.size != size:
                raise changed_since(path, f"had {size:,} bytes (now {stamp.size:,})")
            if stamp != stamps.get(path):
                raise changed_since(path, "was written to or replaced")

    def owner_stat(self) -> os.stat_result:
        """Return the status of the last file, whose owner, group and mode the journal gets."""
        return self.environment.files[-1].path.stat()

    def stat_for_new_file(self) -> os.stat_result:
        """Return the status of the last file that exists, whose owner and mode a new file gets."""
        there = [path for path in self.paths.values() if path.exists()]
        return (there[-1] if there else self.home).stat()

    def listed(self) -> list[tuple[str, int, int]]:
        """Return names, sizes in bytes and modification times in ns of all files of the log."""
        found = []
        for path in log_paths(self.home):
            stamp = stamp_of(path)
            found.append((self.name(path), stamp.size, stamp.modified_ns))
        return found

    def name(self, path: Path) -> str:
        """Return the path of a file, relative to the home."""
        return path.relative_to(self.home).as_posix()

    def forget(self, file_no: int) -> None:
        """Forget a file that was taken out of the log."""
        del self.paths[file_no], self.sizes[file_no]
        self.grown.discard(file_no)

    def new_path(self, file_no: int) -> Path:
        """Return the path at which the engine will look for a new file.

        With data directories, the number of the file selects the directory.

        Raises:
            RefusedError: the last file is not where the engine would look for it.
        """
        name = f"{file_no:08x}.jdb"
        last = self.environment.files[-1]
        if last.path.parent == self.home:
            return self.home / name
        count = read_settings(self.home).number(DATA_DIRECTORIES) or len(self.environment.folders)
        folders = [self.home / f"data{no % count + 1:03d}" for no in (last.file_no, file_no)]
        if folders[0] != last.path.parent or not folders[1].is_dir():
            raise RefusedError(
                f"{last.path}: with {count} data directories, the engine would look for this file "
                f"in {folders[0].name}; set {DATA_DIRECTORIES} in je.properties to the right "
                "number"
            )
        return folders[1] / name

    def begin(self, file_no: int) -> None:
        """Add a new, empty file.

        Raises:
            RefusedError: as `new_path`.
        """
        self.paths[file_no] = self.new_path(file_no)
        self.sizes[file_no] = 0
        self.new.add(self.paths[file_no])

    def check_sizes(self) -> None:
        """Check that every file has its size in `sizes`.

        Raises:
            RefusedError: a file has another size.
        """
        for file_no, path in self.paths.items():
            if path.stat().st_size != self.sizes[file_no]:
                raise unlike_written(path, self.sizes[file_no])


def _free(folder: Path) -> int:
    info = os.statvfs(folder)
    return info.f_bavail * info.f_frsize
