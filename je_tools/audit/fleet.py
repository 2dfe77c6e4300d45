"""Summary of a fleet, computed from the tables of an audit.

Tables may have millions of rows. pyarrow streams and sums them. Only sums are held, those
of each environment in columns; its row is in a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import asdict

from je_tools.audit.discover import EnvironmentKind
from je_tools.audit.environment_reading import SUMMED, findings_by_code, read_environments
from je_tools.audit.table_reading import (
    ONE,
    TableRow,
    open_table,
    rows_in_parts,
    summed,
    table_rows,
)
from je_tools.audit.tables import (
    ENTRY_STATS,
    FILES,
    FINDINGS,
    GROUPS,
    RUNS,
    TABLES,
    TXN_STATS,
    AuditTable,
    ResultSource,
)
from je_tools.pages.log_fields import SEVERITIES
from je_tools.pages.shown import natural_bytes, natural_key

if TYPE_CHECKING:
    from je_tools.audit.environment_list import CodeCount, EnvironmentRow
    from je_tools.audit.output_folder import RunFolder


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


class FleetCounts(Struct, frozen=True):
    """Counts over all environments.

    Attributes:
        severities: number of environments of each severity, the worst first; zeros included.
        sums: sums of the columns SUMMED.
        outcomes: number of environments of each outcome of opening them, as far as it is known.
        lost: sums of the columns LOST, of those environments of which they are known; None if they
            are known of none.
        store_files: files of stores of Ignite.
        read_store_files: those of stores that were read in this run.
    """

    severities: dict[str, int]
    sums: dict[str, int]
    outcomes: dict[str, int]
    lost: dict[str, int | None]
    store_files: int
    read_store_files: int


LOST = ("lost_commit_count", "lost_key_count")
"""Columns with what recovery would cut off."""


class FleetSummary(Struct, frozen=True, dict=True):
    """Totals of a fleet.

    Attributes:
        run: the run that made the tables.
        environments: one row an environment, the worst first; each pass over them costs time.
        findings: by code and severity, the worst and most frequent first.
        versions: by log version, ascending; files with a bad header are in none.
        types: by entry type, the largest first.
        outcomes: by outcome of transactions, the most frequent first.
        row_counts: number of rows of each table, by its name.
        log_file_read_count: number of log files of which at least a part was read in this run.
        groups: rows of the table `groups`, the worst first.
    """

    run: RunInfo
    environments: Sequence[EnvironmentRow]
    findings: tuple[CodeCount, ...] = ()
    versions: tuple[VersionCount, ...] = ()
    types: tuple[EntryTypeCount, ...] = ()
    outcomes: tuple[OutcomeCount, ...] = ()
    row_counts: Mapping[str, int] = field(default_factory=dict)
    log_file_read_count: int = 0
    groups: tuple[Mapping[str, Any], ...] = ()

    @cached_property
    def counts(self) -> FleetCounts:
        """Counts over all environments, made in one pass."""
        return _counted(self.environments)

    @property
    def totals(self) -> dict[str, int]:
        """Sums over all environments."""
        read = self.log_file_read_count + self.counts.read_store_files
        sums = {"environment_count": len(self.environments), **self.counts.sums}
        return sums | {"read_file_count": read}

    @property
    def row(self) -> dict[str, Any]:
        """Row of the table runs, by column."""
        counts = {f"{name}_env_count": count for name, count in self.counts.severities.items()}
        known = {**asdict(self.run), **self.totals, **counts}
        return {column.name: known[column.name] for column in RUNS.columns}


def _counted(rows: Iterable[EnvironmentRow]) -> FleetCounts:
    severities, sums = dict.fromkeys(SEVERITIES, 0), dict.fromkeys(SUMMED, 0)
    outcomes: Counter[str] = Counter()
    lost: dict[str, int | None] = dict.fromkeys(LOST)
    store_files = read_store_files = 0
    for row in rows:
        severities[row.severity] = severities.get(row.severity, 0) + 1
        for name in SUMMED:
            sums[name] += row.values.get(name) or 0
        if row.outcome is not None:
            outcomes[row.outcome] += 1
        for name in LOST:
            number = row.values.get(name)
            if number is not None:
                lost[name] = (lost[name] or 0) + number
        if row.kind is EnvironmentKind.IGNITE:
            store_files += row.number("file_count")
            if row.values.get("source") == ResultSource.READ:
                read_store_files += row.number("file_count")
    return FleetCounts(
        severities, sums, dict(sorted(outcomes.items())), lost, store_files, read_store_files
    )


def read_summary(tables: RunFolder, run: RunInfo) -> FleetSummary:
    """Sum up the tables of a run."""
    opened = {table.name: open_table(tables, table) for table in TABLES}
    keys = {name: pc.field(name) for name in ("env", "code", "severity")}
    findings = summed(opened[FINDINGS.name], keys, {"count": (ONE, "sum")})
    return FleetSummary(
        run,
        environments=read_environments(tables, findings),
        findings=findings_by_code(findings),
        versions=_versions(opened[FILES.name]),
        types=_types(opened[ENTRY_STATS.name]),
        outcomes=_outcomes(opened[TXN_STATS.name]),
        row_counts={name: data.count_rows() for name, data in opened.items()},
        log_file_read_count=_read_count(opened[FILES.name]),
        groups=tuple(sorted(_rows_of(tables, GROUPS), key=_group_badness)),
    )


def read_unread(tables: RunFolder, most: int) -> list[tuple[str, str]]:
    """Return environments of which something could not be read, and why: the first by name."""
    only = pc.field("code") == "unread"
    parts = rows_in_parts(open_table(tables, FINDINGS), ["env", "found"], only)
    rows = ((row["env"] or "", row["found"] or "") for part in parts for row in table_rows(part))
    return nsmallest(most, rows, key=lambda each: (natural_bytes(each[0]), each[1]))


def _read_count(files: Any) -> int:
    count: int = files.count_rows(filter=pc.field("source") != ResultSource.KNOWN.value)
    return count


def _rows_of(tables: RunFolder, table: AuditTable) -> Iterator[TableRow]:
    return table_rows(open_table(tables, table).to_table())


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
