"""Segments of transactions: runs of entries of one transaction in a range of a log.

The extension collects them while it reads, whether or not the entries are returned as rows. It
keeps one segment for each transaction in the range that is open, so memory grows with the range.

Source: TxnEnd, Txn.lastLoggedLsn, VersionedWriteTxnEnd, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.je.entry.programs import front_program
from je_tools.formats.je.header import invisible_mask
from je_tools.formats.je.types import ENTRY_TYPES

if TYPE_CHECKING:
    from je_tools.formats import _native
    from je_tools.formats.arrays import Ints, Mask

_TYPES = frozenset(no for no, each in ENTRY_TYPES.items() if each.transactional)
_NAMES = ("txn_id", "txn_prev_lsn", "last_lsn", "db_id", "time_ms")
_ABSENT = 63
"""Column of a field that no entry of the log version has: no program has as many."""


class TxnFields(Struct, frozen=True):
    """Fields of the entries of transactions in a file, for the extension.

    Attributes:
        program: program that reads them.
        txn_id, prev_lsn, last_lsn, db_id, time_ms: their columns.
        file_no: number of the file.
        invisible: flag of entries that a rollback undid; 0 if the log version has none.
    """

    program: _native.Program
    txn_id: int
    prev_lsn: int
    last_lsn: int
    db_id: int
    time_ms: int
    file_no: int
    invisible: int

    @classmethod
    @functools.cache
    def of(cls, file_no: int, version: int) -> TxnFields:
        """Return the fields of a file."""
        program = front_program(_TYPES, version, frozenset(_NAMES))
        columns = [
            program.names.index(name) if name in program.names else _ABSENT for name in _NAMES
        ]
        txn_id, prev_lsn, last_lsn, db_id, time_ms = columns
        return cls(
            program.native,
            txn_id,
            prev_lsn,
            last_lsn,
            db_id,
            time_ms,
            file_no,
            invisible_mask(version),
        )


class Segments(Struct, frozen=True):
    """Runs of entries of one transaction, in columns; a run ends with its Commit or Abort.

    They are in the order of their first entries. Damaged entries do not count.

    Attributes:
        txn_id: int64; id of the transaction, negative if replicated.
        first_lsn, last_lsn, entries, size: int64; first and last entry, their number and bytes.
        invisible: int64; number of entries that a rollback undid.
        begins: bool; True if it holds the transaction's first entry.
        end_type: uint8; type of its end, 0 without one.
        end_ms: int64; time of that end, 0 without one.
        prepared: bool; True if it holds a Prepare.
        db_first: int64 (segments + 1,); databases of segment i are [db_first[i], db_first[i + 1]).
        db_id: int64; ids of databases, by segment, ascending.
    """

    txn_id: Ints
    first_lsn: Ints
    last_lsn: Ints
    entries: Ints
    size: Ints
    invisible: Ints
    begins: Mask
    end_type: npt.NDArray[np.uint8]
    end_ms: Ints
    prepared: Mask
    db_first: Ints
    db_id: Ints

    @classmethod
    def none(cls) -> Segments:
        """Return no segments."""
        ints, mask = np.empty(0, np.int64), np.empty(0, np.bool_)
        ends = np.empty(0, np.uint8)
        first = np.zeros(1, np.int64)
        columns: dict[str, Any] = dict.fromkeys(cls.__struct_fields__, ints)
        columns |= {"begins": mask, "prepared": mask, "end_type": ends, "db_first": first}
        return cls(**columns)

    def select(self, rows: Ints) -> Segments:
        """Select segments by an index array, in its order."""
        counts = np.diff(self.db_first)[rows]
        stops = np.cumsum(counts)
        places = np.repeat(self.db_first[rows] - (stops - counts), counts)
        columns = {name: getattr(self, name)[rows] for name in self.__struct_fields__[:-2]}
        return Segments(
            **columns,
            db_first=np.append(0, stops),
            db_id=self.db_id[places + np.arange(len(places))],
        )
