"""Entries as lines for a terminal: fixed columns that fit its width, streamed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from je_tools.core.masking import DataMode, Masking
from je_tools.formats.je.log.walk import CHECKSUM_NAMES, Checksum
from je_tools.formats.je.types import ENTRY_TYPES, Family, mask_of, type_name
from je_tools.formats.spans import gather, gather_hex, gather_printable
from je_tools.output.encoders import arrow_texts as t
from je_tools.output.encoders.fixed_lines import (
    Layout,
    lay_out,
    layout_header,
    layout_lines,
)

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.log.entry_table import EntryTable

_IS_RECORD = mask_of(
    each.no for each in ENTRY_TYPES.values() if each.family in (Family.LN, Family.DEL_DUP_LN)
)

_JSON_MOST = 8
"""Longest payload that becomes text, in lines: the rest would be cut anyway."""

_JSON_TO_TEXT = (
    (r',"(\w+)":', r" \1="),
    (r'\{"(\w+)":', r"{\1="),
    (r'="([^"\\ ,{}\[\]=]*)"', r"=\1"),
    ("=0xffffffff/0xffffffff", "=null"),
    (r"\bflags[23]?=0 ", ""),
    (r"^\{|\}$", ""),
)
"""Removal of commas and quotes if that is unambiguous; no JSON string contains a bare `,"`."""

_TIME = (
    r"^(?P<front>.*?)\b(?P<name>\w*(?:time|created|modified))_ms="
    r"(?P<ms>[0-9]{12,13}) ?(?P<rest>.*)$"
)


_ORDER = ("lsn", "type", "size", "vlsn", "txn", "db", "key")
_NUMBERS = frozenset({"size", "vlsn", "txn"})
_WHOLE = _NUMBERS | {"lsn"}
"""Columns that are never cut, since half a number is a wrong one; they shift the rest."""

_NARROW = 100


def entry_layout(width: int) -> Layout:
    """Return the columns for a terminal of `width` characters; less important ones are dropped."""
    by_importance = (
        ("lsn", 16),
        ("type", 15 if width >= 60 else 9),
        ("txn", 7),
        ("db", 10 if width < _NARROW else 14),
        ("vlsn", 8),
        ("size", 7),
        ("key", 20),
    )
    layout = lay_out(width, by_importance, least=2)
    shown = sorted(layout.shown, key=lambda column: _ORDER.index(column[0]))
    return replace(layout, shown=tuple(shown))


def header_line(layout: Layout) -> bytes:
    """Return the line with the column names."""
    return layout_header(layout, _NUMBERS)


def entry_lines(
    table: EntryTable, names: Mapping[int, str], masking: Masking, layout: Layout
) -> pa.Buffer:
    """Return the entries of a table as lines of printable ASCII, with `~` where a cell is cut."""
    cells = {name: _cells(table, name, names, masking, size) for name, size in layout.shown}
    return layout_lines(layout, cells, _NUMBERS, _WHOLE, _detail(table, masking, layout))


def _cells(
    table: EntryTable, name: str, names: Mapping[int, str], masking: Masking, size: int
) -> pa.StringArray:
    rows = table.rows
    if name == "lsn":
        return t.lsn_texts(rows.lsn)
    if name == "type":
        return t.choice_texts(rows.type, {n: type_name(n) for n in np.unique(rows.type).tolist()})
    if name == "size":
        return t.number_texts(rows.size)
    if name == "vlsn":
        return t.number_texts(rows.vlsn, rows.has_vlsn)
    if name == "txn":
        return t.number_texts(table.txn_id, table.has_txn)
    if name == "db":
        shown = {i: ascii(t.clean_text(text))[1:-1] for i, text in dict(names).items()}
        ids = t.number_texts(table.db_id, table.has_db)
        return pc.coalesce(t.id_texts(table.db_id, table.has_db, shown), ids)
    return _keys(table, masking, size)


def _keys(table: EntryTable, masking: Masking, most: int) -> pa.StringArray:
    """Return keys as `--key` takes them; see `key_form`."""
    data, starts, sizes = table.rows.data, table.key_start, table.key_size
    if masking.mode is not DataMode.SHOW:
        return t.data_texts(data, starts, sizes, masking)
    short = np.minimum(sizes, most)
    first = t.string_array(*gather(data, starts, short), sizes >= 0)
    first = first.view(pa.binary())
    digits = t.string_array(*gather_hex(data, starts, short), sizes >= 0)
    text = _preview(table, starts, sizes, masking, most)
    # StringBinding writes a string with a zero byte at its end.
    string = t.joined("str:", pc.utf8_slice_codeunits(text, 0, -1))
    is_text = pc.match_substring_regex(first, "^[!-~][ -~]*$")
    ends_blank = pc.and_(pc.ends_with(first, " "), t.bool_array(sizes <= most))
    is_prefixed = pc.match_substring_regex(first, "^(hex|long|int|str):")
    is_text = pc.and_not(pc.and_not(is_text, ends_blank), is_prefixed)
    is_string = pc.match_substring_regex(first, r"^[ -~]+\x00$")
    numbers = (_number_keys(table, kind, size) for kind, size in (("long:", 8), ("int:", 4)))
    others = pc.coalesce(*numbers, t.joined("hex:", digits))
    return pc.if_else(is_text, text, pc.if_else(is_string, string, others))


def _number_keys(table: EntryTable, kind: str, size: int) -> pa.StringArray:
    """Return keys that LongBinding or IntegerBinding probably wrote, null for the others.

    Keys are numbers only if their upper two bytes hold nothing but the sign: larger numbers are
    ambiguous.
    """
    at = np.flatnonzero(table.key_size == size)
    raw = table.rows.data[table.key_start[at, None] + np.arange(size)]
    upper = raw[:, :2].astype(np.uint16) @ np.array([256, 1], np.uint16)
    is_number = (upper == 0x8000) | (upper == 0x7FFF)
    numbers, valid = np.zeros(len(table), np.int64), np.zeros(len(table), np.bool_)
    flipped = raw[is_number] ^ np.array([0x80] + [0] * (size - 1), np.uint8)
    numbers[at[is_number]] = flipped.reshape(-1).view(f">i{size}")
    valid[at[is_number]] = True
    return t.joined(kind, t.number_texts(numbers, valid))


def _preview(
    table: EntryTable, starts: Ints, sizes: Ints, masking: Masking, most: int
) -> pa.StringArray:
    if masking.mode is not DataMode.SHOW:
        return t.data_texts(table.rows.data, starts, sizes, masking)
    offsets, text = gather_printable(table.rows.data, starts, sizes, most)
    return t.string_array(offsets, text, sizes >= 0)


def _detail(table: EntryTable, masking: Masking, layout: Layout) -> pa.StringArray:
    """Return damage first, then the value of a record or the fields of another entry."""
    data = _preview(table, table.data_start, table.data_size, masking, layout.width)
    payload = _field_texts(t.entry_texts(table, masking), layout)
    is_record = t.bool_array(_IS_RECORD[table.rows.type] & (table.key_size >= 0))
    shown = pc.if_else(is_record, pc.fill_null(data, ""), payload)
    if not layout.shows("key"):
        with_key = t.joined(_keys(table, masking, layout.width), " ", shown)
        shown = pc.coalesce(with_key, shown)
    bad = ~table.rows.good
    if bad.any():
        mark = f"CHECKSUM {CHECKSUM_NAMES[Checksum.BAD].upper()} "
        shown = t.joined(pc.if_else(t.bool_array(bad), mark, ""), shown)
    return shown


def _field_texts(objects: pa.StringArray, layout: Layout) -> pa.StringArray:
    """Return JSON objects as `name=value name=value`, times as dates, without shown columns."""
    texts = pc.utf8_slice_codeunits(objects, 0, _JSON_MOST * layout.width)
    for pattern, instead in _JSON_TO_TEXT:
        texts = pc.replace_substring_regex(texts, pattern, instead)
    for name in ("txn", "db"):
        if layout.shows(name):
            texts = pc.replace_substring_regex(texts, rf"\b{name}_id=-?[0-9]+ ?", "")
    return _with_date(texts)


def _with_date(texts: pa.StringArray) -> pa.StringArray:
    """Return texts with the first time as a date, at the front, where users look for it."""
    found = pc.extract_regex(texts, _TIME)
    if found.null_count == len(found):
        return texts
    parts = {name: pc.struct_field(found, name) for name in ("front", "name", "ms", "rest")}
    moments = pc.cast(pc.cast(parts["ms"], pa.int64()), pa.timestamp("ms"))
    dates = pc.replace_substring(pc.cast(moments, pa.string()), " ", "T")
    dated = t.joined(parts["name"], "=", dates, "Z ", parts["front"], parts["rest"])
    return pc.coalesce(dated, texts)
