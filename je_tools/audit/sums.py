"""Tables of sums: transactions by outcome, and environments.

They have a few rows for each environment, so they are made where the report is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from je_tools.audit import tables as t
from je_tools.audit.fleet import ONE, summed
from je_tools.log.transactions import TransactionOutcome

_COUNTED = {
    TransactionOutcome.COMMITTED: "committed_count",
    TransactionOutcome.ABORTED: "aborted_count",
    TransactionOutcome.UNFINISHED: "unfinished_count",
    TransactionOutcome.PREPARED: "unfinished_count",
    TransactionOutcome.UNDONE: "unfinished_count",
}
"""Column of `environments` that counts each outcome. A rollback leaves nothing to be done."""


def sum_up(facts: Any, ended: Any, joined: Sequence[Path]) -> tuple[Any, Any]:
    """Return the tables environments and txn_stats.

    Args:
        facts: table with the schema of `staging.FACTS`.
        ended: sums of whole transactions, as in the table txn_stats.
        joined: files with all other transactions, rows of the table txns.
    """
    found = [ended]
    if joined:
        data = ds.dataset(list(map(str, joined)), schema=t.TXNS.schema, format="parquet")
        keys = {name: ds.field(name) for name in _KEYS}
        sums = {
            "count": (ONE, "sum"),
            "entry_count": (ds.field("entry_count"), "sum"),
            "total_size": (ds.field("size"), "sum"),
            "last_end_ms": (ds.field("end_ms"), "max"),
        }
        found.append(summed(data, keys, sums).select(t.TXN_STATS.schema.names))
    all_of_it = pa.concat_tables([table.cast(t.TXN_STATS.schema) for table in found])
    sums_of = [("count", "sum"), ("entry_count", "sum"), ("total_size", "sum")]
    grouped = all_of_it.group_by(list(_KEYS)).aggregate([*sums_of, ("last_end_ms", "max")])
    stats = grouped.rename_columns(t.TXN_STATS.schema.names)
    stats = stats.sort_by([(name, "ascending") for name in _KEYS]).cast(t.TXN_STATS.schema)
    return _environments(facts, stats), stats


_KEYS = t.TXN_STATS.order


def _environments(facts: Any, stats: Any) -> Any:
    counts: dict[str, dict[str, int]] = {}
    for row in stats.to_pylist():
        of_env = counts.setdefault(row["env"], dict.fromkeys(_COUNTED.values(), 0))
        column = _COUNTED.get(row["outcome"])
        if column is not None:
            of_env[column] += row["count"]
    for column in dict.fromkeys(_COUNTED.values()):
        numbers = [counts.get(env, {}).get(column, 0) for env in facts["env"].to_pylist()]
        facts = facts.append_column(column, pa.array(numbers, pa.int64()))
    whole = facts.select(t.ENVIRONMENTS.schema.names).cast(t.ENVIRONMENTS.schema)
    return whole.sort_by([(name, "ascending") for name in t.ENVIRONMENTS.order])
