"""A VLSN index that is built anew from the log.

Buckets of the stored index stay if each of their mappings leads to the entry of its VLSN. The rest
of the stream gets new buckets, by the engine's rules. The index ends before the first VLSN that
recovery merges into it.

Source: VLSNIndex.init and merge, VLSNBucket.put, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats.je.internal.replication import VlsnBucket, VlsnRange
from je_tools.vlsn.index import (
    EMPTY_RANGE,
    NO_VLSN,
    SYNC_POINTS,
    TXN_ENDS,
    BucketRules,
    VlsnIndex,
    build_buckets,
)

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.judged_buckets import StoredBuckets
    from je_tools.vlsn.stored_index import StoredIndex
    from je_tools.vlsn.stream import ReplicationStream


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
    """Build an index of the stream before the last checkpoint began; recovery merges the rest.

    If the whole stream was logged since then, and does not begin with VLSN 1, recovery cannot begin
    an index with it. Then the index covers the whole stream.

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
        yield from build_buckets(stream.select(np.arange(done, start)), rules)
        yield bucket
        done = stop
    yield from build_buckets(stream.select(np.arange(done, count)), rules)
