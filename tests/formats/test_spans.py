"""Spans as columns: a value that is too long is an error, and never a wrapped offset."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from je_tools.formats import spans
from je_tools.formats.arrays import Ints
from je_tools.formats.spans import Spans

DATA = np.frombuffer(bytes(range(256)), np.uint8)
SPANS = st.lists(st.tuples(st.integers(0, 200), st.integers(-1, 56)), max_size=9)


def _columns(pairs: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    starts, sizes = np.array(pairs, np.int64).reshape(-1, 2).T
    return starts, sizes


def _values(pairs: list[tuple[int, int]]) -> list[bytes | None]:
    whole = DATA.tobytes()
    return [None if size < 0 else whole[start : start + size] for start, size in pairs]


@pytest.mark.parametrize("form", [spans.gather, spans.gather_hex])
@pytest.mark.parametrize("sizes", [[2**31 - 1], [2**30, -1, 2**30], [2**31 - 1] * 3])
def test_too_long_to_be_counted_in_32_bits(form: object, sizes: list[int]) -> None:
    assert callable(form)
    with pytest.raises(spans.TooLongError):
        form(DATA, np.zeros(len(sizes), np.int64), np.array(sizes, np.int64))


@given(SPANS)
def test_strings_one_after_the_other(pairs: list[tuple[int, int]]) -> None:
    values = _values(pairs)
    columns = _columns(pairs)
    for made, told in (
        (spans.gather(DATA, *columns), values),
        (spans.gather_hex(DATA, *columns), [v and v.hex().encode() for v in values]),
        (spans.gather_printable(DATA, *columns, 5), [_printable(v) for v in values]),
    ):
        offsets, texts = made
        assert texts.tobytes() == b"".join(v or b"" for v in told)
        assert np.diff(offsets).tolist() == [len(v or b"") for v in told]


def _printable(value: bytes | None) -> bytes:
    shown = bytes(b if 32 <= b < 127 else ord(".") for b in value or b"")
    return shown[:4] + b"~" if len(shown) > 5 else shown


@given(SPANS, st.binary(max_size=3) | st.sampled_from([b"\x20\x21", b"\x05"]))
def test_needles(pairs: list[tuple[int, int]], needle: bytes) -> None:
    columns, values = _columns(pairs), _values(pairs)
    found = spans.contains(DATA, *columns, needle)
    assert found.tolist() == [v is not None and needle in v for v in values]
    begins = spans.starts_with(DATA, *columns, needle, whole=False)
    assert begins.tolist() == [v is not None and v.startswith(needle) for v in values]
    whole = spans.starts_with(DATA, *columns, needle, whole=True)
    assert whole.tolist() == [v == needle for v in values]


def test_lsns() -> None:
    offsets, texts = spans.format_lsns(np.array([-1, 3 << 32 | 0x1A2F], np.int64))
    assert texts.tobytes() == b"0xffffffff/0xffffffff0x3/0x1a2f"
    assert offsets.tolist() == [0, 21, 31]


def test_a_span_outside_of_its_buffer_is_refused() -> None:
    with pytest.raises(ValueError, match="outside of its buffer"):
        spans.gather(DATA, *_columns([(255, 2)]))
    with pytest.raises(ValueError, match="outside of its buffer"):
        spans.contains(DATA, np.zeros(2, np.int64), np.zeros(1, np.int64), b"")


def test_columns_of_every_second_element() -> None:
    starts, sizes = _columns([(1, 2), (9, 9), (3, 1), (9, 9)])
    some = Spans(DATA, starts[::2], sizes[::2])
    assert some.packed().data.tobytes() == b"\1\2\3"
