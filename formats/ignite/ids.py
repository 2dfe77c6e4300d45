"""Ids of caches and cache groups: hashes of their names.

Source: GridCacheUtils.cacheId, cacheGroupId, Ignite 2.18.0.
"""

from __future__ import annotations


def java_hash(text: str) -> int:
    """Return Java's hash of a string, a signed number of 32 bits."""
    number = 0
    data = text.encode("utf-16-le", "surrogatepass")
    for at in range(0, len(data), 2):
        number = (31 * number + int.from_bytes(data[at : at + 2], "little")) & 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


def cache_id(name: str) -> int:
    """Return the id of a cache or cache group: Java's hash of its name, and 1 in place of 0."""
    return java_hash(name) or 1
