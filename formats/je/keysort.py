"""Keys in columns: compared, sorted, searched.

Bytes are unsigned, and of two keys of which one begins the other the shorter is the lesser. Keys
of a database with duplicates are two-part arrays: key parts come first, then data; an array to
search by, which has no data, comes before all data of its key. Bytes that are no two-part array
count as a key without data.

Source: je-log.md "Nodes"; Key.compareUnsignedBytes, DupKeyData.compareMainKey, JE 7.5.11.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.kernels import compiled, kernel
from je_tools.formats.source import as_plain
from je_tools.formats.spans import Spans

_TAIL_MAX = 5


@kernel
def split_parts(buf: Any, start: int, size: int) -> tuple[int, int]:
    """Sizes of key and data of a two-part key; the data's is -1 where it has none."""
    if size < 1:
        return size, -1
    last = start + size - 1
    first = buf[last] - 0
    if first <= 119:
        length = first
        tail = 1
    elif first < 128:
        extra = first - 119
        if extra >= _TAIL_MAX or extra >= size:
            return size, -1
        length = 119
        for i in range(extra):
            length += (buf[last - 1 - i] - 0) << (8 * i)
        tail = 1 + extra
    elif first == 255:
        return size - 1, -1
    else:
        return size, -1
    if length > size - tail:
        return size, -1
    return length, size - tail - length


@kernel
def _compare_bytes(a: Any, start_a: int, size_a: int, b: Any, start_b: int, size_b: int) -> int:
    for i in range(min(size_a, size_b)):
        one = a[start_a + i] - 0
        other = b[start_b + i] - 0
        if one != other:
            return -1 if one < other else 1
    if size_a == size_b:
        return 0
    return -1 if size_a < size_b else 1


@kernel
def compare_keys(
    a: Any, start_a: int, size_a: int, b: Any, start_b: int, size_b: int, two_part: int
) -> int:
    """-1, 0 or 1: how the key a[start_a:start_a + size_a] is to that in `b`."""
    way: int
    if two_part == 0:
        way = _compare_bytes(a, start_a, size_a, b, start_b, size_b)
        return way
    key_a, data_a = split_parts(a, start_a, size_a)
    key_b, data_b = split_parts(b, start_b, size_b)
    way = _compare_bytes(a, start_a, key_a, b, start_b, key_b)
    if way == 0 and data_a >= 0 and data_b >= 0:
        way = _compare_bytes(a, start_a + key_a, data_a, b, start_b + key_b, data_b)
    elif way == 0:
        way = (1 if data_a >= 0 else 0) - (1 if data_b >= 0 else 0)
    return way


@kernel
def _common_size(buf: Any, n: int, starts: Any, sizes: Any, two_part: int) -> int:
    """How many bytes all keys begin with."""
    common: int = sizes[0]
    if two_part != 0:
        common, _ = split_parts(buf, starts[0], sizes[0])
    for row in range(1, n):
        size = sizes[row]
        if two_part != 0:
            size, _ = split_parts(buf, starts[row], sizes[row])
        if size < common:
            common = size
        i = 0
        while i < common and buf[starts[row] + i] == buf[starts[0] + i]:
            i += 1
        common = i
        if common == 0:
            break
    return common


@kernel
def _load_words(
    buf: Any, n: int, starts: Any, sizes: Any, skipped: int, two_part: int, words: Any
) -> None:
    """Seven bytes of each key behind those that all have, as a number in the order of keys."""
    for row in range(n):
        size = sizes[row]
        if two_part != 0:
            size, _ = split_parts(buf, starts[row], sizes[row])
        word = 0
        start = starts[row] + skipped
        for i in range(7):
            word = word * 256 + ((buf[start + i] - 0) if skipped + i < size else 0)
        words[row] = word


@kernel
def _finish_runs(
    buf: Any, n: int, starts: Any, sizes: Any, two_part: int, words: Any, order: Any, spare: Any
) -> None:
    """Sort runs of equal words by whole keys: merges of ever longer stretches, stable."""
    begin = 0
    while begin < n:
        end = begin + 1
        while end < n and words[order[end]] == words[order[begin]]:
            end += 1
        width = 1
        while width < end - begin:
            left = begin
            while left + width < end:
                middle = left + width
                right = min(middle + width, end)
                one = order[middle - 1]
                other = order[middle]
                way = compare_keys(
                    buf, starts[one], sizes[one], buf, starts[other], sizes[other], two_part
                )
                if way > 0:
                    i = left
                    j = middle
                    at = left
                    while i < middle and j < right:
                        one = order[i]
                        other = order[j]
                        way = compare_keys(
                            buf, starts[one], sizes[one], buf, starts[other], sizes[other], two_part
                        )
                        if way <= 0:
                            spare[at] = one
                            i += 1
                        else:
                            spare[at] = other
                            j += 1
                        at += 1
                    while i < middle:
                        spare[at] = order[i]
                        i += 1
                        at += 1
                    while j < right:
                        spare[at] = order[j]
                        j += 1
                        at += 1
                    for k in range(left, right):
                        order[k] = spare[k]
                left = right
            width *= 2
        begin = end


