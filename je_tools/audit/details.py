"""Details of each environment in the page: files, findings, types, transactions.

A page is limited: only the worst findings are picked, and neighbouring files of a long log share a
bar. The page grows with the number of environments, but not with their contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from je_tools.audit.discover import EnvironmentKind
from je_tools.audit.environment_list import EnvironmentRow, severity_rank
from je_tools.audit.table_reading import (
    FILES_AT_ONCE,
    ONE,
    env_runs,
    open_table,
    rows_in_parts,
    summed,
)
from je_tools.audit.tables import CHECKPOINTS, ENTRY_STATS, FILES, FINDINGS, TXN_STATS, VLSN_RANGES
from je_tools.ignite.store_codes import store_command
from je_tools.log.finding_commands import next_command
from je_tools.pages.log_fields import SEVERITIES, finding_fields
from je_tools.pages.shown import NAME_MAX, exact, shown

if TYPE_CHECKING:
    from je_tools.audit.fleet import FleetSummary
    from je_tools.audit.output_folder import RunFolder

FINDINGS_MAX = 3_000
"""Maximum findings in a page."""

FINDINGS_MAX_EACH = 200
"""Maximum findings of one severity of one environment: the first in the log."""

BARS_MAX = 120_000
"""Maximum bars of the timelines in a page."""

BARS_MAX_EACH = 600
"""Maximum bars of one timeline; more do not fit on a screen."""

TYPES_MAX_EACH = 8
"""Maximum entry types that are listed for an environment; the others are summed."""

ENVIRONMENTS_AT_ONCE = 1_000
"""Environments that are held at a time, with what belongs to them."""

_FILE_ROWS_AT_ONCE = 4_000
"""Approximate number of rows of `files` that are held as Python objects at a time."""

_FILE_COLUMNS = [
    "env",
    "file_no",
    "name",
    "size",
    "log_version",
    "created_ms",
    "entry_count",
    "damage_count",
    "first_vlsn",
    "last_vlsn",
    "old_delta_count",
]

Row = dict[str, Any]


def shares(counts: Sequence[int], total: int, most: int) -> list[int]:
    """Divide `total` fairly: no share exceeds its count or `most`.

    A remainder goes to the first ones.
    """
    low, high = 0, most
    while low < high:
        cap = (low + high + 1) // 2
        if sum(min(count, cap) for count in counts) <= total:
            low = cap
        else:
            high = cap - 1
    dealt = [min(count, low) for count in counts]
    over = total - sum(dealt)
    if low < most:
        for i, count in enumerate(counts):
            if over and count > dealt[i]:
                dealt[i] += 1
                over -= 1
    return dealt


class Picked(Struct, frozen=True):
    """Findings that a page shows.

    Attributes:
        rows: findings by environment, the worst first.
        count: number of findings.
    """

    rows: dict[str, list[Row]]
    count: int


def pick_findings(tables: RunFolder, summary: FleetSummary) -> Picked:
    """Pick the worst findings, divided among the environments, in one streaming pass."""
    quotas = _quotas(summary)
    picked = FINDINGS.schema.empty_table()
    if quotas:
        for part in rows_in_parts(open_table(tables, FINDINGS), FINDINGS.schema.names):
            picked = _first_of_each(pa.concat_tables([picked, part]), quotas)
    rows: dict[str, list[Row]] = {}
    for row in picked.to_pylist():
        rows.setdefault(row["env"], []).append(row)
    return Picked(rows, picked.num_rows)


def _quotas(summary: FleetSummary) -> dict[tuple[str, int], int]:
    """Return the number of findings to show of each environment and severity rank."""
    counts: dict[int, dict[str, int]] = {rank: {} for rank in range(len(SEVERITIES) + 1)}
    for row in summary.environments:
        for found in row.findings:
            of_rank = counts[severity_rank(found.severity)]
            of_rank[row.env] = of_rank.get(row.env, 0) + found.count
    left = FINDINGS_MAX
    quotas: dict[tuple[str, int], int] = {}
    for rank, of_rank in counts.items():
        dealt = shares(list(of_rank.values()), left, FINDINGS_MAX_EACH)
        left -= sum(dealt)
        quotas |= {(env, rank): n for env, n in zip(of_rank, dealt, strict=True) if n}
    return quotas


def _first_of_each(table: pa.Table, quotas: dict[tuple[str, int], int]) -> pa.Table:
    """Return the rows within the quotas, sorted by environment, severity and position."""
    rank = pc.fill_null(pc.index_in(table["severity"], pa.array(SEVERITIES)), len(SEVERITIES))
    keys = [(name, "ascending") for name in ("env", "rank", "file_no", "offset", "code")]
    ranked = table.append_column("rank", pc.cast(rank, pa.int64())).sort_by(keys)
    envs = ranked["env"].combine_chunks().dictionary_encode()
    ranks = ranked["rank"].to_numpy()
    numbers = envs.indices.to_numpy(zero_copy_only=False)
    group = numbers.astype(np.int64) * (len(SEVERITIES) + 1) + ranks
    starts = np.flatnonzero(np.append(True, group[1:] != group[:-1])[: len(group)])
    sizes = np.diff(np.append(starts, len(group)))
    names = envs.dictionary.to_pylist()
    allowed = [quotas.get((names[numbers[at]], int(ranks[at])), 0) for at in starts]
    place = np.arange(len(group)) - np.repeat(starts, sizes)
    within: npt.NDArray[np.bool_] = place < np.repeat(np.array(allowed, np.int64), sizes)
    return ranked.filter(pa.array(within)).drop_columns(["rank"])


def environment_details(
    tables: RunFolder, summary: FleetSummary, picked: Picked
) -> Iterator[dict[str, Any]]:
    """Yield the details of each environment, in the order of the summary."""
    rows = summary.environments
    bars = shares([row.number("file_count") for row in rows], BARS_MAX, BARS_MAX_EACH)
    for held in _in_parts(zip(rows, bars, strict=True)):
        part = _DetailsReader(tables, [row for row, _ in held])
        for row, most in held:
            yield part.details(row, most, picked.rows.get(row.env, []))


def _in_parts(
    rows: Iterable[tuple[EnvironmentRow, int]],
) -> Iterator[list[tuple[EnvironmentRow, int]]]:
    """Yield environments in parts that are held at a time; each comes with its number of bars."""
    held: list[tuple[EnvironmentRow, int]] = []
    file_count = 0
    for row, most in rows:
        file_count += row.number("file_count")
        if held and (len(held) >= ENVIRONMENTS_AT_ONCE or file_count > FILES_AT_ONCE):
            yield held
            held, file_count = [], row.number("file_count")
        held.append((row, most))
    if held:
        yield held


class _DetailsReader:
    """Rows of some environments, held while their details are written."""

    def __init__(self, tables: RunFolder, rows: Sequence[EnvironmentRow]) -> None:
        names = pa.array([row.env for row in rows], pa.string())
        only = pc.field("env").isin(names)
        files = pa.concat_tables(
            [
                FILES.schema.empty_table().select(_FILE_COLUMNS),
                *rows_in_parts(open_table(tables, FILES), _FILE_COLUMNS, only),
            ]
        )
        keys = [(name, "ascending") for name in FILES.order]
        self._files = files.sort_by(keys)
        self._first, self._count = env_runs(self._files["env"])
        env = {"env": pc.field("env")}
        checkpoints = open_table(tables, CHECKPOINTS)
        of_file = env | {"file_no": pc.shift_right(pc.field("end_lsn"), 32)}
        one = {"count": (ONE, "sum")}
        complete = only & pc.field("complete") & pc.field("end_lsn").is_valid()
        self._checkpoints = _CountsByFile(summed(checkpoints, of_file, one, complete))
        ranges = open_table(tables, VLSN_RANGES)
        of_file = env | {"file_no": pc.field("file_no")}
        runs = summed(ranges, of_file, one, only & pc.field("file_no").is_valid())
        self._runs = _CountsByFile(runs)
        stats = open_table(tables, ENTRY_STATS)
        sums = {"count": (pc.field("count"), "sum"), "size": (pc.field("total_size"), "sum")}
        self._types = _Largest(summed(stats, env | {"name": pc.field("type")}, sums, only))
        txns = open_table(tables, TXN_STATS)
        self._outcomes = _Largest(summed(txns, env | {"name": pc.field("outcome")}, sums, only))

    def details(self, row: EnvironmentRow, most: int, findings: list[Row]) -> dict[str, Any]:
        """Return the details of one environment, with at most `most` bars."""
        env = row.env
        types = self._types.of(env)
        others = types[TYPES_MAX_EACH:]
        named = [_named(one) for one in types[:TYPES_MAX_EACH]]
        if others:
            sums = [sum(one[key] or 0 for one in others) for key in ("count", "size")]
            named.append([f"{len(others)} other types", *sums])
        return {
            "bars": list(self._bars(env, most)),
            "findings": [finding_fields(found, _command(row, found)) for found in findings],
            "types": named,
            "outcomes": [_named(one) for one in self._outcomes.of(env)],
        }

    def _bars(self, env: str, most: int) -> Iterator[list[Any]]:
        """Yield the bars of the files of an environment, with the fields of `BAR` in the script."""
        first, count = self._first.get(env, 0), self._count.get(env, 0)
        if not most or not count:
            return
        each = -(-count // most)
        step = each * max(_FILE_ROWS_AT_ONCE // each, 1)
        for start in range(first, first + count, step):
            files = self._files.slice(start, min(step, first + count - start)).to_pylist()
            numbers = [row["file_no"] for row in files if row["file_no"] is not None]
            counts = [of.between(env, numbers) for of in (self._checkpoints, self._runs)]
            for at in range(0, len(files), each):
                yield self._bar(files[at : at + each], *counts)

    def _bar(
        self, group: list[Row], checkpoints: Mapping[int, int], runs: Mapping[int, int]
    ) -> list[Any]:
        """Return the bar of one or several files.

        Args:
            group: the files.
            checkpoints, runs: numbers of checkpoints and of runs of VLSNs, by file number.
        """
        versions = [row["log_version"] for row in group if row["log_version"] is not None]
        numbers = [row["file_no"] for row in group if row["file_no"] is not None]
        spans = [row for row in group if row["first_vlsn"] is not None]
        created = [row["created_ms"] for row in group if row["created_ms"] is not None]
        distinct = set(numbers)
        name = group[0]["name"] or ""
        usual = numbers and name == f"{numbers[0]:08x}.jdb"
        return [
            numbers[0] if numbers else None,
            numbers[-1] if numbers else None,
            len(group),
            sum(row["size"] or 0 for row in group),
            sum(row["entry_count"] or 0 for row in group),
            sum(row["damage_count"] or 0 for row in group),
            min(versions, default=None),
            max(versions, default=None),
            exact(created[0]) if created else None,
            exact(min((row["first_vlsn"] for row in spans), default=None)),
            exact(max((row["last_vlsn"] or 0 for row in spans), default=None)),
            sum(checkpoints.get(no, 0) for no in distinct),
            sum(runs.get(no, 0) for no in distinct),
            sum(row["old_delta_count"] or 0 for row in group),
            "" if usual or len(group) > 1 else shown(name, NAME_MAX),
        ]


def _command(row: EnvironmentRow, found: Row) -> str:
    """Return the command that shows more of a finding."""
    code = found["code"] or ""
    if row.kind is EnvironmentKind.IGNITE:
        return store_command(code, row.env)
    return next_command(code, row.env, found["lsn"])


class _CountsByFile:
    """Counts by environment and file number, in columns: there may be very many files.

    Args:
        table: columns `env`, `file_no` and `count`; each environment and file once.
    """

    def __init__(self, table: pa.Table) -> None:
        table = table.sort_by([("env", "ascending"), ("file_no", "ascending")])
        self._first, self._size = env_runs(table["env"])
        self._file_no = table["file_no"].to_numpy()
        self._count = table["count"].to_numpy()

    def between(self, env: str, numbers: Sequence[int]) -> Mapping[int, int]:
        """Return the counts of files of an environment by number, from the least to the largest."""
        if not numbers:
            return {}
        start = self._first.get(env, 0)
        own = slice(start, start + self._size.get(env, 0))
        file_no = self._file_no[own]
        low, high = np.searchsorted(file_no, [min(numbers), max(numbers) + 1])
        some = slice(low, high)
        counts = self._count[own][some].tolist()
        return dict(zip(file_no[some].tolist(), counts, strict=True))


class _Largest:
    """Rows of some environments, the largest of each first.

    Args:
        table: columns `env`, `name`, `count` and `size`.
    """

    def __init__(self, table: pa.Table) -> None:
        keys = [("env", "ascending"), ("size", "descending"), ("name", "ascending")]
        self._table = table.sort_by(keys)
        self._first, self._count = env_runs(self._table["env"])

    def of(self, env: str) -> list[Row]:
        """Return the rows of an environment."""
        rows: list[Row] = self._table.slice(
            self._first.get(env, 0), self._count.get(env, 0)
        ).to_pylist()
        return rows


def _named(row: Row) -> list[Any]:
    return [shown(row["name"] or ""), row["count"] or 0, row["size"] or 0]
