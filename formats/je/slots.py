"""Slots of B-tree nodes in columns: keys apart from the data that is embedded with them.

Source: je-log.md "Nodes"; DupKeyData, IN.getEmbeddedData, JE 7.5.11.
"""

from __future__ import annotations

from je_tools.formats import _native
from je_tools.formats.arrays import Ints
from je_tools.formats.je.columns import Columns
from je_tools.formats.spans import Spans


def split_embedded(slots: Columns) -> tuple[Ints, Ints, Ints, Ints]:
    """Return keys and embedded data of slots: (key starts, key sizes, data starts, data sizes).

    Each int64 (slots,). A slot whose two-part key is not one keeps all its bytes as the key.
    """
    starts, sizes = slots.span("key")
    keys, data = _native.split_keys(Spans(slots.data, starts, sizes), slots.number("state"))
    return starts, keys, starts + keys, data


def split_two_part_keys(keys: Spans) -> tuple[Spans, Spans]:
    """Return keys and data of the two-part keys of a database with duplicates.

    One that is no two-part key is all key, and its data null.
    """
    sizes, data = _native.split_keys(keys, None)
    return Spans(keys.data, keys.starts, sizes), Spans(keys.data, keys.starts + sizes, data)
