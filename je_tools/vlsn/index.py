"""The rules by which the engine changes a VLSN index: merge a stream, cut its end, cut its head.

The index holds the positions of some VLSNs, and the range of all. A checkpoint writes it, and
recovery merges into it the stream since the last checkpoint began. A checkpoint that is written
offline has to do the same. Otherwise the index would lack VLSNs that no entry after the checkpoint
has, and the engine would give them to other entries.

Source: je-log.md "The VLSN index"; VLSNIndex.merge, VLSNIndex.pruneDatabaseTail,
VLSNIndex.truncateFromHead, VLSNTracker, VLSNRecoveryTracker, VLSNBucket.put and removeFromTail,
VLSNRange, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.core.properties import VLSN_DISTANCE, VLSN_MAPPINGS, VLSN_STRIDE, read_settings
from je_tools.formats.je.header import FILE_HEADER_SIZE, lsn_of
from je_tools.formats.je.internal.replication import GhostBucket, VlsnBucket, VlsnRange
from je_tools.formats.je.types import ABORT_NO, BY_NAME, COMMIT_NO
from je_tools.vlsn.node_rollbacks import is_left
from je_tools.vlsn.stream import ReplicationStream

NO_VLSN = -1
FIRST_VLSN = 1

_VERSION = 1
EMPTY_RANGE = VlsnRange(_VERSION, NO_VLSN, NO_VLSN, NO_VLSN, NO_VLSN)

MATCHPOINT_NO = BY_NAME["Matchpoint"].no
TXN_ENDS = (COMMIT_NO, ABORT_NO)
SYNC_POINTS = (*TXN_ENDS, MATCHPOINT_NO)
_AT_FIRST = 64
_PADDING_MAX = 1000
"""Largest number of consecutive places without a mapping that a bucket gets.

The engine has no limit, but the VLSNs of its stream have no gaps. A damaged VLSN must not decide
how much memory a bucket needs.
"""
_OFFSET = (1 << 32) - 1
_FILE_NO_MAX, _STRIDE_MAX, _VLSN_MAX = (1 << 31) - 1, 1 << 24, 1 << 62

Bucket = VlsnBucket | GhostBucket


class BucketRules(Struct, frozen=True):
    """Limits of a bucket.

    Attributes:
        stride: number of VLSNs from one mapping to the next.
        mappings: maximum number of mappings.
        distance: maximum bytes between the last mapping and a VLSN that the bucket covers.
    """

    stride: int
    mappings: int
    distance: int

    @classmethod
    def of(cls, home: Path) -> BucketRules:
        """Read the rules from the `je.properties` of an environment; defaults are the engine's."""
        settings = read_settings(home)
        return cls(*(settings.number(each) for each in (VLSN_STRIDE, VLSN_MAPPINGS, VLSN_DISTANCE)))


class Matchpoint(Struct, frozen=True):
    """Last position of the stream that a rollback keeps."""

    vlsn: int
    lsn: int


class VlsnIndex(Struct, frozen=True):
    """The VLSN index.

    Attributes:
        range: VLSNs that it covers.
        buckets: in VLSN order.
    """

    range: VlsnRange
    buckets: Sequence[Bucket]

    def encode(self) -> dict[bytes, bytes]:
        """Return its records in the order in which the engine writes them: the range is last."""
        return dict(each.encode() for each in (*self.buckets, self.range))


class MisfitError(Exception):
    """An index or a stream that the engine would not continue; the message says why."""


def is_plausible(bucket: VlsnBucket) -> bool:
    """Return True if the numbers of a bucket are possible in a log; they may still be wrong."""
    return (
        0 <= bucket.file_no <= _FILE_NO_MAX
        and 0 < bucket.stride <= _STRIDE_MAX
        and 0 < bucket.first <= bucket.last <= _VLSN_MAX
        and 0 <= bucket.last_lsn >> 32 <= _FILE_NO_MAX
    )


def _check_bucket(bucket: VlsnBucket) -> None:
    """Check a bucket before its offsets are used.

    Raises:
        MisfitError: its numbers cannot be those of a log, or it has no offsets.
    """
    if not is_plausible(bucket):
        raise MisfitError(f"the numbers of its bucket of VLSN {bucket.first} are impossible")
    if not bucket.offsets:
        raise MisfitError(f"its bucket of VLSN {bucket.first} has no offsets")


