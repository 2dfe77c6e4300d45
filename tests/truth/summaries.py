"""Output of DbPrintLog -S, -SC and -vd: totals of a log, and VLSNs by file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.truth.printlog import PrintlogError

_WIDTHS = (20, 15)
"""Widths in characters of a column of the table; the narrower one is JE 3.3's."""

_COLUMNS = (
    "type",
    "total count",
    "provisional count",
    "total bytes",
    "min bytes",
    "max bytes",
    "avg bytes",
    "entries as % of log",
)
_INTERVALS = "Per checkpoint interval info:"
_INTERVAL_COLUMNS = (
    "lnTxn",
    "ln",
    "mapLNTxn",
    "mapLN",
    "end to end",
    "end to start",
    "start to end",
    "maxLNReplay",
    "ckptEnd",
)
_TOTALS = re.compile(
    r"Total bytes in portion of log read: ([\d,]+)\nTotal number of entries: ([\d,]+)\n"
)
_VLSN_FILE = re.compile(
    r"file 0x([0-9a-f]+) numRepRecords = (\d+) firstVLSN = ([\d,]+) lastVLSN = ([\d,]+)"
)


@dataclass
class Totals:
    """A summary.

    Attributes:
        types: by type, the count, provisional count, bytes, their least, most and mean, and
            percent of the log; None for an empty cell. Sizes of keys and values are included, as
            `key bytes`, `data bytes` (JE 3.3: `key/data`).
        intervals: numbers of each checkpoint interval, in the order of the columns, and its LSN.
        exact: True if the shares are exact, False if they are rounded to one decimal.
    """

    size: int
    count: int
    exact: bool
    types: dict[str, list[float | None]] = field(default_factory=dict)
    intervals: list[tuple[list[int], str]] = field(default_factory=list)


def read_table(text: str) -> Totals:
    """Read the output of -S.

    Raises:
        PrintlogError: the text has another form.
    """
    lines = text.split("\n")
    if lines[:2] != ["<DbPrintLog>", "Log statistics:"] or lines[-2:] != ["</DbPrintLog>", ""]:
        raise PrintlogError("not a summary")
    width = next((w for w in _WIDTHS if lines[2][:w].endswith("  type")), None)
    if width is None or len(lines[2]) != len(_COLUMNS) * width:
        raise PrintlogError(f"unknown columns: {lines[2]!r}")
    border = len(_COLUMNS) * width

    def cells(line: str) -> list[str]:
        found = [line[at : at + width].strip() for at in range(0, border, width)]
        return [*found, line[border:].strip()] if len(line) > border else found

    heads = [" ".join(pair).strip() for pair in zip(cells(lines[2]), cells(lines[3]), strict=True)]
    _check_heads(heads)
    return _read(lines[4:-2], cells, exact=False)


def read_csv(text: str) -> Totals:
    """Read the output of -SC.

    Raises:
        PrintlogError: the text has another form.
    """
    lines = text.rstrip("\n").split("\n")

    def cells(line: str) -> list[str]:
        return [cell.strip() for cell in line.split(",")]

    _check_heads(cells(lines[0]))
    return _read(lines[1:], cells, exact=True)


def _check_heads(heads: list[str]) -> None:
    if tuple(heads) != _COLUMNS:
        raise PrintlogError(f"unknown columns: {heads}")


def _read(lines: list[str], cells: Callable[[str], list[str]], *, exact: bool) -> Totals:
    border = lines.index("")
    totals = _TOTALS.match("\n".join(lines[border + 1 :]))
    if totals is None or lines[border + 3 : border + 5] != ["", _INTERVALS]:
        raise PrintlogError(f"unknown totals: {lines[border : border + 5]}")
    found = Totals(_number(totals[1]), _number(totals[2]), exact)
    for name, *numbers in map(cells, lines[:border]):
        found.types[name] = [_cell(cell) for cell in numbers]
    heads = cells(lines[border + 5])
    if [head.replace("-", " to ") for head in heads if head] != list(_INTERVAL_COLUMNS):
        raise PrintlogError(f"unknown columns: {heads}")
    for *numbers, lsn in map(cells, lines[border + 6 :]):
        found.intervals.append(([_number(number) for number in numbers], lsn))
    return found


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _cell(text: str) -> float | None:
    """Parse a number; shares of keys and values are in parentheses."""
    plain = text.strip("()").replace(",", "")
    return float(plain) if plain else None


def read_vlsns(text: str) -> dict[int, tuple[int, int, int]]:
    """Read the output of -vd: replicated entries, first and last VLSN of each file that has some.

    Raises:
        PrintlogError: the text has another form.
    """
    lines = text.split("\n")
    stop = next((at for at, line in enumerate(lines) if line.startswith("... ")), None)
    if lines[0] != "<DbPrintLog>" or stop is None or not _ended(lines[stop:]):
        raise PrintlogError(f"not a distribution of VLSNs: {text[-200:]!r}")
    found = {}
    for line in lines[1:stop]:
        match = _VLSN_FILE.fullmatch(line)
        if match is None:
            raise PrintlogError(f"not a file: {line!r}")
        found[int(match[1], 16)] = (int(match[2]), _number(match[3]), _number(match[4]))
    return found


def _ended(lines: list[str]) -> bool:
    patterns = (r"\.\.\. \d+ files at end", r"First file: 0x\w+", r"Last file: 0x\w+")
    return lines[3:] == ["</DbPrintLog>", ""] and all(
        re.fullmatch(pattern, line) for pattern, line in zip(patterns, lines, strict=False)
    )
