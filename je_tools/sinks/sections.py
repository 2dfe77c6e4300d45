"""Small result tables as text for a terminal, JSON lines or CSV.

For results of a few lines each: the entries of a log have sinks of their own.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import Enum
from itertools import groupby
from textwrap import wrap
from typing import Any, BinaryIO

from msgspec import Struct

from je_tools.formats.je.header import lsn_text
from je_tools.plain import clean_text, safe_cell
from je_tools.plain import printable as printable
from je_tools.sinks.output import encoding_of

Cell = int | float | str | None | list[str]

MIN_WIDTH = 40
_GAP = 2
_CUT = "~"
_LEAST_TEXT = 8


class Kind(Enum):
    """What a column holds, and so how it is spelled."""

    TEXT = "text"
    TEXTS = "texts"
    KEY = "key"
    """A text that is cut in the middle: its beginning is that of its neighbours."""
    COUNT = "count"
    ID = "id"
    PERCENT = "percent"
    LSN = "lsn"
    FILE = "file"
    TIME = "time"
    DURATION = "duration"


_LEFT = (Kind.TEXT, Kind.TEXTS, Kind.KEY)


class Column(Struct, frozen=True):
    """One column.

    Attributes:
        name: in JSON and CSV; LSNs are spelled 0x…/0x… there, times are ms since 1970.
        title: in the table.
        kind: how its cells are spelled.
        rank: the less important a column, the higher; the highest go first where it is narrow.
        cell: how its cell is had from what a row shows; None for the attribute of its name.
        wraps: a text that goes on in the next line where it is too long, instead of being cut.
    """

    name: str
    title: str
    kind: Kind = Kind.COUNT
    rank: int = 0
    cell: Callable[[Any], Cell] | None = None
    wraps: bool = False

    def cell_of(self, item: object) -> Cell:
        """The cell of what a row shows."""
        if self.cell is not None:
            return self.cell(item)
        cell: Cell = getattr(item, self.name)
        return cell


class Section(Struct, frozen=True):
    """A table of results.

    Attributes:
        name: its rows' `section` in JSON and CSV; empty where there is but one kind of rows.
        title: line above the table; empty for none.
        columns: what the rows hold.
        rows: the cells, in the order of `columns`.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Cell]]


def section_of(
    name: str, title: str, columns: tuple[Column, ...], items: Iterable[object]
) -> Section:
    """A table with a row for each item, whose columns know their cells."""
    rows = [[column.cell_of(item) for column in columns] for item in items]
    return Section(name, title, columns, rows)


def write_jsonl(sections: Iterable[Section], out: BinaryIO) -> None:
    """One object a row; `section` says which table it belongs to."""
    for section in sections:
        for row in section.rows:
            cells = zip(section.columns, row, strict=True)
            values = {column.name: _value(column.kind, cell) for column, cell in cells}
            named = {"section": section.name} if section.name else {}
            out.write(json.dumps(named | values).encode() + b"\n")


