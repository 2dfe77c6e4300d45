"""Entries of the log, and states of transactions, collected into columns."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.core.spill import ByteHeap, Spill
from je_tools.formats.ignite.ids import cache_id
from je_tools.formats.ignite.records import decode_entries, decode_type
from je_tools.formats.ignite.types import DATA_NOS, NUMBERS, EntryOperation, TransactionState
from je_tools.formats.spans import Spans
from je_tools.ignite.caches import METASTORAGE

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.ignite.records import DataEntries
    from je_tools.formats.ignite.walk import RecordRows

METASTORAGE_ID = cache_id(METASTORAGE)
"""Cache id that the rows of the metastorage get here."""

_REPLAYED = frozenset({*DATA_NOS} - {NUMBERS["CDC_DATA_RECORD"]})
_TX = NUMBERS["TX_RECORD"]
_METASTORE = NUMBERS["METASTORE_DATA_RECORD"]
_ROLLBACK = NUMBERS["ROLLBACK_TX_RECORD"]
_STATE = NUMBERS["PART_META_UPDATE_STATE"]
_DESTROY = NUMBERS["PARTITION_DESTROY"]
_CHANGES = (EntryOperation.CREATE, EntryOperation.UPDATE, EntryOperation.DELETE)

DESTROYED = -1
"""State of a partition that the log destroys."""

PREPARED_STATES = (TransactionState.PREPARING, TransactionState.PREPARED)
"""Last logged states of transactions that the engine leaves out.

