"""The buckets of a stored VLSN index, compared with the log.

Source: VLSNBucket, VLSNIndex.verifyDb, JE 18.3.12.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.header import invisible_mask
from je_tools.formats.je.internal.replication import RANGE_KEY, GhostBucket, VlsnBucket
from je_tools.formats.je.log.fetch import Entries, fetch
from je_tools.vlsn.index import is_plausible
from je_tools.vlsn.logged_stream import EntryState
from je_tools.vlsn.stored_index import mappings_of

if TYPE_CHECKING:
    from je_tools.formats.arrays import Mask
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.stored_index import Mappings, StoredIndex
    from je_tools.vlsn.stream import ReplicationStream
    from je_tools.vlsn.stream_summary import StreamSummary

_AT_ONCE = 1 << 16
"""Number of mappings whose entries are read at once."""


class StoredBuckets(Struct, frozen=True):
    """Buckets of a stored index, compared with the log.

    Attributes:
        right: buckets that a rebuilt index may keep, in VLSN order.
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


def right_in_stream(stored: StoredIndex, stream: ReplicationStream) -> Mask:
    """Return a mask of the mappings of an index that lead to the entry of their VLSN.

    Args:
        stored: the index.
        stream: ascending VLSNs without gaps.
    """
    mappings = mappings_of(stored.buckets)
    is_right = np.zeros(len(mappings), np.bool_)
    if len(stream):
        rows = mappings.vlsn - stream.vlsn[0]
        inside = (rows >= 0) & (rows < len(stream))
        is_right[inside] = stream.lsn[rows[inside]] == mappings.lsn[inside]
    return is_right


def right_in_log(snapshot: Snapshot, mappings: Mappings, summary: StreamSummary) -> Mask:
    """Return a mask of the mappings that lead to the entry of their VLSN; read these entries.

    Args:
        snapshot: the log.
        mappings: mappings of its index.
        summary: the whole stream of the log.
    """
    is_right = np.zeros(len(mappings), np.bool_)
    for first in range(0, len(mappings), _AT_ONCE):
        rows = slice(first, first + _AT_ONCE)
        entries = fetch(snapshot.image, mappings.lsn[rows])
        state = summary.states(entries.lsn, entries.vlsn, hidden(entries))
        is_right[rows] = (
            entries.good
            & ((entries.flags & HeaderFlag.REPLICATED.value) != 0)
            & (entries.vlsn == mappings.vlsn[rows])
            & (state == EntryState.VISIBLE)
        )
    return is_right


def hidden(entries: Entries) -> Mask:
    """Return a mask of the entries that are marked invisible."""
    masks = np.array([invisible_mask(version) for version in range(256)], np.uint8)
    marked: Mask = (entries.flags & masks[entries.version]) != 0
    return marked


def judge_buckets(stored: StoredIndex, is_right: Mask) -> StoredBuckets:
    """Judge the buckets of a stored index.

    Args:
        stored: the index.
        is_right: bool; its mappings, in the order of `mappings_of`, that lead to the entry of their
            VLSN.
    """
    buckets = stored.buckets
    mappings = mappings_of(buckets)
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
    """Return True if the first record of an index is right and begins where the range does."""
    covered = stored.range
    keys = [each for each in stored.records if each.key != RANGE_KEY]
    if covered is None or not keys or keys[0].key != covered.first:
        return False
    first = keys[0].record
    return isinstance(first, GhostBucket) or (bool(right) and first is right[0])


def _wide_gap(buckets: Sequence[VlsnBucket]) -> tuple[int, int] | None:
    """Return a gap between buckets that is wider than those that the engine leaves, or None."""
    for before, after in pairwise(buckets):
        if after.first - before.last > before.stride:
            return before.last + 1, after.first - 1
    return None
