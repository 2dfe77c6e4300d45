"""Small result tables as text for a terminal, JSON lines or CSV; see also `section_formats`.

They are for results of a few lines: the entries of a log have sinks of their own.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from datetime import UTC, datetime
from enum import Enum
from itertools import groupby
from textwrap import wrap
from typing import Any, BinaryIO

from msgspec import Struct

from je_tools.core.escaping import clean_text, safe_cell
from je_tools.core.escaping import printable as printable
from je_tools.formats.je.header import lsn_text
from je_tools.output.files.output_file import encoding_of

Cell = int | float | str | None | list[str]

MIN_WIDTH = 40
_GAP = 2
_CUT = "~"
_COMMA = ", "
_LEAST_TEXT = 8
_WRAPPED_MAX = 1000


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
    COUNT = "count"
    ID = "id"
    PERCENT = "percent"
    LSN = "lsn"
    FILE = "file"
    TIME = "time"
    DURATION = "duration"
    FLAG = "flag"


_LEFT = (Kind.TEXT, Kind.TEXTS, Kind.CODES, Kind.KEY, Kind.DATA, Kind.FLAG)


class Column(Struct, frozen=True):
    """One column.

    Attributes:
        name: name in JSON and CSV, in which LSNs are 0x…/0x… and times are ms since 1970.
        title: title in the table.
        kind: type of its cells.
        rank: the higher, the less important; on a narrow terminal the highest ranks go first.
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
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Cell]]


def section_of(
    name: str, title: str, columns: tuple[Column, ...], items: Iterable[object]
) -> Section:
    """Return a table with a row for each item."""
    rows = [[column.cell_of(item) for column in columns] for item in items]
    return Section(name, title, columns, rows)


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


def write_table(sections: Sequence[Section], out: BinaryIO, width: int | None) -> None:
    """Write aligned columns for people, in `width` characters; unlimited if it is None.

    Adjacent sections with the same columns share one header line. The last line names the columns
    for which there is no room.
    """
    lines: list[str] = []
    hidden: list[str] = []
    for columns, run in groupby(sections, key=lambda section: section.columns):
        lines += _run_lines(columns, list(run), width, hidden, first=not lines)
    _write_lines(lines + _hidden_lines(hidden, width), out)


def _hidden_lines(hidden: list[str], width: int | None) -> list[str]:
    """Return the last lines of a table, which name columns without room; none if all have room."""
    if not hidden:
        return []
    names = ", ".join(dict.fromkeys(hidden))
    note = f"No room for: {names}. A wider terminal or another --format shows them."
    return ["", *wrap(note, max(width or 0, MIN_WIDTH), break_on_hyphens=False)]


def _write_lines(lines: Iterable[str], out: BinaryIO) -> None:
    text = "".join(f"{line}\n" for line in lines)
    out.write(text.encode(encoding_of(out), "backslashreplace"))


def write_long_table(
    sections: Callable[[], Iterable[Section]], out: BinaryIO, width: int | None
) -> None:
    """Write one table for people whose rows come in pieces, without keeping them.

    Args:
        sections: returns the pieces, which have the same columns; called twice: for the widths of
            the columns, and to write. Without any row, nothing is written.
        out: the output.
        width: as for `write_table`.
    """
    columns: tuple[Column, ...] = ()
    widths: list[int] = []
    least: list[int] = []
    for section in sections():
        if section.rows:
            columns = section.columns
            texts = [cell_texts(columns, row) for row in section.rows]
            titles = [column.title for column in columns]
            found = (max(map(len, cells)) for cells in zip(titles, *texts, strict=True))
            widths = list(map(max, widths or [0] * len(columns), found))
            least = list(map(max, least or [0] * len(columns), _least_widths(columns, texts)))
    if not columns:
        return
    shown = list(range(len(columns)))
    if width is not None:
        _fit(columns, shown, widths, max(width, MIN_WIDTH), least)
    _write_lines([_line(columns, shown, widths, [column.title for column in columns])], out)
    for section in sections():
        texts = [cell_texts(columns, row) for row in section.rows]
        wraps = _wrapping(columns, shown, widths, [texts])
        _write_lines(
            (
                _line(columns, shown, widths, piece)
                for row in texts
                for piece in _wrapped(wraps, widths, row)
            ),
            out,
        )
    hidden = [column.title for i, column in enumerate(columns) if i not in shown]
    _write_lines(_hidden_lines(hidden, width), out)


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


def time_text(time_ms: int) -> str:
    """Return a time of the log in UTC; a time outside of the calendar as a number."""
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
    Kind.TEXTS: lambda cell: _COMMA.join(map(printable, cell)),
    Kind.CODES: lambda cell: _COMMA.join(map(printable, cell)),
    Kind.COUNT: "{:,}".format,
    Kind.ID: str,
    Kind.PERCENT: "{:.1f}".format,
    Kind.LSN: lsn_text,
    Kind.FILE: "{:08x}".format,
    Kind.TIME: time_text,
    Kind.DURATION: _duration_text,
    Kind.FLAG: lambda cell: "yes" if cell else "no",
}


