"""Slots of B-tree nodes in columns: keys apart from the data that is embedded with them.

Source: je-log.md "Nodes"; DupKeyData, IN.getEmbeddedData, JE 7.5.11.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from je_tools.formats.arrays import Ints
from je_tools.formats.je.columns import Columns
from je_tools.formats.je.layout import SLOT_EMBEDDED, SLOT_NO_DATA
from je_tools.formats.kernels import compiled, kernel
from je_tools.formats.source import as_plain
from je_tools.formats.spans import Spans

_EMBEDDED = SLOT_EMBEDDED
_NO_DATA = SLOT_NO_DATA


@kernel
def _split(buf: Any, starts: Any, sizes: Any, states: Any, n: int, keys: Any, data: Any) -> None:
    """Sizes of each slot's key and of its data, the latter -1 where the record is not embedded.

    A two-part key ends with the key's length, a packed number whose bytes run backwards.
    """
    for row in range(n):
        size = int(sizes[row])
        keys[row] = size
        data[row] = -1
        if not states[row] & _EMBEDDED:
            continue
        if states[row] & _NO_DATA:
            data[row] = 0
            continue
        if size < 1:
            continue
        last = int(starts[row]) + size - 1
        first = buf[last] - 0
        length = first
        extra = 0
        if 119 < first < 128:
            extra = first - 119
            length = 119
            if extra > 4 or extra >= size:
                continue
            for i in range(extra):
                length += (buf[last - 1 - i] - 0) << (8 * i)
        elif first >= 128:
            continue
        if length <= size - 1 - extra:
            keys[row] = length
            data[row] = size - 1 - extra - length


def split_embedded(slots: Columns, *, fast: bool) -> tuple[Ints, Ints, Ints, Ints]:
    """Keys and embedded data of slots: (key starts, key sizes, data starts, data sizes).

    Each int64 (slots,). A slot whose two-part key is not one keeps all its bytes as the key.
    """
    starts, sizes = slots.span("key")
    states = slots.number("state")
    keys, data = np.empty(len(starts), np.int64), np.empty(len(starts), np.int64)
    run = compiled(_split) if fast else _split
    run(
        slots.data if fast else as_plain(slots.data), starts, sizes, states, len(starts), keys, data
    )
    return starts, keys, starts + keys, data


def split_two_part_keys(keys: Spans, *, fast: bool) -> tuple[Spans, Spans]:
    """Keys and data of the two-part keys of a database with duplicates.

    One that is no two-part key is all key, and its data null.
    """
    n = len(keys)
    sizes, data = np.empty(n, np.int64), np.empty(n, np.int64)
    run = compiled(_split) if fast else _split
    buffer = keys.data if fast else as_plain(keys.data)
    run(buffer, keys.starts, keys.sizes, np.full(n, _EMBEDDED, np.int64), n, sizes, data)
    return Spans(keys.data, keys.starts, sizes), Spans(keys.data, keys.starts + sizes, data)
