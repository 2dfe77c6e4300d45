"""Verifying the write-ahead log of nodes: every file, and the files with each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from je_tools.core.escaping import counted
from je_tools.core.ordered import map_in_order
from je_tools.findings import Severity
from je_tools.ignite.wal.segment_judge import FileJudge, SegmentVerdict, judge_of, missing_segments
from je_tools.ignite.wal.twins import differing_twins

if TYPE_CHECKING:
    from je_tools.ignite.node_findings import NodeFinding
    from je_tools.ignite.store import Node, Store
    from je_tools.log.scan_options import Progress


class WalTotals(Struct):
    """Totals of a verification, filled while its findings are read.

    Attributes:
        files: files of segments that were read.
        records: records in them.
        size: bytes of them.
        errors, notes: findings by severity.
    """

    files: int = 0
    records: int = 0
    size: int = 0
    errors: int = 0
    notes: int = 0

    def verdict(self, name: str) -> str:
        """Return the totals in one line."""
        read = f"{counted(self.files, 'file')}, {counted(self.records, 'record')}"
        errors = counted(self.errors, "error") if self.errors else "no errors"
        return f"{name}: {errors} in {read}, {counted(self.size, 'byte')}"


def verify_wal(
    store: Store,
    totals: WalTotals,
    threads: int,
    *,
    everything: bool = False,
    progress: Progress | None = None,
) -> Iterator[NodeFinding]:
    """Yield the findings of all nodes, by node and file, and fill the totals.

    Args:
        store: the nodes.
        totals: filled as the findings are yielded.
        threads: number of files to read at once.
        everything: also yield where segments end without anything wrong.
        progress: called with the bytes of each file that was read; None for nothing.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    for node in store.nodes:
        for found in _findings_of(store, node, totals, threads, progress):
            if found.code == "wal-end" and not everything:
                continue
            totals.errors += found.severity is Severity.ERROR
            totals.notes += found.severity is not Severity.ERROR
            yield found


def _findings_of(
    store: Store, node: Node, totals: WalTotals, threads: int, progress: Progress | None
) -> Iterator[NodeFinding]:
    judge = judge_of(store, node)
    verdicts = []
    for verdict in map_in_order(judge.judge, node.segments, threads):
        verdicts.append(verdict)
        if progress is not None:
            progress(verdict.file.size)
    for verdict in verdicts:
        totals.files += 1
        totals.records += verdict.records
        totals.size += verdict.file.size
        for found in verdict.findings:
            yield _beside_copies(found, verdict, verdicts, judge)
    yield from differing_twins(verdicts, judge)
    yield from missing_segments(node)


def _beside_copies(
    found: NodeFinding, verdict: SegmentVerdict, others: Sequence[SegmentVerdict], judge: FileJudge
) -> NodeFinding:
    """Return a finding on bytes, with what the other copies of the segment mean for it.

    The engine reads a segment from the archive, so that nothing needs a copy in the ring if the
    archive has the segment whole.
    """
    if found.code not in ("wal-gap", "wal-early-end") or verdict.file.is_packed:
        return found
    copies = [each for each in others if each is not verdict and _is_copy(each, found)]
    archived = next((each for each in copies if each.file.is_archived and _is_whole(each)), None)
    if archived is not None and not verdict.file.is_archived:
        hint = f"Nothing to do: the node reads {judge.path(archived.file)}, which is whole."
        return replace(found, severity=Severity.NOTE, hint=hint)
    for other in copies:
        assert other.end.tail is not None
        stop = found.resume_offset
        if stop is not None and other.end.tail.stop.at >= stop and not _overlaps(other, found):
            hint = (
                f"{judge.path(other.file)} has these bytes undamaged; `ignite recover` copies them "
                "from there."
            )
            return replace(found, hint=hint)
    return found


def _is_copy(verdict: SegmentVerdict, found: NodeFinding) -> bool:
    """Return True for a file, not compacted, that was read and has the segment of a finding."""
    file = verdict.file
    is_same = file.header is not None and file.header.segment == found.segment
    return is_same and not file.is_packed and verdict.end.tail is not None


def _is_whole(verdict: SegmentVerdict) -> bool:
    return all(each.severity is not Severity.ERROR for each in verdict.findings)


def _overlaps(verdict: SegmentVerdict, found: NodeFinding) -> bool:
    start, stop = found.offset or 0, found.resume_offset or 0
    is_capped = verdict.end.gap_count > len(verdict.end.gaps)
    return is_capped or any(gap.stop.at < stop and start < gap.end for gap in verdict.end.gaps)
