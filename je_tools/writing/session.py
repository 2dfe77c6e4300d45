"""One operation that changes a log: it cuts, moves, appends and flips bytes in a crash-safe order.

At every instant a crash leaves a log that the engine opens. Bytes that are taken away are saved in
the undo journal first. Bytes are appended in log order, and a file is durable before the next one
is begun. A new file consists of its header until that is durable, since the engine refuses a longer
file with an incomplete header. Bits are flipped once all bytes appended before are durable.

Source: FileManager.renameFile, LastFileReader, JE 7.5.11.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from types import TracebackType
from typing import TYPE_CHECKING

from crc32c import crc32c
from msgspec import Struct

from je_tools import __version__
from je_tools.core.escaping import quoted
from je_tools.core.properties import DATA_DIRECTORIES, read_settings
from je_tools.errors import RefusedError
from je_tools.formats.je.header import FILE_HEADER_SIZE
from je_tools.log.file_names import is_jdb_name
from je_tools.writing.disk import Disk
from je_tools.writing.journal import (
    BLOB_MAX,
    Journal,
    Recorded,
    journal_numbers,
    kept_path,
    log_folders,
    make_folder,
    read_journal,
)
from je_tools.writing.lock import EnvironmentLock, check_new_files
from je_tools.writing.parts import PART, part_sums

if TYPE_CHECKING:
    from je_tools.log.environment import Environment

PENDING_MAX = 8 << 20
"""Largest number of bytes to hold until they are journaled; each time costs a wait for the disk."""


class Seen(Struct, frozen=True):
    """The state of a file, by which a later change is detected.

    Attributes:
        size: size in bytes.
        device, inode: identity of the file.
        modified_ns: modification time, in nanoseconds since 1970.
    """

    size: int
    device: int
    inode: int
    modified_ns: int


def look_at(environment: Environment) -> dict[Path, Seen]:
    """Return the state of each file of a log. Call it before reading the log, with the lock held.

    Raises:
        RefusedError: a file is gone.
    """
    with refusing():
        return {file.path: seen_of(file.path) for file in environment.files}


def seen_of(path: Path) -> Seen:
    """Return the state of a file."""
    info = path.stat()
    return Seen(info.st_size, info.st_dev, info.st_ino, info.st_mtime_ns)


class Piece(Struct, frozen=True):
    """A span of bytes that was written to a file.

    Attributes:
        path: path of the file.
        offset: offset of the first byte.
        size: number of bytes.
        checksum: CRC-32C of the bytes.
    """

    path: Path
    offset: int
    size: int
    checksum: int


class _Flip(Struct, frozen=True):
    path: Path
    offset: int
    old: bytes
    new: bytes


class Session:
    """An operation on a log; nothing is written before the first change.

    Leaving the `with` block without `finish` leaves the log as a crash would at this point: the
    engine opens it, and `je-tools undo` puts back what was there before.

    Attributes:
        environment: the log before the operation.
        appended: number of bytes appended.
        journal_no: number of its undo journal; None if it has none, or has not begun.
    """

    def __init__(
        self,
        environment: Environment,
        operation: str,
        lock: EnvironmentLock | None,
        *,
        seen: Mapping[Path, Seen] | None = None,
        disk: Disk | None = None,
        undo: bool = True,
        takes_away: bool = False,
    ) -> None:
        """Prepare the operation; nothing is written yet.

        Args:
            environment: a whole environment, opened while the lock was held.
            operation: name of the operation in the journal, as `checkpoint`.
            lock: lock of the environment, held; None for a copy that no one else knows of yet.
            seen: states of the files before they were read; see `look_at`.
            disk: disk to write to.
            undo: True to write an undo journal; a copy needs none.
            takes_away: True if it cuts and removes log, not only remains of a crash after its end.
        """
        if lock is not None and not lock.is_held:
            raise ValueError("the lock is not held")
        self.environment = environment
        self.appended = 0
        self.journal_no: int | None = None
        self._operation = operation
        self._seen = look_at(environment) if seen is None else dict(seen)
        self._disk = disk or Disk()
        self._wants_journal = undo
        self._journal: Journal | None = None
        self._begun = self._finished = self._told = False
        self._takes_away = takes_away
        self._home = Path(environment.name)
        self._paths = {file.file_no: file.path for file in environment.files}
        self._sizes = {file.file_no: file.size for file in environment.files}
        self._grown: set[int] = set()
        self._new: set[Path] = set()
        self._last: int | None = None
        self._pending: list[tuple[int, int, bytes]] = []
        self._pending_size = 0
        self._flips: list[_Flip] = []
        self._written: list[Piece] = []
        self._flipped: list[_Flip] = []

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; unless an error already reports the state of the log, add a note that does."""
        self._disk.close()
        is_plain = isinstance(error, Exception)
        if error is None or self._told or not self._wants_journal:
            return
        text = self.state_text() if self._begun or not is_plain else ""
        if self._finished and not isinstance(error, RefusedError):
            text = f"; the {self._operation} is done. {undo_command(self._home)} takes it back"
        if text:
            error.add_note(text.removeprefix("; "))

    def check_space(self, size: int) -> None:
        """Make sure that there is enough free space.

        Args:
            size: number of bytes that will be appended or cut off; cut-off bytes go to the journal.

        Raises:
            RefusedError: there is too little.
        """
        if self._wants_journal:
            size += size * 4 // PART
        folder, free = self.least_room()
        if free < size:
            raise RefusedError(
                f"{folder}: {free:,} bytes are free, and up to {size:,} would be written; "
                "make room, or write to a copy elsewhere (--output DIR)"
            )

    def least_room(self) -> tuple[Path, int]:
        """Return the folder of the log on the device with the least free space, and this in bytes.

        Raises:
            RefusedError: the system does not report it.
        """
        folders = {path.parent for path in self._paths.values()} | {self._home}
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
        with refusing():
            for file_no in sorted(set(file_nos)):
                check_own_file(self._paths[file_no], _COPY_INSTEAD)
            for file_no in sorted(set(moved)):
                check_no_link(self._paths[file_no], _COPY_INSTEAD)

    # Changes

    def cut(self, file_no: int, size: int) -> None:
        """Truncate a file, and save the bytes after `size` in the journal. Durable on return.

        Raises:
            RefusedError: the system refuses it, or the log has changed since it was read.
        """
        before = self._sizes[file_no]
        if file_no in self._grown or not 0 <= size < before:
            raise ValueError(f"file {file_no:#x} cannot be cut from {before} to {size} bytes")
        self.sync()
        path = self._paths[file_no]
        with self._changing() as journal:
            if journal is not None:
                for at, data in _pieces_of(path, size, before):
                    journal.add("saved", data, file=self._name(path), offset=at)
                journal.add("cut", file=self._name(path), size=size, before=before)
                journal.sync()
            self._disk.truncate(path, size)
            self._disk.sync(path)
            self._sizes[file_no] = size

    def set_aside(self, file_no: int) -> Path:
        """Rename an unusable file as the engine does, to `.bad`, `.bad.1` …; return its new path.

        Raises:
            RefusedError: as `cut`.
        """
        path = self._paths[file_no]
        target, count = path.with_suffix(".bad"), 0
        while os.path.lexists(target):
            count += 1
            target = path.with_name(f"{path.stem}.bad.{count}")
        self._move(file_no, target)
        return target

    def remove(self, file_no: int) -> None:
        """Move a whole file from the log to the journal. Remove the newest file first.

        Without a journal the file is deleted.

        Raises:
            RefusedError: as `cut`.
        """
        if not self._takes_away:
            raise ValueError(f"file {file_no:#x} is removed, and nothing is to be taken away")
        path = self._paths[file_no]
        if not self._wants_journal:
            self.sync()
            with self._changing():
                self._disk.unlink(path)
                self._disk.sync_folder(path.parent)
                self._forget(file_no)
            return
        with self._changing() as journal:
            assert journal is not None
            target = kept_path(path, journal.number)
            make_folder(self._disk, target.parent)
        self._move(file_no, target)

    def append(self, file_no: int, offset: int, data: bytes) -> None:
        """Append bytes to the log; offset 0 begins a new file, with its whole header.

        Bytes are written later, in order, and are durable after `sync`.

        Raises:
            RefusedError: they cannot be written, or the log has changed since it was read.
        """
        if self._flips or (self._last is not None and self._last != file_no):
            self.sync()
        if offset == 0:
            self._make_way(file_no, data)
        if offset != self._sizes.get(file_no):
            raise ValueError(f"file {file_no:#x} has no end at {offset:#x}")
        self._last = file_no
        self._grown.add(file_no)
        pieces = [(offset, data)]
        if offset == 0:
            # The header is a separate piece, since it is written alone.
            pieces = [(0, data[:FILE_HEADER_SIZE]), (FILE_HEADER_SIZE, data[FILE_HEADER_SIZE:])]
        self._pending += [(file_no, at, piece) for at, piece in pieces if piece]
        self._sizes[file_no] += len(data)
        self._pending_size += len(data)
        self.appended += len(data)
        if self._pending_size >= PENDING_MAX:
            with self._changing() as journal:
                self._flush(journal)

    def flip_bits(self, file_no: int, offset: int, old: bytes, new: bytes) -> None:
        """Change bytes in place at the next `sync`, after all bytes appended before.

        Args:
            file_no: number of a file that existed before the operation.
            offset: offset of the first byte.
            old, new: bytes before and after, of the same length.
        """
        if len(old) != len(new) or offset + len(old) > self._sizes[file_no]:
            raise ValueError(f"{old!r} cannot become {new!r} at {file_no:#x}/{offset:#x}")
        self._flips.append(_Flip(self._paths[file_no], offset, old, new))

    def sync(self) -> None:
        """Make appended bytes durable, then flip bits and make these durable.

        Raises:
            RefusedError: the system refuses it, or the log has changed since it was read.
        """
        if self._last is None and not self._flips:
            return
        with self._changing() as journal:
            self._flush(journal)
            if self._last is not None:
                self._disk.sync(self._paths[self._last])
                self._last = None
            if self._flips:
                self._flip(journal)

    def finish(self) -> None:
        """Make all changes durable, read them back and compare them, and end the journal.

        Raises:
            RefusedError: bytes read back differ from those written, or as `sync`.
        """
        self.sync()
        if not self._begun:
            return
        with self._changing() as journal:
            self._disk.close()
            self._check()
            if journal is not None:
                journal.add("done", time_ms=_now_ms(), files=self._listed())
                journal.sync()
                self._disk.close()
            self._finished = True

    # Implementation

    @contextmanager
    def _changing(self) -> Iterator[Journal | None]:
        """Begin the operation if it has not begun, and add the state of the log to errors.

        Raises:
            RefusedError: a step failed, or the log has changed since it was read.
        """
        try:
            with refusing(self.state_text):
                if not self._begun:
                    self._begin()
                yield self._journal
        except RefusedError:
            self._told = True
            raise

    def state_text(self) -> str:
        """Return the state of the log if the operation stops here: words to end a message with."""
        if not self._begun:
            return "; nothing was changed"
        if self._journal is None or self._finished:
            return ""
        undo = f"{undo_command(self._home)} puts back what was there"
        if self._takes_away:
            return (
                f"; the {self._operation} is not finished, and the log ends anywhere between where "
                "it did and where it is to end, a state of which it may not hold all any more. "
                f"{undo}: do that before an engine opens it"
            )
        return (
            f"; the {self._operation} is not finished, and the log is as after a crash, which the "
            f"engine recovers from. {undo}"
        )

    def _begin(self) -> None:
        self._check_unchanged()
        like = self._like()
        check_new_files(self._home, like)
        if self._wants_journal:
            _check_last_journal(self._home)
            self._journal = Journal.create(
                self._home,
                self._disk,
                like,
                operation=self._operation,
                tool=__version__,
                time_ms=_now_ms(),
                takes_away=self._takes_away,
                files=self._listed(),
            )
            self.journal_no = self._journal.number
        self._begun = True

    def _check_unchanged(self) -> None:
        known = {file.path: file.size for file in self.environment.files}
        marker = self.environment.marker
        others = {marker.path} if marker is not None else set()
        others |= {each.path for each in self.environment.unreadable}
        for path in log_paths(self._home):
            if path not in known and path not in others:
                raise _changed(path, "was not there")
        for path, size in known.items():
            if not path.exists():
                raise _changed(path, "was there")
            seen = seen_of(path)
            if seen.size != size:
                raise _changed(path, f"had {size:,} bytes, and has {seen.size:,}")
            if seen != self._seen.get(path):
                raise _changed(path, "was written to or replaced")

    def _like(self) -> os.stat_result:
        return self.environment.files[-1].path.stat()

    def _listed(self) -> list[tuple[str, int, int]]:
        """Return names, sizes and times of all files of the log."""
        found = []
        for path in log_paths(self._home):
            seen = seen_of(path)
            found.append((self._name(path), seen.size, seen.modified_ns))
        return found

    def _name(self, path: Path) -> str:
        return path.relative_to(self._home).as_posix()

    def _move(self, file_no: int, target: Path) -> None:
        self.sync()
        path = self._paths[file_no]
        with self._changing() as journal:
            if journal is not None:
                journal.add(
                    "rename",
                    file=self._name(path),
                    target=self._name(target),
                    checksum=sum_of(path, self._sizes[file_no]),
                )
                journal.sync()
            self._disk.rename(path, target)
            # Sync the target folder first, or a crash may leave the file in neither folder.
            for folder in dict.fromkeys((target.parent, path.parent)):
                self._disk.sync_folder(folder)
            self._forget(file_no)

    def _forget(self, file_no: int) -> None:
        del self._paths[file_no], self._sizes[file_no]
        self._grown.discard(file_no)

    def _make_way(self, file_no: int, data: bytes) -> None:
        """Prepare the beginning of a new file; one that is only a header is cut to 0 bytes."""
        if len(data) < FILE_HEADER_SIZE:
            raise ValueError(f"file {file_no:#x} is begun with less than its header")
        size = self._sizes.get(file_no)
        if size is None:
            self._paths[file_no] = self._new_path(file_no)
            self._sizes[file_no] = 0
            self._new.add(self._paths[file_no])
        elif size > FILE_HEADER_SIZE or file_no in self._grown:
            raise ValueError(f"file {file_no:#x} is there already")
        elif size:
            # An engine died just after it began the file.
            self.cut(file_no, 0)

    def _new_path(self, file_no: int) -> Path:
        """Return the path at which the engine will look for a new file.

        With data directories, the number of the file selects the directory.

        Raises:
            RefusedError: the last file is not where the engine would look for it.
        """
        name = f"{file_no:08x}.jdb"
        last = self.environment.files[-1]
        if last.path.parent == self._home:
            return self._home / name
        count = read_settings(self._home).number(DATA_DIRECTORIES) or len(self.environment.folders)
        folders = [self._home / f"data{no % count + 1:03d}" for no in (last.file_no, file_no)]
        if folders[0] != last.path.parent or not folders[1].is_dir():
            raise RefusedError(
                f"{last.path}: with {count} data directories the engine would look for this file "
                f"in {folders[0].name}; set {DATA_DIRECTORIES} in je.properties to what it is"
            )
        return folders[1] / name

    def _flush(self, journal: Journal | None) -> None:
        """Record pending bytes in the journal, then write them."""
        pending, self._pending, self._pending_size = self._pending, [], 0
        if not pending:
            return
        pieces = [
            Piece(self._paths[file_no], at, len(data), crc32c(data))
            for file_no, at, data in pending
        ]
        if journal is not None:
            sums = b"".join(part_sums(at, data).tobytes() for _, at, data in pending)
            listed = [(self._name(p.path), p.offset, p.size, p.checksum) for p in pieces]
            journal.add("append", sums, pieces=listed)
            journal.sync()
        for piece, (_, _, data) in zip(pieces, pending, strict=True):
            if piece.offset == 0:
                self._begin_file(piece.path, data)
            else:
                self._disk.write(piece.path, piece.offset, data)
        self._written += pieces

    def _begin_file(self, path: Path, header: bytes) -> None:
        if path in self._new:
            self._disk.create(path, self._like_now())
        self._disk.write(path, 0, header)
        self._disk.sync(path)
        self._disk.sync_folder(path.parent)

    def _like_now(self) -> os.stat_result:
        there = [path for path in self._paths.values() if path.exists()]
        return (there[-1] if there else self._home).stat()

    def _flip(self, journal: Journal | None) -> None:
        flips, self._flips = self._flips, []
        for flip in flips:
            found = read_at(flip.path, flip.offset, len(flip.old))
            if found != flip.old:
                raise RefusedError(
                    f"{flip.path} @{flip.offset:#x}: expected {flip.old.hex()}, found {found.hex()}"
                )
        if journal is not None:
            listed = [(self._name(f.path), f.offset, f.old.hex(), f.new.hex()) for f in flips]
            journal.add("flip", flips=listed)
            journal.sync()
        for flip in flips:
            self._disk.write(flip.path, flip.offset, flip.new)
        for path in dict.fromkeys(flip.path for flip in flips):
            self._disk.sync(path)
        self._flipped += flips

    def _check(self) -> None:
        """Read back all written bytes by new descriptors, from the device if the system allows it.

        Raises:
            RefusedError: they differ from the bytes written.
        """
        for piece in self._written:
            if crc32c(read_at(piece.path, piece.offset, piece.size, fresh=True)) != piece.checksum:
                raise _unlike(piece.path, piece.offset)
        for flip in self._flipped:
            if read_at(flip.path, flip.offset, len(flip.new), fresh=True) != flip.new:
                raise _unlike(flip.path, flip.offset)
        for file_no, path in self._paths.items():
            if path.stat().st_size != self._sizes[file_no]:
                raise _unlike(path, self._sizes[file_no])


