"""Takes back what an operation did to a log, by its journal: the newest one first.

The steps of the operation are taken back in the reverse order, each brought to where it stays
before the next, so that the log goes back through the states that it went through. Each step can be
done twice, and the journal is told of those that are done, so an undo that was interrupted goes on
where it was. Nothing is put back where anything else has written since: every sector of what the
operation appended must hold what it wrote, what was there before, or, after a power cut, zeros.

A journal is removed when all of it was read and is back in the log, or when that is asked for by
its number. One that is damaged puts nothing back, and stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from je_tools.errors import RefusedError
from je_tools.plain import counted
from je_tools.writing.disk import SECTOR, Disk
from je_tools.writing.frames import FOLDER, Frame, JournalError
from je_tools.writing.journal import (
    FILE_NAME,
    Journal,
    Recorded,
    check_folders,
    clear_begun,
    dropped_folder,
    dropped_numbers,
    journal_folder,
    journal_numbers,
    kept_files,
    log_folders,
    make_folder,
    place_of,
    read_journal,
    remove_folder,
)
from je_tools.writing.parts import PART, part_count, part_sums
from je_tools.writing.session import (
    Piece,
    check_no_link,
    check_own_file,
    log_paths,
    read_at,
    refusing,
    seen_of,
    sum_of,
    undo_command,
)

_PIECE = 1 << 20
_SAID = 5


class Way(StrEnum):
    """How a step is taken back."""

    CUT = "cut-off"
    """What was appended to a file."""
    REMOVE = "remove"
    """A file that was begun."""
    UNFLIP = "flip-back"
    """Bits that were changed in place."""
    RENAME = "rename"
    """A file that was set aside, or taken out of the log."""
    RESTORE = "write-back"
    """What was cut off a file."""


class State(StrEnum):
    """How far an operation, or its undo, has come."""

    NOTHING = "not-begun"
    """It was stopped before its first change."""
    UNFINISHED = "unfinished"
    """It was stopped, by a crash or an error."""
    FINISHED = "done"
    HALF_BACK = "half-back"
    """Its undo was stopped."""
    BACK = "back"
    """All but that the journal is still there."""
    PUT_BACK = "put-back"
    """It has just been put back; its journal is removed."""
    REMOVED = "removed"
    """Its journal has just been removed, with what it kept."""
    DAMAGED = "damaged"
    """Its journal cannot be read: nothing is put back, and nothing removed."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step back.

    Attributes:
        what: how it is taken back.
        name: of the file, from the home on.
        offset: where a cut, or what is put back, begins.
        size: bytes that are cut off, or put back.
        target: of a rename.
        frame: what the journal has of it.
        saved: frames with what is put back.
    """

    what: Way
    name: str
    offset: int = 0
    size: int = 0
    target: str = ""
    frame: Frame | None = None
    saved: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True)
class Made:
    """A file that an operation appended to, or began.

    Attributes:
        base: where what it appended, or cut off, begins.
        before: bytes that it had; 0 of a file that was begun.
        pieces: what was appended, in order.
        sums: frame, and place in its bytes, of the sums of the parts of each piece.
        saved: frames with what was cut off.
    """

    base: int
    before: int
    pieces: list[Piece]
    sums: list[tuple[Frame, int]]
    saved: list[Frame]

    @property
    def end(self) -> int:
        """Where the next piece is appended."""
        return self.pieces[-1].offset + self.pieces[-1].size if self.pieces else self.base


class Undo:
    """A journal, and what it takes to go back.

    Attributes:
        recorded: the journal.
        operation: what was done.
        time_ms: when it began.
        tool: version of je-tools that did it.
        is_finished: whether the operation came to its end.
        is_begun: whether it has been taken back in part.
        saved_size: bytes of the log that the journal holds, files that were taken out with them; of
            a damaged one all that there is of it.
        steps: what there is to do, in order.
        all_steps: with those that were done when the undo was interrupted.
    """

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded
        begin = recorded.frames[0].head if recorded.frames else {}
        self.operation = str(begin.get("operation", "unknown"))
        self.time_ms: int | None = begin.get("time_ms")
        self.tool: str | None = begin.get("tool")
        self.is_finished = recorded.first("done") is not None
        self.is_begun = recorded.first("undo") is not None
        self.is_undone = recorded.first("undone") is not None
        self.before = _files(recorded.frames[0]) if recorded.frames else {}
        self._replay = replay = _Replay(self.before)
        try:
            replay.run(recorded.frames)
        except JournalError as error:
            damage = f"what it tells cannot have been: {error}"
            self.recorded = recorded = replace(recorded, damage=damage)
        self._home = recorded.home
        self._became: State | None = None
        self.saved_size = self._size_of_saved()
        self.all_steps = replay.steps_back
        done = replay.back_count
        is_to_do = not self.is_undone and recorded.damage is None
        self.steps = self.all_steps[done:] if is_to_do else []

    @property
    def number(self) -> int:
        """Of the journal."""
        return self.recorded.number

    def _size_of_saved(self) -> int:
        size = sum(path.stat().st_size for path in kept_files(self._home, self.number))
        if self.recorded.damage is not None:
            return size + self.recorded.file_size
        blobs = (frame.blob_size for frame in self.recorded.frames if frame.record == "saved")
        return size + sum(blobs)

    @property
    def state(self) -> State:
        """How far it, or its undo, has come."""
        if self._became is not None:
            return self._became
        if self.recorded.damage is not None:
            return State.DAMAGED
        if not self.all_steps:
            return State.NOTHING
        if self.is_undone:
            return State.BACK
        if self.is_begun:
            return State.HALF_BACK
        return State.FINISHED if self.is_finished else State.UNFINISHED

    @property
    def appended_size(self) -> int:
        """Bytes that the operation appended, or was about to."""
        return sum(piece.size for made in self._replay.made.values() for piece in made.pieces)

    def check(self, *, any_time: bool = False) -> None:
        """Make sure that the log is in a state that the operation, or its undo, can have left.

        Args:
            any_time: files may have other times than they had, as in a copy.

        Raises:
            RefusedError: anything else has written since, or the journal is damaged.
        """
        with refusing():
            self._check_sound()
            if not self.is_undone:
                self._check_places()
                _Check(self._home, self.recorded, self._replay, self.before, any_time).run()

    def _check_sound(self) -> None:
        """Refuse a journal that is damaged, or has more than it tells of: all of it stays.

        Raises:
            RefusedError: it is.
        """
        damage = self.recorded.damage
        kept = kept_files(self._home, self.number)
        if damage is None:
            targets = {self._home / target for _, target in self._replay.renamed}
            stray = [path for path in kept if path not in targets or self.is_undone]
            if not stray:
                return
            damage = f"it does not tell of {counted(len(stray), 'file')} that it keeps"
        what = "is damaged"
        if self.recorded.is_newer:
            what = "was written by a later je-tools, which can put back what was there"
        raise RefusedError(
            f"{self.recorded.folder / FILE_NAME}: the undo journal {what}: {damage}. Nothing "
            f"was changed{self._kept_text(kept)}. "
            f"{drop_text(self._home, self.number)}"
        )

    def _check_places(self) -> None:
        """Refuse to change what a link leads to, or a backup of hard links.

        Raises:
            RefusedError: it would be.
        """
        touched = {self._home / name for name in self._replay.touched | self._replay.begun}
        moved = {self._home / name for names in self._replay.renamed for name in names}
        for path in sorted(touched | moved):
            with suppress(FileNotFoundError):
                if path in touched:
                    check_own_file(path)
                else:
                    check_no_link(path)

    def _kept_text(self, kept: Sequence[Path]) -> str:
        """What a damaged journal still has."""
        frames = (*self.recorded.frames, *self.recorded.later)
        blobs = [frame.blob_size for frame in frames if frame.record == "saved"]
        text = ""
        if blobs:
            text += f"; {sum(blobs):,} bytes that were cut off are in what can be read of it"
        if kept:
            text += "; files that were taken out of the log are still there, to be moved back by "
            text += "hand: "
            text += ", ".join(f"{path} to {place_of(path)}" for path in kept[:_SAID])
            text += f", and {len(kept) - _SAID:,} more" if len(kept) > _SAID else ""
        return text

    def apply(self, disk: Disk) -> None:
        """Put everything back, and remove the journal; the lock is to be held.

        `check` has to be called before. It can be repeated wherever it was interrupted.

        Raises:
            RefusedError: a step failed.
        """
        try:
            self._apply(disk)
        except (KeyboardInterrupt, SystemExit) as error:
            error.add_note(self._state_text().removeprefix("; "))
            raise

    def _apply(self, disk: Disk) -> None:
        journal = Journal(self._home, self.number, disk, self.recorded.size)
        with refusing(self._state_text):
            if self.steps:
                # What a torn frame left must not stand behind one that is whole.
                disk.truncate(journal.folder / "journal", self.recorded.size)
                if not self.is_begun:
                    journal.add("undo")
                journal.sync()
            for step in self.steps:
                self._take_back(step, disk)
                journal.add("back")
                journal.sync()
            if not self.is_undone and self.all_steps:
                self._set_times(disk)
                disk.close()
                self._check_back()
                journal.add("undone")
                journal.sync()
            disk.close()
            for path in kept_files(self._home, self.number):
                raise RefusedError(f"{path}: is still there, so the journal stays too")
            self._remove(disk)
        self._became = State.PUT_BACK

    def drop(self, disk: Disk) -> None:
        """Remove the journal, with what it saved.

        Raises:
            RefusedError: it cannot be removed.
        """
        with refusing():
            self._remove(disk)
        self._became = State.REMOVED

    def _state_text(self) -> str:
        return f"; the undo is not finished: run {undo_command(self._home)} again"

    def _set_times(self, disk: Disk) -> None:
        changed = self._replay.touched | {source for source, _ in self._replay.renamed}
        for name, (_, modified_ns) in self.before.items():
            path = self._home / name
            if name in changed and path.stat().st_mtime_ns != modified_ns:
                disk.set_times(path, modified_ns)
                # What was before is put back only in files that have the time that they had.
                disk.sync(path)

    def _check_back(self) -> None:
        """Read again what was put back, before what it was put back from is removed.

        Raises:
            RefusedError: it is not what is read.
        """
        sizes = {
            path.relative_to(self._home).as_posix(): path.stat().st_size
            for path in log_paths(self._home)
        }
        wrong = {name for name, (size, _) in self.before.items() if sizes.get(name) != size}
        wrong |= sizes.keys() - self.before.keys()
        for name, made in self._replay.made.items():
            for frame in made.saved:
                data = read_at(self._home / name, frame.head["offset"], frame.blob_size, fresh=True)
                if crc32c(data) != frame.blob_sum:
                    wrong.add(name)
        for name, offset, old, _ in self._replay.flips:
            if read_at(self._home / name, offset, len(old), fresh=True) != old:
                wrong.add(name)
        if wrong:
            raise RefusedError(
                f"{self._home / min(wrong)}: what was put back is not what is read: the disk is "
                "not to be trusted. The journal stays"
            )

    def _take_back(self, step: Step, disk: Disk) -> None:
        path = self._home / step.name
        if step.what is Way.REMOVE:
            if path.exists():
                disk.unlink(path)
                disk.sync_folder(path.parent)
        elif step.what is Way.CUT:
            if path.stat().st_size > step.offset:
                disk.truncate(path, step.offset)
            disk.sync(path)
        elif step.what is Way.UNFLIP:
            assert step.frame is not None
            self._unflip(step.frame, disk)
        elif step.what is Way.RENAME:
            target = self._home / step.target
            if path.exists():
                disk.rename(path, target)
            for folder in dict.fromkeys((target.parent, path.parent)):
                if folder.is_dir():
                    disk.sync_folder(folder)
        else:
            for frame in step.saved:
                data = self.recorded.blob(frame)
                if crc32c(data) != frame.blob_sum:
                    raise RefusedError(
                        f"{self.recorded.folder / FILE_NAME}: was read before, and gives other "
                        "bytes now: the disk is not to be trusted"
                    )
                disk.write(path, frame.head["offset"], data)
            disk.sync(path)

    def _unflip(self, frame: Frame, disk: Disk) -> None:
        paths = []
        for name, offset, old, _ in frame.head["flips"]:
            disk.write(self._home / name, offset, bytes.fromhex(old))
            paths.append(self._home / name)
        for path in dict.fromkeys(paths):
            disk.sync(path)

    def _remove(self, disk: Disk) -> None:
        """Remove the journal: under another name first, so that what is left is no journal."""
        folder = self.recorded.folder
        dropped = dropped_folder(self._home, self.number)
        # Of an earlier removal, if somebody has brought the journal back.
        remove_folder(dropped, disk)
        if not folder.is_dir():
            # Of a journal that was lost there is only what it keeps in data directories.
            make_folder(disk, folder)
        disk.rename(folder, dropped)
        disk.sync_folder(folder.parent)
        _clear(self._home, disk)


def clear_remains(home: Path, disk: Disk) -> None:
    """Remove what is left of journals whose removal was interrupted, and empty folders.

    Raises:
        RefusedError: it cannot be removed.
    """
    with refusing():
        _clear(home, disk)


def _clear(home: Path, disk: Disk) -> None:
    check_folders(home)
    clear_begun(home, disk)
    folders = [folder for folder in log_folders(home)[1:] if (folder / FOLDER).is_dir()]
    for number in dropped_numbers(home):
        if not journal_folder(home, number).exists():
            # The folder that tells that there is more to be removed goes last.
            for folder in folders:
                remove_folder(journal_folder(folder, number), disk)
        remove_folder(dropped_folder(home, number), disk)
    for folder in [home, *folders]:
        if (folder / FOLDER).is_dir() and not any((folder / FOLDER).iterdir()):
            disk.rmdir(folder / FOLDER)
            disk.sync_folder(folder)


def list_undos(home: Path) -> list[Undo]:
    """The journals of an environment, the newest last.

    Raises:
        RefusedError: one cannot be read, or something else has its name.
    """
    with refusing():
        return [Undo(read_journal(home, number)) for number in journal_numbers(home)]


def _files(frame: Frame) -> dict[str, tuple[int, int]]:
    """Sizes and times of files, by name, as a journal has them."""
    return {name: (size, modified_ns) for name, size, modified_ns in frame.head["files"]}


class _Replay:
    """What the frames of a journal tell together.

    Attributes:
        steps: how to take back each step, in the order of the operation.
        made: files that were cut or appended to, as they are now called.
        begun: names of files that were begun.
        renamed: names from and to.
        sums: CRC-32C of what was renamed, by the new name.
        settled: new names of files that were renamed for sure.
        flips: file, offset, old and new bytes.
        back_count: steps that were taken back.
    """

    def __init__(self, before: Mapping[str, tuple[int, int]]) -> None:
        self.steps: list[Step] = []
        self.made: dict[str, Made] = {}
        self.begun: set[str] = set()
        self.renamed: list[tuple[str, str]] = []
        self.sums: dict[str, int] = {}
        self.settled: set[str] = set()
        self.flips: list[tuple[str, int, bytes, bytes]] = []
        self.back_count = 0
        self._before = before
        self._there = set(before)
        self._saved: list[Frame] = []
        self._phase = 0

    @property
    def touched(self) -> set[str]:
        """Files that were there and whose bytes were changed."""
        return {*self.made, *(name for name, *_ in self.flips)}

    @property
    def steps_back(self) -> list[Step]:
        """What there is to do, in order, to take all of it back."""
        return _collapsed(self.steps[::-1])

    def run(self, frames: Iterable[Frame]) -> None:
        """Add all frames.

        Raises:
            JournalError: one does not fit to those before.
        """
        for frame in frames:
            self._take(frame)
        count = len(self.steps_back)
        _expect(self.back_count <= count, "more was taken back than was done")
        is_all = self._phase < _PHASES["undone"] or self.back_count == count
        _expect(is_all, "not all was taken back")

    def _take(self, frame: Frame) -> None:
        self._take_turn(frame)
        # A step is done, and where it stays, before the next is told of.
        self.settled.update(target for _, target in self.renamed)
        if frame.record == "saved":
            self._saved.append(frame)
        elif frame.record == "cut":
            self._cut(frame)
        elif frame.record == "rename":
            self._rename(frame)
        elif frame.record == "append":
            self._append(frame)
        elif frame.record == "flip":
            self._flip(frame)
        elif frame.record == "back":
            self.back_count += 1
        elif frame.record == "undo":
            # The operation was stopped while it saved.
            self._saved = []

    def _take_turn(self, frame: Frame) -> None:
        """Hold the order of frames: an operation, its end, its undo, the end of that."""
        phase = _PHASES[frame.record]
        is_once = frame.record not in _MANY
        in_order = self._phase < phase if is_once else self._phase <= phase
        _expect(in_order, f"{frame.record!r} is out of order")
        if frame.record in ("back", "undone"):
            _expect(self._phase >= _PHASES["undo"], "there was no undo")
        is_saving = self._saved and frame.record not in ("saved", "cut", "undo")
        _expect(not is_saving, "what was saved was not cut off")
        self._phase = phase

    def _cut(self, frame: Frame) -> None:
        name, size, before = (frame.head[key] for key in ("file", "size", "before"))
        is_there = name in self._there and name in self._before and name not in self.begun
        _expect(is_there, f"{name} is not there")
        # A file that is cut to its header is cut once more when it is begun anew.
        earlier = self.made.get(name) or Made(self._before[name][0], before, [], [], [])
        is_whole = not earlier.pieces and before == earlier.base
        _expect(is_whole and size < before, f"{name} cannot be cut so")
        saved, self._saved = tuple(self._saved), []
        at = size
        for each in saved:
            is_next = each.head["file"] == name and each.head["offset"] == at
            _expect(is_next, "what was saved was not there")
            at += each.blob_size
        _expect(at == before, "not all was saved that was cut off")
        self.made[name] = Made(size, earlier.before, [], [], [*saved, *earlier.saved])
        self.steps.append(Step(Way.RESTORE, name, size, before - size, saved=saved))

    def _rename(self, frame: Frame) -> None:
        name, target = frame.head["file"], frame.head["target"]
        is_whole = name in self._there and name not in self.made and name not in self.begun
        _expect(is_whole and target not in self.sums, f"{name} cannot be moved so")
        self._there.discard(name)
        self.renamed.append((name, target))
        self.sums[target] = frame.head["checksum"]
        self.steps.append(Step(Way.RENAME, target, size=self._before[name][0], target=name))

    def _append(self, frame: Frame) -> None:
        at = 0
        for name, offset, size, checksum in frame.head["pieces"]:
            if name not in self._there:
                _expect(offset == 0, f"{name} is not there")
                self._there.add(name)
                self.begun.add(name)
                self.made[name] = Made(0, 0, [], [], [])
                self.steps.append(Step(Way.REMOVE, name, 0))
            elif name not in self.made:
                _expect(offset == self._before[name][0], f"{name} does not end there")
                self.made[name] = Made(offset, offset, [], [], [])
            made = self.made[name]
            _expect(offset == made.end, f"{name} does not end there")
            made.pieces.append(Piece(Path(name), offset, size, checksum))
            made.sums.append((frame, at))
            at += 4 * part_count(offset, size)
            self.steps.append(Step(Way.CUT, name, offset, size))

    def _flip(self, frame: Frame) -> None:
        flips = frame.head["flips"]
        for name, offset, old, new in flips:
            is_there = name in self._there and name not in self.begun
            most = self.made[name].base if name in self.made else self._before.get(name, (0,))[0]
            _expect(is_there and offset + len(old) // 2 <= most, f"{name} has no such bits")
            self.flips.append((name, offset, bytes.fromhex(old), bytes.fromhex(new)))
        size = sum(len(old) // 2 for _, _, old, _ in flips)
        names = ", ".join(dict.fromkeys(name for name, *_ in flips))
        first = min(offset for _, offset, _, _ in flips)
        self.steps.append(Step(Way.UNFLIP, names, first, size, frame=frame))


_PHASES = {
    "begin": 1,
    **dict.fromkeys(("saved", "cut", "rename", "append", "flip"), 2),
    "done": 3,
    "undo": 4,
    "back": 5,
    "undone": 6,
}
_MANY = {"saved", "cut", "rename", "append", "flip", "back"}


def _expect(condition: bool, what: str) -> None:
    """Refuse a journal whose frames do not fit together.

    Raises:
        JournalError: of what they do not.
    """
    if not condition:
        raise JournalError(what)


def _collapsed(steps: Sequence[Step]) -> list[Step]:
    """Steps back, those one on which cut one file one after the other as one."""
    found: list[Step] = []
    for step in steps:
        last = found[-1] if found else None
        is_same = last is not None and last.what is Way.CUT and last.name == step.name
        if last is not None and is_same and step.what in (Way.CUT, Way.REMOVE):
            found[-1] = Step(step.what, step.name, step.offset, step.size + last.size)
        else:
            found.append(step)
    return found


class _Check:
    """Holds the files against what a journal says of them."""

    def __init__(
        self,
        home: Path,
        recorded: Recorded,
        replay: _Replay,
        before: Mapping[str, tuple[int, int]],
        any_time: bool,
    ) -> None:
        self._home = home
        self._recorded = recorded
        self._replay = replay
        self._before = before
        self._any_time = any_time
        self._is_done = recorded.first("done") is not None
        self._is_begun = recorded.first("undo") is not None

    def run(self) -> None:
        """Look at all files.

        Raises:
            RefusedError: one is not what it can be.
        """
        there = {path.relative_to(self._home).as_posix() for path in log_paths(self._home)}
        done = self._recorded.first("done")
        if done is not None and not self._is_begun:
            self._check_done(there, _files(done))
        moved = {source for source, _ in self._replay.renamed}
        for source, target in self._replay.renamed:
            self._check_moved(there, source, target)
        for name in there - set(self._before) - self._replay.begun:
            raise self._unlike(name, "was not there")
        for name, (size, modified_ns) in self._before.items():
            if name in moved:
                continue
            if name not in there:
                raise self._unlike(name, "was there", "and is gone")
            if name not in self._replay.made:
                is_flipped = any(name == flipped for flipped, *_ in self._replay.flips)
                self._check_same(name, size, None if is_flipped else modified_ns)
        for name, made in self._replay.made.items():
            if name in there and (name not in moved or self._is_kept(name)):
                self._check_made(name, made)
        for name, offset, old, new in self._replay.flips:
            found = read_at(self._home / name, offset, len(old))
            if len(found) < len(old) or any(map(_differ, found, old, new)):
                raise self._other(name, f"has other bytes at {offset:#x}")

    def _check_done(self, there: set[str], files: Mapping[str, tuple[int, int]]) -> None:
        """Of an operation that came to its end all files are as it left them."""
        for name in sorted(there ^ set(files)):
            if name in files:
                raise self._unlike(name, "was there", "and is gone")
            raise self._unlike(name, "was not there")
        for name, (size, modified_ns) in files.items():
            self._check_same(name, size, modified_ns)

    def _check_same(self, name: str, size: int, modified_ns: int | None) -> None:
        path = self._home / name
        seen = seen_of(path)
        if seen.size != size:
            raise self._unlike(name, f"had {size:,} bytes", f"and has {seen.size:,} now")
        if modified_ns is None or seen.modified_ns == modified_ns:
            return
        if not self._is_done and not self._is_begun:
            # Bits that were flipped, and that the journal does not tell of, show in nothing else.
            raise self._other(name, "was written to, or is a copy that has another time")
        if not self._any_time:
            raise RefusedError(
                f"{path}: was written to since, or is a copy that has another time; only where "
                "you know that it is a copy, repeat with --any-time"
            )

    def _is_kept(self, name: str) -> bool:
        """Whether a file of this name was moved, and is not back."""
        targets = [target for source, target in self._replay.renamed if source == name]
        return any((self._home / target).exists() for target in targets)

    def _check_moved(self, there: set[str], source: str, target: str) -> None:
        size, modified_ns = self._before[source]
        if (self._home / target).exists():
            self._check_kept(source, target, size)
            if source in there and source not in self._replay.begun:
                raise self._unlike(source, "was not there")
        elif source not in there or (target in self._replay.settled and not self._is_begun):
            raise RefusedError(
                f"{self._home / target}: was taken out of the log, and is gone: the undo has "
                f"nothing to put back. {self._drop_text()}"
            )
        else:
            self._check_same(source, size, modified_ns)

    def _check_kept(self, source: str, target: str, size: int) -> None:
        """What was taken out of the log has the bytes that it had, whatever its time."""
        path = self._home / target
        if seen_of(path).size == size and sum_of(path, size) == self._replay.sums[target]:
            return
        raise RefusedError(
            f"{path}: was taken out of the log, and is damaged: it does not hold the {size:,} "
            f"bytes any more that it held then. Nothing was put back; the file is still there, to "
            f"be moved by hand to {self._home / source}. "
            f"{self._drop_text()}"
        )

    def _unlike(self, name: str, before: str, now: str = "") -> RefusedError:
        """A file that is not what it was when the journal was last written to."""
        when = "ended" if self._is_done and not self._is_begun else "began"
        return self._other(name, f"{before} when the operation {when}{now and ', '}{now}")

    def _other(self, name: str, what: str) -> RefusedError:
        since = "something else has written to the log since, which the undo would destroy"
        if not self._is_done and not self._is_begun:
            since = (
                "something else has written to the log since, which the undo would destroy, or "
                "the journal has lost its end: it does not tell that the operation ended"
            )
        return RefusedError(f"{self._home / name}: {what}; {since}. {self._drop_text()}")

    def _drop_text(self) -> str:
        return drop_text(self._home, self._recorded.number)

    def _check_made(self, name: str, made: Made) -> None:
        """What was appended to a file is ours, or what was cut off, or nothing yet."""
        path = self._home / name
        size = path.stat().st_size
        most = max([made.before, *(p.offset + p.size for p in made.pieces)])
        if not made.base <= size <= most:
            most_text = f"{made.base:,} to {most:,}"
            raise self._other(name, f"has {size:,} bytes, and should have {most_text}")
        for start, stop, at in self._spans(made, size):
            data = read_at(path, start, stop - start)
            piece = None if at is None else made.pieces[at]
            if piece is not None and crc32c(data) == piece.checksum:
                continue
            if _is_zero(data) or data == self._old(made, start, stop):
                continue
            is_ours = self._ours(made, at, start, data)
            for a in range(start // SECTOR * SECTOR, stop, SECTOR):
                b, a = min(a + SECTOR, stop), max(a, start)
                first = start // PART
                if is_ours[a // PART - first : (b - 1) // PART - first + 1].all():
                    continue
                part = data[a - start : b - start]
                if not (_is_zero(part) or part == self._old(made, a, b)):
                    raise self._other(name, f"has other bytes at {a:#x}")

    def _spans(self, made: Made, size: int) -> Iterator[tuple[int, int, int | None]]:
        """Spans of a file up to its size, and the piece that was written to each."""
        at = made.base
        for i, piece in enumerate(made.pieces):
            at = piece.offset + piece.size
            if piece.offset < size:
                yield piece.offset, min(at, size), i
        for start in range(at, size, _PIECE):
            yield start, min(start + _PIECE, size), None

    def _ours(self, made: Made, at: int | None, start: int, data: bytes) -> npt.NDArray[np.bool_]:
        """Which parts of a span of a file hold what was appended there."""
        found = part_sums(start, data)
        if at is None:
            return np.zeros(len(found), np.bool_)
        piece, (frame, first) = made.pieces[at], made.sums[at]
        blob = self._recorded.blob(frame, first, first + 4 * part_count(piece.offset, piece.size))
        is_ours: npt.NDArray[np.bool_] = found == np.frombuffer(blob, "<u4")[: len(found)]
        stop = start + len(data)
        if stop < piece.offset + piece.size and stop % PART:
            # The write was stopped in it, and there is no sum of what is there.
            is_ours[-1] = True
        return is_ours

    def _old(self, made: Made, start: int, stop: int) -> bytes | None:
        """What was cut off there; None where that was less."""
        parts = []
        for frame in made.saved:
            first = frame.head["offset"]
            a, b = max(start, first), min(stop, first + frame.blob_size)
            if a < b:
                parts.append(self._recorded.blob(frame, a - first, b - first))
        found = b"".join(parts)
        return found if len(found) == stop - start else None


def _differ(found: int, old: int, new: int) -> bool:
    """Whether a byte is neither: of several any may have been written."""
    return found not in (old, new)


def _is_zero(data: bytes) -> bool:
    return data.count(0) == len(data)


def drop_text(home: Path, number: int) -> str:
    """How a journal is removed by somebody who does not want it any more."""
    command = undo_command(home, f" --drop {number}")
    return f"{command} removes the journal, with all that it keeps"
