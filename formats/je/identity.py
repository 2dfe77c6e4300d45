"""Which records are the same: keyed digests of (database, key), and the newest row of each.

A digest of 126 bits under a secret of the run stands for a key, so that millions of keys need not
be kept: HalfSipHash-1-3 twice, or where no machine code is used BLAKE2. It means nothing outside
of the run.

Source: SipHash: a fast short-input PRF, Aumasson and Bernstein, 2012.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.kernels import compiled, kernel
from je_tools.formats.packed_kernels import load_u32
from je_tools.formats.source import Bytes, as_plain

SEED_SIZE = 8
"""32-bit words of a secret."""

_WORD = 0xFFFFFFFF
_HALF = 0x7FFFFFFF
_FINAL = 0xFF
_V2, _V3 = 0x6C796765, 0x74656462

_LARGEST = (1 << 63) - 1
_NOTHING = -1


def new_seed() -> Ints:
    """A secret: int64 (SEED_SIZE,), 32 bits each."""
    return np.frombuffer(os.urandom(4 * SEED_SIZE), "<u4").astype(np.int64)


@kernel
def _rotated(x: int, by: int) -> int:
    return (x << by | x >> (32 - by)) & _WORD


@kernel
def _round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = (v0 + v1) & _WORD
    v1 = _rotated(v1, 5) ^ v0
    v0 = _rotated(v0, 16)
    v2 = (v2 + v3) & _WORD
    v3 = _rotated(v3, 8) ^ v2
    v0 = (v0 + v3) & _WORD
    v3 = _rotated(v3, 7) ^ v0
    v2 = (v2 + v1) & _WORD
    v1 = _rotated(v1, 13) ^ v2
    v2 = _rotated(v2, 16)
    return v0, v1, v2, v3


@kernel
def _tail(buf: Any, at: int, size: int) -> int:
    """The last 0 to 3 bytes, and how many all are."""
    word = (size & 255) << 24
    for i in range(size & 3):
        word |= (buf[at + i] - 0) << (8 * i)
    return word


@kernel
def _digest(buf: Any, start: int, size: int, db_id: int, k0: int, k1: int) -> int:
    v0 = k0
    v1 = k1
    v2 = _V2 ^ k0
    v3 = _V3 ^ k1
    words = size >> 2
    for i in range(words + 3):
        if i == 0:
            word = db_id & _WORD
        elif i == 1:
            word = db_id >> 32 & _WORD
        elif i < words + 2:
            word = load_u32(buf, start + 4 * (i - 2))
        else:
            word = _tail(buf, start + 4 * words, size)
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
    v2 ^= _FINAL
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    high = (v1 ^ v3) & _HALF
    v1 ^= 0xDD
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return high << 32 | (v1 ^ v3)


@kernel
def identify(
    buf: Any, starts: Any, sizes: Any, db_ids: Any, n: int, seed: Any, first: Any, second: Any
) -> None:
    """The digests of `n` keys; 0 where the key is null."""
    for row in range(n):
        size = sizes[row]
        first[row] = 0
        second[row] = 0
        if size >= 0:
            start = starts[row]
            first[row] = _digest(buf, start, size, db_ids[row], seed[0], seed[1])
            second[row] = _digest(buf, start, size, db_ids[row], seed[2], seed[3])


def identities(
    data: Bytes, starts: Ints, sizes: Ints, db_ids: Ints, seed: Ints, *, fast: bool
) -> tuple[Ints, Ints]:
    """Digests of keys: two int64 (n,), 63 bits each.

    Args:
        data: the bytes that the keys lie in.
        starts, sizes: int64 (n,); a size below 0 is null.
        db_ids: int64 (n,).
        seed: of this run.
        fast: use the compiled kernel.
    """
    n = len(starts)
    if fast:
        first, second = np.empty(n, np.int64), np.empty(n, np.int64)
        compiled(identify)(data, starts, sizes, db_ids, n, seed, first, second)
        return first, second
    view, secret = as_plain(data), seed.tobytes()
    spans = zip(starts.tolist(), sizes.tolist(), db_ids.tolist(), strict=True)
    texts = [_plain_digest(bytes(view[at : at + size]), of, secret) for at, size, of in spans]
    numbers = np.frombuffer(b"".join(texts), np.int64).reshape(-1, 2)
    numbers = np.where((sizes >= 0)[:, None], numbers & _LARGEST, 0)
    return np.ascontiguousarray(numbers[:, 0]), np.ascontiguousarray(numbers[:, 1])


def _plain_digest(key: bytes, db_id: int, secret: bytes) -> bytes:
    text = db_id.to_bytes(8, "little", signed=True) + key
    return hashlib.blake2b(text, digest_size=16, key=secret).digest()


@kernel
def mark_newest(
    first: Any, second: Any, wanted: Any, n: int, part: int, parts: int, table: Any, newest: Any
) -> None:
    """Mark the last wanted row of each identity.

    Args:
        first, second: int64 (n,), identities.
        wanted: bool (n,); which rows count.
        n: number of rows.
        part, parts: only identities of one part of a power of two are looked at.
        table: int64, a power of two long, more than there are wanted rows; all -1.
        newest: bool (n,), marked.
    """
    mask = len(table) - 1
    for i in range(n):
        row = n - 1 - i
        if not wanted[row] or second[row] & (parts - 1) != part:
            continue
        slot = first[row] & mask
        while True:
            other = table[slot]
            if other < 0:
                table[slot] = row
                newest[row] = True
                break
            if first[other] == first[row] and second[other] == second[row]:
                break
            slot = (slot + 1) & mask


def newest_of(first: Ints, second: Ints, wanted: Mask, threads: int = 1, *, fast: bool) -> Mask:
    """Which wanted rows are the last of their identity.

    Args:
        first, second: int64 (n,), as `identities` gives them: of numbers that a log might choose
            many could be looked for in one place.
        wanted: bool (n,).
        threads: how many look at it, each at identities of its own.
        fast: use the compiled kernel.
    """
    newest = np.zeros(len(first), np.bool_)
    if not fast:
        rows = np.flatnonzero(wanted)
        pairs = zip(first[rows].tolist(), second[rows].tolist(), strict=True)
        last = dict(zip(pairs, rows.tolist(), strict=True))
        newest[list(last.values())] = True
        return newest
    parts = 1 << max(threads - 1, 0).bit_length()

    def mark(part: int) -> None:
        count = int(np.count_nonzero(wanted & (second & (parts - 1) == part)))
        table = np.full(1 << (2 * count + 1).bit_length(), _NOTHING, np.int32)
        compiled(mark_newest)(first, second, wanted, len(first), part, parts, table, newest)

    with ThreadPoolExecutor(parts) as pool:
        list(pool.map(mark, range(parts)))
    return newest
