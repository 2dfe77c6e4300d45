"""Transaction ids among those that ended: near each other, far apart, and extreme."""

from __future__ import annotations

import numpy as np
import pytest

from je_tools.salvage.choice import _is_in

LEAST, MOST = -(1 << 63), (1 << 63) - 1


@pytest.mark.parametrize(
    "known",
    [
        [],
        [5],
        [1, 2, 3, 7],
        [1, 1, 1 << 40],
        [LEAST, LEAST + 1],
        [MOST - 2, MOST],
        [LEAST, MOST],
        [-3, 0, 4],
    ],
)
def test_ids_are_found_as_a_set_has_them(known: list[int]) -> None:
    values = [LEAST, LEAST + 1, LEAST + 2, -4, -3, -1, 0, 1, 2, 4, 5, 6, 7, 8, 1 << 40]
    values += [MOST - 3, MOST - 2, MOST - 1, MOST]
    found = _is_in(np.array(values, np.int64), np.array(known, np.int64))
    assert found.tolist() == [value in known for value in values]
