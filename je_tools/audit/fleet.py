"""Summary of a fleet, computed from the tables of an audit.

Tables may have millions of rows. pyarrow streams and sums them, and only rows per environment, or
per environment and finding code, are held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from msgspec import Struct, field
from msgspec.structs import asdict

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

if TYPE_CHECKING:
    from je_tools.audit.output_folder import RunFolder

OK = SEVERITIES[-1]
"""The severity of an environment without findings."""


NOT_OPENED = ("no-log", "unsafe", "refuses", "fails", "does not start", "starts with losses")
"""Outcomes of environments that their engine does not open, or cannot use without loss."""

_LOST_KEYS = ("lost_key_count", "missing_key_count")


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
        values: the row, by column name; counts and sizes are never None.
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
    def versions(self) -> list[int]:
        """Log versions of its files, ascending."""
        return list(self.values["versions"] or ())

    @property
    def outcome(self) -> str | None:
        """What its engine would do with it, as in `doctor`; None if unknown."""
        found = self.values.get("outcome")
        return None if found is None else str(found)

    @property
    def stakes(self) -> tuple[int, int, int]:
        """Its stakes, the worst least: whether it opens, then the Commits and keys lost."""
        lost = [self.values.get(name) or 0 for name in ("lost_commit_count", *_LOST_KEYS)]
        if self.outcome is None:
            opens = 1 if self.severity == Severity.ERROR.value else 2
        else:
            opens = 0 if self.outcome in NOT_OPENED else 2
        return opens, -lost[0], -sum(lost[1:])

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
            sums[column] = sum(row.number(column) for row in self.environments)
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
    "committed_count",
    "aborted_count",
    "unfinished_count",
    "checkpoint_count",
)
_TIMES_OF_ENDS = ("committed", "aborted")


def open_table(tables: RunFolder, table: AuditTable) -> Any:
    """Open a table of a run as a pyarrow Dataset; it has no rows if it has no files."""
    paths = list(map(str, tables.parts(table.name)))
    return ds.dataset(paths, schema=table.schema, format="parquet")


def rows_in_parts(
    data: Any, columns: list[str] | dict[str, Any], only: Any = None
) -> Iterator[pa.Table]:
    """Yield the rows of a Dataset by row groups of its files; nothing is read ahead.

    A scan of the whole Dataset would read ahead in threads of its own while the caller works. On a
    busy machine it could then hold a table of any size.

    Args:
        data: a Dataset of Parquet files.
        columns: names, or expressions by name.
        only: expression that rows must satisfy.
    """
    for file in data.get_fragments():
        for group in file.split_by_row_group(schema=data.schema):
            yield group.to_table(data.schema, columns, only, use_threads=False)


def summed(
    data: Any,
    keys: Mapping[str, Any],
    sums: Mapping[str, tuple[Any, str]],
    only: Any = None,
) -> pa.Table:
    """Sum the rows of a Dataset in one pass that holds only some of them at a time.

    Args:
        data: a Dataset of Parquet files.
        keys: expressions by name; each combination that occurs gives one row.
        sums: by name, an expression and its aggregation (`sum`, `max`, `min`).
        only: expression that rows must satisfy.
    """
    columns = {**keys, **{name: expression for name, (expression, _) in sums.items()}}
    aggregates = [(name, how) for name, (_, how) in sums.items()]

    def added(tables: Sequence[pa.Table]) -> pa.Table:
        grouped = pa.concat_tables(tables).group_by(list(keys), use_threads=False)
        return grouped.aggregate(aggregates).rename_columns(list(columns))

    empty = ds.dataset(data.schema.empty_table()).to_table(columns)
    known, new, new_count = added([empty]), [], 0
    for part in rows_in_parts(data, columns, only):
        new.append(added([part]))
        new_count += len(new[-1])
        # Merged once they are as many as the known ones, so that each is added only a few times.
        if new_count > max(len(known), _SUMS_MIN):
            known, new, new_count = added([known, *new]), [], 0
    return added([known, *new])


_SUMS_MIN = 1 << 16
"""Number of new sums that may always be held beside the known ones."""

ONE = pc.scalar(1)
"""Expression that is summed to count rows."""


def read_summary(tables: RunFolder, run: RunInfo) -> FleetSummary:
    """Sum up the tables of a run."""
    opened = {table.name: open_table(tables, table) for table in TABLES}
    by_env = _findings_by_environment(opened[FINDINGS.name])
    ends = _last_ends(opened[TXN_STATS.name])
    nodes = {row["env"]: row for row in _rows_of(tables, NODES)}
    rows = [
        EnvironmentRow(
            _whole(values),
            by_env.get(values["env"], ()),
            ends.get(values["env"]),
            nodes.get(values["env"]),
        )
        for values in opened[ENVIRONMENTS.name].to_table().to_pylist()
    ]
    return FleetSummary(
        run,
        environments=tuple(sorted(rows, key=_badness)),
        findings=_findings_by_code(by_env.values()),
        versions=_versions(opened[FILES.name]),
        types=_types(opened[ENTRY_STATS.name]),
        outcomes=_outcomes(opened[TXN_STATS.name]),
        row_counts={name: data.count_rows() for name, data in opened.items()},
        read_file_count=opened[FILES.name].count_rows(
            filter=pc.field("source") != ResultSource.KNOWN.value
        ),
        groups=tuple(sorted(_rows_of(tables, GROUPS), key=_group_badness)),
    )


def _rows_of(tables: RunFolder, table: AuditTable) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = open_table(tables, table).to_table().to_pylist()
    return rows


def _whole(values: dict[str, Any]) -> dict[str, Any]:
    """Complete a row: set a severity of ours, and numbers in the columns that are summed."""
    values["env"] = values["env"] or ""
    if values["severity"] not in SEVERITIES:
        values["severity"] = Severity.ERROR.value if values["error_count"] else OK
    return values | {column: values[column] or 0 for column in _SUMMED}


def _badness(row: EnvironmentRow) -> tuple[int | str, ...]:
    worst = SEVERITIES.index(row.severity)
    numbers = ("error_count", "damaged_size", "warning_count", "note_count")
    return (*row.stakes, worst, *(-row.number(name) for name in numbers), row.env)


def _group_badness(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a key by which groups that lose Commits come first, then those that lag."""
    numbers = (
        "lost_end_count",
        "rollback_commit_count",
        "diverged_count",
        "missing_count",
        "group_lag_vlsn",
    )
    return (*(-(row[name] or 0) for name in numbers), row["group_name"] or "", row["group_id"])


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
    for row in table.to_pylist():
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
    rows = summed(data, {"env": pc.field("env")}, sums, ended).to_pylist()
    return {row["env"]: row["last"] for row in rows}


def _versions(data: Any) -> tuple[VersionCount, ...]:
    keys = {"version": pc.field("log_version"), "env": pc.field("env")}
    sums = {"count": (ONE, "sum"), "size": (pc.field("size"), "sum")}
    totals: dict[int, list[int]] = {}
    for row in summed(data, keys, sums, pc.field("log_version").is_valid()).to_pylist():
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
