"""Inspector of the scan of a salvage: records, bottom nodes, transaction ends, and names."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from je_tools.formats.je.btree.keys import join_two_part
from je_tools.formats.je.entry.columns import Columns, decode
from je_tools.formats.je.entry.identity import Seed, identities
from je_tools.formats.je.entry.payloads import PAYLOAD_FAMILIES, payload_of
from je_tools.formats.je.types import (
    ABORT_NO,
    BY_NAME,
    COMMIT_NO,
    ENTRY_TYPES,
    ERASED_NO,
    PAYLOAD_VERSION_MIN,
    Family,
    mask_of,
)
from je_tools.formats.rows import read_only
from je_tools.log.names import NamePart, collect_names
from je_tools.salvage.entry_masks import KEYED_VERSION, bottom_nodes_of, pieces_of_rows, records_of
from je_tools.salvage.extents import RangeExtents, range_extents
from je_tools.salvage.record_versions import (
    DELETED,
    INVISIBLE,
    NO_TXN,
    RecordVersions,
    select_versions,
    sorted_versions,
)

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows

_DELETIONS = mask_of(
    BY_NAME[name].no for name in ("DEL_LN_TX", "DEL_LN", "DEL_LN_TX_WITH_BEFORE_IMAGE")
)

_TXN_ENDS = mask_of((COMMIT_NO, ABORT_NO))
_DELTA = BY_NAME["NewBINDelta"].no
_LN_FIELDS = frozenset({"db_id", "txn_id", "key", "data"})
_FIELDED = mask_of(each.no for each in ENTRY_TYPES.values() if each.family in PAYLOAD_FAMILIES)
MAP_LNS = mask_of((BY_NAME["MapLN"].no, BY_NAME["MapLN_TX"].no))
_ID_WIDTH = 1 << 16
_NODE_FIELDS = frozenset({"db_id", "node_id"})


class BottomNodes(Struct, frozen=True):
    """Bottom nodes of the B-trees (BINs and old DBINs) and their deltas, in log order.

    Attributes:
        lsn: int64.
        first, second: int64, the identity of the node; see `node_identities`.
        is_delta: bool.
    """

    lsn: Ints
    first: Ints
    second: Ints
    is_delta: npt.NDArray[np.bool_]


NODE_KINDS = (np.int64, np.int64, np.int64, np.bool_)
"""Types of the columns of `BottomNodes`."""


def node_identities(db_ids: Ints, node_ids: Ints, seed: Seed) -> tuple[Ints, Ints]:
    """Return identities of nodes: int64 digests that a crafted log cannot make collide.

    Args:
        db_ids, node_ids: int64 (n,).
        seed: secret of the digests.
    """
    sizes = np.full(len(node_ids), node_ids.itemsize, np.int64)
    data = read_only(np.ascontiguousarray(node_ids).view(np.uint8))
    return identities(data, np.cumsum(sizes) - sizes, sizes, db_ids, seed)


class DatabaseKind(Struct, frozen=True):
    """Properties of a database according to its last descriptor.

    Attributes:
        has_duplicates: True if a key can have several records.
        has_comparator: True if application code orders its keys or compares its duplicates.
    """

    has_duplicates: bool
    has_comparator: bool


class RangeContent(Struct, frozen=True):
    """Contents of one scanned range; for the attributes see `Content`.

    Attributes:
        ends: ids of committed and of aborted transactions.
        names: what the range says about names of databases.
    """

    lns: list[RecordVersions]
    bottom_nodes: list[BottomNodes]
    ends: list[Ints]
    names: NamePart
    kinds: dict[int, DatabaseKind]
    readable: RangeExtents
    unerased: RangeExtents
    undecodable: int


class DatabaseCodes(Struct):
    """Consecutive numbers from 0 for database ids, assigned on demand in any thread."""

    codes: dict[int, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, db_ids: Ints) -> npt.NDArray[np.int32]:
        """Return the number of each database id; new ids get the next numbers."""
        if not len(db_ids):
            return np.empty(0, np.int32)
        least = int(db_ids.min())
        width = int(db_ids.max()) - least + 1
        if width > _ID_WIDTH:
            # Damaged ids can be far apart, so none is used as the size of an array.
            unique, places = np.unique(db_ids, return_inverse=True)
            return self._known(unique)[places]
        places = db_ids - least
        lookup = np.zeros(width, np.int32)
        lookup[places] = 1
        found = np.flatnonzero(lookup)
        lookup[found] = self._known(found + least)
        return lookup[places]

    def _known(self, db_ids: Ints) -> npt.NDArray[np.int32]:
        with self.lock:
            known = [self.codes.setdefault(id_, len(self.codes)) for id_ in db_ids.tolist()]
        return np.array(known, np.int32)


class ContentInspector(Struct, frozen=True):
    """Inspector that the scan calls for each range; it returns the content of the range.

    Attributes:
        codes: numbers of the databases.
        seed: secret of the identities.
        duplicates: databases whose records from before KEYED_VERSION are identified by their data
            as well.
        internal: True to read LNs that have fields instead of data, too.
    """

    codes: DatabaseCodes
    seed: Seed
    duplicates: frozenset[int]
    internal: bool

    def __call__(self, rows: Rows) -> RangeContent:
        """Collect the contents of some rows; runs in any thread."""
        good = rows.good
        readable = unerased = range_extents(rows, good)
        erased = rows.type == ERASED_NO
        if erased.any():
            unerased = range_extents(rows, good & ~erased)
        lns: list[RecordVersions] = []
        undecodable = 0
        del_dups = records_of(rows.version, Family.DEL_DUP_LN)[rows.type] & good
        masks = (records_of(rows.version)[rows.type] & good, del_dups)
        for family, mask in zip((Family.LN, Family.DEL_DUP_LN), masks, strict=True):
            for some in pieces_of_rows(rows, mask):
                found = self._lns(some, family)
                lns.append(found)
                undecodable += len(some) - len(found)
        fielded = good & _FIELDED[rows.type]
        if self.internal and fielded.any():
            lns.append(self._fielded(rows.select(np.flatnonzero(fielded))))
            undecodable += int(np.count_nonzero(fielded)) - len(lns[-1])
        if len(lns) > 1:
            lns = [sorted_versions(lns)]
        nodes = bottom_nodes_of(rows.version)[rows.type] & good
        bottom_nodes = [self._bottom_nodes(some) for some in pieces_of_rows(rows, nodes)]
        kinds = kinds_in(rows.select(np.flatnonzero(MAP_LNS[rows.type] & good & ~rows.invisible)))
        names = collect_names(rows)
        return RangeContent(
            lns, bottom_nodes, self._ends(rows), names, kinds, readable, unerased, undecodable
        )

    def _lns(self, rows: Rows, family: Family) -> RecordVersions:
        is_old = PAYLOAD_VERSION_MIN <= rows.version < KEYED_VERSION
        wanted = _LN_FIELDS if family is Family.LN else _LN_FIELDS | {"data_as_key"}
        decoded = decode(rows, family, wanted=wanted)
        fields = decoded.fields
        db_ids = fields.number("db_id")
        data, starts, sizes = (fields.data, *fields.span("key"))
        gone = _DELETIONS[rows.type] | (family is Family.DEL_DUP_LN)
        gone = gone | (fields.span("data")[1] < 0) if fields.has("data") else gone
        if is_old and self.duplicates:
            data, starts, sizes = self._old_keys(fields, family, db_ids)
        first, second = identities(data, starts, sizes, db_ids, self.seed)
        txn = np.zeros(len(rows), np.int64)
        if fields.has("txn_id"):
            txn = np.where(fields.is_present("txn_id"), fields.number("txn_id"), NO_TXN)
        marks = (gone * DELETED | rows.invisible * INVISIBLE).astype(np.uint8)
        keep = ~decoded.bad & (sizes >= 0)
        return select_versions(
            RecordVersions(
                rows.lsn,
                first,
                second,
                txn,
                self.codes.of(db_ids),
                rows.size.astype(np.int32),
                marks,
            ),
            keep,
        )

    def _fielded(self, rows: Rows) -> RecordVersions:
        """Decode the few LNs that have fields instead of data."""
        found = [payload_of(rows.entry_bytes(row), rows.version) for row in range(len(rows))]
        keep = np.array([each is not None and each.key_size >= 0 for each in found], np.bool_)
        rows = rows.select(np.flatnonzero(keep))
        payloads = [each for each in found if each is not None and each.key_size >= 0]
        fields = [each.entry.fields for each in payloads]
        db_ids = np.array([each["db_id"] for each in fields], np.int64)
        starts = rows.offset.astype(np.int64) - rows.base
        starts += np.array([each.key_start for each in payloads], np.int64)
        sizes = np.array([each.key_size for each in payloads], np.int64)
        gone = np.array([_is_deletion(each) for each in fields], np.bool_)
        first, second = identities(rows.data, starts, sizes, db_ids, self.seed)
        return RecordVersions(
            rows.lsn,
            first,
            second,
            np.array([each.get("txn_id", NO_TXN) for each in fields], np.int64),
            self.codes.of(db_ids),
            rows.size.astype(np.int32),
            (gone * DELETED | rows.invisible * INVISIBLE).astype(np.uint8),
        )

    def _old_keys(
        self, fields: Columns, family: Family, db_ids: Ints
    ) -> tuple[npt.NDArray[np.uint8], Ints, Ints]:
        """Return keys as later log versions store them: that of a duplicate includes its data."""
        key_start, key_size = fields.span("key")
        second = "data" if family is Family.LN else "data_as_key"
        data_start, data_size = fields.span(second)
        view = fields.data
        texts = []
        for i, db_id in enumerate(db_ids.tolist()):
            key = view[key_start[i] : key_start[i] + max(key_size[i], 0)].tobytes()
            if db_id in self.duplicates and data_size[i] >= 0:
                end = data_start[i] + data_size[i]
                key = join_two_part(key, view[data_start[i] : end].tobytes())
            texts.append(key)
        sizes = np.where(key_size < 0, -1, np.array([len(text) for text in texts], np.int64))
        ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
        starts = ends - np.array([len(text) for text in texts], np.int64)
        return np.frombuffer(b"".join(texts), np.uint8), starts, sizes

    def _bottom_nodes(self, rows: Rows) -> BottomNodes:
        decoded = decode(rows, Family.NODE, wanted=_NODE_FIELDS)
        if not decoded.fields.has("node_id"):
            rows = rows.select(np.empty(0, np.int64))
            return BottomNodes(rows.lsn, rows.lsn, rows.lsn, rows.type == _DELTA)
        keep = ~decoded.bad
        db_id, node_id = decoded.fields.number("db_id"), decoded.fields.number("node_id")
        first, second = node_identities(db_id[keep], node_id[keep], self.seed)
        return BottomNodes(rows.lsn[keep], first, second, rows.type[keep] == _DELTA)

    def _ends(self, rows: Rows) -> list[Ints]:
        """Return the ids of committed and of aborted transactions."""
        ends: tuple[list[Ints], list[Ints]] = ([], [])
        for some in pieces_of_rows(rows, _TXN_ENDS[rows.type] & rows.good & ~rows.invisible):
            wanted = frozenset({"txn_id"})
            decoded = decode(some, Family.TXN_END, wanted=wanted)
            if decoded.fields.has("txn_id"):
                ids = decoded.fields.number("txn_id")
                for of, no in zip(ends, (COMMIT_NO, ABORT_NO), strict=True):
                    of.append(ids[~decoded.bad & (some.type == no)])
        none = np.empty(0, np.int64)
        return [np.concatenate([none, *ids]) for ids in ends]


def _is_deletion(fields: Mapping[str, Any]) -> bool:
    """Return True if an LN with fields instead of data deletes its record."""
    return fields.get("data") is None or bool(fields.get("deleted", 0) & 1)


def kinds_in(rows: Rows) -> dict[int, DatabaseKind]:
    """Return the properties of each database by id, according to its last descriptor."""
    kinds: dict[int, DatabaseKind] = {}
    for row in range(len(rows)):
        fields: Mapping[str, Any] = rows.fields(row)
        database = fields.get("database")
        if database is not None and fields.get("data") is not None:
            compared = bool(database["btree_comparator"] or database["dup_comparator"])
            kinds[database["id"]] = DatabaseKind(bool(database["db_flags"] & 1), compared)
    return kinds