def order_keys(keys: Spans, *, two_part: bool, fast: bool) -> Ints:
    """The ascending order of keys, int64 (n,); equal ones stay in their order.

    Args:
        keys: none of them null.
        two_part: keys of a database with duplicates.
        fast: use compiled kernels.
    """
    n = len(keys)
    if n == 0:
        return np.empty(0, np.int64)
    data = keys.data if fast else as_plain(keys.data)
    common = (compiled(_common_size) if fast else _common_size)(
        data, n, keys.starts, keys.sizes, int(two_part)
    )
    words = np.empty(n, np.int64)
    load = compiled(_load_words) if fast else _load_words
    load(data, n, keys.starts, keys.sizes, int(common), int(two_part), words)
    order: Ints = np.argsort(words, kind="stable")
    finish = compiled(_finish_runs) if fast else _finish_runs
    spare = np.empty(n, np.int64)
    finish(data, n, keys.starts, keys.sizes, int(two_part), words, order, spare)
    return order


@kernel
def _same_as_before(buf: Any, n: int, starts: Any, sizes: Any, out: Any) -> None:
    for row in range(1, n):
        way = _compare_bytes(buf, starts[row - 1], sizes[row - 1], buf, starts[row], sizes[row])
        out[row] = way == 0


def equal_neighbours(keys: Spans, *, fast: bool) -> Mask:
    """Which keys have the same bytes as the one before."""
    out = np.zeros(len(keys), np.bool_)
    run = compiled(_same_as_before) if fast else _same_as_before
    data = keys.data if fast else as_plain(keys.data)
    run(data, len(keys), keys.starts, keys.sizes, out)
    return out


@kernel
def _same(
    a: Any, n: int, starts_a: Any, sizes_a: Any, b: Any, starts_b: Any, sizes_b: Any, out: Any
) -> None:
    for row in range(n):
        way = 1
        if sizes_a[row] == sizes_b[row]:
            way = _compare_bytes(a, starts_a[row], sizes_a[row], b, starts_b[row], sizes_b[row])
        out[row] = way == 0


def equal_keys(ones: Spans, others: Spans, *, fast: bool) -> Mask:
    """Where two columns of one length have the same bytes."""
    out = np.zeros(len(ones), np.bool_)
    run = compiled(_same) if fast else _same
    a = ones.data if fast else as_plain(ones.data)
    b = others.data if fast else as_plain(others.data)
    run(a, len(ones), ones.starts, ones.sizes, b, others.starts, others.sizes, out)
    return out


@kernel
def _search(
    buf: Any,
    n: int,
    starts: Any,
    sizes: Any,
    needles: Any,
    m: int,
    needle_starts: Any,
    needle_sizes: Any,
    two_part: int,
    out: Any,
) -> None:
    """Each needle from where the last one was found on, by steps that double."""
    at = 0
    for row in range(m):
        low = 0
        high = n
        start = needle_starts[row]
        size = needle_sizes[row]
        if at > 0:
            way = compare_keys(buf, starts[at - 1], sizes[at - 1], needles, start, size, two_part)
            if way < 0:
                low = at
                step = 1
                while low + step < n:
                    other = low + step
                    way = compare_keys(
                        buf, starts[other], sizes[other], needles, start, size, two_part
                    )
                    if way >= 0:
                        high = other
                        break
                    low = other + 1
                    step *= 2
            else:
                high = at
        while low < high:
            middle = (low + high) >> 1
            way = compare_keys(buf, starts[middle], sizes[middle], needles, start, size, two_part)
            if way < 0:
                low = middle + 1
            else:
                high = middle
        at = low
        out[row] = low


def search_sorted(keys: Spans, needles: Spans, *, two_part: bool, fast: bool) -> Ints:
    """For each needle how many keys are less, int64; fastest where needles ascend too.

    Args:
        keys: ascending.
        needles: in any order.
        two_part: keys of a database with duplicates.
        fast: use compiled kernels.
    """
    out = np.zeros(len(needles), np.int64)
    run = compiled(_search) if fast else _search
    run(
        keys.data if fast else as_plain(keys.data),
        len(keys),
        keys.starts,
        keys.sizes,
        needles.data if fast else as_plain(needles.data),
        len(needles),
        needles.starts,
        needles.sizes,
        int(two_part),
        out,
    )
    return out
