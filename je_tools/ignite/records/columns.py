"""Columns of records of Ignite's caches, as numbers and bytes or as texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct

from je_tools.core.escaping import clean_text
from je_tools.ignite.values.texts import value_texts
from je_tools.ignite.wal.dump_columns import versions_of
from je_tools.output.encoders import arrow_texts as t

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.formats.ignite.values import ValueTypes
    from je_tools.ignite.caches import CacheNames
    from je_tools.ignite.records.merge import CacheRecords

_NAMES = pa.dictionary(pa.int32(), pa.string())

CACHE_SCHEMA = pa.schema(
    [
        ("node", _NAMES),
        ("cache_id", pa.int32()),
        ("cache", pa.string()),
        ("partition", pa.int32()),
        ("key_type", pa.uint8()),
        ("key", pa.binary()),
        ("key_json", pa.string()),
        ("value_type", pa.uint8()),
        ("value_size", pa.int64()),
        ("value", pa.binary()),
        ("value_json", pa.string()),
        ("version", pa.string()),
        ("expire_ms", pa.int64()),
        ("source", _NAMES),
    ]
)
"""Columns of Parquet; in the other formats, keys and values are texts."""


class RecordOrigin(Struct, frozen=True):
    """Facts that all records of a node share: its name, its caches, its types."""

    node: str
    names: CacheNames
    types: ValueTypes


def cache_columns(
    records: CacheRecords,
    origin: RecordOrigin,
    masking: Masking,
    name_of: Callable[[str], str] = clean_text,
) -> dict[str, pa.Array]:
    """Return the columns of CACHE_SCHEMA by name, keys and values as bytes.

    Args:
        records: the records.
        origin: the node that has them.
        masking: masking of keys and values.
        name_of: escaping of names of caches and nodes.
    """
    n, keys, values = len(records), records.keys, records.values
    known = np.ones(n, np.bool_)
    caches = {number: name_of(name) for number, name in origin.names.caches.items()}
    found = {
        "node": t.same_texts(name_of(origin.node), n),
        "cache_id": t.number_array(records.cache_id.astype(np.int32)),
        "cache": t.id_texts(records.cache_id, known, caches),
        "partition": t.number_array(np.full(n, records.partition, np.int32)),
        "key_type": t.number_array(records.key_type.astype(np.uint8)),
        "key": t.data_bytes(keys.data, keys.starts, keys.sizes, masking),
        "key_json": value_texts(origin.types, keys, records.key_type, masking),
        "value_type": t.number_array(records.value_type.astype(np.uint8)),
        "value_size": t.number_array(values.sizes),
        "value": t.data_bytes(values.data, values.starts, values.sizes, masking),
        "value_json": value_texts(origin.types, values, records.value_type, masking),
        "version": versions_of(records.topology, records.node, records.order, known),
        "expire_ms": t.number_array(records.expire_ms, records.expire_ms != 0),
        "source": t.same_texts("log" if records.in_log else "pages", n),
    }
    return {name: found[name] for name in CACHE_SCHEMA.names}


def cache_texts(
    records: CacheRecords,
    origin: RecordOrigin,
    masking: Masking,
    name_of: Callable[[str], str] = clean_text,
) -> dict[str, pa.Array]:
    """Return the columns of CACHE_SCHEMA as numbers and texts, for lines."""
    found = cache_columns(records, origin, masking, name_of)
    for name, array in found.items():
        if pa.types.is_dictionary(array.type):
            found[name] = array.dictionary_decode()
    for name, spans in (("key", records.keys), ("value", records.values)):
        found[name] = t.data_texts(spans.data, spans.starts, spans.sizes, masking)
    return found
