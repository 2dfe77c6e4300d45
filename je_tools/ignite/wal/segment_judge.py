"""Judging one file of a segment: what is wrong with its bytes.

Source: AbstractWalRecordsIterator, FileWriteAheadLogManager.RecordsIterator, Ignite 2.18.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from je_tools.errors import InputError
from je_tools.findings import Severity
from je_tools.formats.ignite.types import type_name
from je_tools.formats.ignite.walk import GAPS_KEPT, MIN_SIZE, NO_TYPE, Cause, SegmentTail, Stop
from je_tools.ignite.node_findings import CODES, NodeFinding
from je_tools.ignite.segment_files import Status
from je_tools.ignite.store import path_below
from je_tools.ignite.wal.segment_reading import SegmentEnd, copies_of, has_records, read_segment

if TYPE_CHECKING:
    from je_tools.ignite.segment_files import SegmentFile
    from je_tools.ignite.store import Node, Store


class SegmentVerdict(Struct, frozen=True):
    """A file of a segment that was read.

    Attributes:
        file: the file.
        records: number of its records.
        end: its gaps, and how it ends.
        findings: what is wrong with it.
    """

    file: SegmentFile
    records: int
    end: SegmentEnd
    findings: list[NodeFinding]


def judge_of(store: Store, node: Node) -> FileJudge:
    """Return the judge of the files of a node."""
    last = max((copies.index for copies in copies_of(node)), default=-1)
    return FileJudge(node.name, str(store.roots[0]), last)


def missing_segments(node: Node) -> Iterator[NodeFinding]:
    """Yield the segments between those of a node that are in no file."""
    for before, after in pairwise([copies.index for copies in copies_of(node)]):
        first, last = before + 1, after - 1
        if first > last:
            continue
        which = f"segment {first}" if first == last else f"segments {first} to {last}"
        yield NodeFinding(
            "wal-missing-segment",
            Severity.ERROR,
            node.name,
            segment=first,
            expected=which,
            found=f"segment {after} after segment {before}",
        )


def unread_errors(node: Node, judge: FileJudge) -> int:
    """Return the number of errors of files without readable records, and of missing segments."""
    unread = [each for each in node.segments if not has_records(each)]
    found = sum(len(list(judge.of_header(each))) for each in unread)
    return found + len(list(missing_segments(node)))


class FileJudge(Struct, frozen=True):
    """Judge of the files of one node.

    Attributes:
        node: name of the node.
        root: directory that the paths in findings are relative to.
        last: index of the last segment of the node; -1 if there is none.
    """

    node: str
    root: str
    last: int

    def judge(self, segment: SegmentFile) -> SegmentVerdict:
        """Read a file, and return what is wrong with it; threads may call this at once."""
        findings = list(self.of_header(segment))
        if not has_records(segment):
            return SegmentVerdict(segment, 0, SegmentEnd(), findings)
        records = 0
        try:
            with read_segment(segment) as (rows, end):
                for some in rows:
                    records += len(some)
        except InputError as error:
            findings.append(self._finding("wal-unreadable", segment, found=str(error)))
            return SegmentVerdict(segment, records, SegmentEnd(), findings)
        findings += self.of_bytes(segment, end)
        return SegmentVerdict(segment, records, end, findings)

    def path(self, segment: SegmentFile) -> str:
        """Return the path of a file below the store."""
        return path_below(segment.path, self.root)

    def _finding(self, code: str, segment: SegmentFile, **facts: Any) -> NodeFinding:
        index = segment.header.segment if segment.header else None
        severity = facts.pop("severity", CODES[code].severity)
        return NodeFinding(code, severity, self.node, self.path(segment), index, **facts)

    def of_header(self, segment: SegmentFile) -> Iterator[NodeFinding]:
        """Yield what is wrong with the header and the name of a file."""
        is_archived = segment.is_archived
        if segment.status is Status.BAD_HEADER or (segment.status is Status.UNUSED and is_archived):
            expected = "a segment header"
            yield self._finding(
                "wal-header", segment, offset=0, expected=expected, found=segment.problem
            )
        elif segment.status in (Status.UNREADABLE, Status.UNSUPPORTED):
            yield self._finding("wal-unreadable", segment, found=segment.problem)
        header = segment.header
        if is_archived and header is not None and segment.number not in (-1, header.segment):
            texts = {"expected": f"segment {segment.number}", "found": f"segment {header.segment}"}
            yield self._finding("wal-misnamed", segment, **texts)

    def of_bytes(self, segment: SegmentFile, end: SegmentEnd) -> Iterator[NodeFinding]:
        """Yield what is wrong with the bytes of a segment that was read."""
        for start, stop in end.unreadable:
            found = "the device did not deliver these bytes"
            yield self._finding(
                "wal-unreadable", segment, offset=start, length=stop - start, found=found
            )
        if end.problem is not None:
            yield self._finding("wal-unreadable", segment, found=end.problem)
        if end.directory_problem is not None:
            yield self._finding("wal-directory", segment, found=end.directory_problem)
        for gap in end.gaps:
            yield self._finding(
                "wal-gap",
                segment,
                offset=gap.stop.at,
                length=gap.end - gap.stop.at,
                resume_offset=gap.end,
                expected="a record",
                found="zeros" if gap.is_zero else stop_text(gap.stop),
            )
        if end.gap_count > len(end.gaps):
            found = (
                f"{end.gap_count:,} gaps of {end.gap_bytes:,} bytes; the first {GAPS_KEPT:,} are "
                "shown"
            )
            yield self._finding("wal-gap", segment, found=found)
        if end.tail is not None:
            yield from self._of_tail(segment, end.tail, end.size)

    def _of_tail(self, segment: SegmentFile, tail: SegmentTail, size: int) -> Iterator[NodeFinding]:
        stop = tail.stop
        place = {"offset": stop.at, "length": size - stop.at}
        if tail.unsearched < size:
            place = {"offset": tail.unsearched, "length": size - tail.unsearched}
            yield self._finding("wal-unsearched", segment, **place)
            return
        is_last = segment.header is not None and segment.header.segment >= self.last
        is_end = stop.cause in (Cause.FILE_END, Cause.SWITCH)
        is_full = stop.cause is Cause.ZERO and size - stop.at <= 1
        if is_end or is_full or (is_last and _is_clean(tail)):
            yield self._finding("wal-end", segment, **place, found=tail_text(tail))
        elif is_last:
            is_whole = stop.cause is Cause.CHECKSUM and stop.stored != 0 and not tail.stale
            severity = Severity.ERROR if is_whole else Severity.NOTE
            texts = {"expected": "a record, or the end of the log", "found": stop_text(stop)}
            yield self._finding("wal-torn-tail", segment, **place, **texts, severity=severity)
        else:
            texts = {"expected": "the end of the segment", "found": tail_text(tail)}
            yield self._finding("wal-early-end", segment, **place, **texts)


def _is_clean(tail: SegmentTail) -> bool:
    """Return True if bytes follow that were never written, or that an older segment left."""
    return tail.stop.cause is Cause.ZERO or (tail.stop.cause is Cause.POINTER and tail.stale > 0)


def tail_text(tail: SegmentTail) -> str:
    """Return what follows the last record, in words."""
    if tail.stop.cause is Cause.ZERO and not tail.is_zero:
        text = "a byte of zero, then other bytes"
    else:
        text = stop_text(tail.stop)
    return f"{text}; records of segment {tail.stale_segment} follow" if tail.stale else text


def stop_text(stop: Stop) -> str:
    """Return in words why no record can be trusted where one should begin."""
    name = "" if stop.type_no == NO_TYPE else type_name(stop.type_no)
    texts = {
        Cause.FILE_END: "the end of the file",
        Cause.ZERO: "zeros",
        Cause.SWITCH: "the record that ends a segment",
        Cause.POINTER: "bytes that name another segment or offset",
        Cause.TYPE: f"a record of the unknown type {stop.type_no}",
        Cause.LENGTH: f"{name} of {stop.length} bytes; the least is {MIN_SIZE}",
        Cause.CUT: f"{name} of {stop.length:,} bytes, which extends past the end of the file",
        Cause.CHECKSUM: (
            f"{name} of {stop.length:,} bytes with checksum {stop.stored:08x}; its bytes have "
            f"{stop.computed:08x}"
        ),
    }
    return texts[stop.cause]
