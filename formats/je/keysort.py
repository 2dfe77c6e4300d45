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

_WORD = 7
_HALF = 128
_SHORT_RUN = 8
"""Keys by which many are sorted at once: bytes, half of a byte's values; a run below words."""


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
def _part(buf: Any, start: int, size: int, two_part: int, in_data: int) -> tuple[int, int]:
    """Where the part of a key begins that is looked at, and its size; -1 where it has none."""
    if two_part == 0:
        return start, size
    key, data = split_parts(buf, start, size)
    if in_data == 0:
        return start, key
    return start + key, data


@kernel
def _common_size(
    buf: Any,
    starts: Any,
    sizes: Any,
    two_part: int,
    in_data: int,
    known: int,
    order: Any,
    begin: int,
    end: int,
) -> int:
    """How many bytes all keys of a run begin with, of which `known` are."""
    first, common = _part(buf, starts[order[begin]], sizes[order[begin]], two_part, in_data)
    for at in range(begin + 1, end):
        if common <= known:
            break
        row = order[at]
        start, size = _part(buf, starts[row], sizes[row], two_part, in_data)
        common = min(common, size)
        i = known
        while i < common and buf[start + i] == buf[first + i]:
            i += 1
        common = i
    return max(common, known)


@kernel
def _load_words(
    buf: Any,
    starts: Any,
    sizes: Any,
    two_part: int,
    in_data: int,
    skipped: int,
    order: Any,
    begin: int,
    end: int,
    words: Any,
) -> None:
    """Of each key seven bytes behind those that all have, as a number in the order of keys.

    Its last byte is 0 where there is no such part, else one more than the bytes that there are.
    """
    for at in range(begin, end):
        row = order[at]
        start, size = _part(buf, starts[row], sizes[row], two_part, in_data)
        left = min(size - skipped, _WORD)
        word = -_HALF
        for i in range(_WORD):
            byte = 0
            if i < left:
                byte = buf[start + skipped + i] - 0
            word = (word + byte) * 256
        words[at] = word + (left + 1 if size >= 0 else 0)


@kernel
def _sort_words(words: Any, order: Any, begin: int, end: int, spare: Any, spare_words: Any) -> None:
    """Sort a run by words, stable: merges of ever longer stretches."""
    width = 1
    while width < end - begin:
        left = begin
        while left + width < end:
            middle = left + width
            right = min(middle + width, end)
            if words[middle - 1] > words[middle]:
                for k in range(left, middle):
                    spare[k] = order[k]
                    spare_words[k] = words[k]
                i = left
                j = middle
                at = left
                while i < middle:
                    if j < right and words[j] < spare_words[i]:
                        order[at] = order[j]
                        words[at] = words[j]
                        j += 1
                    else:
                        order[at] = spare[i]
                        words[at] = spare_words[i]
                        i += 1
                    at += 1
            left = right
        width *= 2


@kernel
def _insert(
    buf: Any, starts: Any, sizes: Any, two_part: int, order: Any, begin: int, end: int
) -> None:
    """Sort a short run by whole keys, stable."""
    for at in range(begin + 1, end):
        row = order[at]
        to = at
        while to > begin:
            other = order[to - 1]
            way = compare_keys(
                buf, starts[other], sizes[other], buf, starts[row], sizes[row], two_part
            )
            if way <= 0:
                break
            order[to] = other
            to -= 1
        order[to] = row


@kernel
def _mark_runs(
    words: Any, begin: int, end: int, known: int, two_part: int, in_data: int, runs: Any
) -> None:
    """Say where keys of equal words, of which there is more, stand; see `_sort_runs`."""
    while begin < end:
        behind = begin + 1
        while behind < end and words[behind] == words[begin]:
            behind += 1
        is_whole = words[begin] & 255 <= _WORD
        if behind - begin > 1 and not is_whole:
            runs[begin] = behind
            runs[begin + 1] = (known + _WORD) * 2 + in_data
        elif behind - begin > 1 and two_part != 0 and in_data == 0:
            runs[begin] = behind
            runs[begin + 1] = 1
        begin = behind


