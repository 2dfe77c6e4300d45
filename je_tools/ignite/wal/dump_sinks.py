"""Sinks for records of Ignite's write-ahead log, in the formats of entries."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from je_tools.core.masking import DataMode, Masking
from je_tools.ignite.values.texts import UNDECODED
from je_tools.ignite.wal.dump_columns import (
    RECORD_SCHEMA,
    object_texts,
    record_columns,
    record_texts,
)
from je_tools.output.encoders import arrow_texts as t
from je_tools.output.encoders.column_sinks import ColumnParquetSink, column_sink
from je_tools.output.encoders.entry_sinks import EntryFormat, TextSink
from je_tools.output.encoders.fixed_lines import Layout, lay_out, layout_header, layout_lines

if TYPE_CHECKING:
    from je_tools.formats.ignite.record_table import RecordTable
    from je_tools.ignite.wal.dump import RecordPlace

_COLUMNS = (
    ("pointer", 14),
    ("type", 22),
    ("cache", 14),
    ("part", 5),
    ("length", 7),
)
"""Columns of lines with their widths, the more important ones first."""

_NARROW = 100
_NARROW_SIZES = {"type": 14, "cache": 8}
"""Widths of columns on a terminal of less than _NARROW characters."""

_NUMBERS = frozenset({"part", "length"})
_BARE_DETAILS = frozenset({"op", "state", "fields"})
_CUT_MAX = 1 << 12
"""Bytes of a value that is decoded for a line; of a longer one, the first bytes are shown."""

_DETAILS = ("op", "state", "transaction", "page_id", "fields", "key", "value")


def open_record_sink(
    form: EntryFormat, masking: Masking, width: int
) -> TextSink | ColumnParquetSink:
    """Return the sink of a format.

    Args:
        form: the format.
        masking: masking of keys and values.
        width: characters of a line of a table.
    """
    if form is not EntryFormat.TABLE:
        return column_sink(form, RECORD_SCHEMA, masking, record_columns, record_texts)
    sizes = _NARROW_SIZES if width < _NARROW else {}
    layout = lay_out(width, [(name, sizes.get(name, size)) for name, size in _COLUMNS])
    lines = partial(_lines, masking=masking, layout=layout)
    return TextSink(lines, layout_header(layout, _NUMBERS))


def _cut_texts(
    table: RecordTable, place: RecordPlace, masking: Masking, width: int
) -> dict[str, pa.StringArray]:
    """Return the texts of a line, keys and values as JSON if they are entries."""
    shown: dict[str, pa.StringArray] = {}
    if masking.mode is DataMode.SHOW:
        for name in ("key", "value"):
            spans = getattr(table, name)
            short = replace(spans, sizes=np.where(spans.sizes > _CUT_MAX, -1, spans.sizes))
            shown[name] = object_texts(replace(table, **{name: short}), name, place, masking)
        # The rest would be cut.
        key, value = (each.first(width) for each in (table.key, table.value))
        table = replace(table, key=key, value=value)
    found = record_texts(table, place, masking, lambda name: ascii(name)[1:-1])
    for name, texts in shown.items():
        decoded = pc.if_else(pc.starts_with(texts, UNDECODED), None, texts)
        found[name] = pc.coalesce(decoded, found[name])
    return found


def _lines(table: RecordTable, place: RecordPlace, masking: Masking, layout: Layout) -> pa.Buffer:
    found = _cut_texts(table, place, masking, layout.width)

    def numbers(name: str) -> pa.StringArray:
        return pc.cast(found[name], pa.string())

    ids = pc.coalesce(numbers("cache_id"), numbers("group_id"))
    cells = {
        "pointer": t.joined(numbers("segment"), ":", numbers("offset")),
        "type": found["type"],
        "cache": pc.coalesce(found["cache"], found["group"], ids),
        "part": numbers("partition"),
        "length": numbers("length"),
    }
    details = []
    for name in _DETAILS:
        texts = pc.utf8_slice_codeunits(found[name], 0, layout.width)
        details.append(texts if name in _BARE_DETAILS else t.joined(f"{name}=", texts))
    # Arrow leaves out rows in which every text is null.
    bad = pc.if_else(found["undecodable"], "UNDECODABLE", "")
    detail = pc.binary_join_element_wise(bad, *details, " ", null_handling="skip")
    detail = pc.utf8_ltrim_whitespace(detail)
    return layout_lines(layout, cells, _NUMBERS, frozenset({"pointer", *_NUMBERS}), detail)
