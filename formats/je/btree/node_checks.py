"""Invariants between the slots of a node: keys ascend, and one is the identifier key.

Source: je-log.md "Nodes"; BtreeVerifier.verifyOrderedKeys, verifyIdentifierKey, JE 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.formats import _native

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.spans import Spans


def descents(keys: Spans, first: Ints, *, two_part: bool) -> Mask:
    """Return a mask of the slots whose key is not greater than that of the slot before.

    Args:
        keys: keys of all slots.
        first: int64 (nodes + 1,); slots of node i are [first[i], first[i + 1]).
        two_part: True for keys of a database with duplicates.
    """
    return _native.descents(keys, first, two_part=two_part)


def holders(keys: Spans, first: Ints, wanted: Spans) -> Mask:
    """Return a mask of the nodes that have a slot with a given key.

    Args:
        keys: keys of all slots.
        first: int64 (nodes + 1,); slots of node i are [first[i], first[i + 1]).
        wanted: one key per node; null matches no slot.
    """
    return _native.holders(keys, first, wanted)
