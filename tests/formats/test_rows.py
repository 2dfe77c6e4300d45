"""Rows of text, compared with rows that Python formats."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from je_tools.formats import rows as r
from je_tools.formats.rows import (
    Buffer,
    Cell,
    CellTable,
    Form,
    ListItems,
    RowChoice,
    lines_of,
    row_texts,
)
from je_tools.formats.spans import Spans, TooLongError
from tests.builders.records import spans_of

INTS = st.integers(-(1 << 63), (1 << 63) - 1)
EDGES = [0, 1, -1, 9, 10, -9, -10, 99, 100, 10**18, -(10**18), 2**63 - 1, -(2**63)]
BYTES = st.none() | st.binary(max_size=40)


def _ints(numbers: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


def _texts(*cells: Cell, rows: int) -> list[str]:
    ends, text = row_texts(CellTable(rows, cells))
    whole = text.tobytes().decode("latin-1")
    return [whole[a:b] for a, b in pairwise(ends.tolist())]


def _lsn(lsn: int) -> str:
    return f"0x{lsn >> 32 & 0xFFFFFFFF:x}/0x{lsn & 0xFFFFFFFF:x}"


def _printed(value: bytes) -> str:
    others = {ord("\\"): r"\\"}
    return "".join(others.get(b) or (chr(b) if 32 < b < 127 else f"\\{b:02x}") for b in value)


@pytest.mark.parametrize("number", EDGES)
def test_numbers_at_their_edges(number: int) -> None:
    assert _texts(Cell(Form.DECIMAL, _ints([number]), b"<", b">"), rows=1) == [f"<{number}>"]


@given(st.lists(st.tuples(BYTES, BYTES, INTS, st.booleans())))
def test_every_form(given_: list[tuple[bytes | None, bytes | None, int, bool]]) -> None:
    first, second = (spans_of([row[i] for row in given_]) for i in (0, 1))
    numbers = _ints([row[2] for row in given_])
    valid = np.array([row[3] for row in given_], np.bool_)
    cells = [
        Cell(Form.HEX, first, b"h", b",", b"none"),
        Cell(Form.PRINT, second, b"", b";"),
        Cell(Form.TEXT, first, b"(", b")"),
        Cell(Form.DECIMAL, numbers, b"a label that is longer than most=", b"!", b"no", valid),
        Cell(Form.LSN, numbers, present=numbers, bit=3),
        Cell(Form.NOTHING, before=b"\n"),
    ]
    told = []
    for one, other, number, known in given_:
        line = "none" if one is None else f"h{one.hex()},"
        line += "" if other is None else _printed(other) + ";"
        line += "" if one is None else f"({one.decode('latin-1')})"
        line += f"a label that is longer than most={number}!" if known else "no"
        line += _lsn(number) if number >> 3 & 1 else ""
        told.append(line + "\n")
    assert _texts(*cells, rows=len(given_)) == told
    assert bytes(lines_of(cells)).decode("latin-1") == "".join(told)


def test_the_comma_of_whatever_is_first_is_left_out() -> None:
    bits = _ints(list(range(16)))
    fields = [Cell(Form.DECIMAL, bits, f',"{i}":'.encode(), present=bits, bit=i) for i in range(4)]
    begin, end = Cell(Form.NOTHING, before=b"{", opens=True), Cell(Form.NOTHING, before=b"}")
    for number, text in enumerate(_texts(begin, *fields, end, rows=16)):
        assert json.loads(text) == {str(i): number for i in range(4) if number >> i & 1}
    null = Cell(Form.HEX, Spans.of([None, b"a"]), b',"a":"', b'"', b',"a":null')
    assert _texts(begin, null, end, rows=2) == ['{"a":null}', '{"a":"61"}']


def test_tables_inside_of_rows() -> None:
    numbers = CellTable(3, [Cell(Form.DECIMAL, _ints([7, 8, 9]), b"(", b")")])
    words = CellTable(2, [Cell(Form.TEXT, Spans.of([b"one", b"two"]))])
    cells = [
        Cell(Form.LIST, ListItems(_ints([0, 2, 2, 3]), numbers), b"[", b"]"),
        Cell(Form.CHOICE, RowChoice(_ints([1, -1, 0]), _ints([1, 5, 2]), [numbers, words]), b" "),
    ]
    assert _texts(*cells, rows=3) == ["[(7),(8)] two", "[]", "[(9)] (9)"]


@given(st.lists(st.lists(st.binary(max_size=300), max_size=9), min_size=1, max_size=9))
def test_a_room_is_used_again(batches: list[list[bytes]]) -> None:
    buffer = Buffer()
    size = 0
    for values in batches:
        lines = lines_of([Cell(Form.HEX, spans_of(list(values)), b" ", b"\n")], buffer)
        assert bytes(lines) == b"".join(b" %s\n" % value.hex().encode() for value in values)
        assert buffer.size >= max(size, len(lines))
        assert not len(lines) or np.shares_memory(lines, buffer.of(buffer.size))
        size = buffer.size


def test_no_rows() -> None:
    assert bytes(lines_of([Cell(Form.HEX, spans_of([]), b"x")])) == b""
    assert _texts(rows=0) == []


@pytest.mark.parametrize("form", [Form.HEX, Form.TEXT])
def test_too_long(form: Form) -> None:
    """A value that is too long is not read, and no memory is allocated for it."""
    values = Spans(np.zeros(1, np.uint8), _ints([0]), _ints([2**31]))
    with pytest.raises(TooLongError):
        row_texts(CellTable(1, [Cell(form, values, b"x")]))


def test_what_does_not_belong_together_is_refused() -> None:
    numbers = CellTable(1, [Cell(Form.DECIMAL, _ints([7]))])
    for cell in (
        Cell(Form.DECIMAL, _ints([1, 2])),
        Cell(Form.TEXT, Spans(np.zeros(1, np.uint8), _ints([0]), _ints([2]))),
        Cell(Form.NOTHING, valid=np.ones(2, np.bool_)),
        Cell(Form.NOTHING, present=_ints([0]), bit=64),
        Cell(Form.LIST, ListItems(_ints([0]), numbers)),
        Cell(Form.LIST, ListItems(_ints([0, 2]), numbers)),
        Cell(Form.CHOICE, RowChoice(_ints([1]), _ints([0]), [numbers])),
        Cell(Form.CHOICE, RowChoice(_ints([0]), _ints([-1]), [numbers])),
    ):
        with pytest.raises(ValueError, match="outside of"):
            row_texts(CellTable(1, [cell]))
    wrong = Cell(Form.DECIMAL, Spans.of([b""]))
    with pytest.raises((TypeError, ValueError)):
        row_texts(CellTable(1, [wrong]))


def test_rows_that_are_chosen_twice_have_no_room() -> None:
    words = CellTable(1, [Cell(Form.TEXT, Spans.of([b"x" * 100]))])
    choice = RowChoice(_ints([0] * 9), _ints([0] * 9), [words])
    with pytest.raises(ValueError, match="do not fit"):
        r.write_rows(CellTable(9, [Cell(Form.CHOICE, choice)]))
