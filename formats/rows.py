"""Row encoders: columns to lines of text, from one declaration of the cells of a row.

A row is its cells one after the other. A cell is a value between two fixed texts, or a third text
if the value is null. One loop writes JSON lines, CSV and the text of DbDump, each byte only once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.spans import GATHERED_MAX, Spans, TooLongError

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.spans import Offsets

SLACK = 32
"""Number of bytes after the rows that may be overwritten."""


class Form(IntEnum):
    """Encoding of a cell's value."""

    NOTHING = 0
    HEX = 1
    """Each byte as two lower-case hexadecimal digits."""
    PRINT = 2
    r"""As DbDump prints: `\\` for a backslash, `\` and two hex digits for an invisible byte."""
    TEXT = 3
    """The bytes unchanged: text that needs no escaping."""
    DECIMAL = 4
    LSN = 5
    """File and offset, as `0x3/0x1a2f`."""
    LIST = 6
    """Rows of a table, separated by commas."""
    CHOICE = 7
    """A row of one of several tables."""


class Text(Spans, frozen=True):
    """Byte strings that may be in an output.

    They are ours, or a `Masking` has made them of values of records. Only code that knows where
    they come from makes them; a `Cell` takes no other byte strings.
    """


def text_of_ours(values: Spans) -> Text:
    """Return byte strings as text: they hold nothing of a record, or are not for an output."""
    return Text(values.data, values.starts, values.sizes)


class Cell(Struct, frozen=True):
    """One column of the rows.

    Attributes:
        form: HEX, PRINT, TEXT for byte strings; DECIMAL, LSN for numbers; LIST, CHOICE for rows.
        values: text, with a negative size for null, int64 numbers, `ListItems` or `RowChoice`.
        before, after: fixed bytes around a value. A leading comma of `before` or `instead` is
            omitted directly after a cell that `opens`.
        instead: fixed bytes that replace all three if the value is null.
        valid: bool (n,); False if a value is null. None if no value is.
        present, bit: int64 (n,) and a bit number; rows without this bit omit the cell.
        opens: True if the cell begins a JSON object.
    """

    form: Form
    values: Text | Ints | ListItems | RowChoice | None = None
    before: bytes = b""
    after: bytes = b""
    instead: bytes = b""
    valid: Mask | None = None
    present: Ints | None = None
    bit: int = 0
    opens: bool = False


class CellTable(Struct, frozen=True):
    """Rows to be written.

    Attributes:
        rows: number of rows.
        cells: cells of each row.
    """

    rows: int
    cells: Sequence[Cell]


class ListItems(Struct, frozen=True):
    """Lists of the rows of a table.

    Attributes:
        first: int64 (n + 1,); list i has the rows [first[i], first[i + 1]).
        table: the rows.
    """

    first: Ints
    table: CellTable


class RowChoice(Struct, frozen=True):
    """Rows of several tables, in any order.

    Attributes:
        table: int64 (n,); index of a table, below 0 for null.
        row: int64 (n,); row of that table.
        tables: the tables; no row is chosen twice.
    """

    table: Ints
    row: Ints
    tables: Sequence[CellTable]


class Buffer:
    """A reusable buffer for lines: a fresh one costs a page fault for each page."""

    def __init__(self) -> None:
        self._array: Bytes = np.empty(0, np.uint8)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return len(self._array)

    def of(self, size: int) -> Bytes:
        """Return the first `size` bytes, with arbitrary content."""
        if len(self._array) < size:
            self._array = np.empty(size + size // 8, np.uint8)
        return self._array[:size]


def words(texts: Sequence[bytes | None], choice: Any) -> Text:
    """Return a column of texts of ours, each chosen by index from a short table."""
    table = Spans.of(texts)
    return Text(table.data, table.starts[choice], table.sizes[choice])


def lines_of(cells: Sequence[Cell], buffer: Buffer | None = None) -> Bytes:
    """Return the rows one after the other: uint8, read-only.

    Args:
        cells: columns of one length; the first has values.
        buffer: buffer for the rows, which are then valid until it is used again.

    Raises:
        TooLongError: no memory could hold the rows.
    """
    values: Any = cells[0].values
    return write_rows(CellTable(len(values), cells), buffer)


def write_rows(
    table: CellTable,
    buffer: Buffer | None = None,
    *,
    most: int = sys.maxsize,
) -> Bytes:
    """Return the rows one after the other: uint8, read-only.

    Args:
        table: the rows.
        buffer: buffer for the rows, which are then valid until it is used again.
        most: largest total size, in bytes.

    Raises:
        TooLongError: the rows might exceed `most`.
    """
    bound = _native.rows_bound(table)
    if bound is None or bound > most:
        raise TooLongError(f"more than {most:,} bytes")
    out = (buffer or Buffer()).of(bound + SLACK)
    return read_only(out[: _native.write_rows(table, out)])


def row_texts(table: CellTable) -> tuple[Offsets, Bytes]:
    """Return the rows one after the other: offsets int32 (rows + 1,), and bytes uint8.

    Raises:
        TooLongError: the rows might exceed GATHERED_MAX bytes.
    """
    found = _native.row_texts(table, GATHERED_MAX)
    if found is None:
        raise TooLongError(f"more than {GATHERED_MAX:,} bytes")
    return found


def read_only(data: Bytes) -> Bytes:
    """Return a read-only view of the bytes."""
    if data.flags.writeable:
        data = data.view()
        data.flags.writeable = False
    return data
