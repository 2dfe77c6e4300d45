"""Columns as Arrow string arrays, from which tables and CSV are built.

Null in a column stays null in its text, so that an absent field can be left out.
`pyarrow.compute` is imported inside the functions that use it: it takes longer to load than the
rest of Arrow, and Parquet output does not need it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from je_tools.core.escaping import clean_text as clean_text
from je_tools.core.escaping import is_lsn as is_lsn
from je_tools.core.masking import DataMode, Masking
from je_tools.formats import _native
from je_tools.formats.rows import CellTable, row_texts
from je_tools.formats.spans import Offsets, Spans, format_lsns, gather, gather_hex
from je_tools.output.encoders.entry_jsonl import entry_objects

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.files.source import Bytes
    from je_tools.log.entry_table import EntryTable


def string_array(offsets: Offsets, data: Bytes, valid: Mask | None = None) -> pa.StringArray:
    """Return a string array over int32 (n + 1,) offsets and UTF-8 bytes; null if not `valid`."""
    bits = None
    if valid is not None:
        bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


def number_array(values: npt.NDArray[Any], valid: Mask | None = None) -> pa.Array:
    """Return numbers as an Arrow array of their type, without a copy; null if not `valid`.

    Built from buffers: if pandas is not installed, `pa.array` searches for it at every call.
    """
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(values)])


def bool_array(values: Mask) -> pa.BooleanArray:
    """Return booleans as an Arrow array."""
    bits = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, bits])


def number_texts(values: Ints, valid: Mask | None = None) -> pa.StringArray:
    """Return decimal numbers."""
    import pyarrow.compute as pc

    return pc.cast(number_array(values, valid), pa.string())


def lsn_texts(lsns: Ints, valid: Mask | None = None) -> pa.StringArray:
    """Return LSNs as 0x…/0x…."""
    return string_array(*format_lsns(np.ascontiguousarray(lsns)), valid)


def data_texts(data: Bytes, starts: Ints, sizes: Ints, masking: Masking) -> pa.StringArray:
    """Return keys or values in hexadecimal or masked; null stays null."""
    if masking.mode is not DataMode.SHOW:
        return pa.array(masking.texts(data, starts, sizes), pa.string())
    return string_array(*gather_hex(data, starts, sizes), sizes >= 0)


def data_bytes(data: Bytes, starts: Ints, sizes: Ints, masking: Masking) -> pa.Array:
    """Return byte strings, or the UTF-8 of what masking replaces them with; null stays null."""
    if masking.mode is not DataMode.SHOW:
        return pa.array(masking.texts(data, starts, sizes), pa.string()).cast(pa.binary())
    offsets, content = gather(data, starts, sizes)
    return string_array(offsets, content, sizes >= 0).view(pa.binary())


def row_array(table: CellTable, valid: Mask | None = None) -> pa.StringArray:
    """Return rows of cells, which are text, as a column; null if not `valid`.

    Raises:
        TooLongError: the rows might exceed GATHERED_MAX bytes.
    """
    return string_array(*row_texts(table), valid)


def json_escaped(texts: pa.StringArray) -> pa.StringArray:
    """Return texts as they stand in a JSON string, without its quotes."""
    import pyarrow.compute as pc

    if not pc.any(pc.match_substring_regex(texts, r"[^ !#-\[\]-~]")).as_py():
        return texts
    found = texts.to_pylist()
    return pa.array([None if x is None else json.dumps(x)[1:-1] for x in found], pa.string())


def entry_texts(table: EntryTable, masking: Masking) -> pa.StringArray:
    """Return the payload of each entry as a JSON object."""
    return row_array(entry_objects(table, masking))


def choice_texts(codes: npt.NDArray[np.uint8], texts: Mapping[int, str]) -> pa.StringArray:
    """Return the text of each code; every code that occurs must have one."""
    numbers = sorted(texts)
    lookup = np.zeros(256, np.int8)
    lookup[numbers] = np.arange(len(numbers))
    return pa.array([texts[i] for i in numbers], pa.string()).take(number_array(lookup[codes]))


def id_texts(ids: Ints, valid: Mask, texts: Mapping[int, str]) -> pa.StringArray:
    """Return the text of each id, null if the id has none or is not valid."""
    unique, _, choice = _native.distinct(ids)
    found = [texts.get(i) for i in unique.tolist()]
    known = Spans.of([None if text is None else text.encode() for text in found])
    sizes = np.where(valid, known.sizes[choice], -1)
    return string_array(*gather(known.data, known.starts[choice], sizes), sizes >= 0)


def same_texts(text: str, n: int) -> pa.DictionaryArray:
    """Return a text n times, stored once."""
    numbers = number_array(np.zeros(n, np.int32))
    return pa.DictionaryArray.from_arrays(numbers, pa.array([text], pa.string()))


def joined(*pieces: str | pa.StringArray) -> pa.StringArray:
    """Return pieces joined row by row; null if one of them is null."""
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(*map(_scalar, pieces), "", null_handling="emit_null")


def _scalar(piece: str | pa.StringArray) -> pa.Array | pa.Scalar:
    return _literal(piece) if isinstance(piece, str) else piece


_literal = functools.lru_cache(maxsize=4096)(pa.scalar)


def text_bytes(texts: pa.StringArray) -> pa.Buffer:
    """Return all texts one after the other, without a copy."""
    _, offsets, data = texts.buffers()
    edges = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    if data is None:
        return pa.py_buffer(b"")
    return data.slice(int(edges[0]), int(edges[-1] - edges[0]))
