"""Rows spelled by the kernel, held against a row put together by hand, in both forms."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from je_tools.formats import spelling
from je_tools.formats.arrays import Ints
from je_tools.formats.spans import TooLongError
from je_tools.formats.spelling import NOT_NULL, Cells, Kind, Op, spell

FORMS = pytest.mark.parametrize("fast", [False, True], ids=["plain", "compiled"])
EDGES = [0, 1, -1, 9, 10, -9, -10, 99, 100, 10**18 - 1, 10**18, 2**63 - 1, -(2**63), -(10**18)]
DATA = bytes(range(256))


def cells(numbers: list[list[int]], sizes: list[list[int]], present: list[int]) -> Cells:
    n = len(present)
    data, texts = np.frombuffer(DATA, np.uint8), np.frombuffer(b"abcdef", np.uint8)

    def table(columns: list[list[int]]) -> Ints:
        return np.array(columns, np.int64).reshape(len(columns), n)

    return Cells(data, texts, table(numbers), table(sizes), np.array(present, np.int64))


def rows(ops: list[Op], of: Cells, fast: bool) -> list[str]:
    ends, spelled = spell(tuple(ops), of, fast=fast)
    text = spelled.tobytes().decode("ascii")
    return [text[a:b] for a, b in pairwise(ends.tolist())]


@FORMS
@given(numbers=st.lists(st.integers(-(2**63), 2**63 - 1) | st.sampled_from(EDGES), max_size=30))
def test_numbers_and_lsns(fast: bool, numbers: list[int]) -> None:
    given_ = cells([numbers], [], [0] * len(numbers))
    halves = [(n >> 32 & 0xFFFFFFFF, n & 0xFFFFFFFF) for n in numbers]
    assert rows([Op("n=", Kind.NUMBER)], given_, fast) == [f"n={n}" for n in numbers]
    lsns = [f'"0x{high:x}/0x{low:x}"' for high, low in halves]
    assert rows([Op("l", Kind.LSN)], given_, fast) == ["l" + lsn for lsn in lsns]


@FORMS
@pytest.mark.parametrize("number", EDGES)
def test_numbers_at_their_edges(fast: bool, number: int) -> None:
    assert rows([Op(" ", Kind.NUMBER)], cells([[number]], [], [0]), fast) == [f" {number}"]


@FORMS
@given(spans=st.lists(st.tuples(st.integers(0, 255), st.integers(-1, 40)), max_size=20))
def test_bytes(fast: bool, spans: list[tuple[int, int]]) -> None:
    spans = [(start, min(size, 256 - start)) for start, size in spans]
    starts, sizes = [a for a, _ in spans], [n for _, n in spans]
    expected = ["null" if n < 0 else f'"{DATA[a : a + n].hex()}"' for a, n in spans]
    assert rows([Op("", Kind.HEX)], cells([starts], [sizes], [0] * len(spans)), fast) == expected


@FORMS
def test_texts_and_what_is_left_out(fast: bool) -> None:
    ops = [
        Op("{", Kind.OPEN),
        Op(',"a":', Kind.NUMBER, 0, when=0),
        Op(',"b":', Kind.TEXT, 1, 0),
        Op(',"c":', Kind.TEXT, 1, 0, when=NOT_NULL),
        Op(',"d":', Kind.NUMBER, 0, when=62, null=1),
        Op("}"),
    ]
    every = 1 | 2 | 1 << 62
    given_ = cells([[7, 8, 9, 10], [1, 2, 0, 5]], [[3, 0, -1, 1]], [every, 2, 1 << 62, 0])
    assert rows(ops, given_, fast) == [
        '{"a":7,"b":bcd,"c":bcd,"d":7}',
        '{"b":,"c":}',
        '{"b":null,"d":null}',
        '{"b":f,"c":f}',
    ]


@FORMS
def test_the_comma_goes_in_front_of_whatever_is_first(fast: bool) -> None:
    ops = [
        Op(",{", Kind.OPEN),
        *(Op(f',"{i}":', Kind.NUMBER, 0, when=i) for i in range(4)),
        Op("}"),
    ]
    found = rows(ops, cells([[5] * 16], [], list(range(16))), fast)
    for bits, text in enumerate(found):
        assert text.startswith(",")
        assert json.loads(text[1:]) == {str(i): 5 for i in range(4) if bits >> i & 1}


@FORMS
def test_no_rows(fast: bool) -> None:
    assert rows([Op("x")], cells([], [], []), fast) == []


@FORMS
@pytest.mark.parametrize("kind", [Kind.HEX, Kind.TEXT])
def test_too_long(fast: bool, kind: Kind) -> None:
    """Nothing is read of it, and no memory taken for it."""
    with pytest.raises(TooLongError):
        spell((Op("x", kind),), cells([[0]], [[2**31]], [0]), fast=fast)


def test_the_bound_is_never_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the longest of each kind, and a kernel whose stores Python checks."""
    ops = (
        Op("{", Kind.OPEN),
        Op(',"a":', Kind.NUMBER),
        Op(',"b":', Kind.LSN, 1),
        Op(',"c":', Kind.HEX, 2, 0),
        Op(',"d":', Kind.TEXT, 2, 1),
        Op(',"e":', Kind.TEXT, 2, 2),
        Op("}\n"),
    )
    given_ = cells([[-(2**63)], [-1], [0]], [[256], [6], [-1]], [0])
    monkeypatch.setattr(spelling, "compiled", lambda function: function)
    ends, spelled = spell(ops, given_, fast=True)
    assert len(spelled) == ends[-1] <= spelling.size_bound(ops, given_)
    assert spelled.tobytes().decode() == rows(list(ops), given_, fast=False)[0]
