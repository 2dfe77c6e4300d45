"""Dangling references: slots and earlier versions that name lost records.

A slot names the LSN of the entry that wrote its record, and often holds the record itself. An entry
of a transaction names the version that it replaced. If such an LSN cannot be read, the key is known
nevertheless.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.je.btree.keys import join_two_part
from je_tools.formats.je.btree.slots import split_embedded, split_two_part_keys
from je_tools.formats.je.entry.columns import Columns, Decoded, decode
from je_tools.formats.je.entry.identity import identities
from je_tools.formats.je.expirations import expiration_ms
from je_tools.formats.je.flags import LnFlag, NodeFlag, SlotState
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.types import BY_NAME, OLD_BIN_DELTA_NO, Family
from je_tools.formats.rows import Cell, Form, lines_of, read_only, text_of_ours
from je_tools.formats.spans import Spans, gather
from je_tools.log.records import NO_TIME, NO_VLSN, Records
from je_tools.salvage.entry_masks import KEYED_VERSION, bottom_nodes_of, pieces_of_rows, records_of
from je_tools.salvage.transactions import is_in

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.salvage.content import Content

NODES_AT_ONCE = 512
"""Number of nodes decoded at once: each has up to some hundred slots."""

_DBIN = BY_NAME["DBIN"].no
_GONE = SlotState.KNOWN_DELETED | SlotState.PENDING_DELETED


class DanglingReferences(Struct, frozen=True):
    """Dangling references: records that were written at LSNs that cannot be read.

    Attributes:
        records: their known fields; the data is null if it is unknown.
        stored: their keys as B-trees store them. With duplicates, a stored key holds key and data,
            and those of `records` are parts of it.
        db_id: int64 (n,).
        first, second: int64 (n,); their identities.
        gone: bool (n,); the version at the LSN is a deletion.
        by: int64 (n,); LSN of the entry that names the record.
        by_slot: bool (n,); a slot names it, else an entry of a transaction without a commit.
    """

    records: Records
    stored: Spans
    db_id: Ints
    first: Ints
    second: Ints
    gone: Mask
    by: Ints
    by_slot: Mask

    def __len__(self) -> int:
        return len(self.db_id)

    def select(self, keep: npt.NDArray[Any]) -> DanglingReferences:
        """Return the references of a mask or of an index array."""
        columns = (self.db_id, self.first, self.second, self.gone, self.by, self.by_slot)
        return DanglingReferences(
            self.records.select(keep),
            self.stored.select(keep),
            *(column[keep] for column in columns),
        )


class DanglingPart(Struct, frozen=True):
    """Dangling references of one scanned range.

    Attributes:
        dangling: references to records of every database that is not excluded.
        lsns: int64, sorted; the distinct unreadable LSNs that entries of the range name.
    """

    dangling: list[DanglingReferences]
    lsns: Ints


class DanglingFinder(Struct, frozen=True):
    """Inspector of a scan that finds dangling references.

    Attributes:
        content: contents of the log.
        node_lsns: int64, sorted; LSNs of the bottom nodes to read.
        excluded: ids of databases that are left out.
    """

    content: Content
    node_lsns: Ints
    excluded: Ints

    def __call__(self, rows: Rows) -> DanglingPart:
        """Return the dangling references of some rows; runs in any thread."""
        dangling: list[DanglingReferences] = []
        lsns: list[Ints] = [np.empty(0, np.int64)]
        good = rows.good & ~rows.invisible
        nodes = good & bottom_nodes_of(rows.version)[rows.type]
        nodes[nodes] = is_in(rows.lsn[nodes], self.node_lsns)
        for some in pieces_of_rows(rows, nodes, NODES_AT_ONCE):
            decoded = decode(some, Family.NODE)
            dangling += self._slots(some, decoded, lsns)
        for some in pieces_of_rows(rows, good & (rows.type == OLD_BIN_DELTA_NO), NODES_AT_ONCE):
            decoded = decode(some, Family.OLD_DELTA)
            dangling += self._slots(some, decoded, lsns)
        for some in pieces_of_rows(rows, good & records_of(rows.version)[rows.type]):
            dangling += self._entries(some, lsns)
        return DanglingPart(dangling, np.unique(np.concatenate(lsns)))

    def _slots(
        self, rows: Rows, decoded: Decoded, lsns: list[Ints]
    ) -> Iterator[DanglingReferences]:
        slots = decoded.slots
        if slots is None or not len(slots.present):
            return
        counts = np.diff(decoded.slot_first)
        node = np.repeat(np.arange(len(rows)), counts)
        lsn = slots.number("lsn")
        hits = self.content.unerased.is_lost(lsn) & (lsn != NULL_LSN) & ~decoded.bad[node]
        lsns.append(lsn[hits & self.content.readable.is_lost(lsn)])
        hits &= ~np.isin(decoded.fields.number("db_id")[node], self.excluded)
        index = np.flatnonzero(hits)
        if len(index):
            yield self._of_slots(rows, decoded, index, node[index])

    def _of_slots(
        self, rows: Rows, decoded: Decoded, index: Ints, node: Ints
    ) -> DanglingReferences:
        slots, fields = decoded.slots, decoded.fields
        assert slots is not None
        key_start, key_size, data_start, data_size = split_embedded(slots)
        suffix = Spans(slots.data, key_start[index], key_size[index])
        data = Spans(slots.data, data_start[index], data_size[index])
        key = self._whole_keys(fields, suffix, node)
        is_old_duplicate = rows.type[node] == _DBIN
        db_id = fields.number("db_id")[node]
        if is_old_duplicate.any() and fields.has("dup_key"):
            of_node = Spans(fields.data, *fields.span("dup_key")).select(node)
            key, data = _old_duplicates(is_old_duplicate, of_node, key, data)
        first, second = self._identities(key, data, db_id, is_old_duplicate)
        key, data, stored = self._split_keys(key, _own(data), db_id, rows.version)
        state = slots.number("state")[index]
        records = Records(
            key,
            data,
            slots.number("lsn")[index],
            _column(slots, "vlsn", index, NO_VLSN),
            _slot_time(slots, fields, "modified", index, node),
            _slot_time(slots, fields, "created", index, node),
            _slot_expiration(slots, fields, index, node),
            (state & SlotState.TOMBSTONE) != 0
            if rows.version >= 19
            else np.zeros(len(index), np.bool_),
        )
        by = rows.lsn[node]
        gone = (state & _GONE) != 0
        return DanglingReferences(
            records, stored, db_id, first, second, gone, by, np.ones(len(index), np.bool_)
        )

    def _whole_keys(self, fields: Columns, suffix: Spans, node: Ints) -> Spans:
        """Return keys with the prefix of their node prepended, in a buffer of their own."""
        columns = [suffix]
        sizes = suffix.sizes
        if fields.has("key_prefix"):
            starts, lengths = fields.span("key_prefix")
            has_prefix = fields.number("booleans") & NodeFlag.HAS_PREFIX != 0
            lengths = np.where(has_prefix, np.maximum(lengths, 0), 0)
            prefix = Spans(fields.data, starts[node], lengths[node])
            columns.insert(0, prefix)
            sizes = sizes + prefix.sizes
        sizes = np.where(suffix.sizes < 0, -1, sizes)
        if (suffix.sizes < 0).any():
            columns = [column.select(suffix.sizes >= 0) for column in columns]
        ends = np.cumsum(np.maximum(sizes, 0))
        return Spans(
            lines_of([Cell(Form.TEXT, text_of_ours(column)) for column in columns]),
            ends - np.maximum(sizes, 0),
            sizes,
        )

    def _identities(
        self, key: Spans, data: Spans, db_id: Ints, is_old_duplicate: Mask
    ) -> tuple[Ints, Ints]:
        """Return identities as in `content`; that of an old duplicate covers its data, too."""
        if is_old_duplicate.any():
            texts = []
            for i, is_old in enumerate(is_old_duplicate.tolist()):
                text = key[i] or b""
                texts.append(join_two_part(text, data[i] or b"") if is_old else text)
            sizes = np.array([len(text) for text in texts], np.int64)
            content = np.frombuffer(b"".join(texts), np.uint8)
            key = Spans(content, np.cumsum(sizes) - sizes, sizes)
        seed = self.content.seed
        return identities(key.data, key.starts, key.sizes, db_id, seed)

    def _split_keys(
        self, key: Spans, data: Spans, db_id: Ints, version: int
    ) -> tuple[Spans, Spans, Spans]:
        """Return keys and data as an application sees them, and the stored keys."""
        duplicates = [i for i, kind in self.content.kinds.items() if kind.has_duplicates]
        is_duplicate = np.isin(db_id, np.array(duplicates, np.int64))
        if version < KEYED_VERSION or not is_duplicate.any():
            return key, data, key
        first, second = split_two_part_keys(key)
        size = len(key.data)
        both = read_only(np.concatenate((key.data, data.data)))
        starts = np.where(is_duplicate, second.starts, data.starts + size)
        sizes = np.where(is_duplicate, second.sizes, data.sizes)
        key_sizes = np.where(is_duplicate, first.sizes, key.sizes)
        stored = Spans(both, key.starts, key.sizes)
        return Spans(both, key.starts, key_sizes), Spans(both, starts, sizes), stored

    def _entries(self, rows: Rows, lsns: list[Ints]) -> Iterator[DanglingReferences]:
        decoded = decode(rows, Family.LN)
        fields = decoded.fields
        if not fields.has("txn_id"):
            return
        fine = ~decoded.bad
        readable = self.content.readable
        for name in ("txn_prev_lsn", "abort_lsn"):
            lsn = fields.number(name)
            wanted = fine & fields.is_present(name) & (lsn != NULL_LSN)
            lsns.append(lsn[wanted & readable.is_lost(lsn)])
        lsn = fields.number("abort_lsn")
        hits = fine & fields.is_present("abort_lsn") & (lsn != NULL_LSN)
        hits &= self.content.unerased.is_lost(lsn)
        txn_id = fields.number("txn_id")
        hits &= fields.is_present("txn_id") & ~self.content.committed.contains(txn_id)
        hits &= ~np.isin(fields.number("db_id"), self.excluded)
        index = np.flatnonzero(hits)
        # In older versions the flags do not say whether the earlier version was a deletion.
        if len(index) and rows.version >= KEYED_VERSION:
            yield self._of_entries(rows, fields, index)

    def _of_entries(self, rows: Rows, fields: Columns, index: Ints) -> DanglingReferences:
        n = len(index)
        key = Spans(fields.data, *fields.span("key")).select(index)
        data = Spans(fields.data, np.zeros(n, np.int64), np.full(n, -1, np.int64))
        if fields.has("abort_key"):
            before = Spans(fields.data, *fields.span("abort_key")).select(index)
            has_key = before.sizes >= 0
            starts = np.where(has_key, before.starts, key.starts)
            key = Spans(key.data, starts, np.where(has_key, before.sizes, key.sizes))
            data = Spans(fields.data, *fields.span("abort_data")).select(index)
        key, data = _own(key), _own(data)
        db_id = fields.number("db_id")[index]
        seed = self.content.seed
        first, second = identities(key.data, key.starts, key.sizes, db_id, seed)
        key, data, stored = self._split_keys(key, data, db_id, rows.version)
        records = Records(
            key,
            data,
            fields.number("abort_lsn")[index],
            _column(fields, "abort_vlsn", index, NO_VLSN),
            _column(fields, "abort_modified_ms", index, NO_TIME),
            _column(fields, "abort_created_ms", index, NO_TIME),
            expiration_ms(_column(fields, "abort_expiration", index, 0)),
            np.zeros(n, np.bool_),
        )
        gone = fields.number("flags")[index] & LnFlag.ABORT_KNOWN_DELETED != 0
        by = rows.lsn[index]
        return DanglingReferences(
            records, stored, db_id, first, second, gone, by, np.zeros(n, np.bool_)
        )


def _own(spans: Spans) -> Spans:
    """Return the byte strings in a buffer of their own."""
    offsets, data = gather(spans.data, spans.starts, spans.sizes)
    return Spans(read_only(data), offsets[:-1].astype(np.int64), spans.sizes)


def _column(columns: Columns, name: str, index: Ints, absent: int) -> Ints:
    if not columns.has(name):
        return np.full(len(index), absent, np.int64)
    return np.where(columns.is_present(name)[index], columns.number(name)[index], absent)


def _slot_time(slots: Columns, fields: Columns, name: str, index: Ints, node: Ints) -> Ints:
    """Return a time in ms: the node's base + the slot's offset - 1; NO_TIME if one is absent."""
    offset = _column(slots, f"{name}_offset", index, 0)
    base = _column(fields, f"{name}_base_ms", node, -1)
    return np.where((offset > 0) & (base >= 0), base + offset - 1, NO_TIME)


def _slot_expiration(slots: Columns, fields: Columns, index: Ints, node: Ints) -> Ints:
    offset = _column(slots, "expiration_offset", index, 0)
    base = _column(fields, "expiration_base", node, -1)
    count = np.where((offset > 0) & (base >= 0), base + offset - 1, 0)
    return expiration_ms(count)


def _old_duplicates(is_old: Mask, main: Spans, key: Spans, data: Spans) -> tuple[Spans, Spans]:
    """Return keys and data of slots, some of which are in old duplicate trees.

    In a duplicate tree from before KEYED_VERSION, the key of a slot is the data of its record, and
    the key of the record is that of the node.

    Args:
        is_old: bool (n,); the slot is in an old duplicate tree.
        main: key of each slot's node.
        key, data: key and data of each slot.
    """
    size = len(main.data)
    both = np.concatenate((main.data, key.data))
    # Few logs are that old, so copying the buffer is cheap enough.
    keys = Spans(
        both,
        np.where(is_old, main.starts, key.starts + size),
        np.where(is_old, main.sizes, key.sizes),
    )
    more = np.concatenate((data.data, key.data))
    values = Spans(
        more,
        np.where(is_old, key.starts + len(data.data), data.starts),
        np.where(is_old, key.sizes, data.sizes),
    )
    return _own(keys), values
