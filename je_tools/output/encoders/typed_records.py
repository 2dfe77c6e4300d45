"""Records of internal databases as JSON objects, decoded by meaning."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from je_tools.core.escaping import clean_text, is_lsn
from je_tools.core.masking import Masking
from je_tools.formats.je.header import NULL_LSN, lsn_text
from je_tools.formats.je.internal.cleaner import Expirations, FileSummaryKey
from je_tools.formats.je.internal.names import UTILIZATION_DB
from je_tools.formats.je.internal.records import RECORD_DATABASES, Unreadable, read_record
from je_tools.formats.je.internal.replication import NODE_TYPES, RepNode
from je_tools.formats.je.log.fetch import fetch_entry
from je_tools.formats.je.tuples import TupleError
from je_tools.log.names import FIXED_NAMES
from je_tools.output.encoders.entry_jsonl import plain_fields

if TYPE_CHECKING:
    from je_tools.formats.files.image import Image
    from je_tools.log.records import Records
    from je_tools.output.encoders.record_lines import Typed

_ENTRY_DATABASES = (FIXED_NAMES[0], FIXED_NAMES[1], UTILIZATION_DB)
_HOUR_MS = 3_600_000
_PLAIN = Masking()
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


def typed_of(name: str | None, image_of: Callable[[Records, int], Image]) -> Typed | None:
    """Return the encoder for the records of a database; None if it has no typed records.

    Args:
        name: name of the database.
        image_of: function that returns the log with the entry of a record.
    """
    if name in _ENTRY_DATABASES:
        return lambda records: [
            _of_entry(records, row, image_of(records, row)) for row in range(len(records))
        ]
    if name in RECORD_DATABASES:
        return lambda records: [_of_bytes(str(name), records, row) for row in range(len(records))]
    return None


def _text(row: dict[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"))


def _of_bytes(name: str, records: Records, row: int) -> str | None:
    """Return the object of a record that is complete in its key and data."""
    data = records.data[row]
    if data is None:
        return None
    record = read_record(name, records.key[row] or b"", data)
    if isinstance(record, Unreadable):
        return _text({"unreadable": record.reason})
    kind = _WORD.sub("-", type(record).__name__).lower()
    values = {name: _value(name, value) for name, value in asdict(record).items()}
    if isinstance(record, Expirations):
        values = {"file_no": record.file_no, "expires": _expires(record)}
    if isinstance(record, RepNode) and 0 <= record.node_type < len(NODE_TYPES):
        values["node_type"] = NODE_TYPES[record.node_type]
    return _text({"kind": kind, **values})


def _expires(record: Expirations) -> list[dict[str, int]]:
    unit = _HOUR_MS if record.in_hours else 24 * _HOUR_MS
    return [{"expires_ms": time * unit, "bytes": size} for time, size in record.sizes]


def _value(name: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and is_lsn(name):
        return None if value == NULL_LSN else lsn_text(value)
    return clean_text(value) if isinstance(value, str) else value


def _of_entry(records: Records, row: int, image: Image) -> str | None:
    """Return the object of a record whose fields are those of its entry."""
    key = records.key[row] or b""
    entry = fetch_entry(image, int(records.lsn[row]))
    if entry is None or records.data[row] is None:
        return None
    shown = plain_fields(entry.fields, _PLAIN)
    if "database" in entry.fields:
        return _text({"kind": "database", **shown["database"]})
    if "name_db_id" in entry.fields:
        name = key.decode("utf-8", "replace")
        return _text({"kind": "name", "name": clean_text(name), "id": entry.fields["name_db_id"]})
    if "summary" not in entry.fields:
        return None
    try:
        place = FileSummaryKey.decode(key)
    except TupleError as error:
        return _text({"unreadable": str(error)})
    numbers = {"file_no": place.file_no, "sequence": place.sequence}
    offsets = {"obsolete_offsets": entry.fields["obsolete_offsets"]}
    return _text({"kind": "file-summary", **numbers, **shown["summary"], **offsets})
