"""Sync points: the Commits, Aborts and Matchpoints at which two nodes may agree, as columns.

Source: VLSNTracker.track, TxnEnd, Matchpoint, JE 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import astuple

from je_tools.formats.arrays import first_rows
from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.log.fetch import fetch, fetch_entry
from je_tools.formats.je.types import Family, mask_of
from je_tools.log.references import read_references
from je_tools.vlsn.index import SYNC_POINTS, TXN_ENDS

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.files.image import Image
    from je_tools.formats.je.log.entry_rows import Rows

IS_SYNC_POINT: Mask = mask_of(SYNC_POINTS)
IS_TXN_END: Mask = mask_of(TXN_ENDS)

ABSENT = -1
"""A field that the log version of the entry does not have."""

SYNC_FIELDS = ("txn_id", "master_node_id", "master_term", "time_ms", "dtvlsn")
_STEPS_MAX = 1 << 12


class SyncPoints(Struct, frozen=True):
    """Visible sync points, in the order of their VLSNs.

    Attributes:
        lsn, vlsn: int64.
        type: uint8.
        txn_id: int64; ABSENT for a Matchpoint.
        master_node_id: int64; id of the node that was master.
        master_term: int64; ABSENT before log version 22, and for a Matchpoint.
        time_ms: int64.
        dtvlsn: int64; ABSENT before log version 13, and for a Matchpoint.
    """

    lsn: Ints
    vlsn: Ints
    type: npt.NDArray[np.uint8]
    txn_id: Ints
    master_node_id: Ints
    master_term: Ints
    time_ms: Ints
    dtvlsn: Ints

    def __len__(self) -> int:
        return len(self.lsn)

    @classmethod
    def none(cls) -> SyncPoints:
        """Return no sync points."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, np.empty(0, np.uint8), *[nothing] * len(SYNC_FIELDS))

    @classmethod
    def of_rows(cls, rows: Rows) -> SyncPoints:
        """Select the good sync points of some rows that are not marked invisible, in log order."""
        wanted = IS_SYNC_POINT[rows.type] & rows.replicated & ~rows.invisible & rows.good
        if not wanted.any():
            return cls.none()
        some = rows.select(np.flatnonzero(wanted))
        read = read_references(some, IS_SYNC_POINT, SYNC_FIELDS)
        columns = (np.where(read.present[n], read.numbers[n], ABSENT) for n in SYNC_FIELDS)
        return cls(some.lsn, some.vlsn, some.type, *columns)

    @classmethod
    def joined(cls, parts: Sequence[SyncPoints]) -> SyncPoints:
        """Concatenate sync points."""
        parts = [cls.none(), *parts]
        return cls(*(np.concatenate(columns) for columns in zip(*map(astuple, parts), strict=True)))

    def select(self, keep: npt.NDArray[Any] | slice) -> SyncPoints:
        """Return the rows of a mask, of an index array in its order, or of a slice."""
        return SyncPoints(*(column[keep] for column in astuple(self)))


def next_sync_points(image: Image, lsns: Ints) -> SyncPoints:
    """Return the first visible sync point at or after each of some entries, each once.

    The search for one ends with the file, or after _STEPS_MAX entries. It reads only headers.

    Args:
        image: the log.
        lsns: int64; LSNs of entries, in any order.
    """
    found = []
    at = _ascending(lsns)
    for _ in range(_STEPS_MAX):
        if not len(at):
            break
        entries = fetch(image, at, check=False)
        hit = entries.good & IS_SYNC_POINT[entries.type] & _is_visible(entries.flags, entries.vlsn)
        found.append(at[hit])
        goes_on = entries.good & ~hit
        at = _ascending(entries.lsn[goes_on] + entries.size[goes_on])
    if not found:
        return SyncPoints.none()
    return _read(image, _ascending(np.concatenate(found)))


def _ascending(lsns: Ints) -> Ints:
    return lsns[first_rows(lsns)]


def _is_visible(flags: npt.NDArray[np.uint8], vlsns: Ints) -> Mask:
    wanted = HeaderFlag.REPLICATED | HeaderFlag.INVISIBLE
    visible: Mask = ((flags & wanted.value) == HeaderFlag.REPLICATED.value) & (vlsns > 0)
    return visible


def _read(image: Image, lsns: Ints) -> SyncPoints:
    """Read the sync points at some LSNs; leave out damaged ones."""
    entries = fetch(image, lsns)
    ends = np.flatnonzero(entries.good & IS_TXN_END[entries.type])
    columns = {name: np.full(len(lsns), ABSENT, np.int64) for name in SYNC_FIELDS}
    is_read = np.zeros(len(lsns), np.bool_)
    for rows, decoded in entries.decode(Family.TXN_END, ends, wanted=frozenset(SYNC_FIELDS)):
        is_read[rows] = ~decoded.bad
        for name in SYNC_FIELDS:
            if decoded.fields.has(name):
                columns[name][rows] = decoded.fields.number(name)
    for row in np.flatnonzero(entries.good & ~IS_TXN_END[entries.type]).tolist():
        entry = fetch_entry(image, int(lsns[row]))
        if entry is not None:
            is_read[row] = True
            for name in SYNC_FIELDS:
                columns[name][row] = entry.fields.get(name, ABSENT)
    found = SyncPoints(lsns, entries.vlsn, entries.type, *(columns[name] for name in SYNC_FIELDS))
    return found.select(is_read)