def stream_after_rollbacks(
    stream: ReplicationStream, rollbacks: Sequence[tuple[int, Matchpoint]]
) -> ReplicationStream:
    """Return a stream without the entries that rollbacks undo.

    Args:
        stream: visible entries.
        rollbacks: LSN of each RollbackStart, ascending, and its matchpoint.

    Raises:
        MisfitError: VLSNs decrease without a rollback, or a rollback covers a transaction's end.
    """
    stays = is_left(stream.lsn, stream.vlsn, [(lsn, point.vlsn) for lsn, point in rollbacks])
    ended = np.flatnonzero(~stays & np.isin(stream.type, TXN_ENDS))
    if len(ended):
        raise MisfitError(
            f"a rollback undoes VLSN {int(stream.vlsn[ended[0]])}, the end of a transaction"
        )
    stream = stream.select(stays)
    wrong = np.flatnonzero(np.diff(stream.vlsn) <= 0)
    if len(wrong):
        first, then = stream.vlsn[wrong[0] : wrong[0] + 2].tolist()
        raise MisfitError(f"VLSN {then} follows VLSN {first}")
    return stream


def build_buckets(stream: ReplicationStream, rules: BucketRules) -> list[VlsnBucket]:
    """Return the buckets of a stream with ascending VLSNs."""
    buckets = []
    first = 0
    while first < len(stream):
        stop = _bucket_stop(stream, first, rules)
        buckets.append(_bucket(stream, first, stop, rules.stride))
        first = stop
    return buckets


def _bucket_stop(stream: ReplicationStream, first: int, rules: BucketRules) -> int:
    """Return the row after the last entry of the bucket that begins at `first`."""
    last_lsn = stream.lsn[first] | _OFFSET
    end = int(np.searchsorted(stream.lsn, last_lsn, "right"))
    place, done, count = first, first + 1, _AT_FIRST
    while done < end:
        stop = min(done + count, end)
        steps = stream.vlsn[done:stop] - stream.vlsn[first]
        on_stride = steps % rules.stride == 0
        # The last mapped entry up to each entry; `before` leaves out the entry itself.
        last = np.maximum.accumulate(np.where(on_stride, np.arange(done, stop), place))
        before = np.append(place, last[:-1])
        places = (stream.vlsn[before] - stream.vlsn[first]) // rules.stride + 1
        refused = stream.lsn[done:stop] - stream.lsn[before] > rules.distance
        refused |= on_stride & (places >= rules.mappings)
        own = steps // rules.stride
        refused |= on_stride & (own - places > _PADDING_MAX)
        at = int(refused.argmax())
        if refused[at]:
            return done + at
        place, done, count = int(last[-1]), stop, 4 * count
    return end


def _bucket(stream: ReplicationStream, first: int, stop: int, stride: int) -> VlsnBucket:
    steps = stream.vlsn[first:stop] - stream.vlsn[first]
    on_stride = np.flatnonzero(steps % stride == 0)
    at = steps[on_stride] // stride
    offsets = np.zeros(int(at[-1]) + 1, np.int64)
    offsets[at] = stream.lsn[first + on_stride] & _OFFSET
    return VlsnBucket(
        _VERSION,
        int(stream.lsn[first] >> 32),
        stride,
        int(stream.vlsn[first]),
        int(stream.vlsn[stop - 1]),
        int(stream.lsn[stop - 1]),
        tuple(offsets.tolist()),
    )


def merge_stream(
    index: VlsnIndex,
    stream: ReplicationStream,
    matchpoint: Matchpoint | None,
    rules: BucketRules,
    *,
    converted: bool = False,
) -> VlsnIndex:
    """Merge the stream since the checkpoint began into an index.

    Args:
        index: as stored in the database.
        stream: as `stream_after_rollbacks` returns it.
        matchpoint: of the last rollback since then; None without one.
        rules: limits of buckets.
        converted: True if the environment was not replicated at first.

    Raises:
        MisfitError: index and stream do not fit together.
    """
    if not len(stream):
        if matchpoint is None:
            return index
        if not 0 <= matchpoint.lsn >> 32 <= _FILE_NO_MAX:
            raise MisfitError("a rollback goes back to a place that no log has")
        stream = ReplicationStream.of([(matchpoint.lsn, matchpoint.vlsn, MATCHPOINT_NO)])
    seen = _range_of(stream)
    new = build_buckets(stream, rules)
    old = index.range
    following = old.last + 1 if old.last != NO_VLSN else 1
    if seen.first > following and not (converted and old.last == NO_VLSN):
        raise MisfitError(f"it ends at VLSN {old.last}, and the log continues with {seen.first}")
    if seen.first == following:
        if index.buckets and index.buckets[-1].first >= seen.first:
            raise MisfitError(f"it ends at VLSN {old.last}, but has buckets after that")
        return VlsnIndex(_extended(old, seen), (*index.buckets, *new))
    return VlsnIndex(_replaced(old, seen), (*_buckets_before(index, seen.first), *new))


