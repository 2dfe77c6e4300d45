"""Periods that rollbacks undo: the same as one by one, and fast for many."""

from __future__ import annotations

import random

import numpy as np
import pytest

from je_tools.recovery.interval_tables import RollbackPeriod, TxnEnds, Writes
from je_tools.recovery.replay_rules import ReplayRules

NO_END = -1


def writes_of(pairs: list[tuple[int, int]]) -> Writes:
    lsns = np.array([lsn for lsn, _ in pairs], np.int64)
    txns = np.array([txn for _, txn in pairs], np.int64)
    return Writes(lsns, txns, np.zeros(len(pairs), np.uint8))


@pytest.mark.parametrize("seed", range(50))
def test_as_period_by_period(seed: int) -> None:
    chance = random.Random(seed)
    periods = []
    for _ in range(chance.choice([0, 1, 5, 20])):
        ends = sorted(chance.choices(range(60), k=2))
        names = frozenset(chance.choices(range(-6, 0), k=chance.randint(0, 3)))
        periods.append(RollbackPeriod(*ends, NO_END, chance.choice([names, names, None])))
    pairs = [(lsn, chance.randint(-7, 1)) for lsn in range(-2, 65)]
    expected = [
        any(
            each.matchpoint_lsn < lsn < each.start_lsn and txn in (each.txn_ids or ())
            for each in periods
        )
        for lsn, txn in pairs
    ]
    rules = ReplayRules(0, periods)
    assert rules.is_rolled_back(writes_of(pairs)).tolist() == expected
    for lsn, txn in pairs:
        ends_of = TxnEnds(
            np.array([lsn]), np.array([txn]), np.array([0]), np.array([True], np.bool_)
        )
        inside = any(each.matchpoint_lsn < lsn < each.start_lsn for each in periods)
        assert rules.takes_back_commits(ends_of) == (inside and txn < 0)


@pytest.mark.timeout(30)
def test_many_rollbacks_over_many_records() -> None:
    count = 200_000
    txns = -5 - np.arange(count) % 100
    lns = Writes(np.arange(count, dtype=np.int64), txns, np.zeros(count, np.uint8))
    periods = [
        RollbackPeriod(-1, count - i % 7, NO_END, frozenset({-5 - i % 50})) for i in range(20_000)
    ]
    rules = ReplayRules(0, periods)
    assert np.count_nonzero(rules.is_rolled_back(lns)) == count // 2
    ends = TxnEnds(lns.lsn, -txns, lns.lsn, np.ones(count, np.bool_))
    assert not rules.takes_back_commits(ends)
