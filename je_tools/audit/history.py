"""History of a fleet for the page: the last runs, and what has changed since the one before."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from je_tools.audit.changes import Change, compare_runs
from je_tools.audit.output_folder import complete_runs, run_rows
from je_tools.pages.log_fields import SEVERITIES, place_in_store
from je_tools.pages.shown import NAME_MAX, shown

if TYPE_CHECKING:
    from je_tools.audit.fleet import FleetSummary
    from je_tools.audit.output_folder import RunFolder

RUNS_MAX = 14
"""Largest number of runs in the page."""

CHANGED_MAX = 30
"""Largest number of changed environments in the page."""

FINDINGS_MAX = 30
"""Largest number of new findings in the page."""


class PastRun(Struct, frozen=True):
    """A run in the history, with counts of environments by their worst finding."""

    started: str
    error: int
    warning: int
    note: int
    ok: int
    size: int
    entry_count: int


class ShownChange(Struct, frozen=True):
    """An environment that has changed since the run before; sizes are differences."""

    name: str
    change: str
    severity: str
    new_finding_count: int
    gone_finding_count: int
    gone_file_count: int
    size: int


class NewFinding(Struct, frozen=True):
    """A finding that the run before does not have, and its place in words."""

    severity: str
    code: str
    name: str
    place: str


class History(Struct, frozen=True):
    """History of a fleet.

    Attributes:
        runs: the last runs, this one included, the oldest first.
        before: start of the run before; None for the first run.
        environments: the changed environments, the worst first, at most CHANGED_MAX.
        counts: number of changed environments by `Change`.
        new_finding_count, gone_finding_count: findings that only one of the two runs has.
        findings: the new ones, the worst first, at most FINDINGS_MAX.
    """

    runs: tuple[PastRun, ...]
    before: str | None = None
    environments: tuple[ShownChange, ...] = ()
    counts: dict[str, int] = {}
    new_finding_count: int = 0
    gone_finding_count: int = 0
    findings: tuple[NewFinding, ...] = ()

    @property
    def left_out(self) -> int:
        """Number of changed environments that are not listed."""
        return sum(self.counts.values()) - len(self.environments)


def read_history(tables: RunFolder, summary: FleetSummary) -> History:
    """Return the history up to a run, which need not be complete."""
    earlier = [row for row in run_rows(tables.path) if row["run"] < tables.run]
    runs = tuple(map(_past, [*earlier, summary.row][-RUNS_MAX:]))
    if not earlier:
        return History(runs)
    last = [each for each in complete_runs(tables.path) if each.run < tables.run][-1]
    changes = compare_runs(last, tables)
    return History(
        runs,
        runs[-2].started,
        tuple(map(_changed, changes.environments(CHANGED_MAX))),
        changes.counts,
        changes.new_findings.num_rows,
        changes.gone_findings.num_rows,
        tuple(map(_new_finding, changes.new_findings.slice(0, FINDINGS_MAX).to_pylist())),
    )


def _new_finding(row: dict[str, Any]) -> NewFinding:
    place = place_in_store(row)
    if place is None and row["file_no"] is not None:
        place = f"file {row['file_no']:08x}, offset {row['offset'] or 0:,}"
    severity = row["severity"] if row["severity"] in SEVERITIES else SEVERITIES[-2]
    code = shown(row["code"] or "", NAME_MAX)
    return NewFinding(severity, code, shown(row["env"] or "", NAME_MAX), place or "–")


def _past(row: dict[str, Any]) -> PastRun:
    found = {name: row[f"{name}_env_count"] for name in ("error", "warning", "note")}
    started = datetime.fromtimestamp(row["started_ms"] / 1000, UTC)
    return PastRun(
        started=started.strftime("%Y-%m-%d %H:%M"),
        ok=row["environment_count"] - sum(found.values()),
        size=row["size"],
        entry_count=row["entry_count"],
        **found,
    )


def _changed(each: Any) -> ShownChange:
    return ShownChange(
        shown(each.env, NAME_MAX),
        "changed" if each.change is Change.SAME else each.change.value,
        each.severity or each.severity_before or "ok",
        each.new_finding_count,
        each.gone_finding_count,
        each.gone_file_count,
        each.size,
    )
