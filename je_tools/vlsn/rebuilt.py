"""A VLSN index that is built anew from the log.

Buckets of the stored index stay if each of their mappings leads to the entry of its VLSN. The rest
of the stream gets new buckets, by the engine's rules. The index ends before the first VLSN that
recovery merges into it.

Source: VLSNIndex.init and merge, VLSNBucket.put, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.je.internal.replication import RANGE_KEY, GhostBucket, VlsnBucket, VlsnRange
from je_tools.vlsn.index import (
    EMPTY_RANGE,
    NO_VLSN,
    SYNC_POINTS,
    TXN_ENDS,
    BucketRules,
    VlsnIndex,
    cut_buckets,
    is_plausible,
)
from je_tools.vlsn.stored import mappings_of

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.stored import StoredIndex
    from je_tools.vlsn.stream import ReplicationStream


class StoredBuckets(Struct, frozen=True):
    """Buckets of a stored index, compared with the log.

    Attributes:
        right: those that can stay, in VLSN order.
        is_right_head: True if the first record and the first VLSN of the range agree.
        wrong_counts: number of mappings that lead to another entry or to none, by the key of the
            record, for records that have some.
        broken_count: number of other buckets that cannot stay.
        wide_gap: first and last VLSN of a gap that no engine leaves; None if there is none.
    """

    right: list[VlsnBucket]
    is_right_head: bool
    wrong_counts: dict[bytes, int]
    broken_count: int
    wide_gap: tuple[int, int] | None


def judge_buckets(stored: StoredIndex, stream: ReplicationStream) -> StoredBuckets:
    """Compare the buckets of a stored index with the stream.

    Args:
        stored: the index.
        stream: ascending VLSNs without gaps.
    """
    buckets = stored.buckets
    mappings = mappings_of(buckets)
    is_right = np.zeros(len(mappings), np.bool_)
    if len(stream):
        rows = mappings.vlsn - stream.vlsn[0]
        inside = (rows >= 0) & (rows < len(stream))
        is_right[inside] = stream.lsn[rows[inside]] == mappings.lsn[inside]
    wrong = Counter(mappings.bucket[~is_right].tolist())
    right: list[VlsnBucket] = []
    broken_count = 0
    for place, bucket in enumerate(buckets):
        if not isinstance(bucket, VlsnBucket) or place in wrong:
            continue
        if _is_whole(bucket) and (not right or bucket.first > right[-1].last):
            right.append(bucket)
        else:
            broken_count += 1
    return StoredBuckets(
        right,
        _is_right_head(stored, right),
        {buckets[place].encode()[0]: count for place, count in wrong.items()},
        broken_count,
        _wide_gap(right) if len(right) == len(buckets) else None,
    )


def _is_whole(bucket: VlsnBucket) -> bool:
    return (
        is_plausible(bucket)
        and bool(bucket.offsets)
        and bucket.offsets[0] != 0
        and bucket.last_lsn >> 32 == bucket.file_no
        and bucket.first + (len(bucket.offsets) - 1) * bucket.stride <= bucket.last
    )


def _is_right_head(stored: StoredIndex, right: Sequence[VlsnBucket]) -> bool:
    """Return True if the index begins where its range does: a head that was given up."""
    covered = stored.range
    keys = [each for each in stored.records if each.key != RANGE_KEY]
    if covered is None or not keys or keys[0].key != covered.first:
        return False
    first = keys[0].record
    return isinstance(first, GhostBucket) or (bool(right) and first is right[0])


def _wide_gap(buckets: Sequence[VlsnBucket]) -> tuple[int, int] | None:
    """Return a gap between buckets that is wider than the engine leaves when it cuts one."""
    for before, after in pairwise(buckets):
        if after.first - before.last > before.stride:
            return before.last + 1, after.first - 1
    return None


def first_vlsn(stored: StoredIndex, judged: StoredBuckets, stream: ReplicationStream) -> int:
    """Return the VLSN with which a rebuilt index begins.

    That is the first of the stream. A range that begins later stays if its first bucket is right:
    the node gave up its head, for example when its group was reset.
    """
    first = int(stream.vlsn[0])
    covered = stored.range
    if covered is not None and judged.is_right_head and covered.first <= int(stream.vlsn[-1]):
        return max(first, covered.first)
    return first


def rebuilt(
    snapshot: Snapshot, stream: ReplicationStream, kept: Sequence[VlsnBucket] = ()
) -> VlsnIndex:
    """Build an index, up to the VLSN before the first one since the last checkpoint began.

    If that is the first of the stream, and recovery would not begin an index with it, the index has
    all VLSNs.

    Args:
        snapshot: the log.
        stream: ascending VLSNs without gaps.
        kept: buckets with right mappings, in VLSN order, without overlaps.
    """
    count = int(np.searchsorted(stream.lsn, max(snapshot.checkpoint.start_lsn, 0)))
    if not count and len(stream) and int(stream.vlsn[0]) != 1:
        count = len(stream)
    part = stream.select(np.arange(count))
    if not len(part):
        return VlsnIndex(EMPTY_RANGE, [])
    rules = BucketRules.of(Path(snapshot.environment.name))
    buckets = list(_buckets(part, kept, rules))

    def newest(types: Sequence[int]) -> int:
        return int(part.vlsn[np.isin(part.type, types)].max(initial=NO_VLSN))

    ends = newest(SYNC_POINTS), newest(TXN_ENDS)
    covered = VlsnRange(EMPTY_RANGE.version, int(part.vlsn[0]), int(part.vlsn[-1]), *ends)
    return VlsnIndex(covered, buckets)


def _buckets(
    stream: ReplicationStream, kept: Sequence[VlsnBucket], rules: BucketRules
) -> Iterator[VlsnBucket]:
    """Yield the kept buckets that lie in a stream, and new ones between them."""
    first, count = int(stream.vlsn[0]), len(stream)
    done = 0
    for bucket in kept:
        start, stop = bucket.first - first, bucket.last + 1 - first
        if start < 0 or stop > count:
            continue
        yield from cut_buckets(stream.select(np.arange(done, start)), rules)
        yield bucket
        done = stop
    yield from cut_buckets(stream.select(np.arange(done, count)), rules)
