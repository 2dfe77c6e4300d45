"""Keys in columns: compared, sorted, searched.

Bytes are unsigned, and of two keys of which one begins the other the shorter is the lesser. Keys
of a database with duplicates are two-part arrays: key parts come first, then data; an array to
search by, which has no data, comes before all data of its key. Bytes that are no two-part array
count as a key without data.

Source: je-log.md "Nodes"; Key.compareUnsignedBytes, DupKeyData.compareMainKey, JE 7.5.11.
"""

from __future__ import annotations

from je_tools.formats import _native
from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.spans import Spans


def group_keys(keys: Spans, *, two_part: bool) -> tuple[Ints, Mask]:
    """Return the ascending order of keys, and where in it another key begins.

    Equal ones stay in their order. Takes 41 bytes a key, and time by their number and by the
    bytes that tell them apart, however many begin alike.

    Args:
        keys: none of them null.
        two_part: keys of a database with duplicates.

    Returns:
        Int64 (n,) and bool (n,).
    """
    return _native.group_keys(keys, two_part=two_part)


def order_keys(keys: Spans, *, two_part: bool) -> Ints:
    """Return the ascending order of keys; see `group_keys`."""
    return group_keys(keys, two_part=two_part)[0]


def equal_keys(ones: Spans, others: Spans) -> Mask:
    """Return where two columns of one length have the same bytes."""
    return _native.equal_keys(ones, others)


def search_sorted(keys: Spans, needles: Spans, *, two_part: bool) -> Ints:
    """Return for each needle how many keys are less, int64; fastest where needles ascend too.

    Args:
        keys: ascending.
        needles: in any order.
        two_part: keys of a database with duplicates.
    """
    return _native.search_sorted(keys, needles, two_part=two_part)
