"""Columns of the pages of Ignite's page store and of their items, and the sinks for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from je_tools.core.escaping import clean_text
from je_tools.core.masking import DataMode
from je_tools.formats.ignite.pages import COMPRESSIONS, PageState, page_type_name
from je_tools.formats.ignite.rows import fault_of
from je_tools.ignite.pages.fields import field_texts
from je_tools.ignite.wal.dump_columns import versions_of
from je_tools.ignite.wal.dump_fields import page_texts
from je_tools.output.encoders import arrow_texts as t
from je_tools.output.encoders.column_sinks import ColumnParquetSink, column_sink
from je_tools.output.encoders.entry_sinks import EntryFormat, TextSink
from je_tools.output.encoders.fixed_lines import Layout, lay_out, layout_header, layout_lines

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.ignite.pages.dump import PagePlace, PageTable

_NAMES = pa.dictionary(pa.int32(), pa.string())

PAGE_DUMP_SCHEMA = pa.schema(
    [
        ("node", _NAMES),
        ("group", _NAMES),
        ("file", _NAMES),
        ("partition", pa.int32()),
        ("page", pa.int64()),
        ("type", pa.string()),
        ("item", pa.int32()),
        ("offset", pa.int64()),
        ("state", pa.string()),
        ("type_no", pa.uint16()),
        ("layout", pa.uint16()),
        ("page_id", pa.uint64()),
        ("rotated", pa.uint8()),
        ("compression", pa.string()),
        ("compressed_size", pa.uint16()),
        ("compacted_size", pa.uint16()),
        ("checksum", pa.uint32()),
        ("items", pa.int32()),
        ("free", pa.int32()),
        ("fields", pa.string()),
        ("link", pa.uint64()),
        ("next", pa.uint64()),
        ("cache_id", pa.int32()),
        ("cache", pa.string()),
        ("key_hash", pa.int32()),
        ("key_type", pa.uint8()),
        ("key", pa.binary()),
        ("value_type", pa.uint8()),
        ("value_size", pa.int64()),
        ("value", pa.binary()),
        ("version", pa.string()),
        ("expire_ms", pa.int64()),
        ("rows", pa.int64()),
        ("fault", pa.string()),
    ]
)
"""Columns of Parquet; in the other formats, ids, checksums, keys and values are texts."""

_LINES = (("page", 22), ("type", 22), ("item", 4), ("state", 8))
_NUMBERS = frozenset({"item"})
_DETAILS = ("page_id", "fields", "link", "next", "cache", "key", "value", "fault")


def open_page_sink(form: EntryFormat, masking: Masking, width: int) -> TextSink | ColumnParquetSink:
    """Return the sink of a format.

    Args:
        form: the format.
        masking: masking of keys and values.
        width: characters of a line of a table.
    """
    if form is not EntryFormat.TABLE:
        return column_sink(form, PAGE_DUMP_SCHEMA, masking, page_dump_columns, page_dump_texts)
    layout = lay_out(width, _LINES)
    lines = partial(_lines, masking=masking, layout=layout)
    return TextSink(lines, layout_header(layout, _NUMBERS))


class _Rows:
    """Rows of a table: each page, and after it its items."""

    def __init__(self, table: PageTable) -> None:
        count = 0 if table.items is None else len(table.items)
        pages = np.arange(len(table))
        of_items = pages[:0] if table.items is None else table.items.page
        page = np.concatenate((pages, of_items))
        item = np.concatenate((np.full(len(table), -1), np.arange(count)))
        order = np.lexsort((item, page))
        self.page: Ints = page[order]
        self.item: Ints = item[order]
        self.is_item: Mask = self.item >= 0
        self._table = table

    def __len__(self) -> int:
        return len(self.page)

    def of_page(self, values: Any, valid: Any = True) -> pa.Array:
        """Return numbers of pages; null for items."""
        mask = np.broadcast_to(valid, len(self._table))[self.page] & ~self.is_item
        return t.number_array(values[self.page], mask)

    def texts_of_page(self, texts: pa.Array) -> pa.Array:
        """Return texts of pages; null for items."""
        return texts.take(t.number_array(self.page.astype(np.int32), ~self.is_item))

    def of_item(self, name: str, kind: Any = np.int64) -> tuple[Any, Mask]:
        """Return numbers of items and the mask of items; those of pages are 0."""
        items = self._table.items
        values = np.zeros(len(self), np.int64)
        if items is not None:
            values[self.is_item] = getattr(items, name)[self.item[self.is_item]]
        return values.astype(kind), self.is_item


def page_dump_columns(
    table: PageTable, place: PagePlace, masking: Masking, name_of: Callable[[str], str] = clean_text
) -> dict[str, pa.Array]:
    """Return the columns of PAGE_DUMP_SCHEMA by name, keys and values as bytes.

    Args:
        table: the pages.
        place: where they are.
        masking: masking of keys and values.
        name_of: escaping of names of nodes, groups, caches and files.
    """
    rows, columns, header = _Rows(table), table.columns, place.file.header
    assert header is not None
    n = len(rows)
    names = {no: page_type_name(no) for no in np.unique(columns.type_no).tolist()}
    is_named = columns.state != PageState.ZERO
    found: dict[str, pa.Array] = {
        "node": t.same_texts(name_of(place.node), n),
        "group": t.same_texts(name_of(place.file.group), n),
        "file": t.same_texts(name_of(place.path), n),
        "partition": t.number_array(np.full(n, place.file.partition, np.int32)),
        "page": t.number_array(table.index[rows.page]),
        "type": t.id_texts(columns.type_no[rows.page].astype(np.int64), is_named[rows.page], names),
        "item": t.number_array(*rows.of_item("item", np.int32)),
        "offset": rows.of_page(header.size + table.index * header.page_size),
        "state": rows.texts_of_page(
            _chosen(columns.state, [each.name.lower() for each in PageState])
        ),
        "type_no": rows.of_page(columns.type_no),
        "layout": rows.of_page(columns.version),
        "page_id": rows.of_page(columns.page_id.view(np.uint64)),
        "rotated": rows.of_page(columns.rotated),
        "compression": rows.texts_of_page(_chosen(columns.compression, COMPRESSIONS)),
        "compressed_size": rows.of_page(columns.compressed_size),
        "compacted_size": rows.of_page(columns.compacted_size),
        "checksum": rows.of_page(columns.stored),
        "items": rows.of_page(columns.items, columns.items >= 0),
        "free": rows.of_page(columns.free, columns.free >= 0),
        "fields": rows.texts_of_page(
            field_texts(table.pages, columns, table.readable, header.is_big)
        ),
    }
    return found | _item_columns(table, place, rows, masking, name_of)


def _item_columns(
    table: PageTable,
    place: PagePlace,
    rows: _Rows,
    masking: Masking,
    name_of: Callable[[str], str],
) -> dict[str, pa.Array]:
    def known(name: str, kind: Any, none: int) -> pa.Array:
        values, is_item = rows.of_item(name)
        return t.number_array(values.astype(kind), is_item & (values != none))

    data = np.empty(0, np.uint8) if table.items is None else table.items.data

    def content(name: str) -> pa.Array:
        starts, is_item = rows.of_item(f"{name}_start")
        sizes, _ = rows.of_item(f"{name}_size")
        return t.data_bytes(data, starts, np.where(is_item, sizes, -1), masking)

    caches, is_item = rows.of_item("cache_id")
    has_version = is_item & (rows.of_item("order")[0] > 0)
    faults, _ = rows.of_item("fault")
    reasons = {no: fault_of(no).name.lower() for no in np.unique(faults).tolist() if no}
    value_size, _ = rows.of_item("value_size")
    parts = [rows.of_item(name)[0] for name in ("topology", "node", "order")]
    cache_names = {no: name_of(name) for no, name in place.names.caches.items()}
    hashes, _ = rows.of_item("key_hash", np.int32)
    is_shown = masking.mode is DataMode.SHOW
    return {
        "link": known("link", np.uint64, 0),
        "next": known("next", np.uint64, 0),
        "cache_id": known("cache_id", np.int32, -1),
        "cache": t.id_texts(caches, is_item & (caches != -1), cache_names),
        # The hash of a number is the number, and that of a short text can be guessed.
        "key_hash": t.number_array(hashes, is_item & (hashes != 0) & is_shown),
        "key_type": known("key_type", np.uint8, -1),
        "key": content("key"),
        "value_type": known("value_type", np.uint8, -1),
        "value_size": t.number_array(value_size, is_item & (value_size >= 0)),
        "value": content("value"),
        "version": versions_of(parts[0], parts[1], parts[2], has_version),
        "expire_ms": known("expire_ms", np.int64, 0),
        "rows": known("rows", np.int64, -1),
        "fault": t.id_texts(faults, faults > 0, reasons),
    }


def page_dump_texts(
    table: PageTable, place: PagePlace, masking: Masking, name_of: Callable[[str], str] = clean_text
) -> dict[str, pa.Array]:
    """Return the columns of PAGE_DUMP_SCHEMA as numbers and texts, for lines."""
    found = page_dump_columns(table, place, masking, name_of)
    rows = _Rows(table)
    for name in ("page_id", "link", "next"):
        numbers = found[name].fill_null(0).to_numpy(zero_copy_only=False).view(np.int64)
        valid = found[name].is_valid().to_numpy(zero_copy_only=False)
        found[name] = page_texts(numbers, valid)
    sums = page_texts(table.columns.stored.astype(np.int64))
    found["checksum"] = rows.texts_of_page(pc.utf8_slice_codeunits(sums, 8))
    data = np.empty(0, np.uint8) if table.items is None else table.items.data
    for name in ("key", "value"):
        starts, is_item = rows.of_item(f"{name}_start")
        sizes, _ = rows.of_item(f"{name}_size")
        found[name] = t.data_texts(data, starts, np.where(is_item, sizes, -1), masking)
    return {
        name: pc.cast(array, pa.string()) if pa.types.is_dictionary(array.type) else array
        for name, array in ((name, found[name]) for name in PAGE_DUMP_SCHEMA.names)
    }


def _chosen(codes: Any, texts: Any) -> pa.StringArray:
    """Return the text of each code; null for a code without."""
    return t.id_texts(codes.astype(np.int64), np.ones(len(codes), np.bool_), dict(enumerate(texts)))


def _lines(table: PageTable, place: PagePlace, masking: Masking, layout: Layout) -> pa.Buffer:
    found = page_dump_texts(table, place, masking, lambda name: ascii(name)[1:-1])
    number = pc.cast(found["page"], pa.string())
    partition = pc.cast(found["partition"], pa.string())
    cells = {
        "page": t.joined(found["group"], ":", partition, ":", number),
        "type": found["type"],
        "item": pc.cast(found["item"], pa.string()),
        "state": found["state"],
    }
    details = []
    for name in _DETAILS:
        texts = pc.utf8_slice_codeunits(found[name], 0, layout.width)
        details.append(texts if name == "fields" else t.joined(f"{name}=", texts))
    detail = pc.binary_join_element_wise("", *details, " ", null_handling="skip")
    detail = pc.utf8_ltrim_whitespace(detail)
    return layout_lines(layout, cells, _NUMBERS, frozenset({"page", *_NUMBERS}), detail)
