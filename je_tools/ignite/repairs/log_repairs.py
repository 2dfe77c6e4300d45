"""Repairs of damaged segments: from an undamaged copy, or by passing over what is unreadable.

Source: ClusterSnapshotRecord, RecordDataV2Serializer, AbstractWalRecordsIterator, Ignite 2.18.0.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.ignite.segments import (
    SEGMENT_HEADER_SIZE,
    encode_record,
    encode_segment_header,
)
from je_tools.formats.ignite.types import NUMBERS
from je_tools.formats.ignite.walk import MIN_SIZE, Cause
from je_tools.ignite.repairs.edits import (
    FileBytes,
    StoreEdit,
    create_file,
    set_aside,
    write_bytes,
    write_zeros,
)
from je_tools.ignite.repairs.log_state import SegmentDamage, SegmentState, record_bounds
from je_tools.ignite.repairs.lost_records import LostLogRecords, lost_records
from je_tools.ignite.segment_files import open_segment_bytes
from je_tools.ignite.wal.segment_judge import stop_text
from je_tools.ignite.wal.twins import differing_twins

if TYPE_CHECKING:
    from je_tools.formats.ignite.markers import Pointer
    from je_tools.formats.ignite.segments import SegmentHeader
    from je_tools.ignite.segment_files import SegmentFile
    from je_tools.ignite.wal.segment_judge import FileJudge, SegmentVerdict

_FILLER = NUMBERS["CLUSTER_SNAPSHOT"]
_EMPTY_FILLER = NUMBERS["CDC_MANAGER_STOP_RECORD"]
_NAME_SIZE = 4


class LogRepair(Struct, frozen=True):
    """Edits that belong together.

    Attributes:
        edits: the edits, in order.
        lost: records that the repaired store does not have; None if nothing is lost.
        begin: place of the record of a checkpoint whose begin is restored; None for others.
    """

    edits: tuple[StoreEdit, ...]
    lost: LostLogRecords | None = None
    begin: Pointer | None = None


class Unrepaired(Struct, frozen=True):
    """Damage that is left as it is.

    Attributes:
        path: the file; None if there is none.
        segment, offset: place in the log; None if it is not in the log.
        reason: why it is not repaired, in words.
    """

    path: Path | None
    segment: int | None
    offset: int | None
    reason: str


def filler_record(header: SegmentHeader, offset: int, size: int) -> bytes | None:
    """Return a record of a given size that no part of recovery acts on; None if none has it.

    It is a CLUSTER_SNAPSHOT (Ignite 2.14 and later) with a name of blanks.
    """
    if size == MIN_SIZE:
        return encode_record(header, _EMPTY_FILLER, offset, b"")
    blanks = size - MIN_SIZE - _NAME_SIZE
    if blanks < 0:
        return None
    name_size = blanks.to_bytes(_NAME_SIZE, "big" if header.is_big else "little")
    return encode_record(header, _FILLER, offset, name_size + b" " * blanks)


class LogRepairer(Struct, frozen=True):
    """Planner of the repairs of segments.

    Attributes:
        begin: place of the record of the newest checkpoint; None if no checkpoint is known.
        archive: folder of archived segments.
        judge: judge of the files of the node.
    """

    begin: Pointer | None
    archive: Path
    judge: FileJudge

    def heal(self, segment: SegmentState, damage: SegmentDamage) -> LogRepair | None:
        """Return the repair of damaged bytes from another copy of the segment; None for none."""
        if segment.read is None:
            found = self._copied(segment)
            return found if isinstance(found, LogRepair) else None
        return self._healed(segment, damage)

    def pass_over(self, segment: SegmentState, damage: SegmentDamage) -> LogRepair | Unrepaired:
        """Return the edits with which recovery passes over damaged bytes, or why there are none."""
        if segment.read is None:
            return self._copied(segment)
        path = segment.read.file.path
        if damage.stop is None and damage.problem is None:
            return self._headed(segment.read, damage)
        reason = damage.problem or self._obstacle(segment, damage)
        if reason is not None:
            return Unrepaired(path, damage.index, damage.start, reason)
        read = segment.read
        return self._tail(read.file, damage) if damage.is_tail else self._bridged(read, damage)

    def _copied(self, segment: SegmentState) -> LogRepair | Unrepaired:
        """Copy a segment from the ring to the archive, where the engine looks for it."""
        if any(each.file.is_packed for each in segment.copies):
            reason = "the segment exists only in compacted form, without records of pages"
            return Unrepaired(None, segment.index, 0, reason)
        for twin in segment.others:
            if not segment.is_archived or twin.end.gaps:
                continue
            path = self.archive / f"{segment.index:016}.wal"
            reason = f"the archive lacks the segment; {_short(twin.file.path)} has it"
            # A file without a readable header may be there.
            old = (set_aside(path, reason),) if path.exists() else ()
            return LogRepair((*old, create_file(path, FileBytes(twin.file.path), reason)))
        reason = f"segment {segment.index} is in no file; look for it in a backup of the node"
        return Unrepaired(None, segment.index, 0, reason)

    def _healed(self, segment: SegmentState, damage: SegmentDamage) -> LogRepair | None:
        """Copy the damaged bytes from another file of the segment that has them whole."""
        read = segment.read
        assert read is not None
        if read.file.is_packed:
            return None
        for twin in segment.others:
            assert twin.end.tail is not None
            stop = twin.end.tail.stop
            end = damage.end
            if damage.is_tail:
                end = max(stop.at + (stop.cause is Cause.SWITCH), damage.start)
            if not _has_whole(twin, damage.start, end) or end <= damage.start:
                continue
            if any(differing_twins([read, twin], self.judge)):
                continue
            with open_segment_bytes(twin.file.path, is_packed=False) as source:
                data = source.read(damage.start, end).tobytes()
            reason = f"{_short(twin.file.path)} has these bytes undamaged"
            return LogRepair((write_bytes(read.file.path, damage.start, data, reason),))
        return None

    def _obstacle(self, segment: SegmentState, damage: SegmentDamage) -> str | None:
        """Return why damaged bytes may not be passed over; None if they may."""
        assert segment.read is not None
        if segment.read.file.is_packed:
            return "a compacted segment cannot be changed in place"
        if self.begin is None:
            return "no checkpoint is known, so it is unknown which records recovery needs"
        if (damage.index, damage.start) <= (self.begin.segment, self.begin.offset):
            return (
                "recovery needs the changes of pages there, and cannot apply later ones without "
                "them; take the bytes from a backup or from another copy of the segment"
            )
        return None

    def _headed(self, read: SegmentVerdict, damage: SegmentDamage) -> LogRepair | Unrepaired:
        """Write the header that the first record of a segment implies."""
        path, header = read.file.path, read.file.header
        gaps = [gap.stop.at for gap in read.end.gaps]
        assert header is not None
        if read.file.is_packed or not read.records or SEGMENT_HEADER_SIZE in gaps:
            reason = "the header of the segment is damaged, and no record follows it"
            return Unrepaired(path, damage.index, damage.start, reason)
        reason = f"the header is damaged; the records are those of segment {header.segment}"
        return LogRepair((write_bytes(path, 0, encode_segment_header(header), reason),))

    def _bridged(self, read: SegmentVerdict, damage: SegmentDamage) -> LogRepair | Unrepaired:
        """Replace unreadable records by one that recovery ignores."""
        assert damage.stop is not None
        assert read.file.header is not None
        size = damage.end - damage.start
        record = filler_record(read.file.header, damage.start, size)
        if record is None:
            reason = f"no record has {size} bytes, so nothing can take the place of the damage"
            return Unrepaired(read.file.path, damage.index, damage.start, reason)
        reason = f"found {stop_text(damage.stop)}; the records after it are whole"
        edits = (write_bytes(read.file.path, damage.start, record, reason),)
        return LogRepair(edits, lost_records(read.file, damage))

    def _tail(self, file: SegmentFile, damage: SegmentDamage) -> LogRepair | Unrepaired:
        """End a segment before the unreadable bytes at its end."""
        assert damage.stop is not None
        if damage.stop.cause is Cause.ZERO:
            reason = "the segment ends early with zeros: its last records were never written"
            return Unrepaired(file.path, damage.index, damage.start, reason)
        size = damage.end - damage.start
        reason = f"found {stop_text(damage.stop)}, and no record up to the next segment"
        edits = (write_zeros(file.path, damage.start, size, reason),)
        return LogRepair(edits, lost_records(file, damage))


def _has_whole(twin: SegmentVerdict, start: int, end: int) -> bool:
    """Return True if a range of a file consists of whole records and the end of the segment."""
    assert twin.end.tail is not None
    stop = twin.end.tail.stop
    if any(gap.stop.at < end and start < gap.end for gap in twin.end.gaps):
        return False
    if start == 0:
        return end <= stop.at
    bounds = record_bounds(twin.file)
    is_end = end == stop.at + 1 and stop.cause is Cause.SWITCH
    return bool(np.isin(start, bounds)) and (is_end or bool(np.isin(end, bounds)))


def _short(path: Path) -> str:
    """Return the name of a segment with its folders below `wal`."""
    parts = path.parts
    return "/".join(parts[-3:] if "archive" in parts[-3:] else parts[-2:])
