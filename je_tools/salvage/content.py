"""Contents of a log in columns: every written record, the ends of transactions, and nodes.

One pass over the log, in threads. Only the identity of a record is stored, about 41 bytes,
whatever the size of its key and data.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from je_tools.formats.je.columns import MAX_ROWS, Columns, decode
from je_tools.formats.je.identity import Seed, identities, new_seed
from je_tools.formats.je.keys import join_two_part
from je_tools.formats.je.payloads import PAYLOAD_FAMILIES, payload_of
from je_tools.formats.je.types import (
    ABORT_NO,
    BY_NAME,
    COMMIT_NO,
    ENTRY_TYPES,
    ERASED_NO,
    PAYLOAD_VERSION_MIN,
    EntryType,
    Family,
    mask_of,
)
from je_tools.log.names import Database, NamePart, collect_names, resolve_databases
from je_tools.salvage.extents import Solid, SolidPart, solid_part

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.entry_rows import Rows
    from je_tools.log.environment import Environment
    from je_tools.log.scan import FileState, Scanner

NO_TXN = 0
"""Transaction of a record that was written outside transactions."""

DELETED, INVISIBLE = 1, 2
"""Bits of `marks` of an LN: it deletes its record; a rollback has made it invisible."""

KEYED_VERSION = 8
"""First log version in which a duplicate's key includes its data; both together identify it."""

_DELETIONS = mask_of(
    BY_NAME[name].no for name in ("DEL_LN_TX", "DEL_LN", "DEL_LN_TX_WITH_BEFORE_IMAGE")
)
_TXN_ENDS = mask_of((COMMIT_NO, ABORT_NO))
_BIN, _DBIN, _DELTA = BY_NAME["BIN"].no, BY_NAME["DBIN"].no, BY_NAME["NewBINDelta"].no
_LEAVES = frozenset((_BIN, _DBIN, _DELTA))
_FIELDED = mask_of(each.no for each in ENTRY_TYPES.values() if each.family in PAYLOAD_FAMILIES)
_MAP_LNS = mask_of((BY_NAME["MapLN"].no, BY_NAME["MapLN_TX"].no))

_LN_FIELDS = frozenset({"db_id", "txn_id", "key", "data"})
_OLD_FIELDS = _LN_FIELDS | {"node_id"}
_ID_WIDTH = 1 << 16
_NODE_FIELDS = frozenset({"db_id", "node_id"})


class Lns(Struct, frozen=True):
    """Records as they were written; element i of each array is the i-th, in log order.

    Attributes:
        lsn: int64.
        first, second: int64, the identity of the record; see `formats.je.identity`.
        txn: int64; NO_TXN if there is none.
        db: int32; index of the database in `Content.db_ids`.
        size: int32; bytes of the entry.
        marks: uint8, bits of DELETED and INVISIBLE.
    """

    lsn: Ints
    first: Ints
    second: Ints
    txn: Ints
    db: npt.NDArray[np.int32]
    size: npt.NDArray[np.int32]
    marks: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.lsn)


class Leaves(Struct, frozen=True):
    """Bottom nodes of the B-trees (BINs and old DBINs) and their deltas, in log order.

    Attributes:
        lsn, db_id, node_id: int64.
        is_delta: bool.
    """

    lsn: Ints
    db_id: Ints
    node_id: Ints
    is_delta: npt.NDArray[np.bool_]


class Kind(Struct, frozen=True):
    """Properties of a database according to its last descriptor.

    Attributes:
        has_duplicates: True if a key can have several records.
        has_comparator: True if application code orders its keys or compares its duplicates.
    """

    has_duplicates: bool
    has_comparator: bool


class Content(Struct, frozen=True):
    """Contents of a whole log.

    Attributes:
        lns: the records.
        leaves: the bottom nodes.
        db_ids: database ids by the index that `lns` uses.
        committed, aborted: int64, sorted; ids of transactions.
        databases: names by id.
        kinds: descriptors by id, of the databases that have one in the log.
        solid: readable extents of the log.
        kept: readable extents without the entries that an eraser has overwritten.
        undecodable: number of LNs that have a good checksum but cannot be decoded.
        states: state of each file as it was read.
    """

    lns: Lns
    leaves: Leaves
    db_ids: tuple[int, ...]
    committed: Ints
    aborted: Ints
    databases: Mapping[int, Database]
    kinds: Mapping[int, Kind]
    solid: Solid
    kept: Solid
    undecodable: int
    states: tuple[FileState, ...]
    seed: Seed


