"""What must hold between the slots of a node: keys that ascend, one that is the identifier's.

Source: je-log.md "Nodes"; BtreeVerifier.verifyOrderedKeys, verifyIdentifierKey, JE 25.3.17.
"""

from __future__ import annotations

from je_tools.formats import _native
from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.spans import Spans


def descents(keys: Spans, first: Ints, *, two_part: bool) -> Mask:
    """Return which slots have a key that is not greater than that of the slot before.

    Args:
        keys: of all slots.
        first: int64 (nodes + 1,); slots of node i are [first[i], first[i + 1]).
        two_part: whether keys are those of a database with duplicates.
    """
    return _native.descents(keys, first, two_part=two_part)


def holders(keys: Spans, first: Ints, wanted: Spans) -> Mask:
    """Return which nodes have a slot with the bytes of a certain key.

    Args:
        keys: of all slots.
        first: int64 (nodes + 1,); slots of node i are [first[i], first[i + 1]).
        wanted: one key a node; null is in none.
    """
    return _native.holders(keys, first, wanted)
