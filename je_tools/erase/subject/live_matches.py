"""Live records of a person: those with one of the keys, or with a match in their key or value."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from je_tools.erase.proof.needles import NeedleSearch
from je_tools.formats.je.btree.key_sets import NOT_IN_SET, KeySet, PrefixSet

if TYPE_CHECKING:
    from je_tools.erase.proof.needles import Needle
    from je_tools.formats.arrays import Mask
    from je_tools.formats.spans import Spans
    from je_tools.recovery.database import Database
    from je_tools.recovery.snapshot import Snapshot


class LiveMatches(Struct):
    """Live records to delete.

    Attributes:
        records: key and data of the records, by database id; the data is None except in databases
            with duplicates.
        names: names of their databases, by id.
    """

    records: dict[int, list[tuple[bytes, bytes | None]]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of records."""
        return sum(map(len, self.records.values()))


def find_live(
    snapshot: Snapshot, needles: Collection[Needle], db_ids: Collection[int] | None
) -> LiveMatches:
    """Return the live records that the needles mean, expired ones included.

    A needle that is a key means the records with exactly this key, or with keys that begin with it.
    Others mean the records whose key or value they occur in.

    Args:
        snapshot: the log as recovery leaves it.
        needles: literals and patterns.
        db_ids: databases to search; None for all of the application.

    Raises:
        StoppedError: a file became shorter, or its device failed.
        UsageError: a pattern is refused.
    """
    found = LiveMatches()
    keys = KeySet.of(each.value for each in needles if each.is_key and not each.is_prefix)
    prefixes = PrefixSet.of(each.value for each in needles if each.is_key and each.is_prefix)
    others = [each for each in needles if not each.is_key]
    search = NeedleSearch(others) if others else None
    for db_id, database in snapshot.databases.items():
        if database.is_internal or (db_ids is not None and db_id not in db_ids):
            continue
        records = list(_matches(snapshot, database, keys, prefixes, search))
        if records:
            found.records[db_id] = records
            found.names[db_id] = database.name or ""
    return found


def _matches(
    snapshot: Snapshot,
    database: Database,
    keys: KeySet,
    prefixes: PrefixSet,
    search: NeedleSearch | None,
) -> Iterator[tuple[bytes, bytes | None]]:
    for batch in snapshot.records(database, show_expired=True):
        wanted = (keys.ranks(batch.key) != NOT_IN_SET) | prefixes.begin(batch.key)
        if search is not None:
            wanted |= _contain(batch.key, search) | _contain(batch.data, search)
        for row in np.flatnonzero(wanted).tolist():
            data = batch.data[row] if database.has_duplicates else None
            yield batch.key[row] or b"", data


def _contain(values: Spans, search: NeedleSearch) -> Mask:
    """Return a mask of the byte strings in which a needle occurs.

    Most batches have no hit at all; only in others each byte string is searched alone.
    """
    found = np.zeros(len(values), np.bool_)
    packed = values.packed()
    if not search.search(packed.data, 0, len(packed.data), 0).counts.any():
        return found
    for row in np.flatnonzero(packed.sizes > 0).tolist():
        found[row] = search.is_in(packed[row] or b"")
    return found