class _Seen(Struct, frozen=True):
    """Contents of one scanned range."""

    lns: list[Lns]
    leaves: list[Leaves]
    ends: tuple[Ints, Ints]
    names: NamePart
    kinds: dict[int, Kind]
    solid: SolidPart
    kept: SolidPart
    undecodable: int


class _Codes(Struct):
    """Consecutive numbers from 0 for database ids, assigned on demand in any thread."""

    codes: dict[int, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, db_ids: Ints) -> npt.NDArray[np.int32]:
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


def read_content(environment: Environment, scanner: Scanner, *, internal: bool = False) -> Content:
    """Read the contents of a log in one pass.

    Args:
        environment: the log.
        scanner: reads the files.
        internal: also read LNs that have fields instead of data: names and descriptors of
            databases, and file summaries.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
        InputError: a file cannot be read.
    """
    old_duplicates = _duplicates_before(environment, scanner)
    look = _Look(_Codes(), new_seed(), old_duplicates, internal)
    seen: list[_Seen] = []
    states: list[FileState] = []
    columns = _no_columns()
    for part in scanner.scan(environment, look):
        for told in part.results:
            seen.append(told)
            _add_columns(columns, told.lns)
        if part.end is not None:
            states.append(part.end)
    kinds: dict[int, Kind] = {}
    for each in seen:
        kinds |= each.kinds
    return Content(
        lns=_joined_columns(columns),
        leaves=_joined_leaves([leaves for each in seen for leaves in each.leaves]),
        db_ids=tuple(look.codes.codes),
        committed=_sorted_ids(each.ends[0] for each in seen),
        aborted=_sorted_ids(each.ends[1] for each in seen),
        databases=resolve_databases(each.names for each in seen),
        kinds=kinds,
        solid=Solid.of(each.solid for each in seen),
        kept=Solid.of(each.kept for each in seen),
        undecodable=sum(each.undecodable for each in seen),
        states=tuple(states),
        seed=look.seed,
    )


