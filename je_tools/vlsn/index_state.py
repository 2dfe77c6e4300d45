"""The VLSN index of a node: as stored, and after recovery, or why recovery would fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.vlsn.index import MisfitError, VlsnIndex
from je_tools.vlsn.recovered_index import merged_index, stream_since_checkpoint
from je_tools.vlsn.stored_index import Mappings, StoredIndex, mappings_of, read_stored

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot


class IndexState(Struct, frozen=True):
    """The VLSN index of a node.

    Attributes:
        stored: as the database has it.
        recovered: after recovery; None if recovery would fail.
        refusal: reason why it would fail; None if it would not.
        tracked_vlsn: first VLSN since the last checkpoint began; None without one.
    """

    stored: StoredIndex
    recovered: VlsnIndex | None
    refusal: str | None
    tracked_vlsn: int | None

    @property
    def usable(self) -> VlsnIndex:
        """The index after recovery; if that would fail, the readable part of the stored one."""
        return self.recovered if self.recovered is not None else self.stored.readable

    @property
    def mappings(self) -> Mappings:
        """Mappings of `usable`, in VLSN order."""
        return mappings_of(self.usable.buckets).in_vlsn_order()


def read_index_state(snapshot: Snapshot) -> IndexState:
    """Read the VLSN index, and compute what recovery would make of it.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    stored = read_stored(snapshot)
    stream = stream_since_checkpoint(snapshot)
    tracked_vlsn = int(stream.vlsn[0]) if len(stream) else None
    try:
        recovered = merged_index(snapshot, stored.readable, stream)
    except MisfitError as error:
        return IndexState(stored, None, str(error), tracked_vlsn)
    return IndexState(stored, recovered, None, tracked_vlsn)
