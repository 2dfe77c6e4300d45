"""Versions of records as they were written, in columns: their identities, without keys and data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints

NO_TXN = 0
"""Transaction of a record that was written outside transactions."""

DELETED, INVISIBLE = 1, 2
"""Bits of `marks`: the LN deletes its record; a rollback has made it invisible."""


class RecordVersions(Struct, frozen=True):
    """Records as they were written; element i of each array is the i-th, in log order.

    Attributes:
        lsn: int64.
        first, second: int64, the identity of the record; see `formats.je.entry.identity`.
        txn: int64; NO_TXN if there is none.
        db: int32; number of the database in `Content.db_ids`.
        size: int32; bytes of the entry.
        marks: uint8, bits of DELETED and INVISIBLE.
    """

    lsn: Ints
    first: Ints
    second: Ints
    txn: Ints
    db: npt.NDArray[np.int32]
    size: npt.NDArray[np.int32]
    marks: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.lsn)


def select_versions(lns: RecordVersions, keep: npt.NDArray[Any]) -> RecordVersions:
    """Return the versions of a mask or of an index array."""
    if keep.dtype == np.bool_ and keep.all():
        return lns
    return RecordVersions(*(getattr(lns, name)[keep] for name in RecordVersions.__struct_fields__))


def sorted_versions(pieces: list[RecordVersions]) -> RecordVersions:
    """Concatenate versions of one file in log order."""
    names = RecordVersions.__struct_fields__
    joined = RecordVersions(
        *(np.concatenate([getattr(each, name) for each in pieces]) for name in names)
    )
    return select_versions(joined, np.argsort(joined.lsn, kind="stable"))


VERSION_KINDS = (np.int64, np.int64, np.int64, np.int64, np.int32, np.int32, np.uint8)
"""Types of the columns of `RecordVersions`."""