@kernel
def _sort_runs(
    buf: Any,
    starts: Any,
    sizes: Any,
    two_part: int,
    n: int,
    order: Any,
    runs: Any,
    words: Any,
    spare: Any,
    spare_words: Any,
) -> None:
    """Sort runs of keys of equal words by what follows, and so on.

    A run from `at` on, which is two keys at least, has its end in runs[at], and in runs[at + 1]
    how many bytes its keys share, times two, plus one where that is of the data; 0 is no run.
    """
    at = 0
    while at < n:
        end = runs[at]
        if end == 0:
            at += 1
            continue
        known = runs[at + 1] >> 1
        in_data = runs[at + 1] & 1
        runs[at] = 0
        runs[at + 1] = 0
        if end - at <= _SHORT_RUN:
            _insert(buf, starts, sizes, two_part, order, at, end)
            at = end
            continue
        known = _common_size(buf, starts, sizes, two_part, in_data, known, order, at, end)
        _load_words(buf, starts, sizes, two_part, in_data, known, order, at, end, words)
        _sort_words(words, order, at, end, spare, spare_words)
        _mark_runs(words, at, end, known, two_part, in_data, runs)


@kernel
def _find_new(buf: Any, n: int, starts: Any, sizes: Any, order: Any, is_new: Any) -> None:
    """Mark the keys, in an order, whose bytes differ from the one before, but for known ones."""
    for row in range(1, n):
        if not is_new[row]:
            i = order[row - 1]
            j = order[row]
            is_new[row] = _compare_bytes(buf, starts[i], sizes[i], buf, starts[j], sizes[j]) != 0


def group_keys(keys: Spans, *, two_part: bool, fast: bool) -> tuple[Ints, Mask]:
    """The ascending order of keys, and where in it another key begins: int64 (n,) and bool (n,).

    Equal ones stay in their order. Takes 41 bytes a key, and time by their number and by the
    bytes that tell them apart, however many begin alike.

    Args:
        keys: none of them null.
        two_part: keys of a database with duplicates.
        fast: use compiled kernels.
    """
    n = len(keys)
    order: Ints = np.arange(n)
    is_new = np.zeros(n, np.bool_)
    is_new[:1] = True
    if not fast:
        order = _order_plainly(keys, two_part)
        _find_new(as_plain(keys.data), n, keys.starts, keys.sizes, order, is_new)
    if not fast or n < 2:
        return order, is_new
    args = keys.data, keys.starts, keys.sizes, int(two_part)
    known = compiled(_common_size)(*args, 0, 0, order, 0, n)
    words = np.empty(n, np.int64)
    compiled(_load_words)(*args, 0, known, order, 0, n, words)
    # numpy sorts numbers twice as fast as a merge does.
    order = np.argsort(words, kind="stable")
    words = words[order]
    np.not_equal(words[1:], words[:-1], out=is_new[1:])
    runs = np.zeros(n, np.int64)
    compiled(_mark_runs)(words, 0, n, known, int(two_part), 0, runs)
    if runs.any():
        spare = np.empty(n, np.int64), np.empty(n, np.int64)
        compiled(_sort_runs)(*args, n, order, runs, words, *spare)
    compiled(_find_new)(keys.data, n, keys.starts, keys.sizes, order, is_new)
    return order, is_new


def order_keys(keys: Spans, *, two_part: bool, fast: bool) -> Ints:
    """The ascending order of keys; see `group_keys`."""
    return group_keys(keys, two_part=two_part, fast=fast)[0]


def _order_plainly(keys: Spans, two_part: bool) -> Ints:
    data = as_plain(keys.data)
    places = list(zip(keys.starts.tolist(), keys.sizes.tolist(), strict=True))
    wholes: list[Any] = [bytes(data[start : start + size]) for start, size in places]
    if two_part:
        for row, whole in enumerate(wholes):
            key, rest = split_parts(whole, 0, len(whole))
            wholes[row] = whole[:key], rest >= 0, whole[key : key + max(rest, 0)]
    return np.array(sorted(range(len(wholes)), key=wholes.__getitem__), np.int64)


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
