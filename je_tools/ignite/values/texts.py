"""Keys and values as columns of JSON texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from je_tools.core.masking import DataMode
from je_tools.output.encoders import arrow_texts as t

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.formats.arrays import Ints
    from je_tools.formats.ignite.values import ValueTypes
    from je_tools.formats.spans import Spans

UNDECODED = '{"undecoded":'
"""Start of the text of a value that does not decode; no other value has it."""


def value_texts(types: ValueTypes, values: Spans, kinds: Ints, masking: Masking) -> pa.StringArray:
    """Return cache objects as JSON; null for null values, and for all if they are masked.

    Args:
        types: types that are known.
        values: bytes of the objects.
        kinds: int64 (n,), their types in the store.
        masking: masking of keys and values.
    """
    if masking.mode is not DataMode.SHOW:
        return pa.nulls(len(values), pa.string())
    found = types.texts(values, kinds)
    return t.string_array(found.offsets, found.data, values.sizes >= 0)


def key_texts(types: ValueTypes, keys: Spans, kinds: Ints, masking: Masking) -> list[str | None]:
    """Return keys as JSON, or what masks them; null for null keys.

    Args:
        types, kinds, masking: as for `value_texts`.
        keys: bytes of the keys.
    """
    if masking.mode is DataMode.SHOW:
        found: list[str | None] = value_texts(types, keys, kinds, masking).to_pylist()
        return found
    return masking.texts(keys.data, keys.starts, keys.sizes)
