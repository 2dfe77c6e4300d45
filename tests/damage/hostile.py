"""Files made to stall or to bloat a reader: each pattern is repeated up to the wanted size."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from tests.builders.logs import ERASED, TRACE, LogFile, entry


def zeros(size: int) -> bytes:
    return bytes(size)


def ones(size: int) -> bytes:
    """At every offset a header of a known type with a plausible size."""
    return b"\x01" * size


def _fill(size: int, piece: Callable[[int], bytes]) -> bytes:
    """Pieces behind each other; each is told its offset in a file behind the file header."""
    data = bytearray()
    while len(data) < size:
        data += piece(38 + len(data))
    return bytes(data)


def wild_sizes(size: int) -> bytes:
    """Headers behind each other that all claim the rest of the file for their entry."""
    return _fill(size, lambda at: struct.pack("<IBBIi", 1, TRACE, 0, at - 14, size + 38 - at - 14))


def erased_chains(size: int) -> bytes:
    """Chains of erased entries, that need no checksum, each broken at its end."""

    def chain(at: int) -> bytes:
        data = bytearray()
        for i in range(3000):
            prev = at + 14 * (i - 1) if i else at - 14
            data += struct.pack("<IBBIi", 1, ERASED, 0, prev, 0)
        return bytes(data) + b"\x00" * 5

    return _fill(size, chain)


def small_candidates(size: int) -> bytes:
    """Many headers of entries just short enough to be summed always."""
    return _fill(size, lambda at: struct.pack("<BBIi", TRACE, 0, max(at - 4, 0), 4000) + bytes(4))


def placed_candidates(size: int) -> bytes:
    """The same, each naming one that stands before it."""
    return _fill(size, lambda at: struct.pack("<BBIi", TRACE, 0, max(at - 18, 0), 4000) + bytes(4))


def broken_chain(size: int) -> bytes:
    """Good entries of which each names another place than the one before it."""
    rng = random.Random(1)
    return _fill(size, lambda at: entry(TRACE, b"x", rng.randrange(max(at - 14, 1))))


def gaps(size: int) -> bytes:
    """Good entries, after each a damaged one."""

    def pair(at: int) -> bytes:
        bad = bytearray(entry(TRACE, b"yyyy", at))
        bad[7] ^= 0x55
        return bytes(bad) + entry(TRACE, b"xxxx", at)

    return _fill(size, pair)


def claims_before_good(size: int) -> bytes:
    """A header with a size as large as it may be, then a good entry that names it; repeated."""

    def pair(at: int) -> bytes:
        claim = struct.pack("<IBBIi", 1, TRACE, 0, max(at - 15, 0), max(size - at - 100, 0))
        return claim + entry(TRACE, b"z", at)

    return _fill(size, pair)


def claims_of_all_sizes(size: int) -> bytes:
    """The same with any size, so that no two headers claim the same end."""
    rng = random.Random(2)

    def pair(at: int) -> bytes:
        room = max(size - at - 100, 1)
        claim = struct.pack("<IBBIi", 1, TRACE, 0, max(at - 15, 0), rng.randrange(room))
        return claim + entry(TRACE, b"z", at)

    return _fill(size, pair)


def bad_sums(size: int) -> bytes:
    """Entries whose sums are wrong, and that the ones behind them name."""
    last = 0

    def bad(at: int) -> bytes:
        nonlocal last
        last, prev = at, last
        return b"\0\0\0\0" + entry(TRACE, b"", prev)[4:]

    return _fill(size, bad)


def unknown_types(size: int) -> bytes:
    """Good entries of a type that no version has."""
    last = 0

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
    """A log file of that pattern behind a good header."""
    file = LogFile()
    file.data += PATTERNS[pattern](size)
    return file
