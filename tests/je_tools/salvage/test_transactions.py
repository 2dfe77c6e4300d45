"""Transaction ids among those that ended: near each other, far apart, and extreme."""

from __future__ import annotations

import numpy as np
import pytest

from je_tools.salvage import transactions
from je_tools.salvage.transactions import TransactionIds, is_in

LEAST, MOST = -(1 << 63), (1 << 63) - 1
KNOWN = [
    [],
    [5],
    [1, 2, 3, 7],
    [1, 1, 1 << 40],
    [LEAST, LEAST + 1],
    [MOST - 2, MOST],
    [LEAST, MOST],
    [-3, 0, 4],
]
VALUES = [LEAST, LEAST + 1, LEAST + 2, -4, -3, -1, 0, 1, 2, 4, 5, 6, 7, 8, 1 << 40]
VALUES += [MOST - 3, MOST - 2, MOST - 1, MOST]


@pytest.mark.parametrize("known", KNOWN)
def test_ids_are_found_as_a_set_has_them(known: list[int]) -> None:
    found = is_in(np.array(VALUES, np.int64), np.array(known, np.int64))
    assert found.tolist() == [value in known for value in VALUES]


@pytest.mark.parametrize("pending", [0, 5000, 1 << 30])
@pytest.mark.parametrize("known", KNOWN)
def test_ids_that_become_bits_are_found(
    known: list[int], pending: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "PENDING_MAX", pending)
    rng = np.random.default_rng(len(known))
    # Some pages have enough ids to become bits, those at the ends of ranges too few.
    near = np.r_[3_000_000:3_140_000:19, -140_000:-1000:19, 70_000:71_100]
    apart = rng.integers(LEAST, MOST, 3000)
    given = np.concatenate((rng.permutation(np.concatenate((near, apart))), known)).astype(np.int64)
    ids = TransactionIds()
    for piece in np.array_split(given, 40):
        ids.add(piece)
    ids.finish()
    assert ids.count == len(given)
    assert (len(ids._bits) > 0) is (pending < len(given))
    values = np.concatenate((VALUES, given, given + 1, given ^ 0x10000, given - (1 << 16)))
    values = values.astype(np.int64)
    assert np.array_equal(ids.contains(values), np.isin(values, given))
