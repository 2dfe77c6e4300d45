"""Keys as columns: compared, sorted, searched.

Bytes are unsigned, and a key sorts before longer keys that begin with it. Keys of a database with
duplicates are two-part arrays, which sort by key part, then by data; a search key, which has no
data, sorts before all data of its key. Bytes that are not a two-part array count as a key without
data.

Source: je-log.md "Nodes"; Key.compareUnsignedBytes, DupKeyData.compareMainKey, JE 7.5.11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.formats import _native

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.spans import Spans


def group_keys(keys: Spans, *, two_part: bool) -> tuple[Ints, Mask]:
    """Return the ascending order of keys, and a mask of the places in it where a new key begins.

    The sort is stable. It takes 41 bytes per key. Its time depends on the number of keys and on the
    bytes that distinguish them, not on the length of common prefixes.

    Args:
        keys: keys, none of them null.
        two_part: True for keys of a database with duplicates.

    Returns:
        Int64 (n,) and bool (n,).
    """
    return _native.group_keys(keys, two_part=two_part)


def order_keys(keys: Spans, *, two_part: bool) -> Ints:
    """Return the ascending order of keys; see `group_keys`."""
    return group_keys(keys, two_part=two_part)[0]


def equal_keys(ones: Spans, others: Spans) -> Mask:
    """Return a mask of the rows in which two columns of one length have the same bytes."""
    return _native.equal_keys(ones, others)


def search_sorted(keys: Spans, needles: Spans, *, two_part: bool) -> Ints:
    """Return the number of smaller keys for each needle, int64; fastest if needles also ascend.

    Args:
        keys: keys in ascending order.
        needles: keys in any order.
        two_part: True for keys of a database with duplicates.
    """
    return _native.search_sorted(keys, needles, two_part=two_part)
