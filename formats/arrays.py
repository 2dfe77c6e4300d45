"""Array types by name, and helpers that group and select rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def rows_by(values: npt.NDArray[Any]) -> dict[int, Ints]:
    """Return the rows of each distinct value, ascending, by value; sorts only once."""
    order: Ints = np.argsort(values, kind="stable")
    if not len(order):
        return {}
    ascending = values[order]
    starts = np.flatnonzero(ascending[1:] != ascending[:-1]) + 1
    found = ascending[np.append(0, starts)].tolist()
    return dict(zip(found, np.split(order, starts), strict=True))


def distinct(values: npt.NDArray[Any]) -> list[int]:
    """Return the distinct values, ascending.

    Unlike `np.unique`, this does not load numpy's masked arrays.
    """
    if len(values) and (values == values[0]).all():
        return [int(values[0])]
    ordered = np.sort(values)
    is_new = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    found: list[int] = ordered[is_new].tolist()
    return found


def first_rows(values: npt.NDArray[Any]) -> Ints:
    """Return the first row of each distinct value, in the order of the values.

    Unlike `np.unique`, this does not load numpy's masked arrays.
    """
    order: Ints = np.argsort(values, kind="stable")
    ascending = values[order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = ascending[1:] != ascending[:-1]
    return order[is_new]


def run_of(rows: Ints) -> slice | Ints:
    """Return rows as a slice if they are consecutive: a slice selects without copying.

    Args:
        rows: ascending and distinct.
    """
    count = len(rows)
    if count and int(rows[-1]) - int(rows[0]) == count - 1:
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows
