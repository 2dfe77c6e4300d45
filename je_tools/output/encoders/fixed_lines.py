"""Lines for a terminal: fixed columns that fit its width, and a last one of any length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from je_tools.output.encoders import arrow_texts as t

MIN_WIDTH = 40
_CUT = "~"


class Layout(Struct, frozen=True):
    """Widths of the columns; the detail takes the remaining width.

    Attributes:
        shown: names of the columns with their widths.
        width: largest number of characters in a line.
    """

    shown: tuple[tuple[str, int], ...]
    width: int

    def shows(self, name: str) -> bool:
        """Return True if the column is shown."""
        return any(name == shown for shown, _ in self.shown)


def lay_out(width: int, columns: Sequence[tuple[str, int]], least: int = 1) -> Layout:
    """Return the columns that leave room for a detail in a line of `width` characters.

    Args:
        width: characters of the terminal.
        columns: names and widths, the more important ones first.
        least: number of columns that are shown in any case.
    """
    most = max(width, MIN_WIDTH) - 1
    left = most
    least_detail = min(24, left // 3)
    chosen: list[tuple[str, int]] = []
    for name, size in columns:
        if left - size - 1 >= least_detail or len(chosen) < least:
            chosen.append((name, size))
            left -= size + 1
    return Layout(tuple(chosen), most)


def layout_header(layout: Layout, numbers: Set[str]) -> bytes:
    """Return the line with the column names; those of `numbers` are aligned to the right."""
    cells = [
        name.upper().rjust(size) if name in numbers else name.upper().ljust(size)
        for name, size in layout.shown
    ]
    return (" ".join([*cells, "DETAIL"]).rstrip() + "\n").encode()


def layout_lines(
    layout: Layout,
    cells: Mapping[str, pa.StringArray],
    numbers: Set[str],
    whole: Set[str],
    detail: pa.StringArray,
) -> pa.Buffer:
    """Return lines, with `~` where a cell is cut.

    Args:
        layout: the columns.
        cells: texts of the shown columns.
        numbers: columns that are aligned to the right.
        whole: columns that are never cut, since half a number is a wrong one; they shift the rest.
        detail: texts of the last column.
    """
    pieces: list[str | pa.StringArray] = []
    for name, size in layout.shown:
        texts = pc.fill_null(cells[name], "")
        if name in numbers:
            texts = pc.ascii_lpad(texts, size)
        else:
            texts = pc.ascii_rpad(texts if name in whole else cut(texts, size), size)
        pieces += [texts, " "]
    lines = t.joined(*pieces, detail)
    return t.text_bytes(t.joined(cut(pc.utf8_rtrim_whitespace(lines), layout.width), "\n"))


def cut(texts: pa.StringArray, width: int) -> pa.StringArray:
    """Return texts of at most `width` characters, with `~` at the end of those that are cut."""
    long = pc.greater(pc.binary_length(texts), width)
    short = pc.utf8_slice_codeunits(texts, 0, width - 1)
    return pc.if_else(long, t.joined(short, _CUT), texts)
