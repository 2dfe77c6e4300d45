"""Arrays: rows by value, and distinct values."""

from __future__ import annotations

import numpy as np
import pytest

from je_tools.formats.arrays import distinct, rows_by


@pytest.mark.parametrize("values", [[], [7], [3, 1, 3, 3, -2, 1], [5, 5, 5]])
def test_rows_by_value(values: list[int]) -> None:
    found = {value: rows.tolist() for value, rows in rows_by(np.array(values, np.int64)).items()}
    assert list(found) == sorted(set(values))
    for value, rows in found.items():
        assert rows == [row for row, each in enumerate(values) if each == value]


def test_distinct_values_ascend() -> None:
    for values in ([], [3], [3, 1, 3, 2, 1], [-1, -1]):
        assert distinct(np.array(values, np.int64)) == sorted(set(values))