class _Look(Struct, frozen=True):
    """Function that the scan applies to each range.

    Attributes:
        codes: numbers of the databases.
        seed: secret of the identities.
        duplicates: databases whose records from before KEYED_VERSION are identified by their data
            as well.
        internal: also read LNs that have fields instead of data.
    """

    codes: _Codes
    seed: Seed
    duplicates: frozenset[int]
    internal: bool

    def __call__(self, rows: Rows) -> _Seen:
        good = rows.good
        solid = kept = solid_part(rows, good)
        erased = rows.type == ERASED_NO
        if erased.any():
            kept = solid_part(rows, good & ~erased)
        lns: list[Lns] = []
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
            lns = [_sorted_lns(lns)]
        nodes = leaves_of(rows.version)[rows.type] & good
        leaves = [self._leaves(some) for some in pieces_of_rows(rows, nodes)]
        kinds = _kinds(rows.select(np.flatnonzero(_MAP_LNS[rows.type] & good & ~rows.invisible)))
        names = collect_names(rows)
        return _Seen(lns, leaves, self._ends(rows), names, kinds, solid, kept, undecodable)

    def _lns(self, rows: Rows, family: Family) -> Lns:
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
        return _take_lns(
            Lns(
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

    def _fielded(self, rows: Rows) -> Lns:
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
        return Lns(
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
        """Return keys as later log versions store them: a duplicate's key includes its data."""
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

    def _leaves(self, rows: Rows) -> Leaves:
        decoded = decode(rows, Family.NODE, wanted=_NODE_FIELDS)
        if not decoded.fields.has("node_id"):
            rows = rows.select(np.empty(0, np.int64))
            return Leaves(rows.lsn, rows.lsn, rows.lsn, rows.type == _DELTA)
        keep = ~decoded.bad
        db_id, node_id = decoded.fields.number("db_id"), decoded.fields.number("node_id")
        return Leaves(rows.lsn[keep], db_id[keep], node_id[keep], rows.type[keep] == _DELTA)

    def _ends(self, rows: Rows) -> tuple[Ints, Ints]:
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
        return np.concatenate([none, *ends[0]]), np.concatenate([none, *ends[1]])


def _is_deletion(fields: Mapping[str, Any]) -> bool:
    """Return True if an LN with fields instead of data deletes its record."""
    return fields.get("data") is None or bool(fields.get("deleted", 0) & 1)


@functools.cache
def records_of(version: int, family: Family = Family.LN) -> Mask:
    """Return a mask of the entry types that write application records or records of the same form.

    Only types that this log version has: the payload of any other type is unknown.
    """
    kinds = _kinds_of(version)
    return mask_of(each.no for each in kinds if each.family is family and each.user_ln)


@functools.cache
def leaves_of(version: int) -> Mask:
    """Return a mask of the bottom node types of a log version, full and delta."""
    return mask_of(each.no for each in _kinds_of(version) if each.no in _LEAVES)


def _kinds_of(version: int) -> list[EntryType]:
    every = ENTRY_TYPES.values()
    known = [each for each in every if each.first_version <= version <= each.last_version]
    is_old = version < PAYLOAD_VERSION_MIN
    return [each for each in known if each.family is Family.LN] if is_old else known


def pieces_of_rows(rows: Rows, mask: npt.NDArray[np.bool_], most: int = MAX_ROWS) -> Iterator[Rows]:
    """Yield the rows that a mask selects, at most `most` at a time."""
    index = np.flatnonzero(mask)
    for first in range(0, len(index), most):
        yield rows.select(index[first : first + most])


def _kinds(rows: Rows) -> dict[int, Kind]:
    """Return the last descriptor of each database."""
    kinds: dict[int, Kind] = {}
    for row in range(len(rows)):
        fields: Mapping[str, Any] = rows.fields(row)
        database = fields.get("database")
        if database is not None and fields.get("data") is not None:
            compared = bool(database["btree_comparator"] or database["dup_comparator"])
            kinds[database["id"]] = Kind(bool(database["db_flags"] & 1), compared)
    return kinds


def _duplicates_before(environment: Environment, scanner: Scanner) -> frozenset[int]:
    """Return the databases with duplicates if a file is older than KEYED_VERSION; else none."""
    if all(file.version >= KEYED_VERSION for file in environment.files):
        return frozenset()
    kinds: dict[int, Kind] = {}

    def look(rows: Rows) -> dict[int, Kind]:
        return _kinds(rows.select(np.flatnonzero(_MAP_LNS[rows.type] & rows.good)))

    for part in scanner.scan(environment, look):
        for found in part.results:
            kinds |= found
    return frozenset(id_ for id_, kind in kinds.items() if kind.has_duplicates)


def _take_lns(lns: Lns, keep: npt.NDArray[Any]) -> Lns:
    if keep.dtype == np.bool_ and keep.all():
        return lns
    return Lns(*(getattr(lns, name)[keep] for name in Lns.__struct_fields__))


def _sorted_lns(pieces: list[Lns]) -> Lns:
    columns = _no_columns()
    _add_columns(columns, pieces)
    joined = _joined_columns(columns)
    return _take_lns(joined, np.argsort(joined.lsn, kind="stable"))


_LN_TYPES = (np.int64, np.int64, np.int64, np.int64, np.int32, np.int32, np.uint8)


def _no_columns() -> list[list[npt.NDArray[Any]]]:
    return [[np.empty(0, kind)] for kind in _LN_TYPES]


def _add_columns(columns: list[list[npt.NDArray[Any]]], pieces: list[Lns]) -> None:
    """Append the columns of pieces, and clear the list of pieces to free its memory."""
    for lns in pieces:
        for column, name in zip(columns, Lns.__struct_fields__, strict=True):
            column.append(getattr(lns, name))
    pieces.clear()


def _joined_columns(columns: list[list[npt.NDArray[Any]]]) -> Lns:
    """Concatenate each column in turn, so that at most one column is in memory twice."""
    made = []
    for column in columns:
        made.append(np.concatenate(column))
        column.clear()
    return Lns(*made)


def _joined_leaves(pieces: list[Leaves]) -> Leaves:
    none = np.empty(0, np.int64)
    return Leaves(
        np.concatenate([none, *(each.lsn for each in pieces)]),
        np.concatenate([none, *(each.db_id for each in pieces)]),
        np.concatenate([none, *(each.node_id for each in pieces)]),
        np.concatenate([none.astype(np.bool_), *(each.is_delta for each in pieces)]),
    )


def _sorted_ids(pieces: Iterable[Ints]) -> Ints:
    return np.sort(np.concatenate([np.empty(0, np.int64), *pieces]))
