"""Summary of a fleet, computed from the tables of an audit.

Tables may have millions of rows. pyarrow streams and sums them, and only rows per environment, or
per environment and finding code, are held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import asdict

from je_tools.audit.discover import EnvironmentKind
from je_tools.audit.table_reading import ONE, TableRow, open_table, summed, table_rows
from je_tools.audit.tables import (
    ENTRY_STATS,
    ENVIRONMENTS,
    FILES,
    FINDINGS,
    GROUPS,
    NODES,
    RUNS,
    TABLES,
    TXN_STATS,
    AuditTable,
    ResultSource,
)
from je_tools.findings import CODES, Severity
from je_tools.pages.log_fields import SEVERITIES as SEVERITIES
from je_tools.pages.shown import natural_key

if TYPE_CHECKING:
    from je_tools.audit.output_folder import RunFolder

OK = SEVERITIES[-1]
"""The severity of an environment without findings."""


NOT_OPENED = ("no-log", "unsafe", "refuses", "fails", "does not start")
"""Outcomes of environments that their engine does not open, or cannot use."""

LOSING = ("loses", "starts with losses")
"""Outcomes of environments that their engine opens without some of what they hold."""

_UNKNOWN = (None, "unclear")

_LOST = ("lost_key_count", "missing_key_count", "lost_record_count")


class RunInfo(Struct, frozen=True):
    """The run whose tables are reported.

    Attributes:
        run: its id.
        roots: directories that were searched, as given.
        started_ms: start of the run, in ms since 1970.
        duration_ms: duration of the run, in ms.
        version: version of je-tools.
        engine: what ran it, `spark` or `local`.
        spark_version: version of Spark; None without it.
        master: Spark master, such as `local[*]`; None without Spark.
        tables: directory of the tables, as given.
    """

    run: str
    roots: tuple[str, ...]
    started_ms: int
    duration_ms: int
    version: str
    engine: str
    spark_version: str | None
    master: str | None
    tables: str


class CodeCount(Struct, frozen=True):
    """Number of findings of one code, in `env_count` environments."""

    code: str
    severity: str
    count: int
    env_count: int = 1


class EnvironmentRow(Struct, frozen=True):
    """A row of the table `environments`, with sums of other tables.

    Attributes:
        values: the row, by column name; counts and sizes that are summed are never None, except
            those of transactions, which are not known of stores of Ignite.
        findings: its findings by code, the worst first.
        last_txn_ms: time of its last Commit or Abort.
        node: its row of the table `nodes`; None if it has none.
    """

    values: Mapping[str, Any]
    findings: tuple[CodeCount, ...] = ()
    last_txn_ms: int | None = None
    node: Mapping[str, Any] | None = None

    @property
    def env(self) -> str:
        """Name of the environment."""
        return str(self.values["env"])

    @property
    def severity(self) -> str:
        """One of SEVERITIES."""
        return str(self.values["severity"])

    @property
    def kind(self) -> EnvironmentKind:
        """Kind of the environment; JE in runs of versions that knew only logs."""
        return EnvironmentKind(self.values.get("kind") or EnvironmentKind.JE)

    @property
    def versions(self) -> list[int]:
        """Log versions of its files, ascending."""
        return list(self.values["versions"] or ())

    @property
    def outcome(self) -> str | None:
        """Outcome of its engine's next start, as in `doctor`; None if unknown."""
        found = self.values.get("outcome")
        return None if found is None else str(found)

    @property
    def stakes(self) -> tuple[int, int, int]:
        """Its stakes, the worst least: whether it opens, then the Commits lost, then the rest.

        Those that do not open come first, then damaged ones of which this is not known, then those
        that lose something.
        """
        lost = [self.values.get(name) or 0 for name in ("lost_commit_count", *_LOST)]
        if self.outcome in NOT_OPENED:
            rank = 0
        elif self.outcome in _UNKNOWN and self.severity == Severity.ERROR.value:
            rank = 1
        else:
            rank = 2 if self.outcome in LOSING or any(lost) else 3
        return rank, -lost[0], -sum(lost[1:])

    def number(self, column: str) -> int:
        """Return a count or a size."""
        return int(self.values[column])


class VersionCount(Struct, frozen=True):
    """Files of one log version."""

    version: int
    env_count: int
    file_count: int
    size: int


class EntryTypeCount(Struct, frozen=True):
    """Good entries of one type."""

    type: str
    count: int
    size: int


class OutcomeCount(Struct, frozen=True):
    """Transactions of one outcome."""

    outcome: str
    count: int
    entry_count: int
    size: int


