"""Charts of the fleet: the values of their bars; the template draws them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec import Struct

from je_tools.formats.je.types import RELEASES
from je_tools.pages.bars import Bar, bar_percent, counted_as, size_bars
from je_tools.pages.log_fields import SEVERITIES
from je_tools.pages.shown import shown

if TYPE_CHECKING:
    from je_tools.audit.fleet import FleetSummary


class Slice(Struct, frozen=True):
    """A section of the bar of all environments; start and length are in percent."""

    severity: str
    count: int
    start: float
    length: float


def severity_slices(summary: FleetSummary) -> list[Slice]:
    """Return the environments by severity; each non-empty slice is wide enough to be seen."""
    counts = summary.counts.severities
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
            counted_as(found.count, "finding"),
            bar_percent(found.env_count, most),
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
            counted_as(one.file_count, "file"),
            f"in {counted_as(one.env_count, 'environment')}",
            bar_percent(one.file_count, most),
        )
        for one in reversed(summary.versions)
    ]


def type_bars(summary: FleetSummary) -> list[Bar]:
    """Return bars of bytes by entry type, the largest first."""
    named = [(shown(one.type), one.size, one.count) for one in summary.types]
    return size_bars(named, "other types", "entry", "entries")


def outcome_bars(summary: FleetSummary) -> list[Bar]:
    """Return bars of transactions by outcome."""
    most = max((one.count for one in summary.outcomes), default=1)
    return [
        Bar(
            shown(one.outcome),
            f"{one.count:,}",
            counted_as(one.entry_count, "entry", "entries"),
            bar_percent(one.count, most),
        )
        for one in summary.outcomes
    ]
