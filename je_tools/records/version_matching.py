"""Matching of the versions in a log with the records that readers see, to tell which are current.

Digests of its LSN and key stand for each version and record. Versions are found in log order and
records in key order, so both are put into tables by digest, and matched partition by partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from je_tools.core.spill import GroupedRuns, RowTable
from je_tools.formats.je.entry.identity import Seed, identities, new_seed

if TYPE_CHECKING:
    from je_tools.core.spill import Spill
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.spans import Spans

_KINDS = (np.int64, np.int64, np.int64)
_ONLY_GROUP = 0


def version_digests(lsns: Ints, keys: Spans, seed: Seed) -> tuple[Ints, Ints]:
    """Return keyed digests of versions, as `identities` does of records."""
    return identities(keys.data, keys.starts, keys.sizes, lsns, seed)


class VersionMatcher:
    """Matcher of versions with records: versions that readers see, and records without a version.

    Attributes:
        seed: secret of the digests.
        slot_count: number of records without a version, after `match`.
    """

    def __init__(self, spill: Spill) -> None:
        self.seed = new_seed()
        self.slot_count = 0
        self._spill = spill
        self._versions = RowTable(spill, _KINDS, digest=1)
        self._records = RowTable(spill, _KINDS, digest=1)
        self._current = GroupedRuns(spill, (np.int64,))
        self._slots = GroupedRuns(spill, (np.int64,))

    def add_versions(self, first: Ints, second: Ints) -> None:
        """Add the next versions, by their digests.

        Raises:
            RefusedError: a temporary file cannot be written.
        """
        self._versions.append((first, second, len(self._versions) + np.arange(len(first))))

    def add_records(self, lsns: Ints, keys: Spans) -> None:
        """Add the next records.

        Raises:
            RefusedError: a temporary file cannot be written.
        """
        first, second = version_digests(lsns, keys, self.seed)
        self._records.append((first, second, len(self._records) + np.arange(len(first))))

    def match(self) -> None:
        """Match the versions with the records.

        Raises:
            RefusedError: a temporary file cannot be written or read.
        """
        for partition in range(self._spill.partition_count):
            version = self._versions.read(partition)
            record = self._records.read(partition)
            is_current, has_version = _in_both(version, record)
            self.slot_count += int(np.count_nonzero(~has_version))
            for runs, rows in (
                (self._current, version[2][is_current]),
                (self._slots, record[2][~has_version]),
            ):
                runs.append(np.full(len(rows), _ONLY_GROUP, np.int64), (rows,))

    def current_mask(self) -> NumberMask:
        """Return the numbers of the versions that readers see."""
        return NumberMask(chunk for (chunk,) in self._current.rows(_ONLY_GROUP))

    def slot_mask(self) -> NumberMask:
        """Return the numbers of the records without a version: only a slot holds them."""
        return NumberMask(chunk for (chunk,) in self._slots.rows(_ONLY_GROUP))


class NumberMask:
    """Ascending numbers, read as masks of ranges; the ranges must ascend too."""

    def __init__(self, chunks: Iterator[Ints]) -> None:
        self._chunks = chunks
        self._rest: Ints = np.empty(0, np.int64)

    def within(self, start: int, stop: int) -> Mask:
        """Return a mask of the numbers in [start, stop)."""
        found = np.zeros(stop - start, np.bool_)
        while True:
            count = int(np.searchsorted(self._rest, stop))
            found[self._rest[:count] - start] = True
            self._rest = self._rest[count:]
            if len(self._rest):
                return found
            more = next(self._chunks, None)
            if more is None:
                return found
            self._rest = more


def _in_both(some: list[Ints], others: list[Ints]) -> tuple[Mask, Mask]:
    """Return masks of the rows on each side whose two digests the other side has too."""
    n = len(some[0])
    first, second = (np.concatenate((some[i], others[i])) for i in (0, 1))
    order = np.lexsort((second, first))
    is_other = order >= n
    starts = np.append(True, np.diff(first[order]) != 0)[: len(order)]
    starts[1:] |= np.diff(second[order]) != 0
    group = np.cumsum(starts) - 1
    has_some, has_other = np.zeros((2, len(order)), np.bool_)
    has_some[group[~is_other]] = True
    has_other[group[is_other]] = True
    found = np.empty(len(order), np.bool_)
    found[order] = has_some[group] & has_other[group]
    return found[:n], found[n:]
