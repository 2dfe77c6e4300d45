"""Bars of a chart: their values; the template draws them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

ROWS_MAX = 8
"""Maximum bars of a chart; further findings are folded, further types summed in one bar."""

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


class Bar(Struct, frozen=True):
    """One bar of a chart.

    Attributes:
        label: its subject.
        value: its number, formatted.
        note: further details.
        percent: its length, 0 to 100.
        tone: severity that gives it a colour and a sign, or empty.
        link: view of the page that shows its contents, or empty.
    """

    label: str
    value: str
    note: str
    percent: float
    tone: str = ""
    link: str = ""


def size_text(size: int) -> str:
    """Format a number of bytes in the unit that gives few digits."""
    value, unit = float(size), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{size:,} {_UNITS[0]}" if unit == 0 else f"{value:,.1f} {_UNITS[unit]}"


def size_bars(
    rows: Sequence[tuple[str, int, int]], others: str, one: str, many: str = ""
) -> list[Bar]:
    """Return bars of bytes.

    Args:
        rows: name, bytes and count of each, the largest first.
        others: name of those that the last bar sums up.
        one, many: noun of the counts, and its plural if that is irregular.
    """
    shown = _with_others(rows, others)
    most = max((size for _, size, _ in shown), default=1)
    return [
        Bar(name, size_text(size), counted_as(count, one, many), bar_percent(size, most))
        for name, size, count in shown
    ]


def _with_others(rows: Sequence[tuple[str, int, int]], name: str) -> list[tuple[str, int, int]]:
    """Return rows of a name and two numbers, those beyond ROWS_MAX summed in the last."""
    if len(rows) <= ROWS_MAX:
        return list(rows)
    head, rest = rows[: ROWS_MAX - 1], rows[ROWS_MAX - 1 :]
    sums = (sum(size for _, size, _ in rest), sum(count for _, _, count in rest))
    return [*head, (f"{len(rest)} {name}", *sums)]


def bar_percent(value: int, most: int) -> float:
    """Return the length of a bar, large enough to be seen unless the value is 0."""
    return round(max(100 * value / max(most, 1), 0.8 if value else 0), 2)


def counted_as(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun, whose plural may be irregular."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
