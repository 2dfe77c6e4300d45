"""Search for keys that a search of bytes misses, because a prefix cuts them in two.

A node may store the prefix of its keys once, and only the rest of each key in its slots. Every such
node of a file is decoded, whether or not a tree leads to it, even if its checksum is wrong, or an
interrupted erasure has marked it without overwriting it. Nodes that do not decode are counted,
because keys in them are not found.

Source: je-log.md "Nodes"; IN.writeToLog, JE 7.5.11 and 25.3.17; DataEraser, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from je_tools.erase.proof.damaged_bytes import DamagedBytes
from je_tools.erase.proof.raw_search import joined_hits
from je_tools.formats.je.btree.slots import split_embedded
from je_tools.formats.je.entry.columns import MAX_ROWS, Decoded, EntryPayloads, decode_items
from je_tools.formats.je.flags import DatabaseFlag
from je_tools.formats.je.log.entry_rows import WantedEntries
from je_tools.formats.je.log.erased import unfinished_rows
from je_tools.formats.je.log.walk import NO_OFFSET
from je_tools.formats.je.types import (
    BY_NAME,
    ENTRY_TYPES,
    ERASED_NO,
    PAYLOAD_VERSION_MIN,
    Family,
    mask_of,
)
from je_tools.formats.needles import Hits
from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.erase.proof.needles import NeedleSearch
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.log_files import LogFile

_NODES = mask_of(each.no for each in ENTRY_TYPES.values() if each.family is Family.NODE)
_MAP_LNS = mask_of(BY_NAME[name].no for name in ("MapLN", "MapLN_TX"))
_KNOWN = mask_of(ENTRY_TYPES)
_ASKED = _NODES | _MAP_LNS | mask_of((ERASED_NO,)) | ~_KNOWN
_ERASED_NODES = tuple(BY_NAME[name].no for name in ("IN", "BIN", "NewBINDelta"))
_ERASED_LNS = tuple(
    each.no
    for each in ENTRY_TYPES.values()
    if each.user_ln and each.family is Family.LN and each.first_version > 7
)

JOINED_MAX = 10_000
"""Largest number of hits in joined keys of a file whose places are kept; all are counted."""


class RangeNodes(Struct):
    """Hits in the nodes of some rows of a file.

    Attributes:
        entry_offset, offset, size, needle: int64; hits in joined keys: offset of the node, offset
            in the file of the rest of the key, bytes of the hit, and number of the needle.
        counts: int64 (needles,); number of all these hits.
        first_hit: index of the first raw hit that begins in or after the first row.
        hit_entry, hit_type: int64; offset and type of the entry in which each raw hit begins,
            from `first_hit` on; NO_OFFSET for none.
        damaged: entries with a wrong checksum, except those of zeros alone.
        undecoded_count: nodes that do not decode.
        unknown_count: entries of unknown types with right checksums.
        marked_count: number of entries of type 43 (Erased) that still have bytes.
        opaque_count: number of these that decode neither as a node nor as a record.
        duplicates: databases with duplicates.
    """

    entry_offset: Ints
    offset: Ints
    size: Ints
    needle: Ints
    counts: Ints
    first_hit: int
    hit_entry: Ints
    hit_type: Ints
    damaged: DamagedBytes = field(default_factory=DamagedBytes)
    undecoded_count: int = 0
    unknown_count: int = 0
    marked_count: int = 0
    opaque_count: int = 0
    duplicates: set[int] = field(default_factory=set)


class NodeInspector(Struct, frozen=True):
    """Work for a scan: search the nodes of a file, and locate raw hits in its entries.

    Attributes:
        search: the needles.
        hits: int64; offsets of the raw hits in the file, ascending.
    """

    search: NeedleSearch
    hits: Ints

    def __call__(self, rows: Rows) -> RangeNodes:
        """Search the nodes among some rows, and locate the raw hits; runs in any thread."""
        none = np.empty(0, np.int64)
        zeros = np.zeros(len(self.search), np.int64)
        found = RangeNodes(none, none, none, none, zeros, 0, none, none)
        if not len(rows):
            return found
        found.damaged = DamagedBytes.of(_damaged_ranges(rows))
        found.unknown_count = int(np.count_nonzero(~_KNOWN[rows.type] & rows.good))
        self._locate(rows, found)
        self._find_duplicates(rows, found)
        parts: list[tuple[Ints, Ints, Hits]] = []
        for payloads, offsets in _payloads(rows, np.flatnonzero(_NODES[rows.type])):
            if rows.version < PAYLOAD_VERSION_MIN:
                found.undecoded_count += len(payloads)
                continue
            heads = decode_items(payloads, Family.NODE, wanted=_HEAD_FIELDS)
            found.undecoded_count += int(np.count_nonzero(heads.bad))
            cut = np.flatnonzero(_has_prefix(heads))
            if len(cut):
                nodes = payloads.select(cut)
                decoded = decode_items(nodes, Family.NODE, of_slots=_SLOT_FIELDS)
                found.undecoded_count += int(np.count_nonzero(decoded.bad))
                parts.append(self._joined(decoded, offsets[cut], rows.base))
        for payloads, offsets in _payloads(rows, unfinished_rows(rows)):
            found.marked_count += len(payloads)
            parts += self._in_marked(payloads, offsets, rows.base, found)
        parts = [part for part in parts if part[2].counts.any()]
        if parts:
            found.entry_offset = np.concatenate([part[0] for part in parts])
            found.offset = np.concatenate([part[1] for part in parts])
            joined = joined_hits([part[2] for part in parts])
            found.size, found.needle, found.counts = joined.size, joined.needle, joined.counts
        return found

    def _locate(self, rows: Rows, found: RangeNodes) -> None:
        starts = rows.offset.astype(np.int64)
        first, last = np.searchsorted(self.hits, (starts[0], starts[-1] + rows.size[-1])).tolist()
        hits = self.hits[first:last]
        row = np.searchsorted(starts, hits, side="right") - 1
        inside = hits < starts[row] + rows.size[row]
        found.first_hit = first
        found.hit_entry = np.where(inside, starts[row], NO_OFFSET)
        found.hit_type = rows.type[row].astype(np.int64)

    def _find_duplicates(self, rows: Rows, found: RangeNodes) -> None:
        for row in np.flatnonzero(_MAP_LNS[rows.type]).tolist():
            database = rows.fields(row).get("database")
            if database is not None and database["db_flags"] & DatabaseFlag.DUPLICATES:
                found.duplicates.add(database["id"])

    def _joined(self, decoded: Decoded, offsets: Ints, base: int) -> tuple[Ints, Ints, Hits]:
        """Return entry offsets, places and the hits in the whole keys of decoded nodes."""
        none = np.empty(0, np.int64)
        head, slots = decoded.fields, decoded.slots
        if slots is None or not head.has("key_prefix") or head.is_empty("key_prefix"):
            return none, none, Hits(none, none, none, np.zeros(len(self.search), np.int64))
        starts, sizes, _, _ = split_embedded(slots)
        prefix_starts, prefix_sizes = head.span("key_prefix")
        prefixes = Spans(head.data, prefix_starts, np.where(decoded.bad, -1, prefix_sizes))
        rests = Spans(slots.data, starts, np.maximum(sizes, 0))
        rows, hits = self.search.search_joined(decoded.slot_first, prefixes, rests, JOINED_MAX)
        node = np.searchsorted(decoded.slot_first, rows, side="right") - 1
        return offsets[node], starts[rows] + base, hits

    def _in_marked(
        self, payloads: EntryPayloads, offsets: Ints, base: int, found: RangeNodes
    ) -> Iterator[tuple[Ints, Ints, Hits]]:
        """Search erased entries with bytes as nodes, of each type as which they decode."""
        known = np.zeros(len(payloads), np.bool_)
        for type_no in _ERASED_NODES:
            decoded = decode_items(_as_type(payloads, type_no), Family.NODE, of_slots=_SLOT_FIELDS)
            known |= ~decoded.bad
            yield self._joined(decoded, offsets, base)
        for type_no in _ERASED_LNS:
            if not known.all():
                known |= ~decode_items(_as_type(payloads, type_no), Family.LN).bad
        found.opaque_count += int(np.count_nonzero(~known))


_HEAD_FIELDS = frozenset({"key_prefix"})
_SLOT_FIELDS = frozenset({"key", "state"})


def _has_prefix(heads: Decoded) -> Mask:
    """Return a mask of the nodes whose keys are cut in two.

    The keys of other nodes are whole in the file, so their slots need not be decoded.
    """
    head = heads.fields
    if not head.has("key_prefix"):
        return np.zeros(len(heads.bad), np.bool_)
    _, sizes = head.span("key_prefix")
    found: Mask = (sizes > 0) & ~heads.bad
    return found


def _damaged_ranges(rows: Rows) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges of entries with a wrong checksum, except those of zeros."""
    for row in np.flatnonzero(~rows.good).tolist():
        start, size = int(rows.offset[row]), rows.size_of(row)
        payload = start - rows.base + int(rows.header_size[row])
        if rows.data[payload : start - rows.base + size].any():
            yield start, start + size


def _as_type(payloads: EntryPayloads, type_no: int) -> EntryPayloads:
    types = np.full(len(payloads), type_no, np.uint8)
    return EntryPayloads(payloads.data, payloads.version, types, payloads.start, payloads.stop)


def _payloads(rows: Rows, index: Ints) -> Iterator[tuple[EntryPayloads, Ints]]:
    """Yield the payloads of some rows, and the offsets of their entries."""
    for first in range(0, len(index), MAX_ROWS):
        some = rows.select(index[first : first + MAX_ROWS])
        offsets = some.offset.astype(np.int64)
        at = offsets - some.base
        start, stop = at + some.header_size, at + some.size
        yield EntryPayloads(some.data, some.version, some.type, start, stop), offsets


def wanted_entries(_: LogFile) -> WantedEntries:
    """Return the entries that the inspector needs in a file without raw hits."""
    return WantedEntries(_ASKED)