def _range_of(stream: ReplicationStream) -> VlsnRange:
    def newest(types: Sequence[int]) -> int:
        return int(stream.vlsn[np.isin(stream.type, types)].max(initial=NO_VLSN))

    first, last = int(stream.vlsn[0]), int(stream.vlsn[-1])
    return VlsnRange(_VERSION, first, last, newest(SYNC_POINTS), newest(TXN_ENDS))


def _extended(old: VlsnRange, seen: VlsnRange) -> VlsnRange:
    return VlsnRange(
        _VERSION,
        seen.first if old.first == NO_VLSN else old.first,
        seen.last,
        max(old.last_sync, seen.last_sync),
        max(old.last_txn_end, seen.last_txn_end),
    )


def _replaced(old: VlsnRange, seen: VlsnRange) -> VlsnRange:
    """Return the range merged with a stream that begins within it; the stream overrides it."""
    new = VlsnRange(
        _VERSION,
        seen.first if old.first == NO_VLSN else old.first,
        seen.last,
        old.last_sync if seen.last_sync == NO_VLSN else seen.last_sync,
        old.last_txn_end if seen.last_txn_end == NO_VLSN else seen.last_txn_end,
    )
    if max(new.last_sync, new.last_txn_end) > new.last or new.first > seen.first:
        raise MisfitError(
            f"it covers VLSNs {old.first} to {old.last} with a commit at {old.last_txn_end}, and "
            f"the log has {seen.first} to {seen.last}"
        )
    return new


def _buckets_before(index: VlsnIndex, vlsn: int) -> list[Bucket]:
    """Return the buckets without the mappings from a VLSN on.

    A bucket ends with a mapping, so no bucket covers VLSNs between the last mapping and this VLSN.
    """
    buckets = [each for each in index.buckets if each.first < vlsn]
    last = buckets[-1] if buckets else None
    is_cut = isinstance(last, VlsnBucket) and last.last >= vlsn
    if index.range.last != NO_VLSN and not is_cut and len(buckets) == len(index.buckets):
        raise MisfitError(f"it should end at VLSN {index.range.last}, but no bucket leads there")
    if is_cut and isinstance(last, VlsnBucket):
        buckets[-1] = _cut(last, vlsn)
    return buckets


def _cut(bucket: VlsnBucket, vlsn: int) -> VlsnBucket:
    _check_bucket(bucket)
    places = -(-(vlsn - bucket.first) // bucket.stride)
    offsets = list(bucket.offsets[:places])
    while len(offsets) > 1 and not offsets[-1]:
        offsets.pop()
    last = bucket.first + (len(offsets) - 1) * bucket.stride
    last_lsn = lsn_of(bucket.file_no, offsets[-1])
    return replace(bucket, last=last, last_lsn=last_lsn, offsets=tuple(offsets))


def without_head(index: VlsnIndex, last_gone: int, next_file_no: int) -> VlsnIndex:
    """Return an index without the VLSNs of files that are gone.

    Args:
        index: index that may still have them.
        last_gone: last VLSN in these files.
        next_file_no: number of the first file after them.

    Raises:
        MisfitError: no sync point would be left, so the node could not agree with others.
    """
    old = index.range
    if old.first == NO_VLSN or NO_VLSN < old.last_sync < last_gone:
        raise MisfitError(
            f"files with VLSNs up to {last_gone} are missing, and with them all commits"
        )
    if old.first > last_gone:
        return index
    is_all = last_gone == old.last
    first, last = (NO_VLSN, NO_VLSN) if is_all else (last_gone + 1, old.last)
    txn_end = old.last_txn_end if old.last_txn_end > first else NO_VLSN
    new_range = VlsnRange(_VERSION, first, last, old.last_sync, txn_end)
    left = [each for each in index.buckets if each.first > last_gone]
    is_lacking = len(left) < len(index.buckets) and left and left[0].first != first
    if is_lacking and isinstance(left[0], VlsnBucket):
        _check_bucket(left[0])
        place = lsn_of(next_file_no, FILE_HEADER_SIZE)
        known = lsn_of(left[0].file_no, left[0].offsets[0])
        return VlsnIndex(new_range, [GhostBucket(_VERSION, first, place, known), *left])
    return VlsnIndex(new_range, left)


def from_bucket(index: VlsnIndex, first: int) -> VlsnIndex:
    """Return an index without the VLSNs before the bucket that begins with VLSN `first`.

    Raises:
        MisfitError: no bucket begins there, or no sync point would be left.
    """
    if index.range.first == first:
        return index
    for bucket in index.buckets:
        if bucket.first == first and isinstance(bucket, VlsnBucket):
            return without_head(index, first - 1, bucket.file_no)
    raise MisfitError(f"no bucket begins with VLSN {first}")
