"""Columns of the pages of Ignite's stores: where each lies, and what its header and bytes show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from je_tools.core.escaping import clean_text
from je_tools.formats.ignite.ids import cache_id
from je_tools.formats.ignite.pages import COMPRESSIONS, PageState, page_type_name
from je_tools.output.encoders import arrow_texts as t

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from je_tools.ignite.pages.scan import Block

_NAMES = pa.dictionary(pa.int32(), pa.string())

PAGE_SCHEMA = pa.schema(
    [
        ("node", _NAMES),
        ("group", _NAMES),
        ("group_id", pa.int32()),
        ("file", _NAMES),
        ("kind", _NAMES),
        ("partition", pa.int32()),
        ("page", pa.int64()),
        ("offset", pa.int64()),
        ("length", pa.int32()),
        ("state", _NAMES),
        ("type", _NAMES),
        ("layout", pa.uint16()),
        ("page_id", pa.uint64()),
        ("compression", _NAMES),
        ("compressed_size", pa.uint16()),
        ("compacted_size", pa.uint16()),
        ("checksum", pa.uint32()),
        ("computed_checksum", pa.uint32()),
        ("items", pa.int32()),
        ("free", pa.int32()),
    ]
)
"""Columns of pages."""

STATES = tuple(state.name.lower() for state in PageState)
"""Words of the column `state`."""

_NO_HEADER = (PageState.ZERO, PageState.UNREADABLE)


def page_columns(
    block: Block, node: str, path: str, wanted: Iterable[str] = PAGE_SCHEMA.names
) -> dict[str, pa.Array]:
    """Return columns of PAGE_SCHEMA by name; fields of the header are null without one.

    Args:
        block: the pages.
        node: name of the node.
        path: path of the file below the store.
        wanted: names of the columns; the others are not built.
    """
    file, columns, n = block.file, block.columns, len(block.columns)
    assert file.header is not None
    size, start = file.header.page_size, file.header.size
    pages = np.arange(block.first, block.first + n)
    offsets = start + pages * size
    has_header = ~np.isin(columns.state, _NO_HEADER)

    def same(text: str) -> pa.Array:
        return t.same_texts(clean_text(text), n)

    def header(name: str) -> pa.Array:
        return t.number_array(getattr(columns, name), has_header)

    def types() -> pa.Array:
        numbers, index = np.unique(columns.type_no, return_inverse=True)
        return _words(index, [page_type_name(int(no)) for no in numbers], has_header)

    def counts(values: Any) -> pa.Array:
        return t.number_array(values, values >= 0)

    made: dict[str, Callable[[], pa.Array]] = {
        "node": lambda: same(node),
        "group": lambda: same(file.group),
        "group_id": lambda: t.number_array(np.full(n, cache_id(file.group), np.int32)),
        "file": lambda: same(path),
        "kind": lambda: same(file.kind.value),
        "partition": lambda: t.number_array(np.full(n, file.partition, np.int32)),
        "page": lambda: t.number_array(pages),
        "offset": lambda: t.number_array(offsets),
        "length": lambda: t.number_array(np.minimum(file.size - offsets, size).astype(np.int32)),
        "state": lambda: _words(columns.state, STATES),
        "type": types,
        "page_id": lambda: t.number_array(columns.page_id.view(np.uint64), has_header),
        "compression": lambda: _compressions(columns.compression, has_header),
        "layout": lambda: header("version"),
        "checksum": lambda: header("stored"),
        "computed_checksum": lambda: header("computed"),
        "items": lambda: counts(columns.items),
        "free": lambda: counts(columns.free),
    }
    return {name: made[name]() if name in made else header(name) for name in wanted}


def _compressions(methods: Any, valid: Any) -> pa.Array:
    most = max(int(methods.max(initial=0)) + 1, len(COMPRESSIONS))
    words = [COMPRESSIONS[i] if i < len(COMPRESSIONS) else f"method {i}" for i in range(most)]
    return _words(methods, words, valid)


def _words(index: Any, words: Any, valid: Any = None) -> pa.Array:
    numbers = t.number_array(np.ascontiguousarray(index, np.int32), valid)
    return pa.DictionaryArray.from_arrays(numbers, pa.array(words, pa.string()))
