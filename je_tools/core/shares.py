"""Shares of work: tasks of about the same number of bytes, enough for all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, chain, groupby
from typing import TypeVar

TASK_SIZES = (8 << 20, 256 << 20)
"""Approximate minimum and maximum size of a task, in bytes."""

TASKS_MANY, LARGEST_TASK = 10_000, 1 << 30
"""Number of tasks above which tasks become larger, and their approximate maximum bytes then.
Each task costs time in the scheduler, and mostly a file of each table. A gigabyte takes seconds.
"""

TASKS_PER_CORE = 4
"""Tasks per core: enough that the last ones end at about the same time."""

T = TypeVar("T")


def task_count(size: int, cores: int) -> int:
    """Return the number of tasks for `size` bytes, of which `cores` run at once."""
    least, most = TASK_SIZES
    most = max(min(size // TASKS_MANY, LARGEST_TASK), most)
    rounds = max(TASKS_PER_CORE, -(-size // (most * cores)))
    return min(rounds * cores, max(size // least, 1))


def share_of(size: int, count: int) -> int:
    """Return the approximate number of bytes of each of `count` tasks; 1 or more."""
    return max(-(-size // count), 1)


def shares_of(items: Iterable[T], size_of: Callable[[T], int], share: int) -> Iterator[Iterator[T]]:
    """Yield the items in groups of about `share` bytes, in order.

    An item belongs to the share in which its middle lies. No group is empty.
    """
    items = list(items)
    starts = accumulate(chain([0], map(size_of, items)))
    placed = zip(starts, items, strict=False)
    for _, group in groupby(placed, lambda each: (each[0] + size_of(each[1]) / 2) // share):
        yield (item for _, item in group)
