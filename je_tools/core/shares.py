"""Shares of work: tasks of about the same number of bytes, enough for all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, chain, groupby
from typing import TypeVar

TASK_SIZES = (8 << 20, 256 << 20)
"""Minimum and maximum bytes of a task, about."""

TASKS_MANY, LARGEST_TASK = 10_000, 1 << 30
"""Number of tasks from which they become larger, and their maximum bytes then, about.

Each task costs a scheduler, and mostly a file of each table, and a gigabyte takes seconds.
"""

TASKS_PER_CORE = 4
"""Tasks per core: enough that the last ones end together, and a whole number for each core."""

T = TypeVar("T")


def task_count(size: int, cores: int) -> int:
    """Return the number of tasks for `size` bytes, of which `cores` run at once."""
    least, most = TASK_SIZES
    most = max(min(size // TASKS_MANY, LARGEST_TASK), most)
    rounds = max(TASKS_PER_CORE, -(-size // (most * cores)))
    return min(rounds * cores, max(size // least, 1))


def share_of(size: int, count: int) -> int:
    """Return the bytes of each of `count` tasks, about; 1 or more."""
    return max(-(-size // count), 1)


def shares_of(items: Iterable[T], size_of: Callable[[T], int], share: int) -> Iterator[Iterator[T]]:
    """Group items by the share of all bytes that holds their middle: at most a group a share."""
    items = list(items)
    starts = accumulate(chain([0], map(size_of, items)))
    placed = zip(starts, items, strict=False)
    for _, group in groupby(placed, lambda each: (each[0] + size_of(each[1]) / 2) // share):
        yield (item for _, item in group)
