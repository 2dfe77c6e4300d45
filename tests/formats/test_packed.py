"""Packed numbers: round trips, the format page's examples, and any bytes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from je_tools.formats.packed import encode_packed, load_i32, load_i64, load_u32, read_packed

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
EDGES = [
    sign * (119 + (1 << 8 * n) + step) for n in range(8) for step in (-1, 0, 1) for sign in (1, -1)
]


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (0, "00"),
        (-1, "ff"),
        (119, "77"),
        (120, "7801"),
        (-120, "8801"),
        (0x2196, "791f21"),
        (498687 * -1, "86889b07"),
    ],
)
def test_examples_of_the_format_page(value: int, spelled: str) -> None:
    assert encode_packed(value).hex() == spelled
    assert read_packed(bytes.fromhex(spelled), 0, len(spelled) // 2)[0] == value


@given(INT64, st.binary(max_size=3), st.binary(max_size=3))
@example((1 << 63) - 1, b"", b"")
@example(-(1 << 63), b"", b"")
def test_round_trip_anywhere(value: int, before: bytes, behind: bytes) -> None:
    packed = encode_packed(value)
    data = before + packed + behind
    stop = len(before) + len(packed)
    assert read_packed(data, len(before), len(data)) == (value, stop)
    assert read_packed(data, len(before), stop) == (value, stop)


@pytest.mark.parametrize("value", EDGES)
def test_the_shortest_form_is_written(value: int) -> None:
    packed = encode_packed(value)
    assert read_packed(packed, 0, len(packed)) == (value, len(packed))
    if len(packed) > 2:
        magnitude = int.from_bytes(packed[1:], "little")
        assert magnitude >= 1 << 8 * (len(packed) - 2)


@given(INT64)
def test_cut_short_is_not_a_number(value: int) -> None:
    packed = encode_packed(value)
    for end in range(len(packed)):
        assert read_packed(packed, 0, end) == (0, -1)


@given(st.binary(max_size=12), st.integers(0, 12))
@example(b"\x7f" + b"\xff" * 8, 0)
@example(b"\x81" + b"\xff" * 8, 0)
@example(b"\x7f\x88" + b"\xff" * 6 + b"\x7f", 0)
@example(b"\x7f\x89" + b"\xff" * 6 + b"\x7f", 0)
@example(b"\x81\x89" + b"\xff" * 6 + b"\x7f", 0)
@example(b"\x81\x8a" + b"\xff" * 6 + b"\x7f", 0)
@example(b"\x80" + b"\xff" * 11, 0)
def test_any_bytes(data: bytes, at: int) -> None:
    value, behind = read_packed(memoryview(data), at, len(data))
    assert behind == -1 or at < behind <= len(data)
    assert -(1 << 63) <= value < 1 << 63


@given(st.binary(min_size=8, max_size=16), st.integers(0, 8))
def test_fixed_numbers(data: bytes, at: int) -> None:
    at = min(at, len(data) - 8)
    four, eight = data[at : at + 4], data[at : at + 8]
    for load, told in (
        (load_u32, int.from_bytes(four, "little")),
        (load_i32, int.from_bytes(four, "little", signed=True)),
        (load_i64, int.from_bytes(eight, "little", signed=True)),
    ):
        assert load(memoryview(data), at) == told
