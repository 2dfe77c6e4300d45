"""Keys sorted, compared and searched, checked against Python's order of them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from je_tools.formats.je.btree.keys import NotTwoPartError, join_two_part, split_two_part
from je_tools.formats.je.btree.keysort import (
    equal_keys,
    group_keys,
    order_keys,
    search_sorted,
)
from je_tools.formats.spans import Spans

ALIKE = st.lists(st.sampled_from([b"a", b"\0", b"\xff", b"a" * 7, b"\0" * 8]), max_size=8)
KEYS = st.binary(max_size=12) | ALIKE.map(b"".join)
TWO_PART = st.builds(join_two_part, KEYS, st.none() | KEYS) | KEYS | st.binary(max_size=2)


def spans_of(keys: Sequence[bytes]) -> Spans:
    """Return keys one after the other, with a byte before them so that no position is 0."""
    data = np.frombuffer(b"!" + b"".join(keys), np.uint8)
    sizes = np.array([len(key) for key in keys], np.int64)
    return Spans(data, 1 + np.cumsum(sizes) - sizes, sizes)


def in_order(key: bytes, two_part: bool) -> tuple[bytes, bool, bytes]:
    """Return the value by which Python sorts a key."""
    if not two_part:
        return key, False, b""
    try:
        main, data = split_two_part(key)
    except NotTwoPartError:
        return key, False, b""
    return main, data is not None, data or b""


def sorted_rows(keys: Sequence[bytes], two_part: bool) -> list[int]:
    return sorted(range(len(keys)), key=lambda row: in_order(keys[row], two_part))


@given(keys=st.lists(KEYS, max_size=60))
def test_order(keys: list[bytes]) -> None:
    order = order_keys(spans_of(keys), two_part=False)
    assert order.tolist() == sorted_rows(keys, False)


@given(keys=st.lists(TWO_PART, max_size=60))
def test_order_of_keys_with_data(keys: list[bytes]) -> None:
    order = order_keys(spans_of(keys), two_part=True)
    assert order.tolist() == sorted_rows(keys, True)


@pytest.mark.parametrize("two_part", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_order_of_many_that_are_alike(seed: int, two_part: bool) -> None:
    """Hot keys, keys that are prefixes of others, and long shared stretches."""
    rng = random.Random(seed)
    stems = [b"tenant%d/" % (i % 3) * rng.randrange(1, 6) for i in range(9)] + [b""]
    parts = [stem + bytes(rng.choices(range(3), k=rng.randrange(20))) for stem in stems * 20]
    keys = rng.choices(parts, k=5_000)
    if two_part:
        keys = [join_two_part(key, rng.choice([None, b"", *parts[:40]])) for key in keys]
    order = order_keys(spans_of(keys), two_part=two_part)
    assert order.tolist() == sorted_rows(keys, two_part)


@given(keys=st.lists(TWO_PART, max_size=40), two_part=st.booleans())
def test_groups(keys: list[bytes], two_part: bool) -> None:
    """A group is a run of keys with the same bytes, in the order that `order_keys` gives."""
    order, is_new = group_keys(spans_of(keys * 2), two_part=two_part)
    ordered = [(keys * 2)[row] for row in order.tolist()]
    assert order.tolist() == sorted_rows(keys * 2, two_part)
    assert is_new.tolist() == [
        row == 0 or key != ordered[row - 1] for row, key in enumerate(ordered)
    ]


@given(
    keys=st.lists(KEYS, max_size=20), needles=st.lists(KEYS, max_size=20), two_part=st.booleans()
)
def test_search(keys: list[bytes], needles: list[bytes], two_part: bool) -> None:
    keys = [keys[row] for row in sorted_rows(keys, two_part)]
    found = search_sorted(spans_of(keys), spans_of(needles), two_part=two_part)
    ranks = [in_order(key, two_part) for key in keys]
    expected = [sum(rank < in_order(needle, two_part) for rank in ranks) for needle in needles]
    assert found.tolist() == expected


@given(keys=st.lists(st.sampled_from([b"", b"a", b"ab", b"b"]), max_size=12))
def test_equal(keys: list[bytes]) -> None:
    spans = spans_of(keys)
    backwards = spans.select(np.arange(len(keys))[::-1])
    same = equal_keys(spans, backwards)
    assert same.tolist() == [a == b for a, b in zip(keys, keys[::-1], strict=True)]