class FleetSummary(Struct, frozen=True):
    """Totals of a fleet.

    Attributes:
        run: the run that made the tables.
        environments: one row an environment, the worst first.
        findings: by code and severity, the worst and most frequent first.
        versions: by log version, ascending; files with a bad header are in none.
        types: by entry type, the largest first.
        outcomes: by outcome of transactions, the most frequent first.
        row_counts: number of rows of each table, by its name.
        read_file_count: number of log files of which at least a part was read in this run.
        groups: rows of the table `groups`, the worst first.
    """

    run: RunInfo
    environments: tuple[EnvironmentRow, ...]
    findings: tuple[CodeCount, ...] = ()
    versions: tuple[VersionCount, ...] = ()
    types: tuple[EntryTypeCount, ...] = ()
    outcomes: tuple[OutcomeCount, ...] = ()
    row_counts: Mapping[str, int] = field(default_factory=dict)
    read_file_count: int = 0
    groups: tuple[Mapping[str, Any], ...] = ()

    @property
    def severities(self) -> dict[str, int]:
        """Number of environments of each severity, the worst first; zeros included."""
        counts = dict.fromkeys(SEVERITIES, 0)
        for row in self.environments:
            counts[row.severity] = counts.get(row.severity, 0) + 1
        return counts

    @property
    def totals(self) -> dict[str, int]:
        """Sums over all environments."""
        sums = {"environment_count": len(self.environments)}
        for column in _SUMMED:
            sums[column] = sum(row.values[column] or 0 for row in self.environments)
        return sums | {"read_file_count": self.read_file_count}

    @property
    def row(self) -> dict[str, Any]:
        """Row of the table runs, by column."""
        counts = {f"{name}_env_count": count for name, count in self.severities.items()}
        known = {**asdict(self.run), **self.totals, **counts}
        return {column.name: known[column.name] for column in RUNS.columns}

    @property
    def outcomes_of_opening(self) -> dict[str, int]:
        """Number of environments of each outcome of opening them, as far as it is known."""
        counts: dict[str, int] = {}
        for row in self.environments:
            if row.outcome is not None:
                counts[row.outcome] = counts.get(row.outcome, 0) + 1
        return dict(sorted(counts.items()))


_SUMMED = (
    "file_count",
    "size",
    "entry_count",
    "damaged_size",
    "error_count",
    "warning_count",
    "note_count",
    "checkpoint_count",
    "committed_count",
    "aborted_count",
    "unfinished_count",
)
_OF_TXNS = _SUMMED[-3:]
_TIMES_OF_ENDS = ("committed", "aborted")


def read_summary(tables: RunFolder, run: RunInfo) -> FleetSummary:
    """Sum up the tables of a run."""
    opened = {table.name: open_table(tables, table) for table in TABLES}
    by_env = _findings_by_environment(opened[FINDINGS.name])
    ends = _last_ends(opened[TXN_STATS.name])
    nodes = {row["env"]: row for row in _rows_of(tables, NODES)}
    rows = [
        EnvironmentRow(
            values,
            by_env.get(values["env"], ()),
            ends.get(values["env"]),
            nodes.get(values["env"]),
        )
        for values in table_rows(_whole(opened[ENVIRONMENTS.name].to_table()))
    ]
    return FleetSummary(
        run,
        environments=tuple(sorted(rows, key=_badness)),
        findings=_findings_by_code(by_env.values()),
        versions=_versions(opened[FILES.name]),
        types=_types(opened[ENTRY_STATS.name]),
        outcomes=_outcomes(opened[TXN_STATS.name]),
        row_counts={name: data.count_rows() for name, data in opened.items()},
        read_file_count=_read_count(opened[FILES.name], rows),
        groups=tuple(sorted(_rows_of(tables, GROUPS), key=_group_badness)),
    )


def _read_count(files: Any, rows: Iterable[EnvironmentRow]) -> int:
    """Return the number of files that this run has read; stores have none in the table `files`."""
    of_logs: int = files.count_rows(filter=pc.field("source") != ResultSource.KNOWN.value)
    of_stores = (
        row.number("file_count") for row in rows if row.values.get("source") == ResultSource.READ
    )
    return of_logs + sum(of_stores)


def _rows_of(tables: RunFolder, table: AuditTable) -> Iterator[TableRow]:
    return table_rows(open_table(tables, table).to_table())


