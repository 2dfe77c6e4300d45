"""Rows of columns as lines of text: what a row consists of is declared once, as cells.

A row is its cells one after the other. Each is a value between two fixed texts, or a third text
where the value is null. JSON lines, CSV and the text of DbDump are written by the same loop, each
byte of them once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.source import Bytes
from je_tools.formats.spans import GATHERED_MAX, Spans, TooLongError

SLACK = 32
"""Bytes after the rows that are written to as well."""


class Form(IntEnum):
    """How the value of a cell is written."""

    NOTHING = 0
    HEX = 1
    """Each byte as two lower-case hexadecimal digits."""
    PRINT = 2
    r"""As DbDump prints: `\\` for a backslash, `\` and two digits for what is not visible."""
    TEXT = 3
    """The bytes, which are text as the line has it."""
    DECIMAL = 4
    LSN = 5
    """0x… / 0x…, file and offset."""
    LIST = 6
    """Rows of a table, a comma between them."""
    CHOICE = 7
    """A row of one of several tables."""


class Cell(Struct, frozen=True):
    """One column of the rows.

    Attributes:
        form: HEX, PRINT, TEXT for byte strings; DECIMAL, LSN for numbers; LIST, CHOICE for rows.
        values: byte strings, where a size below 0 is null, int64 numbers, `Items` or `Choice`.
        before, after: fixed bytes around a value. A comma with which `before` begins is left out
            right after a cell that `opens`; so is that of `instead`.
        instead: what stands in the place of all three where the value is null.
        valid: bool (n,): where a value is not null; everywhere without.
        present, bit: int64 (n,) and a number: the cell is left out where this bit is not set.
        opens: whether it is the beginning of a JSON object.
    """

    form: Form
    values: Spans | Ints | Items | Choice | None = None
    before: bytes = b""
    after: bytes = b""
    instead: bytes = b""
    valid: Mask | None = None
    present: Ints | None = None
    bit: int = 0
    opens: bool = False


class Table(Struct, frozen=True):
    """Rows to be written.

    Attributes:
        rows: how many.
        cells: of each.
    """

    rows: int
    cells: Sequence[Cell]


class Items(Struct, frozen=True):
    """The rows of a table as lists.

    Attributes:
        first: int64 (n + 1,); list i has the rows [first[i], first[i + 1]).
        table: the rows.
    """

    first: Ints
    table: Table


class Choice(Struct, frozen=True):
    """Rows of several tables, in an order of their own.

    Attributes:
        table: int64 (n,); number of a table, below 0 for null.
        row: int64 (n,); which row of it.
        tables: of which no row is chosen twice.
    """

    table: Ints
    row: Ints
    tables: Sequence[Table]


class Room:
    """An array to write lines into, used again: fresh ones cost a fault of the system a page."""

    def __init__(self) -> None:
        self._array: Bytes = np.empty(0, np.uint8)

    @property
    def size(self) -> int:
        """Bytes that it has."""
        return len(self._array)

    def of(self, size: int) -> Bytes:
        """Return the first `size` bytes, whatever stands there."""
        if len(self._array) < size:
            self._array = np.empty(size + size // 8, np.uint8)
        return self._array[:size]


def words(texts: Sequence[bytes | None], choice: Any) -> Spans:
    """Return the text of each choice, as a number of a short table of texts."""
    table = Spans.of(texts)
    return Spans(table.data, table.starts[choice], table.sizes[choice])


def lines_of(cells: Sequence[Cell], room: Room | None = None) -> Bytes:
    """Return the rows one after the other: uint8, read-only.

    Args:
        cells: of one length each, the first of them with values.
        room: where they may be written, so that they last until it is used again.

    Raises:
        TooLongError: there is no memory for them.
    """
    values: Any = cells[0].values
    return write_rows(Table(len(values), cells), room)


def write_rows(
    table: Table, room: Room | None = None, *, ends: Ints | None = None, most: int = sys.maxsize
) -> Bytes:
    """Return the rows one after the other: uint8, read-only.

    Args:
        table: the rows.
        room: where they may be written, so that they last until it is used again.
        ends: int64 (rows,), filled with where each row ends.
        most: bytes that they may come to.

    Raises:
        TooLongError: they might come to more.
    """
    bound = _native.rows_bound(table)
    if bound is None or bound > most:
        raise TooLongError(f"more than {most:,} bytes")
    out = (room or Room()).of(bound + SLACK)
    return read_only(out[: _native.write_rows(table, out, ends)])


def row_texts(table: Table) -> tuple[Ints, Bytes]:
    """Return where each row begins and the last ends, int64 (rows + 1,), and the bytes.

    Raises:
        TooLongError: they might come to more than GATHERED_MAX bytes.
    """
    ends = np.zeros(table.rows + 1, np.int64)
    return ends, write_rows(table, ends=ends[1:], most=GATHERED_MAX)


def read_only(data: Bytes) -> Bytes:
    """Return the same bytes as an array that cannot be written to."""
    if data.flags.writeable:
        data = data.view()
        data.flags.writeable = False
    return data
