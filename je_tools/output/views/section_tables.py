"""Small result tables as text for people, in the width of a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import groupby
from textwrap import wrap
from typing import BinaryIO

from je_tools.core.escaping import printable
from je_tools.output.files.output_file import encoding_of
from je_tools.output.views.sections import COMMA, Cell, Column, Kind, Section, cell_texts

MIN_WIDTH = 40
"""Least number of characters in a line."""

_GAP = 2
_CUT = "~"
_LEAST_TEXT = 8
_LEAST_FOLDED = 24
_WRAPPED_MAX = 1000
_NARROWED = (
    Kind.TEXT,
    Kind.TEXTS,
    Kind.CODES,
    Kind.KEY,
    Kind.DATA,
    Kind.PATH,
    Kind.FLAG,
)
_LEFT = (*_NARROWED, Kind.COMMAND)


def write_table(sections: Sequence[Section], out: BinaryIO, width: int | None) -> None:
    """Write aligned columns for people, in `width` characters; unlimited if it is None.

    Adjacent sections with the same columns share one header line. The last line names the columns
    for which there is no room.
    """
    lines: list[str] = []
    hidden: list[str] = []
    for columns, run in groupby(sections, key=lambda section: section.columns):
        some = list(run)
        if width is not None and _is_folded(some, width):
            lines += _block_lines(some, max(width, MIN_WIDTH), first=not lines)
        else:
            lines += _run_lines(columns, some, width, hidden, first=not lines)
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
        if all(section.folds for section in sections):
            folded = (
                min(own, _LEAST_FOLDED) * (column.rank == 0)
                for own, column in zip(widths, columns, strict=True)
            )
            least = list(map(max, least, folded))
        _fit(columns, shown, widths, max(width, MIN_WIDTH), least)
        hidden += [column.title for i, column in enumerate(columns) if i not in shown]
    wraps = _wrapping(columns, shown, widths, texts)
    has_head = len(every) > 1 and any(every[0])
    head = [_line(columns, shown, widths, every[0])] if has_head else []
    lines: list[str] = []
    for section, rows in zip(sections, texts, strict=True):
        lines += [] if first and not lines else [""]
        title = printable(section.title)
        lines += wrap(title, max(width, MIN_WIDTH)) if width else [title] * bool(title)
        lines += head
        lines += [
            _line(columns, shown, widths, piece)
            for row in rows
            for piece in _wrapped(wraps, widths, row)
        ] or ["none"]
        head = []
    return lines


def _is_folded(sections: Sequence[Section], width: int) -> bool:
    """Return True if sections fold, and the texts of rank 0 would get less than `_LEAST_FOLDED`."""
    if not all(section.folds for section in sections):
        return False
    columns = sections[0].columns
    rows = [cell_texts(columns, row) for section in sections for row in section.rows]
    need = -_GAP
    for i, column in enumerate(columns):
        if column.rank == 0:
            own = max([len(column.title), *(len(row[i]) for row in rows)])
            need += _GAP + (min(own, _LEAST_FOLDED) if column.kind in _NARROWED else own)
    return bool(rows) and need > max(width, MIN_WIDTH)


def _block_lines(sections: Sequence[Section], width: int, *, first: bool) -> list[str]:
    """Return the lines of sections whose rows are blocks, with a line for each cell."""
    lines: list[str] = []
    for section in sections:
        lines += [] if first and not lines else [""]
        lines += wrap(printable(section.title), width)
        for number, row in enumerate(section.rows):
            lines += [""] * bool(number)
            lines += _block(section.columns, row, width)
    return lines


def _block(columns: tuple[Column, ...], row: Sequence[Cell], width: int) -> Iterator[str]:
    """Yield the lines of a row; cells that are None have none."""
    margin = max(len(column.title) for column in columns) + _GAP
    for column, cell, text in zip(columns, row, cell_texts(columns, row), strict=True):
        label = column.title.ljust(margin)
        if column.kind is Kind.COMMAND:
            yield f"{label}{text}"
        elif cell is not None:
            for number, line in enumerate(_pieces(text, width - margin)):
                yield f"{' ' * margin if number else label}{line}"


def _least_widths(columns: Sequence[Column], texts: Sequence[list[str]]) -> list[int]:
    """Return the widths in which columns of codes show the first code of each row whole."""
    return [
        max((len(_shortest(row[i])) for row in texts), default=0)
        if column.kind is Kind.CODES
        else 0
        for i, column in enumerate(columns)
    ]


def _shortest(cell: str) -> str:
    first, *others = cell.split(COMMA)
    return _with_more(first, len(others))


def _with_more(text: str, more: int) -> str:
    return f"{text}{COMMA}+{more}" if more else text


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

    texts = [i for i in shown if columns[i].kind in _NARROWED]
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
    wraps = frozenset(i for i in shown if columns[i].wraps or columns[i].kind is Kind.PATH)
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
    pieces = {i: _pieces(cells[i], widths[i]) for i in wraps if len(cells[i]) > widths[i]}
    if not pieces:
        yield cells
        return
    for line in range(max(map(len, pieces.values()))):
        first = cells if line == 0 else [""] * len(cells)
        wrapped = {i: some[line] if line < len(some) else "" for i, some in pieces.items()}
        yield [wrapped.get(i, cell) for i, cell in enumerate(first)]


def _pieces(text: str, width: int) -> list[str]:
    """Return the lines of a text; one without blanks is broken after slashes where possible."""
    if " " in text:
        return wrap(text, width, break_on_hyphens=False)
    lines = [""]
    for piece in re.findall("[^/]*/|[^/]+", text):
        if len(lines[-1]) + len(piece) > width:
            lines.append("")
        while len(lines[-1]) + len(piece) > width:
            lines[-1], piece = piece[:width], piece[width:]
            lines.append("")
        lines[-1] += piece
    return [line for line in lines if line]


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
        texts = cell.split(COMMA)
        pieces = (
            _with_more(COMMA.join(texts[:count]), len(texts) - count)
            for count in range(len(texts) - 1, 0, -1)
        )
        return next(piece for piece in pieces if len(piece) <= width)
    tails = {Kind.KEY: (width - 1) * 2 // 3, Kind.DATA: 0}
    tail = tails.get(kind, (width - 1) // 2)
    return cell[: width - 1 - tail] + _CUT + cell[len(cell) - tail :]
