"""Summary of an audit in Prometheus' text format, for node_exporter's textfile collector.

Names of environments come from outside. A label holds one printable line, and no two environments
share one, because a collector drops the whole file if it has one repeated series.

The number of series is bounded: sums over the fleet, and series of the worst environments and
groups only. A collector would otherwise keep many series of each of thousands of environments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from je_tools.core.escaping import clean_text, metric_label, printable
from je_tools.pages.shown import distinct

if TYPE_CHECKING:
    from je_tools.audit.environment_list import EnvironmentRow
    from je_tools.audit.fleet import FleetSummary

WORST_MAX = 100
"""Largest number of environments, and of groups, with series of their own: the worst ones."""

PREFIX = "je_tools_audit_"
"""Prefix of every metric."""

Labels = dict[str, str]


class _Gauge(NamedTuple):
    """A metric that is a number of each environment; None if it has none."""

    name: str
    text: str
    value: Callable[[EnvironmentRow], int | None]
    is_time: bool = False


_GAUGES = (
    _Gauge("environment_bytes", "Bytes of its log files.", lambda row: row.number("size")),
    _Gauge("environment_files", "Log files.", lambda row: row.number("file_count")),
    _Gauge("environment_entries", "Good entries.", lambda row: row.number("entry_count")),
    _Gauge(
        "environment_damaged_bytes",
        "Bytes in damaged entries, gaps and ends of files.",
        lambda row: row.number("damaged_size"),
    ),
    _Gauge(
        "environment_unfinished_transactions",
        "Transactions without an end.",
        lambda row: row.values["unfinished_count"],
    ),
    _Gauge(
        "environment_last_vlsn",
        "Highest VLSN of the replication stream.",
        lambda row: row.values["last_vlsn"],
    ),
    _Gauge(
        "environment_last_checkpoint_timestamp_seconds",
        "Time of the last CkptEnd.",
        lambda row: row.values["last_checkpoint_ms"],
        is_time=True,
    ),
    _Gauge(
        "environment_last_transaction_timestamp_seconds",
        "Time of the last Commit or Abort.",
        lambda row: row.last_txn_ms,
        is_time=True,
    ),
    _Gauge(
        "environment_last_commit_timestamp_seconds",
        "Time of the last Commit that recovery leaves.",
        lambda row: row.values.get("last_commit_ms"),
        is_time=True,
    ),
    _Gauge(
        "environment_lost_commits",
        "Commits that recovery would cut off.",
        lambda row: row.values.get("lost_commit_count"),
    ),
    _Gauge(
        "environment_lost_keys",
        "Keys that recovery would cut off.",
        lambda row: row.values.get("lost_key_count"),
    ),
    _Gauge(
        "environment_used_bytes",
        "Bytes in use by the engine's counts.",
        lambda row: row.values.get("used_size"),
    ),
    _Gauge(
        "environment_group_lag_vlsn",
        "Last VLSN of the leader of its group minus its own.",
        lambda row: None if row.node is None else row.node["group_lag_vlsn"],
    ),
)

_SUMS = (
    ("lost_commits", "lost_commit_count", "Commits that recovery would cut off, in all."),
    ("lost_keys", "lost_key_count", "Keys that recovery would cut off, in all."),
)
_OF_GROUPS = (
    ("group_lag_vlsn", "Largest lag of a node behind the leader."),
    ("missing_count", "Members with a log that were not found."),
    ("diverged_count", "Nodes that would roll entries back to follow the leader."),
    ("rollback_commit_count", "Commits that these would roll back."),
    ("lost_end_count", "Nodes that have lost an end of their log."),
)


def metrics_text(summary: FleetSummary) -> Iterator[str]:
    """Yield the lines, each with its end."""
    run = summary.run
    worst = summary.environments[:WORST_MAX]
    names = distinct(printable(clean_text(row.env)) for row in worst)
    versions = {"version": run.version, "engine": run.engine}
    if run.spark_version is not None:
        versions["spark_version"] = run.spark_version
    yield from _family("info", "Versions of the run.", [(versions, "1")])
    ended = _seconds(run.started_ms + run.duration_ms)
    yield from _family("run_timestamp_seconds", "Time at which the run ended.", [({}, ended)])
    lasted: list[tuple[Labels, str]] = [({}, _seconds(run.duration_ms))]
    yield from _family("run_duration_seconds", "Duration of the run.", lasted)
    yield from _family(
        "environments",
        "Environments by their worst finding.",
        [({"severity": name}, str(count)) for name, count in summary.counts.severities.items()],
    )
    yield from _sums(summary)
    yield from _of_groups(summary)
    yield from _family(
        "environment_severity",
        "1 for the severity of the environment's worst finding.",
        [
            ({"env": name, "severity": row.severity}, "1")
            for name, row in zip(names, worst, strict=True)
        ],
    )
    yield from _family("findings", "Findings by code.", _findings(worst, names))
    for gauge in _GAUGES:
        yield from _family(gauge.name, gauge.text, _samples(gauge, worst, names))


def _sums(summary: FleetSummary) -> Iterator[str]:
    """Yield sums over all environments."""
    outcomes = summary.counts.outcomes
    yield from _family(
        "environments_by_outcome",
        "Environments by what the engine would do with them.",
        [({"outcome": name}, str(count)) for name, count in outcomes.items()],
    )
    for name, column, text in _SUMS:
        lost = summary.counts.lost[column]
        samples: list[tuple[Labels, str]] = [] if lost is None else [({}, str(lost))]
        yield from _family(name, text, samples)
    for name, text in (("count", "Findings by code, in all."), ("env_count", _WITH_FINDING)):
        samples = [
            ({"code": found.code, "severity": found.severity}, str(getattr(found, name)))
            for found in summary.findings
        ]
        yield from _family("all_findings" if name == "count" else "found_in", text, samples)


_WITH_FINDING = "Environments that have a finding of the code."


def _of_groups(summary: FleetSummary) -> Iterator[str]:
    """Yield the number of groups, and series of the worst ones."""
    count = len(summary.groups)
    if count:
        yield from _family("groups", "Replication groups.", [({}, str(count))])
    groups = summary.groups[:WORST_MAX]
    ids = distinct(printable(clean_text(group["group_id"] or "")) for group in groups)
    for column, text in _OF_GROUPS:
        samples = [
            (
                {
                    "group": printable(clean_text(group["group_name"] or "")),
                    "group_id": group_id,
                },
                str(group[column] or 0),
            )
            for group_id, group in zip(ids, groups, strict=True)
        ]
        name = column if column.startswith("group_") else f"group_{column.removesuffix('_count')}"
        yield from _family(name, text, samples)


def _findings(rows: Sequence[EnvironmentRow], names: list[str]) -> Iterator[tuple[Labels, str]]:
    for name, row in zip(names, rows, strict=True):
        for found in row.findings:
            labels = {"env": name, "code": found.code, "severity": found.severity}
            yield labels, str(found.count)


def _samples(
    gauge: _Gauge, rows: Sequence[EnvironmentRow], names: list[str]
) -> Iterator[tuple[Labels, str]]:
    for name, row in zip(names, rows, strict=True):
        value = gauge.value(row)
        if value is not None:
            yield {"env": name}, _seconds(value) if gauge.is_time else str(value)


def _family(name: str, text: str, samples: Iterable[tuple[Labels, str]]) -> Iterator[str]:
    """Yield a metric with its samples, or nothing if there are none."""
    head = f"# HELP {PREFIX}{name} {text}\n# TYPE {PREFIX}{name} gauge\n"
    for labels, value in samples:
        inside = ",".join(f'{key}="{metric_label(label)}"' for key, label in labels.items())
        yield f"{head}{PREFIX}{name}{'{' + inside + '}' if inside else ''} {value}\n"
        head = ""


def _seconds(time_ms: int) -> str:
    """Format milliseconds as seconds, without loss of digits."""
    sign = "-" if time_ms < 0 else ""
    return f"{sign}{abs(time_ms) // 1000}.{abs(time_ms) % 1000:03d}"
