"""LNs as printed: the record, the transaction, and the additions of its class."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.truth.cursor import NULL_LSN, Cursor, byte_text, time_ms, truth
from tests.truth.databases import config, database, summary

_DB_ID = re.compile(r'<dbId id="(-?\d+)"/>')
_KEY = re.compile(r'(?:<fileSummaryLNKey [^>]*/>)?<key v="([\d ]*)"/>')
_NODE_ID = re.compile(r"<node>(-?\d+)</node>")
_DATA = re.compile(r"<data>([\d ]*)</data>")
_TXN = re.compile(r'<txn id="(-?\d+)"><DbLsn val="(\S+?)"/></txn>')

_OLD_ABORT = re.compile(r'(?:<DbLsn val="(\S+?)"/>)?<knownDeleted val="(\w+)"/>')

_EMBEDDED = re.compile(r'<embeddedLN val="(\w+)"/>(<tombstone/>)?(<blindDeletion/>)?')
_CREATED = re.compile(r'<creationTime val="([^"]*)"/>')
_MODIFIED = re.compile(r'<modTime val="([^"]*)"/>')
_EXPIRES = re.compile(r'<expires(?: val="([^"]*)")?/>')
_PRIOR = re.compile(r'<prior size="(\d+)" file="(\d+)"/>')
_ABORT = re.compile(r'<abortLSN val="(\S+?)"/><abortKD val="(\w+)"/>')
_ABORT_TOMBSTONE = re.compile(r'<abortTombstone val="(\w+)"/>')
_ABORT_KEY = re.compile(r'<abortKey v="([\d ]*)"/>')
_ABORT_DATA = re.compile(r'<abortData v="([\d ]*)"/>')
_ABORT_VLSN = re.compile(r'<abortVLSN v="([\d,]+)"/>')
_ABORT_EXPIRES = re.compile(r'<abortExpires(?: val="([^"]*)")?/>')
_ABORT_MODIFIED = re.compile(r'<abortModTime val="([^"]*)"/>')
_ABORT_CREATED = re.compile(r'<abortCreationTime val="([^"]*)"/>')

_OPERATION = re.compile(r'<DbOp val="(\w+)"/>')
_COUNT = re.compile(r'<count v="(\d+)"/>')
_OFFSETS = re.compile(r'<offsets size="(\d+)"(?:/>|>([0-9a-fx ]*)</offsets>)')
_ANCHOR = re.compile(r'<anchor lsn="<DbLsn val="(\S+?)"/>"/>')
# The engine's interpretation of key and data of a scan over removed records.
_EXTINCTION = re.compile(
    r"<extinctionScannerDeletion id=\d+/>|<databaseExtinction/> id=\d+ dbid=\d+ undoCreate=\[\w+/>"
)
_CREATED_IN_INSERT = "differs from modification time for inserts"


@dataclass
class Record:
    """The printed parts of an entry's payload.

    `key` and `data` are hexadecimal. Parts that an entry of its type lacks are None, as is the
    data of a deleted record.
    """

    db_id: int | None = None
    txn_id: int | None = None
    key: str | None = None
    data: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)


def _no_payload(_cursor: Cursor) -> dict[str, Any]:
    return {}


def _map_payload(cursor: Cursor) -> dict[str, Any]:
    return {"database": database(cursor)}


def _name_payload(cursor: Cursor) -> dict[str, Any]:
    return {"name_db_id": int(cursor.need(_DB_ID)[1])}


def _count_payload(cursor: Cursor) -> dict[str, Any]:
    return {"dup_count": int(cursor.need(_COUNT)[1])}


def _summary_payload(cursor: Cursor) -> dict[str, Any]:
    """Parse a file's utilization; a deleted one has none."""
    if cursor.text.startswith("</fileSummaryLN>", cursor.place):
        return {}
    fields: dict[str, Any] = {"summary": summary(cursor)}
    offsets = cursor.need(_OFFSETS)
    fields["obsolete_offsets"] = [int(offset, 16) for offset in (offsets[2] or "").split()]
    if len(fields["obsolete_offsets"]) != int(offsets[1]):
        raise ValueError(f"{offsets[1]} offsets announced")
    if (anchor := cursor.take(_ANCHOR)) is not None:
        fields["anchor_lsn"] = anchor[1]
    return fields


_PAYLOADS: dict[str, Callable[[Cursor], dict[str, Any]]] = {
    "ln": _no_payload,
    "mapLN": _map_payload,
    "nameLN": _name_payload,
    "dupCountLN": _count_payload,
    "fileSummaryLN": _summary_payload,
}
_TAGS = {tag: (re.compile(f"<{tag}>"), re.compile(f"</{tag}>")) for tag in _PAYLOADS}


