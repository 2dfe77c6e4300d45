"""A person's data in a fleet, as result tables."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from je_tools.output.views.sections import Column, Kind, Section, section_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from je_tools.audit.find import FleetHits
    from je_tools.audit.find_data import EnvironmentHits

_ENVIRONMENTS = (
    Column("env", "environment", Kind.KEY, cell=lambda each: each.shown),
    Column("hit_count", "traces"),
    Column("live_count", "live", rank=1, cell=lambda each: _count(each, "live record")),
    Column("erasable_count", "erasable now", rank=2, cell=lambda each: _erasable(each)),
    Column("gap_count", "not searched", rank=3, cell=lambda each: len(each.gaps)),
    Column("obstacles", "obstacles", Kind.TEXTS, rank=4),
)
_STATES = (
    Column("env", "environment", Kind.KEY, cell=lambda row: row[0]),
    Column("state", "state", Kind.TEXT, cell=lambda row: row[1]),
    Column("trace_count", "traces", cell=lambda row: row[4]),
    Column("can_erase", "erase", Kind.FLAG, cell=lambda row: row[2]),
    Column("reason", "why", Kind.TEXT, cell=lambda row: row[3], wraps=True),
)
_TRACES = (
    Column("env", "environment", Kind.KEY),
    Column("file", "file", Kind.TEXT),
    Column("offset", "offset", Kind.ID),
    Column("size", "bytes"),
    Column("lsn", "LSN", Kind.LSN),
    Column("type", "type", Kind.TEXT),
    Column("db", "database", Kind.TEXT),
    Column("where", "where", Kind.TEXT),
    Column("state", "state", Kind.TEXT),
    Column("can_erase", "erase", Kind.FLAG),
    Column("reason", "reason", Kind.TEXT),
    Column("needle", "needle", Kind.TEXT),
)
_FIRST = (
    Column("env", "environment", Kind.KEY, rank=1),
    Column("file", "file", Kind.KEY),
    Column("offset", "offset", Kind.ID),
    Column("size", "bytes", rank=2),
    Column("where", "where", Kind.TEXT, rank=1),
    Column("state", "state", Kind.TEXT, rank=1),
)
_FIRST_MAX = 20
"""Largest number of traces that are shown to people."""

_GAPS = (
    Column("env", "environment", Kind.KEY, cell=lambda row: row[0]),
    Column("file", "file", Kind.TEXT, cell=lambda row: row[1]),
    Column("problem", "problem", Kind.TEXT, cell=lambda row: row[2], wraps=True),
)


def find_sections(found: FleetHits, *, is_short: bool) -> list[Section]:
    """Return the environments with traces, their traces, and what was not searched.

    Args:
        found: the answer.
        is_short: True to sum the traces up by state, and to show the first ones, for people.
    """
    listed = (trace for each in found.environments for trace in each.traces)
    if is_short:
        first = list(islice(listed, _FIRST_MAX + 1))
        title = "Traces" if len(first) <= _FIRST_MAX else f"The first {_FIRST_MAX} traces"
        traces = [
            section_of("states", "Listed traces by state", _STATES, _states(found)),
            section_of("traces", title, _FIRST, first[:_FIRST_MAX]),
        ]
    else:
        traces = [section_of("traces", "", _TRACES, listed)]
    environments = section_of("environments", "Environments", _ENVIRONMENTS, found.environments)
    gaps = section_of("gaps", "Where a trace may be unseen", _GAPS, _gaps(found))
    return [each for each in (environments, *traces, gaps) if each.rows or not is_short]


def _count(each: EnvironmentHits, state: str) -> int:
    return sum(trace.state == state for trace in each.traces)


def _erasable(each: EnvironmentHits) -> int:
    return sum(trace.can_erase is True for trace in each.traces)


def _states(found: FleetHits) -> Iterator[tuple[str, str, bool | None, str, int]]:
    for each in found.environments:
        counts = Counter((t.state, t.can_erase, t.reason) for t in each.traces)
        for key, count in counts.most_common():
            yield each.shown, *key, count


def _gaps(found: FleetHits) -> Iterator[tuple[str, str, str]]:
    for each in found.environments:
        yield from ((each.shown, file, problem) for file, problem in each.gaps)
    yield from ((env, "", problem) for env, problem in found.gaps)
