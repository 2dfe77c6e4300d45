"""Two-part keys: the format page's example, round trips, order, and single slots and columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from je_tools.formats import _native
from je_tools.formats.je.btree.keys import (
    NotTwoPartError,
    join_two_part,
    slot_parts,
    split_two_part,
)
from je_tools.formats.spans import Spans
from tests.truth.key_order import order_of

EMBEDDED, NO_DATA = 0x10, 0x20
LONG_KEYS = st.integers(0, 70000).map(lambda size: b"k" * size)


def test_the_example_of_the_format_page() -> None:
    assert join_two_part(b"d", b"v0").hex() == "64763001"
    assert split_two_part(bytes.fromhex("64763001")) == (b"d", b"v0")


def test_a_key_to_search_by_has_no_data() -> None:
    assert join_two_part(b"d", None) == b"d\xff"
    assert split_two_part(b"d\xff") == (b"d", None)


@given(st.binary() | LONG_KEYS, st.binary())
@example(b"k" * 119, b"")
@example(b"k" * 120, b"")
@example(b"k" * (119 + 256), b"x")
def test_round_trip(key: bytes, data: bytes) -> None:
    assert split_two_part(join_two_part(key, data)) == (key, data)
    assert split_two_part(join_two_part(key, None)) == (key, None)


@given(st.binary(max_size=30))
def test_any_bytes_split_or_are_refused(data: bytes) -> None:
    try:
        key, rest = split_two_part(data)
    except NotTwoPartError:
        return
    assert data.startswith(key + (rest or b""))


@pytest.mark.parametrize("data", [b"", b"\x88", b"ab\x03", b"\x01\x78", b"a\xfe"])
def test_not_two_part(data: bytes) -> None:
    with pytest.raises(NotTwoPartError):
        split_two_part(data)


@given(st.tuples(st.binary(), st.binary()), st.tuples(st.binary(), st.binary()))
def test_order_is_by_key_and_then_by_data(
    one: tuple[bytes, bytes], other: tuple[bytes, bytes]
) -> None:
    orders = [order_of(join_two_part(*pair), two_part=True) for pair in (one, other)]
    assert (orders[0] < orders[1]) == (one < other)
    for key, data in (one, other):
        search = order_of(join_two_part(key, None), two_part=True)
        assert search < order_of(join_two_part(key, data), two_part=True)


def test_plain_order_is_unsigned_bytes_then_length() -> None:
    keys = [b"", b"-257", b"0", b"10", b"2", b"\x7f", b"\x80", b"\xff", b"\xff\0"]
    assert sorted(set(keys), key=order_of) == keys


@given(st.binary(), st.binary())
def test_parts_of_a_slot(key: bytes, data: bytes) -> None:
    both = join_two_part(key, data)
    assert slot_parts({"key": both, "state": EMBEDDED}) == (key, data)
    assert slot_parts({"key": both, "state": 0}) == (both, None)
    assert slot_parts({"key": both, "state": EMBEDDED | NO_DATA}) == (both, b"")


def test_a_damaged_slot_keeps_its_bytes_as_the_key() -> None:
    for key in (None, b"", b"ab\x09", b"k\xff", b"\x80"):
        assert slot_parts({"key": key, "state": EMBEDDED}) == (key or b"", None)


@given(st.lists(st.tuples(st.binary(max_size=300) | LONG_KEYS, st.integers(0, 255)), max_size=6))
@example([(join_two_part(b"k" * 400, b"v"), EMBEDDED)])
def test_slots_in_columns_are_split_like_single_ones(slots: list[tuple[bytes, int]]) -> None:
    """On any bytes, `split_keys` gives what `slot_parts` gives for each slot."""
    keys = Spans.of([key for key, _ in slots])
    states = np.array([state for _, state in slots], np.int64)
    expected = [slot_parts({"key": key, "state": state}) for key, state in slots]
    sizes, values = _native.split_keys(keys, states)
    assert sizes.tolist() == [len(key) for key, _ in expected]
    assert values.tolist() == [-1 if value is None else len(value) for _, value in expected]
