"""A journal record decoded: its op code, and its payload where that is text, JSON or a time.

Most payloads are a length and UTF-8 text, newer ones JSON. Older releases wrote fields of their
own after one another, which only their classes can read: such a payload stays bytes.

Source: je-log.md "Journals of front ends"; JournalEntity.write, Text.writeString, Timestamp.write,
StarRocks 3.x and Apache Doris 2.x.
"""

from __future__ import annotations

import json
import struct
from enum import StrEnum

from msgspec import Struct

from je_tools.journal.columns import LENGTH_SIZE, OP_SIZE, TIMESTAMP_OP

_TIME = struct.Struct(">q")


class PayloadForm(StrEnum):
    """Form of a payload."""

    JSON = "json"
    TEXT = "text"
    TIME = "time"
    BYTES = "bytes"
    """Any other bytes: the form is not public, or the payload is damaged."""
    NONE = "none"
    """There is no payload: the value is too short for an op code, or could not be read."""


class DecodedValue(Struct, frozen=True):
    """The value of a journal record.

    Attributes:
        op_code: None if the value is too short.
        form: form of the payload.
        payload: bytes after the op code; of a text or of JSON, without its length.
    """

    op_code: int | None
    form: PayloadForm
    payload: bytes

    @property
    def time_ms(self) -> int | None:
        """Time that the payload is, in ms since 1970; None for another form."""
        if self.form is not PayloadForm.TIME:
            return None
        time_ms: int = _TIME.unpack(self.payload)[0]
        return time_ms

    def text(self) -> str | None:
        """Return the text of JSON or of a text as it is stored; None for another form."""
        if self.form not in (PayloadForm.JSON, PayloadForm.TEXT):
            return None
        return self.payload.decode()


def decode_value(value: bytes | None) -> DecodedValue:
    """Decode the value of a journal record; any bytes are accepted, None is a lost value."""
    if value is None or len(value) < OP_SIZE:
        return DecodedValue(None, PayloadForm.NONE, value or b"")
    op_code = int.from_bytes(value[:OP_SIZE], signed=True)
    payload = value[OP_SIZE:]
    if op_code == TIMESTAMP_OP and len(payload) == _TIME.size:
        return DecodedValue(op_code, PayloadForm.TIME, payload)
    content = payload[LENGTH_SIZE:]
    is_measured = len(payload) >= LENGTH_SIZE and int.from_bytes(payload[:LENGTH_SIZE]) == len(
        content
    )
    if not is_measured or not _is_text(content):
        return DecodedValue(op_code, PayloadForm.BYTES, payload)
    form = PayloadForm.JSON if _is_json(content) else PayloadForm.TEXT
    return DecodedValue(op_code, form, content)


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_json(content: bytes) -> bool:
    """Return True for the text of a JSON object or array."""
    if not content.startswith((b"{", b"[")):
        return False
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True
