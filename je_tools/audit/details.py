"""Details of each environment in the page: files, findings, types, transactions.

A page is limited: only the worst findings are picked, and neighbouring files of a long log share a
bar. The page grows with the number of environments, but not with their contents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from je_tools.audit.fleet import (
    ONE,
    SEVERITIES,
    EnvironmentRow,
    FleetSummary,
    open_table,
    rows_in_parts,
    severity_rank,
    summed,
)
from je_tools.audit.tables import CHECKPOINTS, ENTRY_STATS, FILES, FINDINGS, TXN_STATS, VLSN_RANGES
from je_tools.pages.log_fields import finding_fields
from je_tools.pages.shown import NAME_MAX, exact, shown

if TYPE_CHECKING:
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

FILES_AT_ONCE = 200_000
"""Rows of `files` that are held at a time, about."""

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
PerFile = dict[tuple[str, int], int]


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
    at = 0
    while at < len(rows):
        stop, held = at, 0
        while stop < len(rows) and (stop == at or held < FILES_AT_ONCE):
            held += rows[stop].number("file_count")
            stop += 1
        part = _DetailsReader(tables, rows[at:stop])
        for row, most in zip(rows[at:stop], bars[at:stop], strict=True):
            yield part.details(row, most, picked.rows.get(row.env, []))
        at = stop


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
        self._first, self._count = _runs(self._files["env"])
        env = {"env": pc.field("env")}
        checkpoints = open_table(tables, CHECKPOINTS)
        of_file = env | {"file_no": pc.shift_right(pc.field("end_lsn"), 32)}
        one = {"count": (ONE, "sum")}
        complete = only & pc.field("complete") & pc.field("end_lsn").is_valid()
        self._checkpoints = _per_file(summed(checkpoints, of_file, one, complete))
        ranges = open_table(tables, VLSN_RANGES)
        of_file = env | {"file_no": pc.field("file_no")}
        runs = summed(ranges, of_file, one, only & pc.field("file_no").is_valid())
        self._runs = _per_file(runs)
        stats = open_table(tables, ENTRY_STATS)
        sums = {"count": (pc.field("count"), "sum"), "size": (pc.field("total_size"), "sum")}
        self._types = _per_env(summed(stats, env | {"name": pc.field("type")}, sums, only))
        txns = open_table(tables, TXN_STATS)
        self._outcomes = _per_env(summed(txns, env | {"name": pc.field("outcome")}, sums, only))

    def details(self, row: EnvironmentRow, most: int, findings: list[Row]) -> dict[str, Any]:
        """Return the details of one environment, with at most `most` bars."""
        env = row.env
        first, count = self._first.get(env, 0), self._count.get(env, 0)
        files = self._files.slice(first, count).to_pylist()
        types = self._types.get(env, [])
        others = types[TYPES_MAX_EACH:]
        named = [_named(one) for one in types[:TYPES_MAX_EACH]]
        if others:
            sums = [sum(one[key] or 0 for one in others) for key in ("count", "size")]
            named.append([f"{len(others)} other types", *sums])
        return {
            "bars": self._bars(env, files, most),
            "findings": [finding_fields(env, found) for found in findings],
            "types": named,
            "outcomes": [_named(one) for one in self._outcomes.get(env, [])],
        }

    def _bars(self, env: str, files: list[Row], most: int) -> list[list[Any]]:
        if not most:
            return []
        each = -(-len(files) // most)
        groups = [files[at : at + each] for at in range(0, len(files), max(each, 1))]
        return [self._bar(env, group) for group in groups]

    def _bar(self, env: str, group: list[Row]) -> list[Any]:
        """Return the bar of one or several files, with the fields of `BAR` in the page's script."""
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
            sum(self._checkpoints.get((env, no), 0) for no in distinct),
            sum(self._runs.get((env, no), 0) for no in distinct),
            sum(row["old_delta_count"] or 0 for row in group),
            "" if usual or len(group) > 1 else shown(name, NAME_MAX),
        ]


def _runs(envs: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Return the first row and the number of rows of each environment in a sorted column."""
    coded = envs.combine_chunks().dictionary_encode()
    numbers = coded.indices.to_numpy(zero_copy_only=False)
    _, first, count = np.unique(numbers, return_index=True, return_counts=True)
    names = coded.dictionary.to_pylist()
    starts = dict(zip(names, first.tolist(), strict=True))
    return starts, dict(zip(names, count.tolist(), strict=True))


def _per_file(table: pa.Table) -> PerFile:
    columns = (table[name].to_pylist() for name in ("env", "file_no", "count"))
    return {(env, file_no): count for env, file_no, count in zip(*columns, strict=True)}


def _per_env(table: pa.Table) -> dict[str, list[Row]]:
    """Return the rows of each environment, the largest first."""
    keys = [("size", "descending"), ("name", "ascending")]
    rows: dict[str, list[Row]] = {}
    for row in table.sort_by(keys).to_pylist():
        rows.setdefault(row["env"], []).append(row)
    return rows


def _named(row: Row) -> list[Any]:
    return [shown(row["name"] or ""), row["count"] or 0, row["size"] or 0]
