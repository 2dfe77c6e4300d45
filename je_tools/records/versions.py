"""Versions of records in columns: places in the log, without the bytes of keys and data."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.je.types import ENTRY_TYPES
from je_tools.log.entry_table import NO_TIME
from je_tools.log.records import NO_TIME as NO_RECORD_TIME

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.spans import Spans
    from je_tools.log.records import Records

SLOT_ONLY = 0
"""Type of a version that has no entry."""


class VersionState(StrEnum):
    """Fate of a version of a record."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNFINISHED = "unfinished"
    """Its transaction has no end in the log."""
    ROLLED_BACK = "rolled back"
    """Undone by a rollback in a replication group."""
    NON_TRANSACTIONAL = "non-transactional"
    SLOT = "in a slot only"
    """Its entry is gone with its file; the tree still holds the record."""


STATES = tuple(VersionState)
"""States by the numbers that columns hold."""

COMMITTED, ABORTED, UNFINISHED, ROLLED_BACK, NON_TRANSACTIONAL, SLOT = range(len(STATES))


class Version(Struct, frozen=True):
    """One version of a record, or its deletion.

    Attributes:
        lsn: NULL_LSN if no entry is known.
        type: the engine's name of the entry's type; None if there is only a slot.
        key: without the data, in a database with duplicates.
        data: None for a deletion, or if it cannot be read.
        txn_id: 0 outside transactions.
        vlsn: NO_VLSN if it has none.
        time_ms: of the record, else of the end of its transaction; None if neither has one.
        state: fate of the version.
        is_current: True if a reader sees it.
    """

    lsn: int
    type: str | None
    key: bytes
    data: bytes | None
    txn_id: int
    vlsn: int
    time_ms: int | None
    state: VersionState
    is_current: bool = False


class VersionRows(Struct, frozen=True):
    """Versions in log order, without their bytes; element i of each array is the i-th.

    Attributes:
        lsn, txn_id, vlsn, time_ms: int64, as in `Version`; NO_TIME for no time.
        type: uint8; number of the entry's type.
        state: uint8; index in STATES.
        key_start, key_size, data_start, data_size: int32; places in the entry. A negative size is
            null.
    """

    lsn: Ints
    txn_id: Ints
    vlsn: Ints
    time_ms: Ints
    type: npt.NDArray[np.uint8]
    state: npt.NDArray[np.uint8]
    key_start: npt.NDArray[np.int32]
    key_size: npt.NDArray[np.int32]
    data_start: npt.NDArray[np.int32]
    data_size: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.lsn)

    def columns(self) -> list[npt.NDArray[Any]]:
        """Return the arrays, in the order of VERSION_KINDS."""
        return [getattr(self, name) for name in self.__struct_fields__]

    def select(self, keep: slice) -> VersionRows:
        """Return the rows of a slice."""
        return VersionRows(*(column[keep] for column in self.columns()))


VERSION_KINDS = (*(np.int64,) * 4, *(np.uint8,) * 2, *(np.int32,) * 4)
"""Types of the columns of `VersionRows`."""


class VersionBatch(Struct, frozen=True):
    """Some versions with their bytes; element i of each column is the i-th.

    Attributes:
        lsn, txn_id, vlsn, time_ms: int64, as in `Version`; NO_TIME for no time.
        type: uint8; number of the entry's type, or SLOT_ONLY.
        state: uint8; index in STATES.
        is_current: bool.
        key, data: the bytes.
    """

    lsn: Ints
    txn_id: Ints
    vlsn: Ints
    time_ms: Ints
    type: npt.NDArray[np.uint8]
    state: npt.NDArray[np.uint8]
    is_current: Mask
    key: Spans
    data: Spans

    def __len__(self) -> int:
        return len(self.lsn)

    def versions(self) -> Iterator[Version]:
        """Yield the versions one by one."""
        for row in range(len(self)):
            type_no, time_ms = int(self.type[row]), int(self.time_ms[row])
            yield Version(
                lsn=int(self.lsn[row]),
                type=None if type_no == SLOT_ONLY else ENTRY_TYPES[type_no].name,
                key=self.key[row] or b"",
                data=self.data[row],
                txn_id=int(self.txn_id[row]),
                vlsn=int(self.vlsn[row]),
                time_ms=None if time_ms == NO_TIME else time_ms,
                state=STATES[int(self.state[row])],
                is_current=bool(self.is_current[row]),
            )


def slots_only(records: Records) -> VersionBatch:
    """Return records that only slots hold as versions."""
    n = len(records)
    times = records.modified_ms
    return VersionBatch(
        lsn=records.lsn,
        txn_id=np.zeros(n, np.int64),
        vlsn=records.vlsn,
        time_ms=np.where(times == NO_RECORD_TIME, NO_TIME, times),
        type=np.full(n, SLOT_ONLY, np.uint8),
        state=np.full(n, SLOT, np.uint8),
        is_current=np.ones(n, np.bool_),
        key=records.key,
        data=records.data,
    )
