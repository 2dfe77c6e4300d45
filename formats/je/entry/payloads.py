"""Payloads of internal database entries that have fields of their own in place of data.

The entry of a name, a descriptor or a file summary has no data like a user record: it has fields of
its own instead. Their bytes, as logged, count as the record's data here.

Source: je-log.md "Records"; NameLN, MapLN and FileSummaryLN.writeToLog, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.je.entry.entries import Entry, decode_entry
from je_tools.formats.je.header import EntryError
from je_tools.formats.je.types import Family

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.fetch import Entries

PAYLOAD_FAMILIES = (Family.NAME_LN, Family.MAP_LN, Family.FILE_SUMMARY_LN)
"""Families of these entries."""

_OWN = frozenset({"name_db_id", "database", "deleted", "anchor_lsn", "summary", "obsolete_offsets"})


class Payload(Struct, frozen=True):
    """An entry of these families.

    Attributes:
        entry: decoded entry.
        start, stop: range of its own fields, from the entry's first byte.
        key_start, key_size: span of its key; size -1 if it has none.
    """

    entry: Entry
    start: int
    stop: int
    key_start: int
    key_size: int


def payload_of(data: bytes, version: int) -> Payload | None:
    """Return the payload of an entry of these families, or None if it does not decode.

    Args:
        data: the entry, header included.
        version: log version of its file.
    """
    try:
        entry = decode_entry(data, version, spans=True)
    except EntryError:
        return None
    own = [span for span in entry.spans if span.path.partition(".")[0] in _OWN]
    start, stop = (own[0].start, own[-1].stop) if own else (entry.header.size,) * 2
    key = entry.fields.get("key")
    size = -1 if key is None else len(key)
    after = next((span.stop for span in entry.spans if span.path == "key"), 0)
    return Payload(entry, start, stop, after - max(size, 0), size)


def payload_spans(entries: Entries, rows: Ints) -> tuple[Ints, Ints]:
    """Return the spans in `Entries.data` of the data of entries of these families.

    Each entry is decoded by itself: there are only as many as databases and files.

    Args:
        entries: good entries.
        rows: int64; entries to decode.

    Returns:
        Starts and sizes, int64; size -1 if an entry does not decode.
    """
    starts, sizes = np.zeros(len(rows), np.int64), np.full(len(rows), -1, np.int64)
    for i, row in enumerate(rows.tolist()):
        at, size = int(entries.position[row]), int(entries.size[row])
        data = entries.data[at : at + size].tobytes()
        payload = payload_of(data, int(entries.version[row]))
        if payload is not None:
            starts[i], sizes[i] = at + payload.start, payload.stop - payload.start
    return starts, sizes
