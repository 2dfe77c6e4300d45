"""Judging the checkpoints of a node: markers, their records, and the log that recovery needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from je_tools.findings import Severity
from je_tools.formats.ignite.markers import MARKER_SIZE, Pointer
from je_tools.ignite.node_findings import CODES, NodeFinding
from je_tools.ignite.store import path_below

if TYPE_CHECKING:
    from je_tools.ignite.checkpoints.node_checkpoints import Checkpoint, NodeCheckpoints
    from je_tools.ignite.checkpoints.records import CheckpointRecord


class CheckpointJudge(Struct, frozen=True):
    """Judge of the checkpoints of one node.

    Attributes:
        found: the checkpoints.
        root: directory that the paths in findings are relative to.
    """

    found: NodeCheckpoints
    root: str

    def findings(self) -> Iterator[NodeFinding]:
        """Yield what is wrong, files first."""
        yield from self._of_files()
        newest = max((each.time_ms for each in self.found.checkpoints), default=0)
        records = {each.pointer: each for each in reversed(self.found.records)}
        for checkpoint in self.found.checkpoints:
            yield from self._of_pair(checkpoint, newest)
            yield from self._of_record(checkpoint, records)
        yield from self._unmarked()
        yield from self._of_need()

    def _finding(
        self, code: str, path: Path | None, pointer: Pointer | None = None, **facts: Any
    ) -> NodeFinding:
        severity = facts.pop("severity", CODES[code].severity)
        file = None if path is None else path_below(path, self.root)
        if pointer is not None:
            facts |= {"segment": pointer.segment, "offset": pointer.offset}
            facts |= {"length": pointer.length}
        return NodeFinding(code, severity, self.found.node, file, **facts)

    def _of_files(self) -> Iterator[NodeFinding]:
        for marker in self.found.folder.markers:
            if marker.problem is not None:
                texts = {"expected": f"{MARKER_SIZE} bytes of a pointer", "found": marker.problem}
                yield self._finding("marker-bad", marker.path, None, **texts)
        for path in self.found.folder.leftovers:
            yield self._finding("marker-leftover", path)

    def _of_pair(self, checkpoint: Checkpoint, newest: int) -> Iterator[NodeFinding]:
        begin, end = checkpoint.begin, checkpoint.end
        if begin is None and end is not None:
            yield self._finding("marker-no-begin", end.path, end.pointer)
        elif begin is not None and end is None:
            what = "no end" if checkpoint.time_ms == newest else "no end, and a later checkpoint"
            yield self._finding("marker-unfinished", begin.path, begin.pointer, found=what)
        elif begin and end and begin.pointer and end.pointer and begin.pointer != end.pointer:
            texts = {"expected": _text(begin.pointer), "found": _text(end.pointer)}
            yield self._finding("marker-differs", end.path, None, **texts)

    def _of_record(
        self, checkpoint: Checkpoint, records: Mapping[Pointer, CheckpointRecord]
    ) -> Iterator[NodeFinding]:
        pointer, marker = checkpoint.pointer, checkpoint.begin or checkpoint.end
        if pointer is None or pointer.is_null or checkpoint.record is not None or marker is None:
            return
        need, is_gone = self.found.need, pointer.segment not in self.found.segments
        is_old = need.first is not None and pointer.segment < need.first
        severity = Severity.NOTE if is_old and is_gone else Severity.ERROR
        other = records.get(pointer)
        found = "no such record" if other is None else f"that of checkpoint {other.checkpoint}"
        texts = {
            "expected": f"the record of checkpoint {checkpoint.checkpoint}",
            "found": "the segment is in no file" if is_gone else found,
        }
        code = "checkpoint-no-record"
        yield self._finding(code, marker.path, pointer, severity=severity, **texts)

    def _unmarked(self) -> Iterator[NodeFinding]:
        begins = [c for c in self.found.checkpoints if c.begin is not None]
        last = max((c.pointer for c in begins if c.record and c.pointer), default=None)
        known = {checkpoint.checkpoint for checkpoint in begins}
        for record in self.found.records:
            is_later = last is None or record.pointer > last
            if is_later and record.checkpoint not in known:
                texts = {"expected": "a begin marker", "found": f"checkpoint {record.checkpoint}"}
                yield self._finding("checkpoint-unmarked", None, record.pointer, **texts)

    def _of_need(self) -> Iterator[NodeFinding]:
        need = self.found.need
        for first, stop in need.missing:
            which = f"segment {first}" if stop - first == 1 else f"segments {first} to {stop - 1}"
            yield self._finding(
                "checkpoint-missing-wal", None, segment=first, expected=which, found="no file"
            )
        if need.marked is not None:
            last = -1 if need.last is None else need.last
            first, stop = max(last + 1, need.first or 0), need.marked
            which = f"segment {first}" if first == stop else f"segments {first} to {stop}"
            yield self._finding(
                "checkpoint-missing-wal",
                None,
                segment=first,
                expected=which,
                found=f"no file; a marker points to segment {stop}",
                hint="If the marker is of another node, `ignite recover` sets it aside.",
            )
        for index in need.compacted:
            texts = {"expected": "records of pages", "found": "a compacted segment has none"}
            yield self._finding("checkpoint-missing-wal", None, None, segment=index, **texts)


def _text(pointer: Pointer) -> str:
    return f"segment {pointer.segment}, offset {pointer.offset}, {pointer.length} bytes"
