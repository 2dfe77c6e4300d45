"""Small result tables: columns and rows, as JSON lines or CSV.

They are for results of a few lines: the entries of a log have sinks of their own. `section_tables`
writes them for people, and `section_formats` in any format.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any, BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from je_tools.core.escaping import clean_text, safe_cell
from je_tools.core.escaping import printable as printable
from je_tools.formats.je.header import lsn_text

Cell = int | float | str | None | list[str]

COMMA = ", "
"""Text between the texts of one cell."""


class Kind(Enum):
    """Type of a column's cells, which decides their format."""

    TEXT = "text"
    TEXTS = "texts"
    CODES = "codes"
    """Several short texts without commas, the most important first. A table shows as many of them
    as have room, then the number of the others, as `+2`."""
    KEY = "key"
    """Text that is shortened nearer to its beginning, which is the same as in adjacent rows."""
    DATA = "data"
    """Text of any length, which is cut at its end: a value of a record."""
    PATH = "path"
    """Path of a file, which continues in the next line if it is too long."""
    COMMAND = "command"
    """A command line, which is neither cut nor wrapped in a section that folds."""
    COUNT = "count"
    ID = "id"
    PERCENT = "percent"
    LSN = "lsn"
    FILE = "file"
    TIME = "time"
    DURATION = "duration"
    FLAG = "flag"


class Column(Struct, frozen=True):
    """One column.

    Attributes:
        name: name in JSON and CSV, in which LSNs are 0x…/0x… and times are ms since 1970.
        title: title in the table.
        kind: type of its cells.
        rank: the higher, the less important; on a narrow terminal the highest ranks are dropped
            first, and 0 stays.
        cell: function that returns its cell from an item; None for the attribute `name`.
        wraps: True if a text that is too long continues in the next line instead of being
            shortened in the middle.
    """

    name: str
    title: str
    kind: Kind = Kind.COUNT
    rank: int = 0
    cell: Callable[[Any], Cell] | None = None
    wraps: bool = False

    def cell_of(self, item: object) -> Cell:
        """Return the cell for an item."""
        if self.cell is not None:
            return self.cell(item)
        cell: Cell = getattr(item, self.name)
        return cell


class Section(Struct, frozen=True):
    """A result table.

    Attributes:
        name: `section` of its rows in JSON and CSV; empty if there is only one kind of rows.
        title: line above the table; empty for none.
        columns: the columns.
        rows: the cells, in the order of `columns`.
        folds: True if a terminal that is too narrow for the columns of rank 0 shows each row as a
            block of lines, with all of its cells.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Cell]]
    folds: bool = False


def section_of(
    name: str,
    title: str,
    columns: tuple[Column, ...],
    items: Iterable[object],
    *,
    folds: bool = False,
) -> Section:
    """Return a table with a row for each item."""
    rows = [[column.cell_of(item) for column in columns] for item in items]
    return Section(name, title, columns, rows, folds)


def fact_section(title: str, facts: Iterable[tuple[str, Cell]]) -> Section:
    """Return names and values as a table for people, with `title` above the names."""
    columns = (Column("what", title, Kind.TEXT), Column("value", "", Kind.TEXT, wraps=True))
    return Section("", "", columns, [[name, value] for name, value in facts])


def unless(number: int, nothing: int) -> int | None:
    """Return a number as a cell, which is None if the number is `nothing`."""
    return None if number == nothing else number


def without_empty_columns(section: Section) -> Section:
    """Return a table without the columns that have no cell."""
    used = [
        i for i in range(len(section.columns)) if any(row[i] is not None for row in section.rows)
    ]
    columns = tuple(section.columns[i] for i in used)
    return replace(section, columns=columns, rows=[[row[i] for i in used] for row in section.rows])


def write_jsonl(sections: Iterable[Section], out: BinaryIO) -> None:
    """Write an object for each row, with its table as `section`."""
    for section in sections:
        named = {"section": section.name} if section.name else {}
        for values in row_values(section):
            out.write(json.dumps(named | values).encode() + b"\n")


def row_values(section: Section) -> Iterator[dict[str, Cell]]:
    """Yield the rows of a section as JSON objects."""
    for row in section.rows:
        cells = zip(section.columns, row, strict=True)
        yield {column.name: value_of(column.kind, cell) for column, cell in cells}


def write_csv(sections: Iterable[Section], out: BinaryIO) -> None:
    """Write sections that have the same columns, one after the other, under one header line."""
    is_first = True
    for section in sections:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if is_first:
            named = ["section"] if section.name else []
            writer.writerow([*named, *(column.name for column in section.columns)])
        is_first = False
        for values in row_values(section):
            name = [section.name] if section.name else []
            writer.writerow([*name, *map(_csv_cell, values.values())])
        out.write(text.getvalue().encode("utf-8", "backslashreplace"))


def value_of(kind: Kind, cell: Cell) -> Cell:
    """Return a cell for a machine."""
    if kind is Kind.LSN and isinstance(cell, int):
        return lsn_text(cell)
    if isinstance(cell, str):
        return clean_text(cell)
    if isinstance(cell, list):
        return [clean_text(text) for text in cell]
    return cell


def _csv_cell(value: Cell) -> Cell:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = " ".join(value) if isinstance(value, list) else value
    return safe_cell(text) if isinstance(text, str) else text


def utc_text(time_ms: int) -> str:
    """Return a time in UTC, without its zone; a time outside of the calendar as a number of ms."""
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{time_ms % 1000:03d}"


def _duration_text(duration_ms: int) -> str:
    return f"{duration_ms / 1000:,.3f} s"


_TEXTS: dict[Kind, Callable[[Any], str]] = {
    Kind.TEXT: printable,
    Kind.KEY: printable,
    Kind.DATA: printable,
    Kind.PATH: printable,
    Kind.COMMAND: printable,
    Kind.TEXTS: lambda cell: COMMA.join(map(printable, cell)),
    Kind.CODES: lambda cell: COMMA.join(map(printable, cell)),
    Kind.COUNT: "{:,}".format,
    Kind.ID: str,
    Kind.PERCENT: "{:.1f}".format,
    Kind.LSN: lsn_text,
    Kind.FILE: "{:08x}".format,
    Kind.TIME: utc_text,
    Kind.DURATION: _duration_text,
    Kind.FLAG: lambda cell: "yes" if cell else "no",
}


def cell_texts(columns: tuple[Column, ...], row: Sequence[Cell]) -> list[str]:
    """Return the cells of a row as people read them."""
    return [
        "-" if cell is None else _TEXTS[column.kind](cell)
        for column, cell in zip(columns, row, strict=True)
    ]
