"""Charts of the fleet: the values of their bars; the template draws them."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from msgspec import Struct

from je_tools.audit.fleet import SEVERITIES, FleetSummary
from je_tools.audit.shown import shown
from je_tools.formats.je.types import RELEASES

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


class Slice(Struct, frozen=True):
    """A section of the bar of all environments; start and length are in percent."""

    severity: str
    count: int
    start: float
    length: float


def size_text(size: int) -> str:
    """Format a number of bytes in the unit that gives few digits."""
    value, unit = float(size), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{size:,} {_UNITS[0]}" if unit == 0 else f"{value:,.1f} {_UNITS[unit]}"


def severity_slices(summary: FleetSummary) -> list[Slice]:
    """Return the environments by severity; each non-empty slice is wide enough to be seen."""
    counts = summary.severities
    total = sum(counts.values())
    present = [name for name in SEVERITIES if counts[name]]
    least = 1.5
    spare = 100 - least * len(present)
    slices, start = [], 0.0
    for name in SEVERITIES:
        length = least + spare * counts[name] / total if counts[name] else 0.0
        slices.append(Slice(name, counts[name], round(start, 3), round(length, 3)))
        start += length
    return slices


def finding_bars(summary: FleetSummary) -> list[Bar]:
    """Return a bar for each finding code, the worst first, by the number of environments."""
    most = max((found.env_count for found in summary.findings), default=1)
    return [
        Bar(
            shown(found.code),
            f"{found.env_count:,}",
            _counted(found.count, "finding"),
            _percent(found.env_count, most),
            found.severity if found.severity in SEVERITIES else "note",
            f"#code={quote(shown(found.code))}",
        )
        for found in summary.findings
    ]


def version_bars(summary: FleetSummary) -> list[Bar]:
    """Return bars of files by log version, the newest first."""
    most = max((version.file_count for version in summary.versions), default=1)
    return [
        Bar(
            f"{one.version}"
            + (f" (JE {RELEASES[one.version]})" if one.version in RELEASES else ""),
            _counted(one.file_count, "file"),
            f"in {_counted(one.env_count, 'environment')}",
            _percent(one.file_count, most),
        )
        for one in reversed(summary.versions)
    ]


def type_bars(summary: FleetSummary) -> list[Bar]:
    """Return bars of bytes by entry type, the largest first."""
    named = [(shown(one.type), one.size, one.count) for one in summary.types]
    rows = _with_others(named, "other types")
    most = max((size for _, size, _ in rows), default=1)
    return [
        Bar(name, size_text(size), _counted(count, "entry", "entries"), _percent(size, most))
        for name, size, count in rows
    ]


def outcome_bars(summary: FleetSummary) -> list[Bar]:
    """Return bars of transactions by outcome."""
    most = max((one.count for one in summary.outcomes), default=1)
    return [
        Bar(
            shown(one.outcome),
            f"{one.count:,}",
            _counted(one.entry_count, "entry", "entries"),
            _percent(one.count, most),
        )
        for one in summary.outcomes
    ]


def _with_others(rows: Sequence[tuple[str, int, int]], name: str) -> list[tuple[str, int, int]]:
    if len(rows) <= ROWS_MAX:
        return list(rows)
    head, rest = rows[: ROWS_MAX - 1], rows[ROWS_MAX - 1 :]
    sums = (sum(size for _, size, _ in rest), sum(count for _, _, count in rest))
    return [*head, (f"{len(rest)} {name}", *sums)]


def _percent(value: int, most: int) -> float:
    """Return the length of a bar, large enough to be seen unless the value is 0."""
    return round(max(100 * value / max(most, 1), 0.8 if value else 0), 2)


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
