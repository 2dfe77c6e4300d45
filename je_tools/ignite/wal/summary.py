"""Counts of the records of write-ahead logs: by type, segment and cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from je_tools.core.ordered import map_in_order
from je_tools.findings import Severity
from je_tools.formats.ignite.record_table import IS_DATA
from je_tools.formats.ignite.records import decode_entries
from je_tools.formats.ignite.types import RECORD_TYPES, TYPE_COUNT, EntryOperation
from je_tools.ignite.caches import cache_names
from je_tools.ignite.wal.segment_judge import FileJudge, judge_of, unread_errors
from je_tools.ignite.wal.segment_reading import copies_of, read_segment

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.ignite.walk import RecordRows
    from je_tools.ignite.segment_files import SegmentFile
    from je_tools.ignite.store import Node, Store
    from je_tools.log.scan_options import Progress

_OPERATIONS = len(EntryOperation)


class RecordTypeCount(Struct):
    """Records of one type of one node; bytes include header and checksum."""

    node: str
    type_name: str
    purpose: str
    records: int
    size: int

    @property
    def mean(self) -> int:
        """Mean number of bytes of a record."""
        return self.size // max(self.records, 1)


class SegmentCount(Struct):
    """Records of one segment."""

    node: str
    segment: int
    file: str
    records: int
    size: int
    end: int
    gaps: int


class CacheCount(Struct):
    """Entries of one cache of one node, by operation.

    Attributes:
        node: name of the node.
        cache_id: cache; None for entries that are encrypted.
        cache: its name; None if no folder has it.
        entries: number of entries.
        created, updated, deleted: those of each operation.
    """

    node: str
    cache_id: int | None
    cache: str | None
    entries: int = 0
    created: int = 0
    updated: int = 0
    deleted: int = 0


class WalSummary(Struct):
    """Counts of all nodes.

    Attributes:
        types, segments, caches: the tables.
        damaged: number of errors that `verify` reports of the files that were read and of missing
            segments, and of records that do not decode.
    """

    types: list[RecordTypeCount] = field(default_factory=list)
    segments: list[SegmentCount] = field(default_factory=list)
    caches: list[CacheCount] = field(default_factory=list)
    damaged: int = 0


class _Counts(Struct):
    """Counts of one segment: by type, and by cache and operation."""

    segment: SegmentCount
    records: Ints
    sizes: Ints
    caches: dict[int | None, Ints]
    damaged: int


def summarize_wal(
    store: Store, threads: int, *, caches: bool = False, progress: Progress | None = None
) -> WalSummary:
    """Count the records of all nodes.

    Args:
        store: the nodes.
        threads: number of segments to read at once.
        caches: also count the entries of each cache.
        progress: called with the bytes of each node that was read; None for nothing.

    Raises:
        InputError: a file cannot be read.
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    summary = WalSummary()
    for node in store.nodes:
        _add_node(summary, node, judge_of(store, node), threads, caches)
        if progress is not None:
            progress(node.size)
    return summary


def _add_node(
    summary: WalSummary, node: Node, judge: FileJudge, threads: int, caches: bool
) -> None:
    segments = [copies.chosen for copies in copies_of(node)]
    summary.damaged += unread_errors(node, judge)
    records, sizes = np.zeros(TYPE_COUNT, np.int64), np.zeros(TYPE_COUNT, np.int64)
    by_cache: dict[int | None, Ints] = {}
    count: Callable[..., _Counts] = partial(_count, judge, caches)
    for counts in map_in_order(count, segments, threads):
        records += counts.records
        sizes += counts.sizes
        summary.segments.append(counts.segment)
        summary.damaged += counts.damaged
        for cache, operations in counts.caches.items():
            by_cache[cache] = by_cache.get(cache, 0) + operations
    for no in np.flatnonzero(records).tolist():
        kind = RECORD_TYPES[no]
        purpose = kind.purpose.value
        summary.types.append(
            RecordTypeCount(node.name, kind.name, purpose, int(records[no]), int(sizes[no]))
        )
    names = cache_names(node).caches if by_cache else {}
    for cache in sorted(by_cache, key=lambda cache: (cache is None, cache or 0)):
        counts_of = by_cache[cache]
        created, updated, deleted = (int(counts_of[op]) for op in (1, 2, 3))
        total = int(counts_of.sum())
        name = None if cache is None else names.get(cache)
        row = CacheCount(node.name, cache, name, total, created, updated, deleted)
        summary.caches.append(row)


def _count(judge: FileJudge, caches: bool, segment: SegmentFile) -> _Counts:
    assert segment.header is not None
    records, sizes = np.zeros(TYPE_COUNT, np.int64), np.zeros(TYPE_COUNT, np.int64)
    by_cache: dict[int | None, Ints] = {}
    damaged = len(list(judge.of_header(segment)))
    with read_segment(segment) as (rows, end):
        for some in rows:
            types = some.columns.type_no
            records += np.bincount(types, minlength=TYPE_COUNT)
            lengths = some.columns.length.astype(np.float64)
            # Sums of up to 2^53 bytes are exact.
            sizes += np.bincount(types, lengths, TYPE_COUNT).astype(np.int64)
            if caches:
                damaged += _count_entries(some, by_cache)
    tail = end.tail
    assert tail is not None
    damaged += sum(each.severity is Severity.ERROR for each in judge.of_bytes(segment, end))
    row = SegmentCount(
        judge.node,
        segment.header.segment,
        judge.path(segment),
        int(records.sum()),
        int(sizes.sum()),
        tail.stop.at,
        end.gap_count,
    )
    return _Counts(row, records, sizes, by_cache, damaged)


def _count_entries(rows: RecordRows, by_cache: dict[int | None, Ints]) -> int:
    """Count the entries of data records; return the number of records that do not decode."""
    bad = 0
    for batch in decode_entries(rows.select(IS_DATA[rows.columns.type_no])):
        entries, bad = batch.entries, int(batch.bad.sum())
        plain = entries.is_encrypted == 0
        if not plain.all():
            hidden = np.zeros(_OPERATIONS, np.int64)
            hidden[0] = len(entries) - plain.sum()
            by_cache[None] = by_cache.get(None, 0) + hidden
        known = plain & (entries.op < _OPERATIONS)
        caches, choice = np.unique(entries.cache_id[known], return_inverse=True)
        places = choice * _OPERATIONS + entries.op[known]
        counts = np.bincount(places, minlength=len(caches) * _OPERATIONS)
        for cache, found in zip(caches.tolist(), counts.reshape(-1, _OPERATIONS), strict=True):
            by_cache[cache] = by_cache.get(cache, 0) + found
    return bad
