"""Rows of columns spelled as text: what stands in a row is declared once, and run by one kernel.

A row is spelled by operations, one after the other: each puts a label, which is the same in every
row, and behind it a value. So no text of a single column is ever made and put together again.
"""

from __future__ import annotations

import functools
from enum import IntEnum
from typing import Any

import numpy as np
from msgspec import Struct

from je_tools.formats.arrays import Ints
from je_tools.formats.kernels import compiled, kernel
from je_tools.formats.source import Bytes, as_plain
from je_tools.formats.spans import GATHERED_MAX, TooLongError

ALWAYS, NOT_NULL = -1, -2
"""When an operation counts, if not where a bit is set: in every row, or where it is not null."""


class Kind(IntEnum):
    """What an operation puts behind its label."""

    NOTHING = 0
    OPEN = 1
    """Nothing, and the comma with which the next label begins is left out."""
    NUMBER = 2
    LSN = 3
    """0x3/0x1a2f in quotes."""
    TEXT = 4
    """A span of the texts as it is."""
    HEX = 5
    """A span of the data, in quotes, two lower-case digits a byte."""


class Op(Struct, frozen=True):
    """A label and a value.

    Attributes:
        label: ASCII.
        kind: of the value.
        column: row of `Cells.numbers` that holds it, or where its span begins.
        sized: row of `Cells.sizes` with the lengths of its spans.
        when: bit of `Cells.present` without which nothing is put, or ALWAYS, or NOT_NULL.
        null: bit without which a number is null, or ALWAYS where none is.
    """

    label: str
    kind: Kind = Kind.NOTHING
    column: int = 0
    sized: int = 0
    when: int = ALWAYS
    null: int = ALWAYS


class Cells(Struct, frozen=True):
    """What rows are spelled from.

    Attributes:
        data, texts: uint8; what spans point into.
        numbers: int64 (columns, rows).
        sizes: int64 (columns with spans, rows); below 0 is null.
        present: int64 (rows,), a bit for each condition.
    """

    data: Bytes
    texts: Bytes
    numbers: Ints
    sizes: Ints
    present: Ints


class Program(Struct, frozen=True):
    """Operations as `spell_rows` takes them.

    Attributes:
        numbers: int64; _OP_WIDTH for each operation.
        labels: uint8; all labels behind each other.
        most: characters of a row at most, those of spans not counted.
    """

    numbers: Ints
    labels: Bytes
    most: int


_KIND, _LABEL, _LABEL_STOP, _COMMA, _COLUMN, _SIZED, _WHEN, _NULL, _OP_WIDTH = range(9)
_OPEN, _NUMBER, _LSN, _TEXT, _HEX = map(int, list(Kind)[1:])
_ALWAYS, _NOT_NULL = ALWAYS, NOT_NULL
_VALUE_MOST = len('"0xffffffff/0xffffffff"')


@functools.lru_cache(maxsize=256)
def program(ops: tuple[Op, ...]) -> Program:
    """The operations as numbers."""
    numbers: list[int] = []
    labels = b""
    for op in ops:
        start = len(labels)
        labels += op.label.encode("ascii")
        comma = int(op.label.startswith(","))
        numbers += [op.kind, start, len(labels), comma, op.column, op.sized, op.when, op.null]
    most = len(labels) + len(ops) * _VALUE_MOST
    return Program(np.array(numbers, np.int64), np.frombuffer(labels, np.uint8), most)


@kernel
def _put(source: Any, start: int, size: int, out: Any, at: int) -> int:
    for i in range(size):
        out[at + i] = source[start + i]
    return at + size


@kernel
def _put_null(out: Any, at: int) -> int:
    out[at] = 110
    out[at + 1] = 117
    out[at + 2] = 108
    out[at + 3] = 108
    return at + 4


@kernel
def _put_number(number: int, out: Any, at: int) -> int:
    """A decimal number; the last digit first, so that the least number needs no other way."""
    if number < 0:
        out[at] = 45
        at += 1
        last = -(number % -10)
        rest = number // -10
    else:
        last = number % 10
        rest = number // 10
    limit = 1
    stop = at
    while limit <= rest:
        limit *= 10
        stop += 1
    out[stop] = 48 + last
    place = stop - 1
    while place >= at:
        out[place] = 48 + rest % 10
        rest //= 10
        place -= 1
    return stop + 1


@kernel
def _put_lsn(lsn: int, out: Any, at: int) -> int:
    out[at] = 34
    at += 1
    for half in range(2):
        number = (lsn >> 32 if half == 0 else lsn) & 4294967295
        if half == 1:
            out[at] = 47
            at += 1
        out[at] = 48
        out[at + 1] = 120
        at += 2
        shift = 28
        while shift > 0 and number >> shift == 0:
            shift -= 4
        while shift >= 0:
            digit = number >> shift & 15
            out[at] = digit + (48 if digit < 10 else 87)
            at += 1
            shift -= 4
    out[at] = 34
    return at + 1


@kernel
def _put_hex(data: Any, start: int, size: int, out: Any, at: int) -> int:
    out[at] = 34
    at += 1
    for i in range(size):
        byte = data[start + i]
        high = byte >> 4
        low = byte & 15
        out[at + 2 * i] = high + (48 if high < 10 else 87)
        out[at + 2 * i + 1] = low + (48 if low < 10 else 87)
    at += 2 * size
    out[at] = 34
    return at + 1


