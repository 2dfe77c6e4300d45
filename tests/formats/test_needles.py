"""Needles are found wherever they are, also where two ranges or two parts of a key meet."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

from je_tools.formats import _native
from je_tools.formats.needles import HashedColumns, Hits, hash_needles
from je_tools.formats.spans import Spans

NONE = np.empty(0, np.int64)


def bytes_of(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(data, np.uint8)


def hashed(values: list[bytes], seed: int = 0x9E3779B97F4A7C15, width: int = 2) -> HashedColumns:
    sizes = np.array([len(value) for value in values], np.int64)
    return HashedColumns(seed, width, sizes, *hash_needles(values, seed, width))


def places(needles: _native.Needles, data: bytes, first: int, stop: int) -> list[tuple[int, int]]:
    hits = Hits(*needles.search(bytes_of(data), first, stop, 1_000))
    return sorted(zip(hits.start.tolist(), hits.needle.tolist(), strict=True))


def test_kinds_of_needles_are_numbered_one_after_the_other() -> None:
    needles = _native.Needles([b"ab", b"abc"], ["b.d"], hashed([b"cd", b"zz"]))
    assert places(needles, b"abcd abc", 0, 8) == [(0, 0), (0, 1), (1, 2), (2, 3), (5, 0), (5, 1)]
    assert needles.reach == 6, "a dot may be four bytes of UTF-8"


def test_each_range_has_the_hits_that_begin_in_it() -> None:
    values = [bytes([i, i + 1, i + 2]) for i in range(40)]
    data = bytes(range(43)) * 3
    for needles in (
        _native.Needles(values, [], None),
        _native.Needles(values[:2], [], None),
        _native.Needles([], [], hashed(values)),
    ):
        whole = places(needles, data, 0, len(data))
        parts = [places(needles, data, at, at + 10) for at in range(0, len(data), 10)]
        assert whole
        assert list(chain.from_iterable(parts)) == whole


def test_hits_that_are_not_kept_are_counted() -> None:
    hits = Hits(*_native.Needles([b"a"], [], None).search(bytes_of(b"aaaa"), 0, 4, 1))
    assert (hits.start.tolist(), hits.counts.tolist(), hits.not_kept) == ([0], [4], 3)
    assert hits.select(np.zeros(1, np.bool_)).counts.tolist() == [3]


def test_a_key_is_searched_across_the_end_of_its_prefix() -> None:
    prefixes = Spans.of([b"user:", b"", None])
    rests = Spans.of([b"carol", b"dan", b"r:ca", None])
    first = np.array([0, 2, 3, 4])
    needles = _native.Needles([b"r:ca", b"user", b"carol"], [], None)
    rows, columns = needles.search_joined(first, prefixes, rests, 10)
    hits = Hits(*columns)
    assert (rows.tolist(), hits.start.tolist(), hits.needle.tolist()) == ([0], [3], [0])


@pytest.mark.parametrize(
    ("literals", "patterns", "reason"),
    [
        ([b""], [], "an empty or equal literal"),
        ([b"a", b"a"], [], "an empty or equal literal"),
        ([], ["secret)"], "unopened group"),
        ([], ["secret*|x?"], "matches no bytes"),
        ([], ["secret.*"], "longer than 65536 bytes"),
        ([], ["secret$"], "begin or end"),
        ([], [r"(?:\w{300}){100}"], "8 MiB|longer"),
    ],
)
def test_needles_are_refused_without_a_quotation(
    literals: list[bytes], patterns: list[str], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        _native.Needles(literals, patterns, None)
    assert "secret" not in str(caught.value)


def test_columns_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="columns"):
        _native.Needles([], [], hashed([b"abc"], width=0))
    needles = _native.Needles([b"a"], [], None)
    with pytest.raises(ValueError, match="span outside"):
        needles.search_joined(np.array([0, 5]), Spans.of([b"p"]), Spans.of([b"r"]), 1)
