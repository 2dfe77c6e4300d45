"""Identities of records: unequal records differ, and the newest row of each is found."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from je_tools.formats.je.entry.identity import identities, new_seed, newest_of
from tests.builders.records import spans_of


def test_what_differs_has_another_identity() -> None:
    """Keys of zeros in every length, and one key in many databases."""
    keys: list[bytes | None] = [bytes(size) for size in range(300)]
    keys += [b"key"] * 300
    column = spans_of(keys)
    db_ids = np.array([5] * 300 + [(i - 150) << 26 for i in range(300)], np.int64)
    seed = new_seed()
    first, second = identities(column.data, column.starts, column.sizes, db_ids, seed)
    assert len(set(first.tolist())) == len(set(second.tolist())) == 600
    assert min(first.min(), second.min()) >= 0
    again = identities(column.data, column.starts, column.sizes, db_ids, new_seed())
    assert not set(again[0].tolist()) & set(first.tolist())


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2), st.booleans())), st.integers(1, 5))
def test_newest(rows: list[tuple[int, int, bool]], threads: int) -> None:
    first = np.array([row[0] for row in rows], np.int64)
    second = np.array([row[1] for row in rows], np.int64)
    wanted = np.array([row[2] for row in rows], np.bool_)
    last = {row[:2]: i for i, row in enumerate(rows) if row[2]}
    found = newest_of(first, second, wanted, threads)
    assert np.flatnonzero(found).tolist() == sorted(last.values())