@kernel
def spell_rows(
    data: Any,
    texts: Any,
    labels: Any,
    ops: Any,
    n: int,
    numbers: Any,
    sizes: Any,
    present: Any,
    out: Any,
    ends: Any,
) -> None:
    """Spell `n` rows behind each other.

    Args:
        data, texts, numbers, sizes, present: see `Cells`.
        labels, ops: see `Program`.
        out: uint8; large enough for all rows.
        ends: int64 (n + 1,); where each row ends in `out`, behind a 0.
    """
    at = 0
    for row in range(n):
        opened = -1
        for op in range(0, len(ops), _OP_WIDTH):
            kind = ops[op + _KIND]
            when = ops[op + _WHEN]
            size = 0
            if kind >= _TEXT:
                size = sizes[ops[op + _SIZED], row]
            if when >= 0 and not present[row] >> when & 1:
                continue
            if when == _NOT_NULL and size < 0:
                continue
            label = ops[op + _LABEL]
            if at == opened:
                label += ops[op + _COMMA]
            at = _put(labels, label, ops[op + _LABEL_STOP] - label, out, at)
            if kind == _OPEN:
                opened = at
            elif kind >= _NUMBER:
                null = ops[op + _NULL]
                number = numbers[ops[op + _COLUMN], row]
                if size < 0 or (null != _ALWAYS and not present[row] >> null & 1):
                    at = _put_null(out, at)
                elif kind == _NUMBER:
                    at = _put_number(number, out, at)
                elif kind == _LSN:
                    at = _put_lsn(number, out, at)
                elif kind == _TEXT:
                    at = _put(texts, number, size, out, at)
                else:
                    at = _put_hex(data, number, size, out, at)
        ends[row + 1] = at


def size_bound(ops: tuple[Op, ...], cells: Cells) -> int:
    """How many bytes the rows take at most.

    Raises:
        TooLongError: that is more than GATHERED_MAX.
    """
    most = program(ops).most * len(cells.present)
    for op in ops:
        if op.kind >= Kind.TEXT:
            unit = 2 if op.kind is Kind.HEX else 1
            most += unit * int(np.maximum(cells.sizes[op.sized], 0).sum())
    if most > GATHERED_MAX:
        raise TooLongError(f"more than {GATHERED_MAX:,} bytes")
    return most


def spell(
    ops: tuple[Op, ...], cells: Cells, *, fast: bool, out: Bytes | None = None
) -> tuple[Ints, Bytes]:
    """Rows behind each other: where each begins and the last ends, int64 (n + 1,), and bytes.

    Args:
        ops: what stands in a row.
        cells: the columns.
        fast: use the compiled kernel.
        out: where they are put, of `size_bound` at least; by default memory of their own.

    Raises:
        TooLongError: they come to more than GATHERED_MAX bytes.
    """
    n = len(cells.present)
    most = size_bound(ops, cells)
    ends = np.zeros(n + 1, np.int64)
    if not fast:
        rows = _spell_plain(ops, cells)
        np.cumsum(np.fromiter(map(len, rows), np.int64, n), out=ends[1:])
        return ends, np.frombuffer("".join(rows).encode("ascii"), np.uint8)
    made = program(ops)
    if out is None:
        out = np.empty(most, np.uint8)
    columns = (cells.numbers, cells.sizes, cells.present)
    compiled(spell_rows)(
        _read_only(cells.data),
        _read_only(cells.texts),
        made.labels,
        made.numbers,
        n,
        *map(np.ascontiguousarray, columns),
        out,
        ends,
    )
    return ends, out[: ends[-1]]


def _read_only(array: Bytes) -> Bytes:
    """A view that cannot be written to: of all arrays then one specialisation is made."""
    view = array.view()
    view.flags.writeable = False
    return view


def _spell_plain(ops: tuple[Op, ...], cells: Cells) -> list[str]:
    """As the kernel, where Python puts together strings and not bytes, which is faster there."""
    data, texts = as_plain(cells.data), bytes(cells.texts).decode("ascii")
    numbers, sizes, rows = cells.numbers.tolist(), cells.sizes.tolist(), []
    for row, bits in enumerate(cells.present.tolist()):
        pieces: list[str] = []
        opened = -1
        for op in ops:
            size = sizes[op.sized][row] if op.kind >= Kind.TEXT else 0
            if op.when >= 0 and not bits >> op.when & 1:
                continue
            if op.when == NOT_NULL and size < 0:
                continue
            label = op.label
            pieces.append(label.removeprefix(",") if len(pieces) == opened else label)
            if op.kind is Kind.OPEN:
                opened = len(pieces)
            elif op.kind is not Kind.NOTHING:
                number = numbers[op.column][row]
                is_null = size < 0 or (op.null != ALWAYS and not bits >> op.null & 1)
                pieces.append("null" if is_null else _plain(op.kind, number, size, data, texts))
        rows.append("".join(pieces))
    return rows


def _plain(kind: Kind, number: int, size: int, data: Any, texts: str) -> str:
    if kind is Kind.NUMBER:
        return str(number)
    if kind is Kind.LSN:
        return f'"0x{number >> 32 & 0xFFFFFFFF:x}/0x{number & 0xFFFFFFFF:x}"'
    if kind is Kind.TEXT:
        return texts[number : number + size]
    return f'"{data[number : number + size].hex()}"'
