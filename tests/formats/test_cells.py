"""Lines from cells: the kernel and its plain twin write the same bytes, and the right ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from je_tools.formats.cells import Cell, Room, Spelling, lines_of
from tests.builders.records import spans_of

NUMBERS = [0, 9, 10, -1, -9, -10, 99, 100, -100, 1 << 62, (1 << 63) - 1, -(1 << 63), -(1 << 62)]


@pytest.mark.parametrize("fast", [False, True])
def test_numbers(fast: bool) -> None:
    values = np.array(NUMBERS, np.int64)
    lines = bytes(lines_of([Cell(values, Spelling.DECIMAL, b"<", b">\n")], fast=fast))
    assert lines.decode().split() == [f"<{number}>" for number in NUMBERS]
    lines = bytes(lines_of([Cell(values, Spelling.LSN, b"", b"\n")], fast=fast))
    mask = 0xFFFFFFFF
    assert lines.decode().split() == [f"0x{n >> 32 & mask:x}/0x{n & mask:x}" for n in NUMBERS]


@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=40),
            st.none() | st.binary(max_size=40),
            st.integers(-(1 << 63), (1 << 63) - 1),
            st.booleans(),
        ),
        min_size=1,
    )
)
def test_twins_agree(rows: list[tuple[bytes | None, bytes | None, int, bool]]) -> None:
    first, second = spans_of([row[0] for row in rows]), spans_of([row[1] for row in rows])
    numbers = np.array([row[2] for row in rows], np.int64)
    valid = np.array([row[3] for row in rows], np.bool_)
    cells = [
        Cell(first, Spelling.HEX, b"h", b",", b"none"),
        Cell(second, Spelling.PRINT, b"", b"", b""),
        Cell(first, Spelling.TEXT, b"(", b")"),
        Cell(numbers, Spelling.DECIMAL, b"=", b"!", b"nothing", valid),
        Cell(numbers, Spelling.LSN),
    ]
    assert bytes(lines_of(cells, fast=True)) == bytes(lines_of(cells, fast=False))


@given(st.lists(st.lists(st.binary(max_size=300), max_size=9), min_size=1, max_size=9))
def test_a_room_is_used_again(batches: list[list[bytes]]) -> None:
    room = Room()
    size = 0
    for values in batches:
        cells = [Cell(spans_of(list(values)), Spelling.HEX, b" ", b"\n")]
        lines = lines_of(cells, room, fast=True)
        assert bytes(lines) == b"".join(b" %s\n" % value.hex().encode() for value in values)
        assert room.size >= max(size, len(lines))
        assert not len(lines) or np.shares_memory(lines, room.of(1))
        size = room.size


@pytest.mark.parametrize("fast", [False, True])
def test_no_rows(fast: bool) -> None:
    assert bytes(lines_of([Cell(spans_of([]), Spelling.HEX, b"x")], fast=fast)) == b""
