"""Values of journal records decoded, whatever their bytes are."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from je_tools.journal.payload import PayloadForm, decode_value
from tests.je_tools.journal.front_ends import json_value, text_value, time_value


@pytest.mark.parametrize(
    ("value", "op_code", "form", "text"),
    [
        (json_value(100, {"a": [1, "ü"]}), 100, PayloadForm.JSON, '{"a": [1, "\\u00fc"]}'),
        (text_value(10, "[1]"), 10, PayloadForm.JSON, "[1]"),
        (text_value(10, "{a"), 10, PayloadForm.TEXT, "{a"),
        (text_value(0, "45111"), 0, PayloadForm.TEXT, "45111"),
        (text_value(0, ""), 0, PayloadForm.TEXT, ""),
        (text_value(3, "[" * 100_000), 3, PayloadForm.TEXT, "[" * 100_000),
        (time_value(1760000000000), 70, PayloadForm.TIME, None),
        (time_value(1)[:-1], 70, PayloadForm.BYTES, None),
        (text_value(1, "abc")[:-1], 1, PayloadForm.BYTES, None),
        (struct.pack(">hi", 1, 2) + b"\xff\xfe", 1, PayloadForm.BYTES, None),
        (struct.pack(">hi", 1, -1), 1, PayloadForm.BYTES, None),
        (b"\x2a\xf8", 11000, PayloadForm.BYTES, None),
        (b"\xff\xff", -1, PayloadForm.BYTES, None),
        (b"\x01", None, PayloadForm.NONE, None),
        (None, None, PayloadForm.NONE, None),
    ],
)
def test_forms(
    value: bytes | None, op_code: int | None, form: PayloadForm, text: str | None
) -> None:
    decoded = decode_value(value)
    assert (decoded.op_code, decoded.form, decoded.text()) == (op_code, form, text)
    assert decoded.time_ms == (1760000000000 if form is PayloadForm.TIME else None)


@given(st.binary(max_size=40))
def test_no_byte_is_lost(value: bytes) -> None:
    decoded = decode_value(value)
    assert value.endswith(decoded.payload)
    lengths = {PayloadForm.NONE: 0, PayloadForm.BYTES: 2, PayloadForm.TIME: 2}
    assert len(value) - len(decoded.payload) == lengths.get(decoded.form, 6)
