"""Verifying the write-ahead log of nodes: every file, and the files with each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from je_tools.core.ordered import map_in_order
from je_tools.findings import Severity
from je_tools.ignite.wal.segment_judge import FileJudge, SegmentVerdict, judge_of, missing_segments
from je_tools.ignite.wal.twins import differing_twins

if TYPE_CHECKING:
    from je_tools.ignite.store import Node, Store
    from je_tools.ignite.wal.wal_findings import WalFinding
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
        read = f"{self.files:,} files, {self.records:,} records, {self.size:,} bytes"
        what = "error" if self.errors == 1 else "errors"
        return f"{name}: {self.errors or 'no'} {what} in {read}"


def verify_wal(
    store: Store,
    totals: WalTotals,
    threads: int,
    *,
    everything: bool = False,
    progress: Progress | None = None,
) -> Iterator[WalFinding]:
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
) -> Iterator[WalFinding]:
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
            yield _with_twin(found, verdict, verdicts, judge)
    yield from differing_twins(verdicts, judge)
    yield from missing_segments(node)


def _with_twin(
    found: WalFinding, verdict: SegmentVerdict, others: Sequence[SegmentVerdict], judge: FileJudge
) -> WalFinding:
    """Return a finding on a gap with the file that has the same bytes undamaged, if any."""
    if found.code != "wal-gap" or found.resume_offset is None or verdict.file.is_packed:
        return found
    for other in others:
        header = other.file.header
        if other is verdict or header is None or other.file.is_packed or other.end.tail is None:
            continue
        is_same = header.segment == found.segment and other.end.tail.stop.at >= found.resume_offset
        if is_same and not _overlaps(other, found):
            return replace(found, hint=f"{judge.path(other.file)} has these bytes undamaged.")
    return found


def _overlaps(verdict: SegmentVerdict, found: WalFinding) -> bool:
    start, stop = found.offset or 0, found.resume_offset or 0
    is_capped = verdict.end.gap_count > len(verdict.end.gaps)
    return is_capped or any(gap.stop.at < stop and start < gap.end for gap in verdict.end.gaps)
