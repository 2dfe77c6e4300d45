"""Transaction counts of environments."""

from __future__ import annotations

import pyarrow as pa
import pytest

from je_tools.audit.staging import FACTS
from je_tools.audit.sums import sum_up
from je_tools.audit.tables import TXN_STATS
from je_tools.log.transactions import TransactionOutcome

COUNTED = ("committed_count", "aborted_count", "unfinished_count")
EXPECTED = {
    "committed": (3, 0, 0),
    "aborted": (0, 3, 0),
    "unfinished": (0, 0, 3),
    "prepared": (0, 0, 3),
    "undone": (0, 0, 3),
    "rolled back": (0, 0, 0),
}


@pytest.mark.parametrize("outcome", TransactionOutcome)
def test_every_outcome_has_its_column_or_none(outcome: TransactionOutcome) -> None:
    facts = pa.Table.from_pylist([{"env": "a"}, {"env": "b"}], FACTS)
    row = {"env": "b", "outcome": outcome.value, "count": 3, "entry_count": 4, "total_size": 5}
    environments, stats = sum_up(facts, pa.Table.from_pylist([row], TXN_STATS.schema), [])
    found = [tuple(each[name] for name in COUNTED) for each in environments.to_pylist()]
    assert found == [(0, 0, 0), EXPECTED[outcome.value]]
    assert stats.to_pylist() == [row | {"last_end_ms": None}]
