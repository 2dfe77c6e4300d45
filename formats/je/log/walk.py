"""Headers as columns, and the rules by which the extension reads them.

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
"""Row of one entry. `vlsn` is -1 if none is stored; `checksum` is a `Checksum`."""


class Checksum(IntEnum):
    """State of an entry's checksum."""

    BAD = 0
    OK = 1
    NONE = 2
    """An erased entry: the stored value is that of the bytes before erasure."""
    UNCHECKED = 3


CHECKSUM_NAMES = ("bad", "ok", "none", "unchecked")
"""Name of each `Checksum` in every output."""


NO_OFFSET = -1
"""No offset: nothing was found, or nothing is known of the entry before."""


NEVER_ERASED = 256
"""Type number that no entry has, for files in which every type has a checksum."""


def erased_no(version: int) -> int:
    """Return the type number whose checksum is meaningless in files of this log version."""
    return ERASED_NO if version >= ENTRY_TYPES[ERASED_NO].first_version else NEVER_ERASED


class HeaderRules(Struct, frozen=True):
    """Rules for reading the headers of one file.

    Attributes:
        vlsn_mask: flags that each announce a VLSN.
        summed_flags: flags that the checksum covers.
        erased_type: `erased_no` of the file's version.
        file_size: size of the file; the header of an entry that would end after it is bad.
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
    """Headers as columns, one element per entry; arrays of one length, with ROW_DTYPE's dtypes."""

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
        """Return uninitialized columns of this length."""
        return HeaderColumns(*(np.empty(rows, ROW_DTYPE[name]) for name in COLUMN_NAMES))

    def __len__(self) -> int:
        return len(self.offset)

    def part(self, start: int, stop: int) -> HeaderColumns:
        """Return views of rows [start, stop)."""
        return HeaderColumns(*(getattr(self, name)[start:stop] for name in COLUMN_NAMES))

    def copy(self) -> HeaderColumns:
        """Return a copy of the columns."""
        return HeaderColumns(*(getattr(self, name).copy() for name in COLUMN_NAMES))


COLUMN_NAMES: tuple[str, ...] = HeaderColumns.__struct_fields__
