"""What `_native.walk` takes and gives: headers in columns, and why a walk stopped.

Source: je-log.md "Entries" and "Where a log ends, and what damage costs".
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.je import header as h
from je_tools.formats.je.types import ENTRY_TYPES, ERASED_NO

ROW_DTYPE = np.dtype(
    [
        ("offset", "<u4"),
        ("prev_offset", "<u4"),
        ("stored_checksum", "<u4"),
        ("item_size", "<i4"),
        ("vlsn", "<i8"),
        ("type", "u1"),
        ("flags", "u1"),
        ("header_size", "u1"),
        ("checksum", "u1"),
    ]
)
"""One row an entry. `vlsn` is -1 where none is stored; `checksum` is a `Checksum`."""


class Checksum(IntEnum):
    """What is known of an entry's checksum."""

    BAD = 0
    OK = 1
    NONE = 2
    """An erased entry: the stored value is that of the bytes before."""
    UNCHECKED = 3


CHECKSUM_NAMES = ("bad", "ok", "none", "unchecked")
"""How each `Checksum` is spelled in every output."""


NO_OFFSET = -1
"""No offset: nothing found, or nothing known of the entry before."""


NEVER_ERASED = 256
"""As the number of the type without checksum: no entry has it."""


def erased_no(version: int) -> int:
    """The type number whose checksum means nothing in files of this log version."""
    return ERASED_NO if version >= ENTRY_TYPES[ERASED_NO].first_version else NEVER_ERASED


class HeaderRules(Struct, frozen=True):
    """How the headers of one file are read.

    Attributes:
        vlsn_mask: flags of which any means that a VLSN follows.
        summed_flags: the flags that the checksum covers.
        erased_type: `erased_no` of the file's version.
        file_size: bytes of the file; an entry that would end after them is a bad header.
    """

    vlsn_mask: int
    summed_flags: int
    erased_type: int
    file_size: int

    @staticmethod
    def of(version: int, file_size: int) -> HeaderRules:
        """Return the rules for a file of this log version and size."""
        summed = 0xFF & ~h.invisible_mask(version)
        return HeaderRules(h.vlsn_mask(version), summed, erased_no(version), file_size)


class HeaderColumns(Struct, frozen=True):
    """Headers in columns, one element an entry; arrays of one length and of ROW_DTYPE's dtypes."""

    offset: npt.NDArray[np.uint32]
    prev_offset: npt.NDArray[np.uint32]
    stored_checksum: npt.NDArray[np.uint32]
    item_size: npt.NDArray[np.int32]
    vlsn: npt.NDArray[np.int64]
    type: npt.NDArray[np.uint8]
    flags: npt.NDArray[np.uint8]
    header_size: npt.NDArray[np.uint8]
    checksum: npt.NDArray[np.uint8]

    @staticmethod
    def empty(rows: int) -> HeaderColumns:
        """Return columns of this length, with nothing in them."""
        return HeaderColumns(*(np.empty(rows, ROW_DTYPE[name]) for name in COLUMN_NAMES))

    def __len__(self) -> int:
        return len(self.offset)

    def part(self, start: int, stop: int) -> HeaderColumns:
        """Return views of rows [start, stop)."""
        return HeaderColumns(*(getattr(self, name)[start:stop] for name in COLUMN_NAMES))

    def copy(self) -> HeaderColumns:
        """Return columns of their own."""
        return HeaderColumns(*(getattr(self, name).copy() for name in COLUMN_NAMES))


COLUMN_NAMES: tuple[str, ...] = HeaderColumns.__struct_fields__
