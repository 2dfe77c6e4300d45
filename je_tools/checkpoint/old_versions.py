"""Old versions of records: what an LN that replaces a record states of it.

Source: je-log.md "Records"; LNLogEntry, LN.log, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats.je.flags import LnFlag
from je_tools.formats.je.log.fetch import Entries, fetch
from je_tools.formats.je.types import Family
from je_tools.formats.je.write.transactions import OldVersion

if TYPE_CHECKING:
    from je_tools.btree.key_ranges import KeyRange
    from je_tools.formats.arrays import Mask
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot

_FLAGS = frozenset({"flags"})


def old_versions(snapshot: Snapshot, database: Database) -> dict[bytes, OldVersion]:
    """Return the old version of each record by key, for a database of few records."""
    return dict(iterate_old_versions(snapshot, database))


def iterate_old_versions(
    snapshot: Snapshot, database: Database, inside: KeyRange | None = None
) -> Iterator[tuple[bytes, OldVersion]]:
    """Yield the key and the old version of each record, in key order.

    Records that have expired are included. A record whose LN cannot be read has no size.

    Args:
        snapshot: the log.
        database: a database without duplicates.
        inside: range of keys to read; None for all.

    Raises:
        ValueError: the database has duplicates.
    """
    if database.has_duplicates:
        raise ValueError(f"database {database.db_id} has duplicates")
    # The engine embeds no records of its own databases.
    with_data = not database.is_internal
    batches = snapshot.records(database, with_data=with_data, show_expired=True, inside=inside)
    for batch in batches:
        entries = fetch(snapshot.image, batch.lsn)
        embedded = _is_embedded(entries) if with_data else np.zeros(len(batch), np.bool_)
        sizes = np.where(entries.good, entries.size, -1).tolist()
        times = batch.modified_ms.tolist()
        for row, lsn in enumerate(batch.lsn.tolist()):
            data = batch.data[row] if embedded[row] else None
            size = sizes[row] if sizes[row] >= 0 and data is None else None
            yield batch.key[row] or b"", OldVersion(lsn, size, data, times[row])


def _is_embedded(entries: Entries) -> Mask:
    """Return a mask of the LNs whose data is in the slot of a BIN.

    If an LN does not exist, its data can only be in a slot.
    """
    embedded = ~entries.good
    for rows, decoded in entries.decode(
        Family.LN, np.flatnonzero(entries.is_family(Family.LN)), wanted=_FLAGS
    ):
        embedded[rows] = decoded.fields.known("flags") & LnFlag.EMBEDDED.value != 0
    return embedded