def _free(folder: Path) -> int:
    info = os.statvfs(folder)
    return info.f_bavail * info.f_frsize


_COPY_INSTEAD = "write to a copy (--output DIR), or "


def check_own_file(path: Path, instead: str = "") -> None:
    """Make sure that a file to be changed in place has no other name.

    Args:
        path: path of the file.
        instead: advice for the user, besides making a copy of the file.

    Raises:
        RefusedError: it is a link or no regular file, or has another hard link.
        OSError: there is no such file.
    """
    check_no_link(path, instead)
    if path.lstat().st_nlink > 1:
        raise RefusedError(
            f"{path}: has another name too, as in a backup made of hard links, which would be "
            f"changed with it; {instead}give the file bytes of its own first, by cp -p and mv"
        )


def check_no_link(path: Path, instead: str = "") -> None:
    """Make sure that a path is a regular file, not a symbolic link.

    Args:
        path: path of the file.
        instead: as for `check_own_file`.

    Raises:
        RefusedError: it is a link, or no regular file.
        OSError: there is no such file.
    """
    mode = path.lstat().st_mode
    if S_ISLNK(mode):
        raise RefusedError(
            f"{path}: a symbolic link, and what it leads to would be changed, or not found again; "
            f"{instead}work where the file is"
        )
    if not S_ISREG(mode):
        raise RefusedError(f"{path}: not a regular file")