def record(cursor: Cursor, tag: str) -> Record:
    """Parse an LN whose class prints itself inside `tag`; engines before 7.5 print that first."""
    found = Record()
    old = cursor.text.startswith(f"<{tag}>")
    if old:
        _inside(cursor, tag, found)
    found.db_id = int(cursor.need(_DB_ID)[1])
    found.key = byte_text(cursor.need(_KEY)[1])
    if old:
        _old_transaction(cursor, found)
    else:
        _inside(cursor, tag, found)
        _attributes(cursor, found)
        _transaction(cursor, found)
    if tag == "nameLN":
        _operation(cursor, found)
    if tag == "ln":
        cursor.take(_EXTINCTION)
    return found


def _inside(cursor: Cursor, tag: str, found: Record) -> None:
    begin, end = _TAGS[tag]
    cursor.need(begin)
    if (node_id := cursor.take(_NODE_ID)) is not None:
        found.fields["node_id"] = int(node_id[1])
    data = cursor.take(_DATA)
    found.data = None if data is None else byte_text(data[1])
    found.fields |= _PAYLOADS[tag](cursor)
    cursor.need(end)


def _old_transaction(cursor: Cursor, found: Record) -> None:
    abort = cursor.take(_OLD_ABORT)
    if abort is None:
        return
    found.fields |= {"abort_lsn": abort[1] or NULL_LSN, "abort_known_deleted": truth(abort[2])}
    _txn(cursor.need(_TXN), found)


def _txn(match: re.Match[str], found: Record) -> None:
    found.txn_id = int(match[1])
    found.fields["txn_prev_lsn"] = match[2]


def _attributes(cursor: Cursor, found: Record) -> None:
    """Parse flags and times of a record; `expires` is as printed.

    `created_in_insert` is True if the print only states that creation and modification differ.
    """
    embedded = cursor.need(_EMBEDDED)
    fields = found.fields
    fields["embedded"] = truth(embedded[1])
    fields["tombstone"] = embedded[2] is not None
    fields["blind_deletion"] = embedded[3] is not None
    created, modified = cursor.take(_CREATED), cursor.take(_MODIFIED)
    fields["created_in_insert"] = created is not None and created[1] == _CREATED_IN_INSERT
    fields["created_ms"] = 0
    if created is not None and not fields["created_in_insert"]:
        fields["created_ms"] = time_ms(created[1])
    fields["modified_ms"] = 0 if modified is None else time_ms(modified[1])
    expires = cursor.take(_EXPIRES)
    fields["expires"] = None if expires is None else expires[1]
    prior = cursor.take(_PRIOR)
    fields["prior"] = None if prior is None else (int(prior[1]), int(prior[2]))


def _transaction(cursor: Cursor, found: Record) -> None:
    """Parse the transaction, and the state that its abort would restore."""
    txn = cursor.take(_TXN)
    if txn is None:
        return
    _txn(txn, found)
    fields = found.fields
    abort = cursor.need(_ABORT)
    fields |= {"abort_lsn": abort[1], "abort_known_deleted": truth(abort[2])}
    tombstone = cursor.take(_ABORT_TOMBSTONE)
    fields["abort_tombstone"] = tombstone is not None and truth(tombstone[1])
    key, data = cursor.take(_ABORT_KEY), cursor.take(_ABORT_DATA)
    fields["abort_key"] = None if key is None else byte_text(key[1])
    fields["abort_data"] = None if data is None else byte_text(data[1])
    vlsn = cursor.take(_ABORT_VLSN)
    fields["abort_vlsn"] = None if vlsn is None else int(vlsn[1].replace(",", ""))
    expires = cursor.take(_ABORT_EXPIRES)
    fields["abort_expires"] = None if expires is None else expires[1]
    for name, pattern in (
        ("abort_modified_ms", _ABORT_MODIFIED),
        ("abort_created_ms", _ABORT_CREATED),
    ):
        time = cursor.take(pattern)
        fields[name] = None if time is None else time_ms(time[1])


def _operation(cursor: Cursor, found: Record) -> None:
    """Parse the operation on a database.

    A configuration or an id after an operation that has none belongs to an earlier entry: the
    engine reads all entries of a type into the same object.
    """
    operation = cursor.need(_OPERATION)[1]
    found.fields["operation"] = operation
    configured, truncated = config(cursor), cursor.take(_DB_ID)
    if operation in ("CREATE", "UPDATE_CONFIG"):
        found.fields["config"] = configured
    if operation == "TRUNCATE":
        found.fields["truncated_db_id"] = None if truncated is None else int(truncated[1])
