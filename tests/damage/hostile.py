"""Files made to stall or to bloat a reader: each pattern is repeated up to the wanted size."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from tests.builders.logs import ERASED, TRACE, LogFile, entry
from tests.builders.trees import rooted

_BEGINNING = rooted(LogFile())
"""A good header and the root of a log, in front of each pattern."""

_START = len(_BEGINNING.data)


def zeros(size: int) -> bytes:
    return bytes(size)


def ones(size: int) -> bytes:
    """Return bytes that are, at every offset, a header of a known type with a plausible size."""
    return b"\x01" * size


def _fill(size: int, piece: Callable[[int], bytes]) -> bytes:
    """Repeat pieces up to a size; `piece` gets its offset in a file, after the beginning."""
    data = bytearray()
    while len(data) < size:
        data += piece(_START + len(data))
    return bytes(data)


def wild_sizes(size: int) -> bytes:
    """Return headers in a row that all claim the rest of the file for their entry."""
    return _fill(
        size, lambda at: struct.pack("<IBBIi", 1, TRACE, 0, at - 14, size + _START - at - 14)
    )


def erased_chains(size: int) -> bytes:
    """Return chains of erased entries, which need no checksum, each broken at its end."""

    def chain(at: int) -> bytes:
        data = bytearray()
        for i in range(3000):
            prev = at + 14 * (i - 1) if i else at - 14
            data += struct.pack("<IBBIi", 1, ERASED, 0, prev, 0)
        return bytes(data) + b"\x00" * 5

    return _fill(size, chain)


def small_candidates(size: int) -> bytes:
    """Return many headers of entries just short enough for their checksum always to be computed."""
    return _fill(size, lambda at: struct.pack("<BBIi", TRACE, 0, max(at - 4, 0), 4000) + bytes(4))


def placed_candidates(size: int) -> bytes:
    """Return the same headers, each naming the one before it."""
    return _fill(size, lambda at: struct.pack("<BBIi", TRACE, 0, max(at - 18, 0), 4000) + bytes(4))


def broken_chain(size: int) -> bytes:
    """Return good entries that each name another place than the entry before it."""
    rng = random.Random(1)
    return _fill(size, lambda at: entry(TRACE, b"x", rng.randrange(max(at - 14, 1))))


def gaps(size: int) -> bytes:
    """Return pairs of a damaged and a good entry."""

    def pair(at: int) -> bytes:
        bad = bytearray(entry(TRACE, b"yyyy", at))
        bad[7] ^= 0x55
        return bytes(bad) + entry(TRACE, b"xxxx", at)

    return _fill(size, pair)


def claims_before_good(size: int) -> bytes:
    """Return pairs: a header with the largest possible size, and a good entry that names it."""

    def pair(at: int) -> bytes:
        claim = struct.pack("<IBBIi", 1, TRACE, 0, max(at - 15, 0), max(size - at - 100, 0))
        return claim + entry(TRACE, b"z", at)

    return _fill(size, pair)


def claims_of_all_sizes(size: int) -> bytes:
    """Return the same pairs with random sizes, so that the headers claim different ends."""
    rng = random.Random(2)

    def pair(at: int) -> bytes:
        room = max(size - at - 100, 1)
        claim = struct.pack("<IBBIi", 1, TRACE, 0, max(at - 15, 0), rng.randrange(room))
        return claim + entry(TRACE, b"z", at)

    return _fill(size, pair)


def bad_sums(size: int) -> bytes:
    """Return entries with wrong checksums, each named by the entry after it."""
    last = _BEGINNING.last

    def bad(at: int) -> bytes:
        nonlocal last
        last, prev = at, last
        return b"\0\0\0\0" + entry(TRACE, b"", prev)[4:]

    return _fill(size, bad)


def unknown_types(size: int) -> bytes:
    """Return good entries of a type that no version has."""
    last = _BEGINNING.last

    def unknown(at: int) -> bytes:
        nonlocal last
        last, prev = at, last
        return entry(200, b"", prev)

    return _fill(size, unknown)


PATTERNS: dict[str, Callable[[int], bytes]] = {
    each.__name__: each
    for each in (
        zeros,
        ones,
        wild_sizes,
        erased_chains,
        small_candidates,
        broken_chain,
        gaps,
        claims_before_good,
        claims_of_all_sizes,
        placed_candidates,
        bad_sums,
        unknown_types,
    )
}


def hostile_file(pattern: str, size: int) -> LogFile:
    """Return a log file with this pattern after a good header and a root."""
    file = rooted(LogFile())
    file.data += PATTERNS[pattern](size)
    return file
