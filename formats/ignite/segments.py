"""Headers of segments of the write-ahead log.

Source: HeaderRecord, RecordV1Serializer.putPosition and readSegmentHeader, Ignite 2.18.0.
"""

from __future__ import annotations

import struct
import zlib
from enum import StrEnum

from msgspec import Struct

SEGMENT_HEADER_SIZE = 29
"""Bytes of the record at the start of a segment."""

SEGMENT_SIZE_MAX = (1 << 31) - 1
"""Largest size of a segment: offsets are signed numbers of 32 bits."""

SERIALIZERS = (2,)
"""Versions of the framing that this reader knows; 1 is of Ignite 2.1 to 2.3."""

_ENGINE_SERIALIZERS = (1, 2)

HEADER_NO = 4
"""Type of the record at the start of a segment."""

_RECORD_FRAME = 21
"""Bytes of a record besides its payload: type, segment, offset, length, checksum."""

MAGIC = 0xB0D045ACE7ED045A
COMPACTED_MAGIC = 0x4E07AE0E573A694E


class Problem(StrEnum):
    """Reason why a header is not accepted."""

    SHORT = "the file is shorter than a segment header"
    UNUSED = "the segment was never used"
    MAGIC = "it does not begin as a segment of a write-ahead log"
    CHECKSUM = "the checksum of the header is wrong"
    """The engine ignores it, and reads the segment."""
    VERSION = "the header names a framing that no engine has"
    SEGMENT = "the header names another segment than the record after it"


class SegmentHeader(Struct, frozen=True):
    """The first record of a segment.

    Attributes:
        segment: absolute index.
        is_big: True if the writer's numbers have the highest byte first.
        compacted: True if it holds only logical records, which keep their original offsets.
        serializer: version of the framing.
        summed: False if the writer did not compute checksums (IGNITE_PDS_SKIP_CRC).
    """

    segment: int
    is_big: bool
    compacted: bool
    serializer: int
    summed: bool


def checksum(data: bytes) -> int:
    """Return the engine's checksum: CRC-32 without the final inversion."""
    return zlib.crc32(data) ^ 0xFFFFFFFF


def read_segment_header(data: bytes, *, checks_sum: bool = True) -> SegmentHeader | Problem:
    """Return the header in the first bytes of a segment, or what is wrong with it.

    Args:
        data: the bytes.
        checks_sum: False to read it as the engine does, which ignores its checksum and offset.
    """
    if not data.strip(b"\0"):
        return Problem.UNUSED
    if len(data) < SEGMENT_HEADER_SIZE:
        return Problem.SHORT
    for order in "<>":
        type_no, segment, offset, magic, serializer, stored = struct.unpack_from(
            f"{order}BqiQiI", data
        )
        if magic not in (MAGIC, COMPACTED_MAGIC):
            continue
        if type_no != HEADER_NO + 1 or segment < 0:
            return Problem.MAGIC
        is_right = offset == 0 and stored in (0, checksum(data[: SEGMENT_HEADER_SIZE - 4]))
        if not is_right and checks_sum:
            is_known = serializer in _ENGINE_SERIALIZERS
            return Problem.CHECKSUM if is_known else Problem.VERSION
        compacted = magic == COMPACTED_MAGIC
        return SegmentHeader(segment, order == ">", compacted, serializer, summed=stored != 0)
    return Problem.MAGIC


def encode_record(header: SegmentHeader, type_no: int, offset: int, payload: bytes) -> bytes:
    """Return a record of a segment, with its checksum.

    Args:
        header: header of the segment.
        type_no: index of the type.
        offset: offset of the record in the segment.
        payload: bytes between its header and its checksum.
    """
    order = ">" if header.is_big else "<"
    length = _RECORD_FRAME + len(payload)
    start = struct.pack(f"{order}BqiI", type_no + 1, header.segment, offset, length) + payload
    return start + struct.pack(f"{order}I", checksum(start) if header.summed else 0)


def encode_segment_header(header: SegmentHeader) -> bytes:
    """Return the first record of a segment."""
    order = ">" if header.is_big else "<"
    magic = COMPACTED_MAGIC if header.compacted else MAGIC
    fields = (HEADER_NO + 1, header.segment, 0, magic, header.serializer)
    start = struct.pack(f"{order}BqiQi", *fields)
    return start + struct.pack(f"{order}I", checksum(start) if header.summed else 0)
