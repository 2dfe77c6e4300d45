"""Reading of the environments of a run: each with its findings, its last transaction, its node.

The tables are joined by the number of the environment, in columns, and made into rows in batches.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from je_tools.audit.environment_list import (
    CodeCount,
    EnvironmentList,
    EnvironmentRow,
    code_rank,
)
from je_tools.audit.table_reading import open_table, rows_in_parts, summed, table_rows
from je_tools.audit.tables import ENVIRONMENTS, NODES, TXN_STATS
from je_tools.findings import Severity
from je_tools.pages.log_fields import SEVERITIES
from je_tools.pages.shown import natural_bytes

if TYPE_CHECKING:
    from je_tools.audit.output_folder import RunFolder

OK = SEVERITIES[-1]
"""The severity of an environment without findings."""

SUMMED = (
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
"""Columns that are summed over the fleet; those of transactions may be null."""

_OF_TXNS = SUMMED[-3:]
_TIMES_OF_ENDS = ("committed", "aborted")

_ROWS = 250
"""Environments that are decoded at a time."""

_RANKED = struct.Struct(">8Q")
_ZERO, _LEAST, _MOST = 1 << 63, -(1 << 63), (1 << 63) - 1


def read_environments(tables: RunFolder, findings: pa.Table) -> EnvironmentList:
    """Return the environments of a run, the worst first.

    Args:
        tables: the tables of the run.
        findings: number of findings, `count`, by `env`, `code` and `severity`.
    """
    data = open_table(tables, ENVIRONMENTS)
    names = pa.concat_tables(
        [ENVIRONMENTS.schema.empty_table().select(["env"]), *rows_in_parts(data, ["env"])]
    )
    envs = pc.fill_null(names["env"].combine_chunks(), "")
    joined = {
        "findings": _ByNumber(findings, envs),
        "ends": _ByNumber(_last_ends(open_table(tables, TXN_STATS)), envs),
        "nodes": _ByNumber(open_table(tables, NODES).to_table(), envs),
    }
    listed = EnvironmentList(tables.path, data.schema.names, NODES.schema.names)
    keys: list[bytes] = []
    for part in rows_in_parts(data, data.schema.names):
        for start in range(0, len(part), _ROWS):
            some = _whole(part.slice(start, _ROWS))
            for row in _rows(some, len(keys), joined):
                keys.append(_badness(row))
                listed.append(row)
    listed.sort(keys)
    return listed


def _rows(some: pa.Table, first: int, joined: Mapping[str, _ByNumber]) -> Iterator[EnvironmentRow]:
    """Yield rows of environments, of which the first has the number `first`."""
    found = {name: table.rows(first, first + len(some)) for name, table in joined.items()}
    for number, values in enumerate(table_rows(some), first):
        counts = [
            CodeCount(each["code"] or "", each["severity"] or "", each["count"])
            for each in found["findings"].get(number, ())
        ]
        ends = [each["last"] for each in found["ends"].get(number, ())]
        nodes = found["nodes"].get(number, ())
        yield EnvironmentRow(
            values,
            tuple(sorted(counts, key=code_rank)),
            ends[-1] if ends else None,
            nodes[-1] if nodes else None,
        )


class _ByNumber:
    """Rows of a table by the number of their environment; other rows are left out.

    Args:
        table: has a column `env`.
        envs: names of the environments, in the order of their numbers.
    """

    def __init__(self, table: pa.Table, envs: pa.Array) -> None:
        numbers = pc.index_in(table["env"], value_set=envs, skip_nulls=True)
        order = pc.sort_indices(numbers)
        # Those of no environment come last.
        order = order.slice(0, len(order) - numbers.null_count)
        self._table = table.take(order)
        self._numbers = numbers.take(order).to_numpy()

    def rows(self, first: int, last: int) -> dict[int, list[Any]]:
        """Return the rows of environments `first` to `last`, which is not included."""
        start, stop = np.searchsorted(self._numbers, [first, last])
        found: dict[int, list[Any]] = {}
        some = table_rows(self._table.slice(start, stop - start))
        for number, row in zip(self._numbers[start:stop].tolist(), some, strict=True):
            found.setdefault(number, []).append(row)
        return found


def _whole(table: pa.Table) -> pa.Table:
    """Replace unknown severities, and nulls in columns that are summed."""
    has_errors = pc.greater(pc.fill_null(table["error_count"], 0), 0)
    guessed = pc.if_else(has_errors, Severity.ERROR.value, OK)
    is_ours = pc.is_in(table["severity"], pa.array(SEVERITIES))
    whole = {
        "env": pc.fill_null(table["env"], ""),
        "severity": pc.if_else(is_ours, table["severity"], guessed),
        **{name: pc.fill_null(table[name], 0) for name in SUMMED if name not in _OF_TXNS},
    }
    for name, column in whole.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(place), column)
    return table


def _badness(row: EnvironmentRow) -> bytes:
    """Return a key that sorts environments, the worst first; it takes little memory."""
    numbers = ("error_count", "damaged_size", "warning_count", "note_count")
    counts = (-row.number(name) for name in numbers)
    ranks = (*row.stakes, SEVERITIES.index(row.severity), *counts)
    limited = (min(max(rank, _LEAST), _MOST) + _ZERO for rank in ranks)
    return _RANKED.pack(*limited) + natural_bytes(row.env)


def _last_ends(data: Any) -> pa.Table:
    """Return the time of the last Commit or Abort, `last`, of each environment."""
    ended = pc.field("outcome").isin(_TIMES_OF_ENDS) & pc.field("last_end_ms").is_valid()
    sums = {"last": (pc.field("last_end_ms"), "max")}
    return summed(data, {"env": pc.field("env")}, sums, ended)


def findings_by_code(counts: pa.Table) -> tuple[CodeCount, ...]:
    """Return the findings of a fleet by code and severity, the worst first.

    Args:
        counts: as for `read_environments`.
    """
    keys: Sequence[str] = ["code", "severity"]
    filled = pa.table(
        [*(pc.fill_null(counts[name], "") for name in keys), counts["count"]], [*keys, "count"]
    )
    grouped = filled.group_by(keys, use_threads=False)
    rows = grouped.aggregate([("count", "sum"), ("count", "count")]).to_pylist()
    return tuple(
        sorted(
            (
                CodeCount(row["code"], row["severity"], row["count_sum"], row["count_count"])
                for row in rows
            ),
            key=code_rank,
        )
    )
