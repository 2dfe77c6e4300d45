"""Look up a VLSN or an LSN: find the mappings around it, and read the log between them.

Source: VLSNIndex.getLTELsn and getGTELsn, FeederReader, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.log.fetch import Found, fetch
from je_tools.formats.je.types import type_name
from je_tools.vlsn.logged_stream import EntryState, collect_logged, joined_logged
from je_tools.vlsn.stretch import read_stretch

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.stored_index import Mappings


class Mapping(Struct, frozen=True):
    """A mapping of the index."""

    vlsn: int
    lsn: int


class VlsnLookup(Struct, frozen=True):
    """Answer to the lookup of a VLSN.

    Attributes:
        vlsn: the VLSN.
        lsn: LSN of its visible entry; None if there is none between the mappings.
        type_name: its entry type; None without an entry.
        floor, ceiling: nearest mappings at or below, and at or above; None without one.
        read_count: number of entries of the stream that were read to find it.
    """

    vlsn: int
    lsn: int | None
    type_name: str | None
    floor: Mapping | None
    ceiling: Mapping | None
    read_count: int

    @property
    def is_exact(self) -> bool:
        """True if the VLSN itself is mapped."""
        return self.floor is not None and self.floor == self.ceiling


class LsnLookup(Struct, frozen=True):
    """Answer to the lookup of an LSN.

    Attributes:
        lsn: the LSN.
        type_name: type of the entry.
        vlsn: VLSN in its header; None without one.
        state: its state in the stream; None if it is not part of it.
        before_vlsn: last VLSN of the stream at or before it; None if unknown.
    """

    lsn: int
    type_name: str
    vlsn: int | None
    state: EntryState | None
    before_vlsn: int | None


def find_vlsn(snapshot: Snapshot, mappings: Mappings, vlsn: int) -> VlsnLookup:
    """Return the LSN of a VLSN, as a feeder would find it.

    Args:
        snapshot: the log.
        mappings: of the index as recovery leaves it, in VLSN order.
        vlsn: the VLSN.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    floor = _mapping(mappings, int(np.searchsorted(mappings.vlsn, vlsn, "right")) - 1)
    ceiling = _mapping(mappings, int(np.searchsorted(mappings.vlsn, vlsn)))
    if floor is None or ceiling is None:
        return VlsnLookup(vlsn, None, None, floor, ceiling, 0)
    logged = joined_logged(list(read_stretch(snapshot, floor.lsn, ceiling.lsn, collect_logged)))
    own = (logged.vlsn == vlsn) & (logged.state == EntryState.VISIBLE)
    own &= logged.lsn <= ceiling.lsn
    rows = np.flatnonzero(own)
    if not len(rows):
        return VlsnLookup(vlsn, None, None, floor, ceiling, len(logged))
    row = int(rows[-1])
    name = type_name(int(logged.type[row]))
    return VlsnLookup(vlsn, int(logged.lsn[row]), name, floor, ceiling, row + 1)


def _mapping(mappings: Mappings, row: int) -> Mapping | None:
    if not 0 <= row < len(mappings):
        return None
    return Mapping(int(mappings.vlsn[row]), int(mappings.lsn[row]))


def find_lsn(snapshot: Snapshot, mappings: Mappings, lsn: int) -> LsnLookup | None:
    """Return the VLSN of the entry at an LSN; None if there is no good entry.

    Args:
        snapshot: the log.
        mappings: of the index as recovery leaves it, in VLSN order.
        lsn: the LSN.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    entries = fetch(snapshot.image, np.array([lsn], np.int64))
    if entries.found[0] != Found.GOOD:
        return None
    flags, vlsn = int(entries.flags[0]), int(entries.vlsn[0])
    name = type_name(int(entries.type[0]))
    before = _before(snapshot, mappings, lsn)
    if not flags & HeaderFlag.REPLICATED or vlsn <= 0:
        return LsnLookup(lsn, name, vlsn if vlsn > 0 else None, None, before)
    if flags & HeaderFlag.INVISIBLE:
        return LsnLookup(lsn, name, vlsn, EntryState.INVISIBLE, before)
    found = find_vlsn(snapshot, mappings, vlsn).lsn
    state = EntryState.ROLLED_BACK if found not in (lsn, None) else EntryState.VISIBLE
    return LsnLookup(lsn, name, vlsn, state, before)


def _before(snapshot: Snapshot, mappings: Mappings, lsn: int) -> int | None:
    """Return the last VLSN of the stream at or before an LSN; read on from the nearest mapping."""
    order = np.argsort(mappings.lsn, kind="stable")
    at = int(np.searchsorted(mappings.lsn[order], lsn, "right")) - 1
    if at < 0:
        return None
    first = int(mappings.lsn[order[at]])
    logged = joined_logged(list(read_stretch(snapshot, first, lsn, collect_logged)))
    own = (logged.lsn <= lsn) & (logged.state == EntryState.VISIBLE)
    return int(logged.vlsn[own][-1]) if own.any() else None
