"""Tuples and keys of the bind API: the format page's examples, round trips, and order."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from je_tools.formats.je.tuples import (
    TupleError,
    TupleReader,
    TupleWriter,
    int_key,
    long_key,
    sorted_packed_key,
    string_key,
)

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("key", "spelled"),
    [
        (long_key(1), "8000000000000001"),
        (long_key(-1), "7fffffffffffffff"),
        (long_key(5485), "800000000000156d"),
        (int_key(4), "80000004"),
        (sorted_packed_key(0), "7f"),
        (sorted_packed_key(1), "80"),
        (sorted_packed_key(2), "81"),
        (sorted_packed_key(-119), "08"),
        (sorted_packed_key(120), "f7"),
        (sorted_packed_key(121), "f800"),
        (sorted_packed_key(-120), "07ff"),
        (sorted_packed_key(-120 - 256), "06feff"),
        (string_key(None), "ff00"),
        (string_key(""), "00"),
        (string_key("node1"), "6e6f64653100"),
        (string_key("\0"), "c08000"),
        (string_key("\U0001f600"), "eda0bdedb88000"),
    ],
)
def test_examples(key: bytes, spelled: str) -> None:
    assert key.hex() == spelled


@given(INT64)
@example((1 << 63) - 1)
@example(-(1 << 63))
def test_sorted_packed_round_trip(value: int) -> None:
    reader = TupleReader(sorted_packed_key(value) + b"x")
    assert reader.sorted_packed() == value
    assert reader.left == 1


@given(INT64, INT64)
def test_the_order_of_keys_is_the_order_of_numbers(one: int, other: int) -> None:
    for key in (long_key, sorted_packed_key):
        assert (key(one) < key(other)) == (one < other)


@given(INT32, INT32)
def test_the_order_of_int_keys(one: int, other: int) -> None:
    assert (int_key(one) < int_key(other)) == (one < other)


def test_sorted_packed_at_every_length() -> None:
    edges = [0, -119, -120, 120, 121]
    edges += [sign * (120 + (1 << 8 * n) + d) for n in range(8) for d in (-2, -1, 0, 1, 2)
              for sign in (1, -1)]  # fmt: skip
    keys = [(value, sorted_packed_key(value)) for value in sorted(edges)]
    assert [value for value, _ in sorted(keys, key=lambda pair: pair[1])] == sorted(edges)
    for value, key in keys:
        assert TupleReader(key).sorted_packed() == value


@given(
    st.integers(-128, 127), st.booleans(), INT32, INT64, st.integers(0, (1 << 32) - 1), INT64,
    INT64, st.none() | TEXT, st.binary(max_size=5),
)  # fmt: skip
def test_a_whole_tuple_round_trip(
    byte: int, flag: bool, i32: int, i64: int, u32: int, packed: int, in_order: int,
    text: str | None, raw: bytes,
) -> None:  # fmt: skip
    writer = TupleWriter().byte(byte).boolean(flag).i32(i32).i64(i64).u32(u32).packed(packed)
    data = bytes(writer.sorted_packed(in_order).string(text).raw(raw).data)
    reader = TupleReader(data)
    assert reader.byte() == byte
    assert reader.boolean() == flag
    assert reader.i32() == i32
    assert reader.i64() == i64
    assert reader.u32() == u32
    assert reader.packed() == packed
    assert reader.sorted_packed() == in_order
    assert reader.string() == text or _joined(text)
    assert reader.take(len(raw)) == raw
    assert reader.left == 0


def _joined(text: str | None) -> bool:
    """Return True if text has surrogates: two adjacent halves are one character, as in Java."""
    return text is not None and any("\ud800" <= char <= "\udfff" for char in text)


@given(st.binary(max_size=20))
def test_any_bytes_decode_or_are_a_tuple_error(data: bytes) -> None:
    for method in ("byte", "boolean", "i32", "i64", "u32", "packed", "sorted_packed", "string"):
        reader = TupleReader(data)
        try:
            getattr(reader, method)()
        except TupleError:
            continue
        assert 0 < reader.at <= len(data)


def test_numbers_beyond_64_bits() -> None:
    for first in (0x00, 0xFF):
        with pytest.raises(TupleError, match="beyond 64 bits"):
            TupleReader(bytes([first] * 9)).sorted_packed()


def test_a_reserved_file_record_of_the_engine() -> None:
    """VLSNs 1 to 3991 and six databases, as ReservedFileInfo writes them."""
    reader = TupleReader(bytes.fromhex("800179200f0600888a01888b0205"))
    assert (reader.byte(), reader.packed(), reader.packed()) == (0, 1, 3991)
    ids = [reader.packed() for _ in range(reader.packed())]
    assert ids == [0, -257, 1, -258, 2, 5]
    assert reader.left == 0


def test_text_in_utf8_proper_is_refused_beyond_the_bmp() -> None:
    with pytest.raises(TupleError):
        TupleReader("\U0001f600".encode() + b"\0").string()
    with pytest.raises(TupleError, match="closing zero"):
        TupleReader(b"abc").string()