def log_paths(home: Path) -> list[Path]:
    """Return the paths with names of log files in a home and its data directories.

    Raises:
        RefusedError: one of them is no file.
    """
    paths = [
        path
        for folder in log_folders(home)
        for path in sorted(folder.iterdir())
        if is_jdb_name(path.name)
    ]
    for path in paths:
        if not path.is_file():
            what = "leads nowhere" if path.is_symlink() else "is no file"
            raise RefusedError(
                f"{path}: has the name of a log file, and {what}: the engine opens no log that has "
                "such a thing; move it away"
            )
    return paths


def sum_of(path: Path, size: int) -> int:
    """Return the CRC-32C of the first `size` bytes of a file, or of all of it if it is shorter."""
    checksum = 0
    for at in range(0, size, BLOB_MAX):
        checksum = crc32c(read_at(path, at, min(BLOB_MAX, size - at)), checksum)
    return checksum


def read_at(path: Path, offset: int, size: int, *, fresh: bool = False) -> bytes:
    """Read bytes of a file, fewer at its end.

    Args:
        path: path of the file.
        offset, size: span to read.
        fresh: True to drop the system's cache of it first, if possible.
    """
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if fresh:
            os.posix_fadvise(number, offset, size, os.POSIX_FADV_DONTNEED)
        parts = []
        while size:
            part = os.pread(number, size, offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return b"".join(parts)
    finally:
        os.close(number)


def _pieces_of(path: Path, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    for at in range(start, stop, BLOB_MAX):
        data = read_at(path, at, min(BLOB_MAX, stop - at))
        if len(data) < min(BLOB_MAX, stop - at):
            raise _changed(path, "became shorter")
        yield at, data


def check_whole(home: Path) -> None:
    """Refuse to read a log that an interrupted undo or truncation has left half done.

    Raises:
        RefusedError: an undo was interrupted, or an operation that takes log away.
    """
    with refusing(lambda: "; nothing was changed"):
        for number in journal_numbers(home)[-1:]:
            _refuse_part(read_journal(home, number))


def _refuse_part(journal: Recorded) -> None:
    home, number = journal.home, journal.number
    records = {frame.record for frame in (*journal.frames, *journal.later)}
    if records & {"undo", "back"} and "undone" not in records:
        raise RefusedError(f"{home}: undo {number} was interrupted; {undo_command(home)} ends it")
    takes_away = bool(journal.frames) and journal.frames[0].head["takes_away"]
    if takes_away and "done" not in records and records & {"cut", "rename"}:
        operation = journal.frames[0].head["operation"]
        raise RefusedError(
            f"{home}: the {operation} of undo {number} was interrupted when it had taken away "
            f"a part of the log that it was to cut back; {undo_command(home)} puts back what "
            "was there: do that first"
        )


def _check_last_journal(home: Path) -> None:
    """Refuse to write if the last journal may belong to an interrupted undo or truncation.

    Raises:
        RefusedError: it does, or the journal cannot be read well enough to rule that out.
    """
    for number in journal_numbers(home)[-1:]:
        journal = read_journal(home, number)
        _refuse_part(journal)
        if journal.is_newer:
            raise RefusedError(
                f"{journal.folder}: the undo journal was written by a later je-tools, and may be "
                f"of what was interrupted: {journal.damage}. Use that je-tools"
            )
        if journal.damage is not None and "done" not in (f.record for f in journal.later[-1:]):
            raise RefusedError(
                f"{home}: the journal of undo {number} is damaged, and may be of an undo that was "
                f"interrupted; `je-tools undo {quoted(str(home))}` tells more"
            )


def undo_command(home: Path, words: str = "") -> str:
    """Return the command that undoes the last operation, for messages."""
    return f"`je-tools undo {quoted(str(home))}{words} --apply`"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _changed(path: Path, what: str) -> RefusedError:
    return RefusedError(f"{path}: {what} when the log was read; run the command again")


def _unlike(path: Path, offset: int) -> RefusedError:
    return RefusedError(
        f"{path} @{offset:#x}: what was written is not what is read: the disk is not to be trusted"
    )


@contextmanager
def refusing(state_text: Callable[[], str] = str) -> Iterator[None]:
    """Convert `OSError` into `RefusedError`, and append the state of the log to its message."""
    try:
        yield
    except OSError as error:
        name = f"{error.filename}: " if error.filename is not None else ""
        raise RefusedError(f"{name}{error.strerror}{state_text()}") from error
    except RefusedError as error:
        raise RefusedError(f"{error}{state_text()}") from error