def _run_lines(
    columns: tuple[Column, ...],
    sections: list[Section],
    width: int | None,
    hidden: list[str],
    *,
    first: bool,
) -> list[str]:
    """Return the lines of sections with the same columns.

    Args:
        columns: their columns.
        sections: the sections.
        width: characters in a line; None for no limit.
        hidden: gets the titles of the columns for which there is no room.
        first: True if they are at the top.
    """
    texts = [[cell_texts(columns, row) for row in section.rows] for section in sections]
    every = [[column.title for column in columns], *(row for rows in texts for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*every, strict=True)]
    shown = list(range(len(columns)))
    if width is not None:
        least = _least_widths(columns, [row for rows in texts for row in rows])
        _fit(columns, shown, widths, max(width, MIN_WIDTH), least)
        hidden += [column.title for i, column in enumerate(columns) if i not in shown]
    wraps = _wrapping(columns, shown, widths, texts)
    has_head = len(every) > 1 and any(every[0])
    head = [_line(columns, shown, widths, every[0])] if has_head else []
    lines: list[str] = []
    for section, rows in zip(sections, texts, strict=True):
        lines += [] if first and not lines else [""]
        title = section.title
        lines += wrap(title, max(width, MIN_WIDTH)) if width else [title] * bool(title)
        lines += head
        lines += [
            _line(columns, shown, widths, piece)
            for row in rows
            for piece in _wrapped(wraps, widths, row)
        ] or ["none"]
        head = []
    return lines


def cell_texts(columns: tuple[Column, ...], row: Sequence[Cell]) -> list[str]:
    """Return the cells of a row as people read them."""
    return [
        "-" if cell is None else _TEXTS[column.kind](cell)
        for column, cell in zip(columns, row, strict=True)
    ]


def _least_widths(columns: Sequence[Column], texts: Sequence[list[str]]) -> list[int]:
    """Return the widths in which columns of codes show the first code of each row whole."""
    return [
        max((len(_shortest(row[i])) for row in texts), default=0)
        if column.kind is Kind.CODES
        else 0
        for i, column in enumerate(columns)
    ]


def _shortest(cell: str) -> str:
    first, *others = cell.split(_COMMA)
    return _with_more(first, len(others))


def _with_more(text: str, more: int) -> str:
    return f"{text}{_COMMA}+{more}" if more else text


def _fit(
    columns: Sequence[Column], shown: list[int], widths: list[int], width: int, leasts: list[int]
) -> None:
    """Drop the least important columns, then narrow texts, until the rest fits.

    Args:
        columns: the columns.
        shown: their indexes; those that are dropped are removed.
        widths: their widths, which are changed.
        width: characters in a line.
        leasts: widths below which texts are narrowed last.
    """

    def over() -> int:
        return sum(widths[i] + _GAP for i in shown) - _GAP - width

    texts = [i for i in shown if columns[i].kind in _LEFT]
    spares = {i: max(widths[i] - max(2 * _LEAST_TEXT, leasts[i]), 0) for i in texts}
    spare = sum(spares.values())
    for i in sorted(shown, key=lambda i: -columns[i].rank):
        if over() <= spare or columns[i].rank == 0:
            break
        shown.remove(i)
        spare -= spares.get(i, 0)
    none = [0] * len(columns)
    for least, own in ((2 * _LEAST_TEXT, leasts), (_LEAST_TEXT, leasts), (_LEAST_TEXT, none)):
        for i in sorted((i for i in texts if i in shown), key=lambda i: -widths[i]):
            if over() > 0:
                widths[i] = max(min(widths[i], max(least, own[i])), widths[i] - over())


def _wrapping(
    columns: Sequence[Column], shown: list[int], widths: list[int], texts: list[list[list[str]]]
) -> frozenset[int]:
    """Return the columns whose texts wrap instead of being shortened."""
    wraps = frozenset(i for i in shown if columns[i].wraps)
    return wraps | {i for i in shown if _are_confused(i, columns[i].kind, widths[i], texts)}


def _are_confused(i: int, kind: Kind, width: int, texts: list[list[list[str]]]) -> bool:
    """Return True if two different texts of column i would be equal after they are shortened."""
    if kind not in (Kind.TEXT, Kind.TEXTS, Kind.KEY):
        return False
    seen: dict[str, str] = {}
    cells = {row[i] for rows in texts for row in rows}
    if max(map(len, cells), default=0) > _WRAPPED_MAX:
        return False
    return any(seen.setdefault(_cut(cell, width, kind), cell) != cell for cell in cells)


def _wrapped(wraps: Set[int], widths: list[int], cells: list[str]) -> Iterator[list[str]]:
    """Yield the cells of each line of a row: more than one if a text of `wraps` wraps."""
    pieces = {
        i: wrap(cells[i], widths[i], break_on_hyphens=False)
        for i in wraps
        if len(cells[i]) > widths[i]
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
    if kind is Kind.CODES and len(_shortest(cell)) <= width:
        texts = cell.split(_COMMA)
        pieces = (
            _with_more(_COMMA.join(texts[:count]), len(texts) - count)
            for count in range(len(texts) - 1, 0, -1)
        )
        return next(piece for piece in pieces if len(piece) <= width)
    tails = {Kind.KEY: (width - 1) * 2 // 3, Kind.DATA: 0}
    tail = tails.get(kind, (width - 1) // 2)
    return cell[: width - 1 - tail] + _CUT + cell[len(cell) - tail :]
