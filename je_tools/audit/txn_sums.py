"""Sums of the transactions of one environment, by outcome."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from je_tools.log.transactions import TransactionOutcome

if TYPE_CHECKING:
    from je_tools.audit.whole_txns import Ended

_COUNTED = {
    TransactionOutcome.COMMITTED.value: "committed_count",
    TransactionOutcome.ABORTED.value: "aborted_count",
    TransactionOutcome.UNFINISHED.value: "unfinished_count",
    TransactionOutcome.PREPARED.value: "unfinished_count",
    TransactionOutcome.UNDONE.value: "unfinished_count",
}
"""Column of `environments` that counts each outcome. A rollback leaves nothing to be done."""


class TxnSums:
    """Number, entries and bytes of transactions by outcome, and the time of the last end."""

    def __init__(self) -> None:
        self._sums: dict[str, list[int]] = {}
        self._last_ms: dict[str, int] = {}

    def add(self, ended: Ended) -> None:
        """Add whole transactions."""
        for outcome, *sums, last_ms in ended:
            self._add(outcome, sums, last_ms)

    def add_rows(self, txns: Any) -> None:
        """Add a table with the schema of `tables.TXNS`."""
        for outcome in pc.unique(txns["outcome"]).to_pylist():
            rows = txns.filter(pc.equal(txns["outcome"], outcome))
            sums = [pc.sum(rows[name]).as_py() for name in ("entry_count", "size")]
            self._add(outcome, [rows.num_rows, *sums], pc.max(rows["end_ms"]).as_py())

    def _add(self, outcome: str, sums: Iterable[int], last_ms: int | None) -> None:
        known = self._sums.get(outcome, (0, 0, 0))
        self._sums[outcome] = list(map(operator.add, known, sums))
        if last_ms is not None:
            self._last_ms[outcome] = max(last_ms, self._last_ms.get(outcome, last_ms))

    @property
    def counts(self) -> dict[str, int]:
        """Columns of the environment's row."""
        counts = dict.fromkeys(_COUNTED.values(), 0)
        for outcome, (count, *_) in self._sums.items():
            if outcome in _COUNTED:
                counts[_COUNTED[outcome]] += count
        return counts

    def rows(self, env: str) -> Iterator[tuple[Any, ...]]:
        """Yield rows of the table txn_stats."""
        for outcome, sums in sorted(self._sums.items()):
            yield env, outcome, *sums, self._last_ms.get(outcome)