Source: IgniteTxManager.collectTxStates, Ignite 2.18.0.
"""


Column = npt.NDArray[np.integer]
"""A column of a type in COLUMN_TYPES."""


class EntryColumns(Struct, frozen=True):
    """Entries in the order of the log, (n,) each, with the dtypes of COLUMN_TYPES.

    Attributes:
        cache_id: cache, or METASTORAGE_ID.
        partition: partition; 0 in the metastorage.
        key_type, value_type: kinds of the cache objects; -1 for none.
        key_start, key_size, value_start, value_size: places of the bytes; size -1 for null.
        op: operation, an `EntryOperation`.
        near_parts, near_topology, near_node, near_order: version of the transaction; 0 parts for
            none.
        topology, node, order: version of the entry.
        expire_ms: time of expiry; 0 for none.
        counter: update counter; 0 for none.
    """

    cache_id: Column
    partition: Column
    key_type: Column
    value_type: Column
    key_start: Column
    key_size: Column
    value_start: Column
    value_size: Column
    op: Column
    near_parts: Column
    near_topology: Column
    near_node: Column
    near_order: Column
    topology: Column
    node: Column
    order: Column
    expire_ms: Column
    counter: Column

    def __len__(self) -> int:
        return len(self.cache_id)

    def select(self, keep: npt.NDArray[np.generic]) -> EntryColumns:
        """Select entries by a mask or by an index array."""
        return EntryColumns(*(getattr(self, name)[keep] for name in self.__struct_fields__))


_PLACES = ("key_start", "value_start")
_SHARED = tuple(name for name in EntryColumns.__struct_fields__ if name not in _PLACES)

COLUMN_TYPES = {
    **dict.fromkeys(("op", "near_parts"), np.uint8),
    **dict.fromkeys(("key_type", "value_type"), np.int16),
    **dict.fromkeys(("cache_id", "partition", "key_size", "value_size"), np.int32),
    **dict.fromkeys(("near_topology", "near_node", "topology", "node"), np.int32),
    **dict.fromkeys(("key_start", "value_start", "near_order", "order"), np.int64),
    **dict.fromkeys(("expire_ms", "counter"), np.int64),
}
"""Types of the columns, as small as those of the log: a log has many millions of entries."""


class EntryCollector:
    """Entries and other logical records of a log, collected window by window.

    Attributes:
        keys, values: their bytes.
        uncommitted: versions of the transactions whose last record prepares them.
        partition_states: state of each partition by group and number, the newest one.
        rollbacks: counters of transactions that were rolled back: group, partition, first, number.
        undecodable: number of records that do not decode.
        encrypted: number of entries that are cipher text.
    """

    def __init__(self, log_size: int) -> None:
        """Create an empty collection for a log of this size."""
        spill = Spill(log_size, lambda: Path(tempfile.gettempdir()))
        self.keys, self.values = ByteHeap(spill), ByteHeap(spill)
        self.uncommitted: set[tuple[int, int, int]] = set()
        self.partition_states: dict[tuple[int, int], int] = {}
        self.rollbacks: list[tuple[int, int, int, int]] = []
        self.undecodable = 0
        self.encrypted = 0
        self._parts: dict[str, list[Column]] = {
            name: [np.empty(0, COLUMN_TYPES[name])] for name in EntryColumns.__struct_fields__
        }

    def add(self, rows: RecordRows) -> None:
        """Add the records of a window."""
        types = rows.columns.type_no
        present = np.flatnonzero(np.bincount(types, minlength=256)).tolist()
        if not _REPLAYED.isdisjoint(present):
            self._add_entries(rows.select(np.flatnonzero(np.isin(types, list(_REPLAYED)))))
        for type_no in present:
            if type_no not in (_TX, _METASTORE, _ROLLBACK, _STATE, _DESTROY):
                continue
            some = rows.select(np.flatnonzero(types == type_no))
            decoded = decode_type(some, type_no)
            self.undecodable += int(np.count_nonzero(decoded.bad))
            good = np.flatnonzero(~decoded.bad)
            columns = {name: column[good] for name, column in decoded.columns.items()}
            self._add_type(type_no, some.select(good), columns)

    def _add_type(self, type_no: int, rows: RecordRows, columns: dict[str, Ints]) -> None:
        if type_no == _TX:
            parts = (columns[f"near_{part}"] for part in ("topology", "node", "order"))
            versions = zip(*(part.tolist() for part in parts), strict=True)
            for version, state in zip(versions, columns["state"].tolist(), strict=True):
                if state in PREPARED_STATES:
                    self.uncommitted.add(version)
                else:
                    self.uncommitted.discard(version)
        elif type_no == _METASTORE:
            self._add_metastorage(rows, columns)
        elif type_no == _ROLLBACK:
            names = ("group_id", "partition", "start", "range")
            self.rollbacks += zip(*(columns[name].tolist() for name in names), strict=True)
        else:
            places = zip(columns["group_id"].tolist(), columns["partition"].tolist(), strict=True)
            no_state = [DESTROYED] * len(rows)
            states = columns["state"].tolist() if type_no == _STATE else no_state
            self.partition_states.update(zip(places, states, strict=True))

    def _add_entries(self, rows: RecordRows) -> None:
        bad = np.empty(0, np.bool_)
        for batch in decode_entries(rows):
            bad = batch.bad
            self._add_batch(rows, batch.entries, bad)
        self.undecodable += int(np.count_nonzero(bad))

    def _add_batch(self, rows: RecordRows, entries: DataEntries, bad: Mask) -> None:
        plain = entries.is_encrypted == 0
        self.encrypted += int(np.count_nonzero(~plain))
        is_change = np.isin(entries.op, _CHANGES)
        entries = entries.select(plain & is_change & ~bad[entries.record])
        self._append(
            {name: getattr(entries, name) for name in _SHARED},
            Spans(rows.data, entries.key_start, entries.key_size),
            Spans(rows.data, entries.value_start, entries.value_size),
        )

    def _add_metastorage(self, rows: RecordRows, columns: dict[str, Ints]) -> None:
        n = len(rows)
        sizes = columns["value_size"]
        is_put = sizes > 0
        facts = {name: np.zeros(n, np.int64) for name in _SHARED}
        facts["cache_id"][:] = METASTORAGE_ID
        facts["op"] = np.where(is_put, EntryOperation.UPDATE, EntryOperation.DELETE)
        facts["key_type"][:] = facts["value_type"][:] = -1
        facts["key_size"], facts["value_size"] = columns["key_size"], np.where(is_put, sizes, -1)
        keys = Spans(rows.data, columns["key_start"], facts["key_size"])
        values = Spans(rows.data, columns["value_start"], facts["value_size"])
        self._append(facts, keys, values)

    def _append(self, columns: dict[str, Ints], keys: Spans, values: Spans) -> None:
        if not len(keys):
            return
        places = {"key_start": self.keys.append(keys), "value_start": self.values.append(values)}
        for name, column in (columns | places).items():
            self._parts[name].append(column.astype(COLUMN_TYPES[name]))

    def entries(self) -> EntryColumns:
        """Return all entries, once."""
        # Column by column, so that only one of them is there twice.
        parts, self._parts = self._parts, {}
        return EntryColumns(*(np.concatenate(parts.pop(name)) for name in list(parts)))


def of_versions(entries: EntryColumns, versions: set[tuple[int, int, int]]) -> Mask:
    """Return a mask of the entries of these transactions."""
    found = np.zeros(len(entries), np.bool_)
    orders = np.array([order for _, _, order in versions], np.int64)
    rows = np.flatnonzero((entries.near_parts > 0) & np.isin(entries.near_order, orders))
    for row in rows.tolist():
        near = (entries.near_topology[row], entries.near_node[row], entries.near_order[row])
        found[row] = tuple(map(int, near)) in versions
    return found