def write_csv(sections: Sequence[Section], out: BinaryIO) -> None:
    """Sections of one set of columns behind each other under one header line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    named = ["section"] if sections[0].name else []
    writer.writerow([*named, *(column.name for column in sections[0].columns)])
    for section in sections:
        for row in section.rows:
            cells = zip(section.columns, row, strict=True)
            values = (_value(column.kind, cell) for column, cell in cells)
            writer.writerow([*([section.name] if named else []), *map(_csv_cell, values)])
    out.write(text.getvalue().encode("utf-8", "backslashreplace"))


def write_table(sections: Sequence[Section], out: BinaryIO, width: int | None) -> None:
    """Aligned columns for people; of `width` characters, or as wide as they are for None.

    Sections of the same columns stand under one header line.
    """
    lines: list[str] = []
    for columns, run in groupby(sections, key=lambda section: section.columns):
        lines += _run_lines(columns, list(run), width, first=not lines)
    text = "".join(f"{line}\n" for line in lines)
    out.write(text.encode(encoding_of(out), "backslashreplace"))


def _value(kind: Kind, cell: Cell) -> Cell:
    """A cell for a machine."""
    if kind is Kind.LSN and isinstance(cell, int):
        return lsn_text(cell)
    if isinstance(cell, str):
        return clean_text(cell)
    if isinstance(cell, list):
        return [clean_text(text) for text in cell]
    return cell


def _csv_cell(value: Cell) -> Cell:
    text = " ".join(value) if isinstance(value, list) else value
    return safe_cell(text) if isinstance(text, str) else text


def time_text(time_ms: int) -> str:
    """A time of the log in UTC; what no calendar holds, as it is."""
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
    Kind.TEXTS: lambda cell: ", ".join(map(printable, cell)),
    Kind.COUNT: "{:,}".format,
    Kind.ID: str,
    Kind.PERCENT: "{:.1f}".format,
    Kind.LSN: lsn_text,
    Kind.FILE: "{:08x}".format,
    Kind.TIME: time_text,
    Kind.DURATION: _duration_text,
}


def _run_lines(
    columns: tuple[Column, ...], sections: list[Section], width: int | None, *, first: bool
) -> list[str]:
    """The lines of sections that have the same columns; `first` stands at the top."""
    texts = [[_texts(columns, row) for row in section.rows] for section in sections]
    every = [[column.title for column in columns], *(row for rows in texts for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*every, strict=True)]
    shown = list(range(len(columns)))
    if width is not None:
        _fit(columns, shown, widths, max(width, MIN_WIDTH))
    head = [_line(columns, shown, widths, every[0])] if len(every) > 1 else []
    lines: list[str] = []
    for section, rows in zip(sections, texts, strict=True):
        lines += [] if first and not lines else [""]
        lines += [section.title] if section.title else []
        lines += head
        lines += [
            _line(columns, shown, widths, piece)
            for row in rows
            for piece in _wrapped(columns, shown, widths, row)
        ] or ["none"]
        head = []
    return lines


def _texts(columns: tuple[Column, ...], row: Sequence[Cell]) -> list[str]:
    return [
        "-" if cell is None else _TEXTS[column.kind](cell)
        for column, cell in zip(columns, row, strict=True)
    ]


def _fit(columns: Sequence[Column], shown: list[int], widths: list[int], width: int) -> None:
    """Leave out the least important columns, then cut the texts, until the rest fits."""

    def over() -> int:
        return sum(widths[i] + _GAP for i in shown) - _GAP - width

    texts = [i for i in shown if columns[i].kind in _LEFT]
    spare = sum(max(widths[i] - 2 * _LEAST_TEXT, 0) for i in texts)
    for i in sorted(shown, key=lambda i: -columns[i].rank):
        if over() <= spare or columns[i].rank == 0:
            break
        shown.remove(i)
        if i in texts:
            spare -= max(widths[i] - 2 * _LEAST_TEXT, 0)
    for least in (2 * _LEAST_TEXT, _LEAST_TEXT):
        for i in sorted((i for i in texts if i in shown), key=lambda i: -widths[i]):
            if over() > 0:
                widths[i] = max(min(widths[i], least), widths[i] - over())


def _wrapped(
    columns: tuple[Column, ...], shown: list[int], widths: list[int], cells: list[str]
) -> Iterator[list[str]]:
    """The cells of each line of a row: more than one where a text goes on."""
    pieces = {
        i: wrap(cells[i], widths[i], break_on_hyphens=False)
        for i in shown
        if columns[i].wraps and len(cells[i]) > widths[i]
    }
    if not pieces:
        yield cells
        return
    for line in range(max(map(len, pieces.values()))):
        first = cells if line == 0 else [""] * len(cells)
        wrapped = {i: some[line] if line < len(some) else "" for i, some in pieces.items()}
        yield [wrapped.get(i, cell) for i, cell in enumerate(first)]


def _line(
    columns: tuple[Column, ...], shown: list[int], widths: list[int], cells: list[str]
) -> str:
    padded = []
    for i in shown:
        cell = cells[i]
        text = _cut(cell, widths[i], columns[i].kind)
        left = columns[i].kind in _LEFT
        padded.append(text.ljust(widths[i]) if left else text.rjust(widths[i]))
    return (" " * _GAP).join(padded).rstrip()


def _cut(cell: str, width: int, kind: Kind) -> str:
    if len(cell) <= width:
        return cell
    tail = (width - 1) * 2 // 3 if kind is Kind.KEY else 0
    return cell[: width - 1 - tail] + _CUT + cell[len(cell) - tail :]