def _whole(table: pa.Table) -> pa.Table:
    """Complete environments: set severities of ours, and numbers in the columns that are summed."""
    has_errors = pc.greater(pc.fill_null(table["error_count"], 0), 0)
    guessed = pc.if_else(has_errors, Severity.ERROR.value, OK)
    is_ours = pc.is_in(table["severity"], pa.array(SEVERITIES))
    whole = {
        "env": pc.fill_null(table["env"], ""),
        "severity": pc.if_else(is_ours, table["severity"], guessed),
        **{name: pc.fill_null(table[name], 0) for name in _SUMMED if name not in _OF_TXNS},
    }
    for name, column in whole.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(place), column)
    return table


def _badness(row: EnvironmentRow) -> tuple[Any, ...]:
    worst = SEVERITIES.index(row.severity)
    numbers = ("error_count", "damaged_size", "warning_count", "note_count")
    counts = (-row.number(name) for name in numbers)
    return (*row.stakes, worst, *counts, natural_key(row.env), row.env)


def _group_badness(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a key by which groups that lose Commits come first, then those that lag."""
    numbers = (
        "lost_end_count",
        "rollback_commit_count",
        "diverged_count",
        "missing_count",
        "group_lag_vlsn",
    )
    names = (row["group_name"] or "", row["group_id"])
    return (*(-(row[name] or 0) for name in numbers), *map(natural_key, names), *names)


def severity_rank(severity: str) -> int:
    """Return the rank of a severity: 0 for the worst; unknown ones come last."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def _code_rank(found: CodeCount) -> tuple[int, int, int, str]:
    # Equally frequent codes are in the order of the documentation.
    order = list(CODES)
    at = order.index(found.code) if found.code in CODES else len(order)
    return severity_rank(found.severity), -found.count, at, found.code


def _findings_by_environment(data: Any) -> dict[str, tuple[CodeCount, ...]]:
    keys = {name: pc.field(name) for name in ("env", "code", "severity")}
    table = summed(data, keys, {"count": (ONE, "sum")})
    found: dict[str, list[CodeCount]] = {}
    for row in table_rows(table):
        one = CodeCount(row["code"] or "", row["severity"] or "", row["count"])
        found.setdefault(row["env"], []).append(one)
    return {env: tuple(sorted(counts, key=_code_rank)) for env, counts in found.items()}


def _findings_by_code(by_env: Iterable[tuple[CodeCount, ...]]) -> tuple[CodeCount, ...]:
    sums: dict[tuple[str, str], list[int]] = {}
    for counts in by_env:
        for found in counts:
            total = sums.setdefault((found.code, found.severity), [0, 0])
            total[0] += found.count
            total[1] += 1
    rows = [CodeCount(*key, *total) for key, total in sums.items()]
    return tuple(sorted(rows, key=_code_rank))


def _last_ends(data: Any) -> dict[str, int]:
    ended = pc.field("outcome").isin(_TIMES_OF_ENDS) & pc.field("last_end_ms").is_valid()
    sums = {"last": (pc.field("last_end_ms"), "max")}
    rows = table_rows(summed(data, {"env": pc.field("env")}, sums, ended))
    return {row["env"]: row["last"] for row in rows}


def _versions(data: Any) -> tuple[VersionCount, ...]:
    keys = {"version": pc.field("log_version"), "env": pc.field("env")}
    sums = {"count": (ONE, "sum"), "size": (pc.field("size"), "sum")}
    totals: dict[int, list[int]] = {}
    for row in table_rows(summed(data, keys, sums, pc.field("log_version").is_valid())):
        total = totals.setdefault(row["version"], [0, 0, 0])
        for i, number in enumerate((1, row["count"], row["size"] or 0)):
            total[i] += number
    return tuple(VersionCount(version, *totals[version]) for version in sorted(totals))


def _types(data: Any) -> tuple[EntryTypeCount, ...]:
    sums = {"count": (pc.field("count"), "sum"), "size": (pc.field("total_size"), "sum")}
    rows = summed(data, {"type": pc.field("type")}, sums).to_pylist()
    counts = [
        EntryTypeCount(row["type"] or "", row["count"] or 0, row["size"] or 0) for row in rows
    ]
    return tuple(sorted(counts, key=lambda one: (-one.size, one.type)))


def _outcomes(data: Any) -> tuple[OutcomeCount, ...]:
    sums = {
        "count": (pc.field("count"), "sum"),
        "entry_count": (pc.field("entry_count"), "sum"),
        "size": (pc.field("total_size"), "sum"),
    }
    rows = summed(data, {"outcome": pc.field("outcome")}, sums).to_pylist()
    counts = [
        OutcomeCount(
            row["outcome"] or "", row["count"] or 0, row["entry_count"] or 0, row["size"] or 0
        )
        for row in rows
    ]
    return tuple(sorted(counts, key=lambda one: (-one.count, one.outcome)))
