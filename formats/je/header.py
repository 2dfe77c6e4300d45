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

MIN_HEADER_SIZE = 14
MAX_HEADER_SIZE = 22
FILE_HEADER_SIZE = 38
"""Size of the entry at offset 0 of every file: header and item."""

PROVISIONAL_YES = 0x80
PROVISIONAL_BEFORE_CKPT_END = 0x40
REPLICATED = 0x20
INVISIBLE = 0x10
VLSN_PRESENT = 0x08

NULL_LSN = -1

PROVISIONAL_NAMES = ("NO", "BEFORE_CKPT_END", "YES")


def vlsn_mask(version: int) -> int:
    """Return the flags that each announce a VLSN, in a file of this log version."""
    return REPLICATED | VLSN_PRESENT if version >= 8 else REPLICATED


def invisible_mask(version: int) -> int:
    """Return the flag that the checksum does not cover; up to v6 its bit belongs to a version."""
    return INVISIBLE if version >= 7 else 0


def lsn_of(file_no: int, offset: int) -> int:
    """Return the LSN of an entry: file number in the high 32 bits, offset in the low ones."""
    return file_no << 32 | offset


def lsn_text(lsn: int) -> str:
    """Format an LSN as the engine does, `0x3/0x1a2f`; NULL is 0xffffffff/0xffffffff."""
    return f"0x{lsn >> 32 & 0xFFFFFFFF:x}/0x{lsn & 0xFFFFFFFF:x}"
