"""Update counters of partitions: a low-water mark, and updates that are known beyond gaps.

Source: PartitionUpdateCounterTrackingImpl, Ignite 2.18.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from je_tools.ignite.logical.entries import EntryColumns


class CounterRange(Struct, frozen=True):
    """Updates of a partition that the log marks as applied.

    Attributes:
        cache_id: cache; None if `group_id` is known.
        group_id: cache group, of transactions that were rolled back; None for others.
        partition: number of the partition.
        start: counter before the first of them.
        count: number of updates.
    """

    cache_id: int | None
    group_id: int | None
    partition: int
    start: int
    count: int


class Counter(Struct, frozen=True):
    """Update counter of a partition.

    Attributes:
        low: counter up to which all updates are applied.
        beyond: start and number of updates that are applied beyond gaps, ascending.
    """

    low: int
    beyond: tuple[tuple[int, int], ...] = ()

    @property
    def high(self) -> int:
        """Highest counter that was applied."""
        return sum(self.beyond[-1]) if self.beyond else self.low

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """Counters that are missing: the last one before each gap, and the last one in it."""
        found, at = [], self.low
        for start, count in self.beyond:
            found.append((at, start))
            at = start + count
        return tuple(found)


def counter_ranges(
    entries: EntryColumns, rollbacks: Sequence[tuple[int, int, int, int]]
) -> tuple[CounterRange, ...]:
    """Return the counters that entries and rollbacks mark as applied, as runs of each partition."""
    known = np.flatnonzero(entries.counter > 0)
    cache, partition = entries.cache_id[known], entries.partition[known]
    counter = entries.counter[known]
    order = np.lexsort((counter, partition, cache))
    cache, partition, counter = cache[order], partition[order], counter[order]
    is_last = np.ones(len(order), np.bool_)
    is_last[:-1] = (cache[1:] != cache[:-1]) | (partition[1:] != partition[:-1])
    is_last[:-1] |= counter[1:] > counter[:-1] + 1
    last = np.flatnonzero(is_last)
    first = np.append(0, last + 1)[: len(last)]
    runs = zip(
        cache[first].tolist(),
        partition[first].tolist(),
        (counter[first] - 1).tolist(),
        counter[last].tolist(),
        strict=True,
    )
    found = [
        CounterRange(cache, None, part, start, stop - start) for cache, part, start, stop in runs
    ]
    found += [CounterRange(None, group, part, start, n) for group, part, start, n in rollbacks]
    return tuple(found)


def advanced(counter: Counter, ranges: Iterable[tuple[int, int]]) -> Counter:
    """Return a counter after updates were applied, each a start and a number."""
    spans = sorted([*counter.beyond, *ranges])
    low, beyond = counter.low, list[tuple[int, int]]()
    for start, count in spans:
        stop = start + count
        if count <= 0:
            continue
        if not beyond and start <= low:
            low = max(low, stop)
        elif beyond and start <= sum(beyond[-1]):
            before, _ = beyond[-1]
            beyond[-1] = (before, max(stop, sum(beyond[-1])) - before)
        else:
            beyond.append((start, count))
    return Counter(low, tuple(beyond))
