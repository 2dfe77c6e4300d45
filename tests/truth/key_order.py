"""The order of keys, one by one: the reference for columns of keys."""

from __future__ import annotations

from je_tools.formats.je.btree.keys import split_two_part


def order_of(key: bytes, *, two_part: bool = False) -> tuple[bytes, int, bytes]:
    """Return the sort key of a key in a database without its own comparators.

    Keys sort by their bytes as unsigned numbers, then by length. With `two_part` (a database with
    duplicates), they sort by key, then by data, and a search key sorts before all data of its key.

    Raises:
        NotTwoPartError: `two_part` is set and `key` is not a two-part array.
    """
    if not two_part:
        return key, 0, b""
    first, data = split_two_part(key)
    return (first, 0, b"") if data is None else (first, 1, data)
