"""Summary of an audit in Prometheus' text format, for node_exporter's textfile collector.

Names of environments come from outside. A label holds one printable line, and no two environments
share one, because a collector drops the whole file if it has one repeated series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from je_tools.core.escaping import clean_text, metric_label, printable
from je_tools.pages.shown import distinct

if TYPE_CHECKING:
    from je_tools.audit.fleet import EnvironmentRow, FleetSummary

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
        lambda row: row.number("unfinished_count"),
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
)


def metrics_text(summary: FleetSummary) -> Iterator[str]:
    """Yield the lines, each with its end."""
    run = summary.run
    names = distinct(printable(clean_text(row.env)) for row in summary.environments)
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
        [({"severity": name}, str(count)) for name, count in summary.severities.items()],
    )
    yield from _family(
        "environment_severity",
        "1 for the severity of the environment's worst finding.",
        [
            ({"env": name, "severity": row.severity}, "1")
            for name, row in zip(names, summary.environments, strict=True)
        ],
    )
    yield from _family("findings", "Findings by code.", _findings(summary, names))
    for gauge in _GAUGES:
        yield from _family(gauge.name, gauge.text, _samples(gauge, summary, names))


def _findings(summary: FleetSummary, names: list[str]) -> Iterator[tuple[Labels, str]]:
    for name, row in zip(names, summary.environments, strict=True):
        for found in row.findings:
            labels = {"env": name, "code": found.code, "severity": found.severity}
            yield labels, str(found.count)


def _samples(
    gauge: _Gauge, summary: FleetSummary, names: list[str]
) -> Iterator[tuple[Labels, str]]:
    for name, row in zip(names, summary.environments, strict=True):
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
