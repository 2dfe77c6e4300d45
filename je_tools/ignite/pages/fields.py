"""Fields that only some types of pages have, as JSON objects.

Source: AbstractDataPageIO, BPlusMetaIO, BPlusIO, PageMetaIO, PagePartitionMetaIO, PagesListMetaIO,
PagesListNodeIO, PagePartitionCountersIO, TrackingPageIO, Ignite 2.18.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from je_tools.formats import _native
from je_tools.formats.ignite.pages import DATA_TYPES, is_tree
from je_tools.ignite.wal.dump_fields import page_texts
from je_tools.output.encoders import arrow_texts as t

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.ignite.pages import PageColumns

_PAGE_ID = "page"
"""Kind of a field that is shown as an id; the others are kinds of numbers."""

_SINGLE, _OF_DATA, _OF_TREES = _native.page_fields()


def _fields_of(type_no: int, version: int) -> list[tuple[str, int, str]]:
    """Return name, offset and kind of the fields of a type."""
    if type_no in DATA_TYPES:
        return _OF_DATA
    if is_tree(type_no):
        return _OF_TREES
    return [
        (name, at, kind)
        for of_type, since, until, name, at, kind in _SINGLE
        if of_type == type_no and since <= version <= until
    ]


def field_texts(
    pages: npt.NDArray[np.uint8],
    columns: PageColumns,
    readable: npt.NDArray[np.bool_],
    is_big: bool,
) -> pa.StringArray:
    """Return the fields of pages; null for a page without any, or one that cannot be read.

    Args:
        pages: uint8 (n, page size), plain.
        columns: headers of the pages.
        readable: mask of the pages whose content is right.
        is_big: True if the highest byte of a number comes first.
    """
    texts: list[pa.Array] = []
    place = np.full(len(columns), -1, np.int32)
    count = 0
    kinds = columns.type_no.astype(np.int64) << 16 | columns.version
    for kind in np.unique(kinds[readable]).tolist():
        at = np.flatnonzero(readable & (kinds == kind))
        made = _texts_of(pages[at], kind >> 16, kind & 0xFFFF, is_big)
        if made is not None:
            texts.append(made)
            place[at] = np.arange(count, count + len(at))
            count += len(at)
    if not texts:
        return pa.nulls(len(columns), pa.string())
    index = t.number_array(np.maximum(place, 0), place >= 0)
    return pa.concat_arrays(texts).take(index)


def _texts_of(
    pages: npt.NDArray[np.uint8], type_no: int, version: int, is_big: bool
) -> pa.StringArray | None:
    pieces: list[str | pa.StringArray] = []
    for name, at, kind in _fields_of(type_no, version):
        values = _numbers(pages, at, kind, is_big)
        text = t.number_texts(values)
        if kind == _PAGE_ID:
            text = t.joined('"', page_texts(values), '"')
        pieces += [f'{"," if pieces else "{"}"{name}":', text]
    return t.joined(*pieces, "}") if pieces else None


def _numbers(pages: npt.NDArray[np.uint8], at: int, kind: str, is_big: bool) -> Ints:
    """Return a number of each page; `kind` is a dtype of numpy, or an id of a page."""
    dtype = np.dtype("i8" if kind == _PAGE_ID else kind)
    found = np.ascontiguousarray(pages[:, at : at + dtype.itemsize])
    return found.view(dtype.newbyteorder(">" if is_big else "<"))[:, 0].astype(np.int64)
