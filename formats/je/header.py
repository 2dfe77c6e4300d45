"""The header of every entry, and log sequence numbers.

| offset | size | field |
|---|---|---|
| 0 | 4 | Adler-32 over all bytes of the entry after this field, the invisible bit cleared |
| 4 | 1 | entry type |
| 5 | 1 | flags |
| 6 | 4 | offset in this file of the previous entry |
| 10 | 4 | item size, header not counted |
| 14 | 8 | VLSN, if the flags say so |

Source: LogEntryHeader, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

import struct
import zlib

from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.types import ERASED_NO, FILE_HEADER_NO

MIN_HEADER_SIZE = 14
MAX_HEADER_SIZE = 22
FILE_HEADER_SIZE = 38
"""Size of the entry at offset 0 of every file: header and item."""

TYPE_AT, FLAGS_AT = 4, 5
"""Offsets of the type and of the flags in a header; the checksum covers the bytes from TYPE_AT."""

NULL_LSN = -1

PROVISIONAL_NAMES = ("NO", "BEFORE_CKPT_END", "YES")

_SUM, _SUMMED, _VLSN = struct.Struct("<I"), struct.Struct("<BBIi"), struct.Struct("<q")


class EntryError(Exception):
    """Bytes that are not the expected entry, with the reason and the offset in the entry."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(f"{reason} at byte {at} of the entry")
        self.reason = reason
        self.at = at


class Header(Struct, frozen=True):
    """An entry's header as it is on disk; `vlsn` is None if none is stored."""

    checksum: int
    type_no: int
    flags: int
    prev_offset: int
    item_size: int
    vlsn: int | None

    @property
    def size(self) -> int:
        """Size of the header in bytes: 14, or 22 with a VLSN."""
        return MIN_HEADER_SIZE if self.vlsn is None else MAX_HEADER_SIZE


def read_header(data: bytes | memoryview, version: int) -> Header:
    """Return the header at the start of `data`.

    Raises:
        EntryError: `data` is shorter than the header.
    """
    view = memoryview(data)
    if len(view) < MIN_HEADER_SIZE:
        raise EntryError("header is cut short", len(view))
    (checksum,) = _SUM.unpack_from(view)
    type_no, flags, prev_offset, item_size = _SUMMED.unpack_from(view, TYPE_AT)
    vlsn = None
    if flags & vlsn_mask(version) and _has_flags(type_no):
        if len(view) < MAX_HEADER_SIZE:
            raise EntryError("header is cut short", len(view))
        (vlsn,) = _VLSN.unpack_from(view, MIN_HEADER_SIZE)
    return Header(checksum, type_no, flags, prev_offset, item_size, vlsn)


def type_no_of(data: bytes | memoryview) -> int:
    """Return the type number in a header that may be cut short; 0 if it ends before that."""
    return data[TYPE_AT] if len(data) > TYPE_AT else 0


def _has_flags(type_no: int) -> bool:
    """Return True if the flags of an entry have a meaning; those of a file header are ignored."""
    return type_no != FILE_HEADER_NO


def summed_header(header: Header) -> bytes:
    """Return the bytes of a header that its checksum covers: those after the checksum."""
    vlsn = b"" if header.vlsn is None else _VLSN.pack(header.vlsn)
    return _SUMMED.pack(header.type_no, header.flags, header.prev_offset, header.item_size) + vlsn


def entry_checksum(data: bytes | memoryview, version: int) -> int:
    """Return the engine's Adler-32 of a whole entry, computed with the invisible bit clear.

    Source: ChecksumValidator, LogEntryHeader.turnOffInvisible, JE 25.3.17.
    """
    view = memoryview(data)
    type_and_flags = bytes([view[TYPE_AT], view[FLAGS_AT] & ~invisible_mask(version)])
    return zlib.adler32(view[FLAGS_AT + 1 :], zlib.adler32(type_and_flags))


def with_header(header: Header, version: int, item: bytes) -> bytes:
    """Return a whole entry: `header`, with size and checksum computed for `item`, then `item`.

    An erased entry keeps the checksum of `header`.
    """
    after = summed_header(replace(header, item_size=len(item))) + item
    if header.type_no == ERASED_NO:
        return _SUM.pack(header.checksum) + after
    return _SUM.pack(entry_checksum(bytes(TYPE_AT) + after, version)) + after


def vlsn_mask(version: int) -> int:
    """Return the flags that each announce a VLSN, in a file of this log version."""
    announcing = HeaderFlag.REPLICATED
    if version >= 8:
        announcing |= HeaderFlag.VLSN_PRESENT
    return announcing.value


def invisible_mask(version: int) -> int:
    """Return the flag that the checksum does not cover; up to v6 its bit belongs to a version."""
    return HeaderFlag.INVISIBLE.value if version >= 7 else 0


def lsn_of(file_no: int, offset: int) -> int:
    """Return the LSN of an entry: file number in the high 32 bits, offset in the low ones."""
    return file_no << 32 | offset


def lsn_text(lsn: int) -> str:
    """Format an LSN as the engine does, `0x3/0x1a2f`; NULL is 0xffffffff/0xffffffff."""
    return f"0x{lsn >> 32 & 0xFFFFFFFF:x}/0x{lsn & 0xFFFFFFFF:x}"
