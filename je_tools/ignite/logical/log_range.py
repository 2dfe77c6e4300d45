"""Records from a pointer to the end of the log, as the engine's recovery reads them.

Source: FileWriteAheadLogManager.RecordsIterator, AbstractWalRecordsIterator.advanceRecord,
GridCacheDatabaseSharedManager.RestoreStateContext, Ignite 2.18.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.errors import InputError
from je_tools.formats.ignite.segments import SEGMENT_HEADER_SIZE
from je_tools.formats.ignite.walk import Cause
from je_tools.ignite.wal.archive import last_archived
from je_tools.ignite.wal.segment_reading import SegmentEnd, copies_of, read_segment

if TYPE_CHECKING:
    from je_tools.formats.ignite.markers import Pointer
    from je_tools.formats.ignite.walk import RecordRows
    from je_tools.ignite.store import Node
    from je_tools.ignite.wal.segment_reading import SegmentCopies

_ORDERLY = (Cause.FILE_END, Cause.ZERO, Cause.SWITCH)
"""Ends of a segment after which the engine reads the next one."""


class WalEndReason(StrEnum):
    """Reason why recovery reads no further."""

    END = "end"
    """Nothing was written after it."""
    ROLLED = "rolled"
    """The last segment ends as if another followed, but that one is in no file."""
    DAMAGE = "damage"
    """A record cannot be read."""
    MISSING = "missing"
    """A segment is in no file, and later ones are."""
    NO_START = "no start"
    """The segment from which recovery reads is in no file, or has no record there."""


class WalEnd(Struct, frozen=True):
    """The place where recovery stops reading the log.

    Attributes:
        segment, offset: place of the first record that is not read.
        reason: why.
        is_refused: True if the node does not start: the place is in an archived segment, where the
            engine does not accept damage as the end of the log, or the start is missing.
        lost_records: whole records after the place in its segment and, if they were counted, in
            later segments, which the engine ignores.
    """

    segment: int
    offset: int
    reason: WalEndReason
    is_refused: bool
    lost_records: int


class LogRange:
    """Reader of the records from a pointer on.

    Attributes:
        end: the place where the records end, once all of them have been read.
    """

    def __init__(self, node: Node, start: Pointer, *, counts_lost: bool = True) -> None:
        """Prepare to read; nothing is read yet.

        Args:
            node: the node.
            start: place of the first record.
            counts_lost: False to leave the records of later segments out of `lost_records`: these
                segments are read only to count them.
        """
        self._start = start
        self._counts_lost = counts_lost
        self._copies = [each for each in copies_of(node) if each.index >= start.segment]
        self._last_archived = last_archived(node)
        self.end: WalEnd | None = None

    def __iter__(self) -> Iterator[RecordRows]:
        """Yield the records in order; `end` is set afterwards.

        Raises:
            StoppedError: a file shrank, vanished or was replaced while it was read.
        """
        start = self._start
        end = WalEnd(start.segment, start.offset, WalEndReason.NO_START, True, 0)
        lost = 0
        for i, copies in enumerate(self._copies):
            later = self._copies[i:]
            if copies.index != start.segment + i:
                reason = WalEndReason.MISSING if i else WalEndReason.NO_START
                end = self._ended(start.segment + i, 0, reason, later)
                break
            segment = _Segment(copies, start)
            yield from segment
            is_followed = len(later) > 1 and later[1].index == copies.index + 1
            lost += segment.later_records
            if segment.cause not in _ORDERLY or not (is_followed or segment.is_whole):
                reason = self._reason(segment, is_followed)
                end = self._ended(copies.index, segment.reached, reason, later[1:])
                break
            is_rolled = segment.cause is Cause.SWITCH and not copies.chosen.is_packed
            reason = WalEndReason.ROLLED if is_rolled else WalEndReason.END
            end = WalEnd(copies.index, segment.reached, reason, False, 0)
        self.end = replace(end, lost_records=end.lost_records + lost)

    def _reason(self, segment: _Segment, is_followed: bool) -> WalEndReason:
        if segment.cause is None:
            return WalEndReason.NO_START
        is_archived = segment.copies.index <= self._last_archived
        is_end = segment.is_whole and not is_followed and not is_archived
        return WalEndReason.END if is_end else WalEndReason.DAMAGE

    def _ended(
        self, index: int, offset: int, reason: WalEndReason, later: Sequence[SegmentCopies]
    ) -> WalEnd:
        is_refused = reason is WalEndReason.NO_START or (
            reason is not WalEndReason.END and index <= self._last_archived
        )
        lost = sum(map(_record_count, later)) if self._counts_lost else 0
        return WalEnd(index, offset, reason, is_refused, lost)


class _Segment:
    """Records of one segment up to the first that cannot be read.

    Attributes:
        copies: the segment.
        reached: offset in the file after the last record that was read.
        cause: why no record can be trusted there; None if the start of recovery was not found.
        later_records: number of records after that, which recovery does not read.
    """

    def __init__(self, copies: SegmentCopies, start: Pointer) -> None:
        self.copies = copies
        self.reached = SEGMENT_HEADER_SIZE
        self.cause: Cause | None = None
        self.later_records = 0
        self._least = start.offset if copies.index == start.segment else 0
        self._is_found = not self._least
        self._is_broken = False

    @property
    def is_whole(self) -> bool:
        """True if nothing that is a record was left out."""
        return self.cause is not None and not self.later_records

    def __iter__(self) -> Iterator[RecordRows]:
        if self.copies.chosen.is_refused:
            self.cause = Cause.CHECKSUM
            self.later_records = _record_count(self.copies)
            return
        try:
            with read_segment(self.copies.chosen) as (windows, end):
                for rows in windows:
                    kept = self._readable(rows)
                    if len(kept):
                        yield kept
                if self._is_found:
                    self.cause = self._cause(end)
        except InputError:
            self.cause = Cause.CUT

    def _readable(self, rows: RecordRows) -> RecordRows:
        """Return the rows from the start of recovery to the first gap after it."""
        columns = rows.columns
        first = 0 if self._is_found else int(np.searchsorted(columns.offset, self._least))
        if first == len(rows):
            return rows.select(slice(0, 0))
        if not self._is_found and columns.offset[first] == self._least:
            self._is_found, self.reached = True, int(columns.at[first])
        at = columns.at[first:].astype(np.int64)
        ends = at + columns.length[first:]
        gaps = np.flatnonzero(at != np.concatenate(([self.reached], ends[:-1])))
        self._is_broken = self._is_broken or not self._is_found
        count = 0 if self._is_broken else int(gaps[0]) if len(gaps) else len(at)
        self.later_records += len(at) - count
        self._is_broken = self._is_broken or count < len(at)
        if count:
            self.reached = int(ends[count - 1])
        return rows.select(slice(first, first + count))

    def _cause(self, end: SegmentEnd) -> Cause:
        """Return why no record can be trusted after the last one that was read."""
        gaps = (gap.stop for gap in end.gaps if gap.stop.at == self.reached)
        stop = next(gaps, end.tail.stop if end.tail is not None else None)
        if stop is None or end.problem is not None:
            return Cause.CUT
        return stop.cause


def _record_count(copies: SegmentCopies) -> int:
    try:
        with read_segment(copies.chosen) as (windows, _):
            return sum(len(rows) for rows in windows)
    except InputError:
        return 0
