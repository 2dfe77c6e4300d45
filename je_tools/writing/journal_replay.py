"""Replay of a journal: the changes that its frames record, and the steps that undo them.

Each frame is checked against those before it, so that a damaged or edited journal is reported
before anything is put back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from je_tools.writing.frames import Frame, JournalError
from je_tools.writing.part_sums import part_count
from je_tools.writing.written_pieces import WrittenPiece

_PHASES = {
    "begin": 1,
    **dict.fromkeys(("saved", "cut", "rename", "append", "flip"), 2),
    "done": 3,
    "undo": 4,
    "back": 5,
    "undone": 6,
}
_MANY = {"saved", "cut", "rename", "append", "flip", "back"}


class UndoKind(StrEnum):
    """Kinds of steps that revert a change."""

    CUT = "cut-off"
    """Cut off bytes that were appended to a file."""
    REMOVE = "remove"
    """Remove a file that was begun."""
    UNFLIP = "flip-back"
    """Restore bits that were changed in place."""
    RENAME = "rename"
    """Rename a file that was set aside or taken out of the log."""
    RESTORE = "write-back"
    """Write back bytes that were cut off a file."""


class UndoStep(Struct, frozen=True):
    """A step that undoes a change.

    Attributes:
        what: kind of the step.
        name: path of the file, relative to the home.
        offset: offset of the bytes to cut off or put back.
        size: number of bytes to cut off or put back.
        target: new name for a rename.
        frame: frame of the journal with the bits to flip back; None for other steps.
        saved: frames with the bytes to write back.
    """

    what: UndoKind
    name: str
    offset: int = 0
    size: int = 0
    target: str = ""
    frame: Frame | None = None
    saved: tuple[Frame, ...] = ()


class ChangedFile(Struct, frozen=True):
    """A file that an operation cut, appended to, or began.

    Attributes:
        base: offset from which the operation cut off or appended bytes.
        before: size of the file before; 0 for a file that was begun.
        pieces: appended pieces, in order.
        sums: frame that holds the part sums of each piece, and their offset in its bytes.
        saved: frames with the bytes that were cut off.
    """

    base: int
    before: int
    pieces: list[WrittenPiece]
    sums: list[tuple[Frame, int]]
    saved: list[Frame]

    @property
    def end(self) -> int:
        """Offset at which the next piece is appended."""
        return self.pieces[-1].offset + self.pieces[-1].size if self.pieces else self.base


def files_of(frame: Frame) -> dict[str, tuple[int, int]]:
    """Return the size in bytes and the modification time in ns of each file that a frame lists."""
    return {name: (size, modified_ns) for name, size, modified_ns in frame.head["files"]}


class Replay:
    """The changes that the frames of a journal record.

    Attributes:
        steps: step that reverts each change, in the order of the operation.
        changed_files: files that were cut, appended to or begun, by name.
        begun: names of files that were begun.
        renamed: old and new name of each renamed file.
        sums: CRC-32C of each renamed file, by new name.
        certain: new names of files whose rename was certainly done.
        flips: file, offset, old and new bytes of each flip.
        back_count: number of steps that were undone.
    """

    def __init__(self, before: Mapping[str, tuple[int, int]]) -> None:
        """Begin with the files before the operation: sizes and times, by name."""
        self.steps: list[UndoStep] = []
        self.changed_files: dict[str, ChangedFile] = {}
        self.begun: set[str] = set()
        self.renamed: list[tuple[str, str]] = []
        self.sums: dict[str, int] = {}
        self.certain: set[str] = set()
        self.flips: list[tuple[str, int, bytes, bytes]] = []
        self.back_count = 0
        self._before = before
        self._there = set(before)
        self._saved: list[Frame] = []
        self._phase = 0

    @property
    def touched(self) -> set[str]:
        """Names of files whose bytes were changed."""
        return {*self.changed_files, *(name for name, *_ in self.flips)}

    @property
    def steps_back(self) -> list[UndoStep]:
        """The steps that revert all changes, in order."""
        return _combine_steps(self.steps[::-1])

    def run(self, frames: Iterable[Frame]) -> None:
        """Add all frames.

        Raises:
            JournalError: a frame contradicts those before it.
        """
        for frame in frames:
            self._add(frame)
        count = len(self.steps_back)
        _expect(self.back_count <= count, "more was undone than was done")
        is_all = self._phase < _PHASES["undone"] or self.back_count == count
        _expect(is_all, "not everything was undone")

    def _add(self, frame: Frame) -> None:
        self._check_order(frame)
        # A step is durable before the journal records the next one.
        self.certain.update(target for _, target in self.renamed)
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
            # The operation was stopped while it saved bytes.
            self._saved = []

    def _check_order(self, frame: Frame) -> None:
        """Check the order: the changes, the operation's end, its undo, and the end of the undo."""
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
        # A file that was cut to its header is cut again when it is begun anew.
        earlier = self.changed_files.get(name) or ChangedFile(
            self._before[name][0], before, [], [], []
        )
        is_whole = not earlier.pieces and before == earlier.base
        _expect(is_whole and size < before, f"{name} cannot be cut so")
        saved, self._saved = tuple(self._saved), []
        at = size
        for each in saved:
            is_next = each.head["file"] == name and each.head["offset"] == at
            _expect(is_next, "what was saved was not there")
            at += each.blob_size
        _expect(at == before, "not everything that was cut off was saved")
        self.changed_files[name] = ChangedFile(
            size, earlier.before, [], [], [*saved, *earlier.saved]
        )
        self.steps.append(UndoStep(UndoKind.RESTORE, name, size, before - size, saved=saved))

    def _rename(self, frame: Frame) -> None:
        name, target = frame.head["file"], frame.head["target"]
        is_whole = name in self._there and name not in self.changed_files and name not in self.begun
        _expect(is_whole and target not in self.sums, f"{name} cannot be moved so")
        self._there.discard(name)
        self.renamed.append((name, target))
        self.sums[target] = frame.head["checksum"]
        self.steps.append(
            UndoStep(UndoKind.RENAME, target, size=self._before[name][0], target=name)
        )

    def _append(self, frame: Frame) -> None:
        at = 0
        for name, offset, size, checksum in frame.head["pieces"]:
            if name not in self._there:
                _expect(offset == 0, f"{name} is not there")
                self._there.add(name)
                self.begun.add(name)
                self.changed_files[name] = ChangedFile(0, 0, [], [], [])
                self.steps.append(UndoStep(UndoKind.REMOVE, name, 0))
            elif name not in self.changed_files:
                _expect(offset == self._before[name][0], f"{name} does not end there")
                self.changed_files[name] = ChangedFile(offset, offset, [], [], [])
            changed = self.changed_files[name]
            _expect(offset == changed.end, f"{name} does not end there")
            changed.pieces.append(WrittenPiece(Path(name), offset, size, checksum))
            changed.sums.append((frame, at))
            at += 4 * part_count(offset, size)
            self.steps.append(UndoStep(UndoKind.CUT, name, offset, size))

    def _flip(self, frame: Frame) -> None:
        flips = frame.head["flips"]
        for name, offset, old, new in flips:
            is_there = name in self._there and name not in self.begun
            most = (
                self.changed_files[name].base
                if name in self.changed_files
                else self._before.get(name, (0,))[0]
            )
            _expect(is_there and offset + len(old) // 2 <= most, f"{name} has no such bits")
            self.flips.append((name, offset, bytes.fromhex(old), bytes.fromhex(new)))
        size = sum(len(old) // 2 for _, _, old, _ in flips)
        names = ", ".join(dict.fromkeys(name for name, *_ in flips))
        first = min(offset for _, offset, _, _ in flips)
        self.steps.append(UndoStep(UndoKind.UNFLIP, names, first, size, frame=frame))


def _expect(condition: bool, what: str) -> None:
    """Refuse a journal whose frames contradict each other.

    Raises:
        JournalError: `condition` is false.
    """
    if not condition:
        raise JournalError(what)


def _combine_steps(steps: Sequence[UndoStep]) -> list[UndoStep]:
    """Combine consecutive steps that cut the same file, or cut and remove it."""
    found: list[UndoStep] = []
    for step in steps:
        last = found[-1] if found else None
        is_same = last is not None and last.what is UndoKind.CUT and last.name == step.name
        if last is not None and is_same and step.what in (UndoKind.CUT, UndoKind.REMOVE):
            found[-1] = UndoStep(step.what, step.name, step.offset, step.size + last.size)
        else:
            found.append(step)
    return found
