"""Databases of a snapshot, with the size and shape of their trees.

Source: je-log.md "Databases of the engine"; DatabaseImpl, DbTree, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.btree.children import BINS_AT_ONCE, Children, LoadedNodes
from je_tools.formats.java import class_name
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.fetch import fetch
from je_tools.formats.je.types import Family
from je_tools.log.field_descriptions import bit_names, bits_of
from je_tools.log.records import unexpired

if TYPE_CHECKING:
    from je_tools.btree.faults import Faults
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.btree.slots import Slots
    from je_tools.recovery.database import Database
    from je_tools.recovery.record_reader import RecordReader
    from je_tools.recovery.snapshot import Snapshot


class DatabaseState(StrEnum):
    """Presence of a database's name and descriptor."""

    WHOLE = "whole"
    UNNAMED = "unnamed"
    """A descriptor without a name: an unfinished removal or truncation."""
    NO_DESCRIPTOR = "no descriptor"
    """A name without a descriptor."""


class Shape(Struct):
    """Size and shape of a database's tree.

    Attributes:
        records: number of records that are alive and have not expired.
        depth: levels of nodes; 0 without a tree.
        upper_nodes, bottom_nodes: number of nodes.
        node_bytes: log bytes of the nodes, including the full versions of deltas.
        record_bytes: log bytes of records stored outside of nodes.
    """

    records: int = 0
    depth: int = 0
    upper_nodes: int = 0
    bottom_nodes: int = 0
    node_bytes: int = 0
    record_bytes: int = 0


class DatabaseRow(Struct, frozen=True):
    """One database, or a name of one.

    Attributes:
        db_id: its id.
        name: its name; None if it has none.
        state: presence of its name and descriptor.
        database: None without a descriptor.
        shape: of its tree; empty without a descriptor.
    """

    db_id: int
    name: str | None
    state: DatabaseState
    database: Database | None
    shape: Shape

    @property
    def flags(self) -> list[str]:
        """Names of the bits set in its descriptor; unnamed bits as one number."""
        if self.database is None:
            return []
        return bit_names(self.database.flags, bits_of(Family.MAP_LN, "db_flags") or {})

    @property
    def comparators(self) -> list[str]:
        """Class names of its comparators, that of keys first; `unknown` if one is unreadable."""
        stored = self.database.comparators if self.database else ()
        return [class_name(each) or "unknown" for each in stored]

    @property
    def map_ln_lsn(self) -> int | None:
        """LSN of its descriptor; None for the two databases that the DbTree describes."""
        lsn = self.database.map_ln_lsn if self.database else NULL_LSN
        return None if lsn == NULL_LSN else lsn

    @property
    def root_lsn(self) -> int | None:
        """LSN of its tree's root after recovery; None without a root."""
        lsn = self.database.root_lsn if self.database else NULL_LSN
        return None if lsn == NULL_LSN else lsn

    @property
    def created_version(self) -> int | None:
        """Log version of the engine that created it; None if unknown."""
        version = self.database.record.get("created_at_log_version") if self.database else None
        return None if version is None else int(version)


def list_databases(snapshot: Snapshot, *, internal: bool) -> Iterator[DatabaseRow]:
    """Yield the databases of a snapshot by name, then those without a name or a descriptor.

    Faults of their trees are added to `snapshot.faults`.

    Args:
        snapshot: the snapshot.
        internal: include the engine's own databases.
    """
    whole = [each for each in snapshot.databases.values() if each.name is not None]
    for each in sorted(whole, key=lambda each: each.name or ""):
        if internal or not each.is_internal:
            yield DatabaseRow(
                each.db_id, each.name, DatabaseState.WHOLE, each, shape_of(snapshot, each)
            )
    for each in snapshot.databases.values():
        if each.name is None:
            yield DatabaseRow(
                each.db_id, None, DatabaseState.UNNAMED, each, shape_of(snapshot, each)
            )
    for db_id, name in sorted(snapshot.names.items()):
        if db_id not in snapshot.databases:
            yield DatabaseRow(db_id, name, DatabaseState.NO_DESCRIPTOR, None, Shape())


def shape_of(snapshot: Snapshot, database: Database) -> Shape:
    """Return the shape of a database's tree; faults are added to `snapshot.faults`."""
    shape = Shape()
    reader = snapshot.record_reader(database, with_data=False, show_expired=False)
    tree = reader.tree

    def add_upper(loaded: LoadedNodes) -> None:
        shape.upper_nodes += int(np.count_nonzero(loaded.nodes.good))
        shape.node_bytes += _node_bytes(reader, loaded)
        shape.depth = max(shape.depth, loaded.children.level)

    def measure(children: Children) -> tuple[int, int, int, int, Faults]:
        loaded = tree.read(children)
        slots, alive, changes, faults = reader.slots_and_changes(loaded)
        lives = alive & unexpired(slots.expires_ms, reader.now_ms)
        more, others = reader.count_changes(changes)
        others.extend(faults)
        return (
            int(np.count_nonzero(loaded.nodes.good)),
            int(np.count_nonzero(lives)) + more,
            _node_bytes(reader, loaded),
            _record_bytes(reader, slots, lives) + _sizes(reader, reader.overlay.lsn[changes]),
            others,
        )

    for bottom, records, node_bytes, record_bytes, faults in snapshot.in_order(
        tree.unread_bins(seen=add_upper, at_once=BINS_AT_ONCE), measure
    ):
        shape.bottom_nodes += bottom
        shape.records += records
        shape.node_bytes += node_bytes
        shape.record_bytes += record_bytes
        snapshot.faults.extend(faults)
    if reader.has_unplaced:
        left, faults = reader.unplaced_records()
        shape.records += len(left)
        shape.record_bytes += _sizes(reader, reader.overlay.lsn[reader.unplaced_changes()])
        snapshot.faults.extend(faults)
    snapshot.faults.extend(tree.faults)
    return shape


def _node_bytes(reader: RecordReader, loaded: LoadedNodes) -> int:
    nodes = loaded.nodes
    total = _sizes(reader, nodes.lsn[nodes.good])
    return total + _sizes(reader, nodes.last_full_lsn[nodes.is_delta])


def _record_bytes(reader: RecordReader, slots: Slots, lives: Mask) -> int:
    """Return the log bytes of records outside of nodes; embedded and duplicate data is in nodes."""
    if reader.tree.two_part:
        return 0
    outside = lives & (slots.data_size < 0)
    known = slots.logged_size > 0
    total = int(slots.logged_size[outside & known].sum())
    return total + _sizes(reader, slots.lsn[outside & ~known])


def _sizes(reader: RecordReader, lsns: Ints) -> int:
    """Return the total size of the entries at LSNs, in bytes."""
    found = fetch(reader.tree.image, lsns, check=False)
    return int(found.size[found.good].sum())
