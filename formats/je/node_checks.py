"""What must hold between the slots of a node: keys that ascend, one that is the identifier's.

Source: je-log.md "Nodes"; BtreeVerifier.verifyOrderedKeys, verifyIdentifierKey, JE 25.3.17.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.je.keysort import compare_keys
from je_tools.formats.kernels import compiled, kernel
from je_tools.formats.source import as_plain
from je_tools.formats.spans import Spans


@kernel
def _descents(
    buf: Any, n: int, first: Any, starts: Any, sizes: Any, two_part: int, out: Any
) -> None:
    for node in range(n):
        for slot in range(first[node] + 1, first[node + 1]):
            way = compare_keys(
                buf, starts[slot - 1], sizes[slot - 1], buf, starts[slot], sizes[slot], two_part
            )
            out[slot] = way >= 0


def descents(keys: Spans, first: Ints, *, two_part: bool, fast: bool) -> Mask:
    """Which slots have a key that is not greater than that of the slot before, in their node.

    Args:
        keys: of all slots.
        first: int64 (nodes + 1,); slots of node i are [first[i], first[i + 1]).
        two_part: whether keys are those of a database with duplicates.
        fast: use compiled kernels.
    """
    out = np.zeros(len(keys), np.bool_)
    run = compiled(_descents) if fast else _descents
    data = keys.data if fast else as_plain(keys.data)
    run(data, len(first) - 1, first, keys.starts, keys.sizes, int(two_part), out)
    return out


@kernel
def _holders(
    buf: Any,
    n: int,
    first: Any,
    starts: Any,
    sizes: Any,
    wanted: Any,
    wanted_starts: Any,
    wanted_sizes: Any,
    out: Any,
) -> None:
    for node in range(n):
        size = wanted_sizes[node]
        start = wanted_starts[node]
        for slot in range(first[node], first[node + 1]):
            if sizes[slot] == size:
                i = 0
                while i < size and buf[starts[slot] + i] == wanted[start + i]:
                    i += 1
                if i == size:
                    out[node] = True
                    break


def holders(keys: Spans, first: Ints, wanted: Spans, *, fast: bool) -> Mask:
    """Which nodes have a slot with the bytes of a certain key.

    Args:
        keys: of all slots.
        first: int64 (nodes + 1,); slots of node i are [first[i], first[i + 1]).
        wanted: one key a node; null is in none.
        fast: use compiled kernels.
    """
    out = np.zeros(len(wanted), np.bool_)
    run = compiled(_holders) if fast else _holders
    run(
        keys.data if fast else as_plain(keys.data),
        len(wanted),
        first,
        keys.starts,
        keys.sizes,
        wanted.data if fast else as_plain(wanted.data),
        wanted.starts,
        wanted.sizes,
        out,
    )
    return out
