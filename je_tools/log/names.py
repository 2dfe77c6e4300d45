"""Database names by id, as the log records them.

`collect_names` is work for a scan: it picks the few entries that name databases; `resolve` and
`resolve_databases` combine the parts. Of several names of a database the last in the log that was
not undone counts, so that entries of a renamed, emptied or removed database still get a name.
A log without such entries costs one table look-up per row.

Source: je-log.md "Databases of the engine"; DbTree, DatabaseImpl.writeToLog, JE 25.3.17.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.formats.je.entry.columns import decode
from je_tools.formats.je.entry.entries import decode_entry
from je_tools.formats.je.header import EntryError
from je_tools.formats.je.internal.names import BEFORE_IMAGES_DB
from je_tools.formats.je.types import ABORT_NO, BY_NAME, ENTRY_TYPES, Family, mask_of
from je_tools.log.scan import Scanner

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment

FIXED_NAMES: Mapping[int, str] = {0: "_jeIdMap", 1: "_jeNameMap", -1: BEFORE_IMAGES_DB}
"""Internal databases whose ids never change; the log names all others."""

_NAMING_NOS = [
    each.no for each in ENTRY_TYPES.values() if each.family in (Family.NAME_LN, Family.MAP_LN)
]
_NAMING = mask_of(_NAMING_NOS)
NAMING_TYPES = mask_of([*_NAMING_NOS, ABORT_NO])
"""Types of the entries that `collect_names` needs as rows."""

_MAP_LN_NOS = (BY_NAME["MapLN"].no, BY_NAME["MapLN_TX"].no)

_DELETED = 1

_OPERATION_REMOVE, _OPERATION_TRUNCATE = 2, 3


class NameEvent(IntEnum):
    """An event of a database, as an entry records it."""

    NAMED = 0
    """The database has this name from here on."""
    UNNAMED = 1
    """The database loses this name: the first half of a renaming."""
    REMOVED = 2
    """The database is gone."""


class NameRecord(Struct, frozen=True):
    """One event of a database.

    Attributes:
        lsn: LSN of the entry.
        db_id: id of the database.
        event: the event.
        name: its name; None if a removal does not record it.
        txn_id: transaction of the entry; None outside transactions.
        invisible: True if a rollback undid the entry.
    """

    lsn: int
    db_id: int
    event: NameEvent
    name: str | None
    txn_id: int | None
    invisible: bool


class NamePart(Struct, frozen=True):
    """Name records of some rows, and int64 ids of aborted transactions."""

    records: tuple[NameRecord, ...]
    aborted: Ints


class NamedDatabase(Struct):
    """A database as the log knows it.

    Attributes:
        db_id: its id.
        name: its last name.
        removed: True if the log says that it is gone.
        names: all its names, oldest first.
    """

    db_id: int
    name: str
    removed: bool = False
    names: list[str] = field(default_factory=list)


_NO_IDS = np.empty(0, np.int64)
_NOTHING = NamePart((), _NO_IDS)


def collect_names(rows: Rows) -> NamePart:
    """Return the name records of these rows; runs in any thread, keeps no view of the bytes.

    Damaged and undecodable entries are ignored.

    Args:
        rows: entries of one file, in log order.
    """
    found = np.flatnonzero(NAMING_TYPES[rows.type])
    if not len(found):
        return _NOTHING
    chosen = rows.select(found)
    chosen = chosen.select(chosen.good)
    aborts = chosen.select(chosen.type == ABORT_NO)
    aborted = _NO_IDS
    if len(aborts):
        decoded = decode(aborts, Family.TXN_END, wanted=frozenset({"txn_id"}))
        # Before log version 6 this field is not decoded.
        if decoded.fields.has("txn_id"):
            aborted = decoded.fields.number("txn_id")[~decoded.bad]
    records: list[NameRecord] = []
    for row in np.flatnonzero(_NAMING[chosen.type]).tolist():
        try:
            entry = decode_entry(chosen.entry_bytes(row), chosen.version)
        except EntryError:
            continue
        invisible = bool(chosen.invisible[row])
        records += _records(int(chosen.lsn[row]), entry.header.type_no, entry.fields, invisible)
    return NamePart(tuple(records), aborted)


def resolve(parts: Iterable[NamePart]) -> dict[int, str]:
    """Return database names by id from the results of `collect_names`, in log order.

    Removed databases keep their last name; ids that the log never names are absent.
    """
    return {db_id: database.name for db_id, database in resolve_databases(parts).items()}


def resolve_databases(parts: Iterable[NamePart]) -> dict[int, NamedDatabase]:
    """Return databases by id: as `resolve`, with their earlier names and whether they are gone.

    Records that an abort or a rollback undid count only if nothing else names the database.
    """
    parts = list(parts)
    records = [record for part in parts for record in part.records]
    aborted = _aborted_ids(parts, records)
    found = {
        db_id: NamedDatabase(db_id, name, False, [name]) for db_id, name in FIXED_NAMES.items()
    }
    taken_back = []
    for record in records:
        if record.invisible or record.txn_id in aborted:
            taken_back.append(record)
        else:
            _apply(found, record)
    for record in taken_back:
        if record.event is NameEvent.NAMED and record.name is not None:
            # Its entries are still in the log, and no other database had this id.
            gone = NamedDatabase(record.db_id, record.name, True, [record.name])
            found.setdefault(record.db_id, gone)
    return found


def names_within(environment: Environment, seconds: float) -> dict[int, str]:
    """Return names as `resolve`, from as much of the log's end as can be read in some seconds.

    Checksums are not verified.
    """
    until = time.monotonic() + seconds
    scanner = Scanner(check=False, threads=1)
    parts: list[NamePart] = []
    for file in reversed(environment.files):
        earlier: list[NamePart] = []
        for part in scanner.scan(replace(environment, files=(file,)), collect_names):
            earlier += part.results
            if time.monotonic() > until:
                break
        parts = earlier + parts
        if time.monotonic() > until:
            break
    return resolve(parts)


def settled_ids(parts: Iterable[NamePart]) -> set[int]:
    """Return ids of databases whose names no earlier part of the log can change."""
    parts = list(parts)
    records = [record for part in parts for record in part.records]
    aborted = _aborted_ids(parts, records)
    kept = (r for r in records if not r.invisible and r.txn_id not in aborted)
    named = {r.db_id for r in kept if r.name is not None and r.event is not NameEvent.UNNAMED}
    return named | FIXED_NAMES.keys()


def _apply(found: dict[int, NamedDatabase], record: NameRecord) -> None:
    if record.db_id in FIXED_NAMES:
        return
    database = found.get(record.db_id)
    if database is None:
        if record.name is None:
            return
        database = found[record.db_id] = NamedDatabase(record.db_id, record.name)
    if record.event is not NameEvent.UNNAMED:
        database.removed = record.event is NameEvent.REMOVED
    if record.name is None:
        return
    if record.event is not NameEvent.UNNAMED:
        database.name = record.name
    if record.name not in database.names:
        database.names.append(record.name)


def _aborted_ids(parts: list[NamePart], records: list[NameRecord]) -> set[int | None]:
    """Return the transactions of the records that were aborted."""
    own = np.array([r.txn_id for r in records if r.txn_id is not None], np.int64)
    if not len(own):
        return set()
    ended = np.concatenate([part.aborted for part in parts])
    return set(own[np.isin(own, ended)].tolist())


def _records(
    lsn: int, type_no: int, fields: Mapping[str, Any], invisible: bool
) -> list[NameRecord]:
    if "data" not in fields:
        # Before log version 6 only user records are decoded.
        return []
    txn_id = fields.get("txn_id")
    gone = bool(fields["data"] is None or fields["deleted"] & _DELETED)
    if type_no in _MAP_LN_NOS:
        database = fields["database"]
        event = NameEvent.REMOVED if gone else NameEvent.NAMED
        name = database.get("name")
        if name is None and not gone:
            return []
        return [NameRecord(lsn, database["id"], event, name, txn_id, invisible)]
    name = (fields["key"] or b"").decode("utf-8", "surrogateescape")
    operation = fields["operation"]
    event = NameEvent.NAMED
    if gone:
        event = NameEvent.REMOVED if operation == _OPERATION_REMOVE else NameEvent.UNNAMED
    records = [NameRecord(lsn, fields["name_db_id"], event, name, txn_id, invisible)]
    if operation == _OPERATION_TRUNCATE:
        truncated = fields["truncated_db_id"]
        records.insert(0, NameRecord(lsn, truncated, NameEvent.REMOVED, name, txn_id, invisible))
    return records
