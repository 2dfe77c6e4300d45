"""The edits that a journal records, and the steps that revert them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from je_tools.writing.frames import Frame, JournalError
from je_tools.writing.journal_replay import UndoKind, UndoStep, files_of

_ORDER = {
    "begin": 1,
    **dict.fromkeys(("saved", "write", "zero", "create", "rename"), 2),
    "ready": 3,
    "done": 4,
    "undo": 5,
    "undone": 6,
}
_MANY = 2


class WrittenSpan(Struct, frozen=True):
    """A span of a file that was written.

    Attributes:
        name: name of the file.
        offset, size: the span.
        frame: frame with the new bytes; None for zeros.
    """

    name: str
    offset: int
    size: int
    frame: Frame | None


class RecordedEdits:
    """The edits of an operation, rebuilt from the frames of its journal.

    Attributes:
        before: size and time of each file before, by name.
        after: the same once the operation was done; None if it was not finished.
        is_ready: True if the operation may have changed something.
        is_undo_begun, is_undone: True if its undo has begun, or ended.
        saved: frames with old bytes, by name.
        written: spans that were written.
        created: sizes of created files, by name.
        renamed: name, new name and CRC-32C of each file that was set aside.
        steps: steps that revert everything, in order.
    """

    def __init__(self, frames: Iterable[Frame]) -> None:
        """Read frames whose fields were checked.

        Raises:
            JournalError: a frame contradicts those before it.
        """
        self.before: dict[str, tuple[int, int]] = {}
        self.after: dict[str, tuple[int, int]] | None = None
        self.is_ready = self.is_undo_begun = self.is_undone = False
        self.saved: dict[str, list[Frame]] = {}
        self.written: list[WrittenSpan] = []
        self.created: dict[str, int] = {}
        self.renamed: list[tuple[str, str, int]] = []
        self._moved: set[str] = set()
        self._ends: dict[str, int] = {}
        self._steps: list[UndoStep] = []
        self._pending: list[Frame] = []
        phase = 0
        for frame in frames:
            order = _ORDER[frame.record]
            _expect(order > phase or order == phase == _MANY, f"{frame.record!r} is out of order")
            phase = order
            self._add(frame.record, frame)
        _expect(not self.is_undone or self.is_undo_begun, "there was no undo")
        self.steps = _merged(self._steps[::-1])

    def size_after(self, name: str) -> int:
        """Return the largest size that a written file can have."""
        return max(self.before[name][0], self._ends.get(name, 0))

    def _add(self, record: str, frame: Frame) -> None:
        head = frame.head
        if record == "begin":
            self.before = files_of(frame)
        elif record == "saved":
            self._save(frame)
        elif record == "write":
            self._write(WrittenSpan(head["file"], head["offset"], frame.blob_size, frame))
        elif record == "zero":
            self._write(WrittenSpan(head["file"], head["offset"], head["size"], None))
        elif record == "create":
            self._create(head)
        elif record == "rename":
            self._rename(head)
        elif record == "ready":
            _expect(not self._pending, "what was saved was not overwritten")
            self.is_ready = True
        elif record == "done":
            self.after = files_of(frame)
        else:
            _expect(self.is_ready, f"{record!r} without a change")
            self.is_undo_begun = True
            self.is_undone = record == "undone"

    def _save(self, frame: Frame) -> None:
        name, stop = frame.head["file"], frame.head["offset"] + frame.blob_size
        _expect(name in self.before and stop <= self.before[name][0], f"{name} had no such bytes")
        self.saved.setdefault(name, []).append(frame)
        self._pending.append(frame)

    def _write(self, written: WrittenSpan) -> None:
        name = written.name
        is_there = name in self.before and name not in self._moved
        _expect(is_there and written.size > 0, f"{name} cannot be written so")
        size = self.before[name][0]
        if self.size_after(name) <= size < written.offset + written.size:
            self._steps.append(
                UndoStep(UndoKind.CUT, name, size, written.offset + written.size - size)
            )
        self.written.append(written)
        self._ends[name] = max(self._ends.get(name, 0), written.offset + written.size)
        if self._pending:
            saved, self._pending = tuple(self._pending), []
            _expect(all(each.head["file"] == name for each in saved), "other bytes were saved")
            start = saved[0].head["offset"]
            count = sum(each.blob_size for each in saved)
            self._steps.append(UndoStep(UndoKind.RESTORE, name, start, count, saved=saved))

    def _create(self, head: Mapping[str, Any]) -> None:
        name = head["file"]
        is_new = name not in self.before or name in self._moved
        _expect(is_new and name not in self.created, f"{name} was there")
        self.created[name] = head["size"]
        self._steps.append(UndoStep(UndoKind.REMOVE, name, 0, head["size"]))

    def _rename(self, head: Mapping[str, Any]) -> None:
        name = head["file"]
        is_whole = name in self.before and name not in self._moved and name not in self.created
        _expect(is_whole and name not in self.saved, f"{name} cannot be moved so")
        self.renamed.append((name, head["target"], head["checksum"]))
        self._moved.add(name)
        size = self.before[name][0]
        self._steps.append(UndoStep(UndoKind.RENAME, head["target"], size=size, target=name))


def _merged(steps: Iterable[UndoStep]) -> list[UndoStep]:
    """Combine consecutive steps that write back bytes of one file."""
    found: list[UndoStep] = []
    for step in steps:
        last = found[-1] if found else None
        is_restored = (
            step.what is UndoKind.RESTORE and last is not None and last.what is UndoKind.RESTORE
        )
        if last is not None and is_restored and last.name == step.name:
            start, size = min(last.offset, step.offset), last.size + step.size
            found[-1] = UndoStep(
                UndoKind.RESTORE, step.name, start, size, saved=(*last.saved, *step.saved)
            )
        else:
            found.append(step)
    return found


def _expect(condition: bool, what: str) -> None:
    """Refuse a journal whose frames contradict each other.

    Raises:
        JournalError: `condition` is false.
    """
    if not condition:
        raise JournalError(what)
