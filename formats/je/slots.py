"""Slots of B-tree nodes as columns: keys, separated from embedded data.

Source: je-log.md "Nodes"; DupKeyData, IN.getEmbeddedData, JE 7.5.11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.formats import _native
from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.columns import Columns


def split_embedded(slots: Columns) -> tuple[Ints, Ints, Ints, Ints]:
    """Return keys and embedded data of slots: (key starts, key sizes, data starts, data sizes).

    Each is int64 (slots,). If a two-part key is malformed, all its bytes are the key.
    """
    starts, sizes = slots.span("key")
    keys, data = _native.split_keys(Spans(slots.data, starts, sizes), slots.number("state"))
    return starts, keys, starts + keys, data


def split_two_part_keys(keys: Spans) -> tuple[Spans, Spans]:
    """Return keys and data of the two-part keys of a database with duplicates.

    If a two-part key is malformed, all its bytes are the key, and its data is null.
    """
    sizes, data = _native.split_keys(keys, None)
    return Spans(keys.data, keys.starts, sizes), Spans(keys.data, keys.starts + sizes, data)
