"""Buckets and ranges of the VLSN index equal those of a tracker fed one VLSN at a time.

The tracker below follows je-log.md "The VLSN index" as plainly as possible.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from je_tools.formats.je.internal.replication import GhostBucket, VlsnBucket, VlsnRange
from je_tools.vlsn.index import (
    EMPTY_RANGE,
    BucketRules,
    Matchpoint,
    MisfitError,
    VlsnIndex,
    build_buckets,
    merge_stream,
    stream_after_rollbacks,
    without_head,
)
from je_tools.vlsn.stream import ReplicationStream

COMMIT, ABORT, MATCHPOINT, PUT = 17, 18, 30, 33
RULES = BucketRules(stride=3, mappings=4, distance=60)
DEFAULTS = BucketRules(stride=10, mappings=1000, distance=100_000)
BIG = 1 << 32

Entry = tuple[int, int, int]
"""LSN, VLSN and entry type."""


@dataclass
class Tracker:
    """A tracker that takes entry after entry, as the engine does in recovery."""

    rules: BucketRules
    buckets: list[VlsnBucket] = field(default_factory=list)

    def put(self, lsn: int, vlsn: int) -> None:
        if not self.buckets or not self._fits(self.buckets[-1], lsn, vlsn):
            stride = self.rules.stride
            made = VlsnBucket(1, lsn >> 32, stride, vlsn, vlsn, lsn, (lsn % BIG,))
            self.buckets.append(made)
            return
        bucket = self.buckets.pop()
        offsets = list(bucket.offsets)
        step, rest = divmod(vlsn - bucket.first, bucket.stride)
        if rest == 0:
            offsets += [0] * (step - len(offsets)) + [lsn % BIG]
        numbers = (bucket.file_no, bucket.stride, bucket.first, vlsn, lsn)
        self.buckets.append(VlsnBucket(1, *numbers, tuple(offsets)))

    def _fits(self, bucket: VlsnBucket, lsn: int, vlsn: int) -> bool:
        if lsn >> 32 != bucket.file_no:
            return False
        on_stride = (vlsn - bucket.first) % bucket.stride == 0
        if on_stride and len(bucket.offsets) >= self.rules.mappings:
            return False
        return lsn % BIG - bucket.offsets[-1] <= self.rules.distance

    def roll_back(self, point: Matchpoint) -> None:
        """Forget what follows a matchpoint, which becomes the end of its bucket."""
        self.buckets = [each for each in self.buckets if each.first <= point.vlsn]
        if self.buckets and self.buckets[-1].last > point.vlsn:
            last = self.buckets.pop()
            places = (point.vlsn - last.first) // last.stride + 1
            numbers = (last.file_no, last.stride, last.first, point.vlsn, point.lsn)
            self.buckets.append(VlsnBucket(1, *numbers, last.offsets[:places]))


def entries_of(
    rng: random.Random, count: int, first: int = 1, *, gaps: bool = False
) -> list[Entry]:
    """Return replicated entries over some files; about every third ends a transaction."""
    found = []
    lsn, vlsn = 38, first
    for _ in range(count):
        type_no = rng.choice([COMMIT, ABORT, PUT, PUT, PUT, MATCHPOINT])
        found.append((lsn, vlsn, type_no))
        lsn += rng.choice([1, 5, 20, 61])
        if rng.random() < 0.03:
            lsn = ((lsn >> 32) + rng.randint(1, 2)) * BIG + 38
        vlsn += rng.choice([1, 1, 1, 4, 30]) if gaps else 1
    return found


def index_of(entries: Sequence[Entry], flushes: Sequence[int], rules: BucketRules) -> VlsnIndex:
    """Return the index after an engine has flushed it at these entry counts."""
    buckets: list[VlsnBucket] = []
    begun = 0
    for stop in flushes:
        buckets += build_buckets(ReplicationStream.of(entries[begun:stop]), rules)
        begun = stop
    return VlsnIndex(range_of(entries[:begun]), buckets)


def range_of(entries: Sequence[Entry]) -> VlsnRange:
    if not entries:
        return EMPTY_RANGE

    def newest(*types: int) -> int:
        return max((vlsn for _, vlsn, type_no in entries if type_no in types), default=-1)

    ends = newest(COMMIT, ABORT, MATCHPOINT), newest(COMMIT, ABORT)
    return VlsnRange(1, entries[0][1], entries[-1][1], *ends)


def check(index: VlsnIndex, entries: Sequence[Entry]) -> None:
    """Check that each mapping leads to its entry, and that buckets match the range."""
    places = {vlsn: lsn for lsn, vlsn, _ in entries}
    assert index.buckets[0].first == index.range.first
    last_seen = 0
    for bucket in index.buckets:
        assert bucket.first > last_seen
        assert isinstance(bucket, VlsnBucket)
        last_seen = bucket.last
        assert bucket.offsets[0]
        assert bucket.last_lsn == places[bucket.last]
        assert bucket.last_lsn >> 32 == bucket.file_no
        for place, offset in enumerate(bucket.offsets):
            if offset:
                vlsn = bucket.first + place * bucket.stride
                assert places[vlsn] == bucket.file_no * BIG + offset
    assert last_seen == index.range.last


@pytest.mark.parametrize("seed", range(60))
def test_buckets_are_those_of_a_tracker(seed: int) -> None:
    rng = random.Random(seed)
    rules = BucketRules(rng.randint(1, 5), rng.randint(1, 6), rng.choice([1, 30, 100, 10_000]))
    entries = entries_of(rng, rng.randrange(300), gaps=seed % 3 == 0)
    tracker = Tracker(rules)
    for lsn, vlsn, _ in entries:
        tracker.put(lsn, vlsn)
    assert build_buckets(ReplicationStream.of(entries), rules) == tracker.buckets


def test_a_bucket_longer_than_what_is_looked_at_at_once() -> None:
    entries = [(38 + 20 * i, 7 + i, PUT) for i in range(25_000)]
    buckets = build_buckets(ReplicationStream.of(entries), DEFAULTS)
    assert [(each.first, each.last) for each in buckets] == [
        (7, 10_006),
        (10_007, 20_006),
        (20_007, 25_006),
    ]
    check(VlsnIndex(range_of(entries), buckets), entries)


def test_a_jump_of_vlsns_begins_a_bucket() -> None:
    """The size of a bucket is bounded, whatever VLSN an entry has."""
    jumped = 7 + 10**13
    entries = [(38, 7, PUT), (58, 8, PUT), (78, jumped, COMMIT), (98, jumped + 1, COMMIT)]
    buckets = build_buckets(ReplicationStream.of(entries), DEFAULTS)
    assert [(each.first, each.last) for each in buckets] == [(7, 8), (jumped, jumped + 1)]
    check(VlsnIndex(range_of(entries), buckets), entries)


@pytest.mark.parametrize("seed", range(60))
def test_rollbacks_take_back_as_a_tracker_does(seed: int) -> None:
    rng = random.Random(seed)
    tracker = Tracker(RULES)
    entries: list[Entry] = []
    live: list[Entry] = []
    rollbacks = []
    lsn, vlsn = 38, rng.randint(1, 50)
    for _ in range(200):
        lsn += rng.choice([1, 7, 25])
        if live and rng.random() < 0.04:
            # The entries after the matchpoint belong to transactions that have not ended.
            matchpoint = rng.choice(live[-30:])
            while any(t in (COMMIT, ABORT) for _, v, t in live if v > matchpoint[1]):
                matchpoint = live[live.index(matchpoint) + 1]
            live = live[: live.index(matchpoint) + 1]
            point = Matchpoint(matchpoint[1], matchpoint[0])
            tracker.roll_back(point)
            rollbacks.append((lsn, point))
            vlsn = point.vlsn + 1
            continue
        entry = (lsn, vlsn, rng.choice([COMMIT, PUT, PUT, PUT, PUT]))
        entries.append(entry)
        live.append(entry)
        tracker.put(*entry[:2])
        vlsn += 1
    left = stream_after_rollbacks(ReplicationStream.of(entries), rollbacks)
    assert [*zip(left.lsn, left.vlsn, left.type, strict=True)] == live
    assert build_buckets(left, RULES) == tracker.buckets


def test_a_rollback_in_front_of_all_leaves_nothing() -> None:
    point = Matchpoint(4, 60)
    left = stream_after_rollbacks(
        ReplicationStream.of([(100, 5, PUT), (110, 6, PUT)]), [(120, point)]
    )
    assert not len(left)
    old = index_of([(60, 4, COMMIT), (100, 5, PUT), (110, 6, PUT)], [3], RULES)
    index = merge_stream(old, left, point, RULES)
    assert index.range == VlsnRange(1, 4, 4, 4, 4)
    assert index.buckets == (VlsnBucket(1, 0, 3, 4, 4, 60, (60,)),)


def test_ends_of_transactions_are_not_taken_back() -> None:
    stream = ReplicationStream.of([(100, 5, PUT), (110, 6, ABORT), (130, 6, PUT)])
    with pytest.raises(MisfitError, match="undoes VLSN 6"):
        stream_after_rollbacks(stream, [(120, Matchpoint(4, 60))])


def test_vlsns_that_were_used_twice_are_refused() -> None:
    with pytest.raises(MisfitError, match="VLSN 6 follows VLSN 6"):
        stream_after_rollbacks(
            ReplicationStream.of([(100, 5, PUT), (110, 6, PUT), (130, 6, PUT)]), []
        )


@pytest.mark.parametrize("seed", range(80))
def test_what_was_tracked_is_merged(seed: int) -> None:
    rng = random.Random(seed)
    entries = entries_of(rng, rng.randrange(40, 200), first=rng.choice([1, 1, 500]))
    count = len(entries)
    flushes = sorted(rng.sample(range(5, count), 3))
    if entries[0][1] == 1 and rng.random() < 0.2:
        flushes = []
    end = flushes[-1] if flushes else 0
    begun = rng.randint(max(0, end - 30), end)
    old = index_of(entries, flushes, RULES)
    index = merge_stream(old, ReplicationStream.of(entries[begun:]), None, RULES)
    check(index, entries)
    assert index.range == range_of(entries)
    new = build_buckets(ReplicationStream.of(entries[begun:]), RULES)
    assert list(index.buckets[-len(new) :]) == new
    assert merge_stream(index, ReplicationStream.of(()), None, RULES) is index


def test_a_cut_bucket_ends_with_a_mapping() -> None:
    entries = [(38 + i, 1 + i, COMMIT) for i in range(9)]
    old = index_of(entries, [9], RULES)
    index = merge_stream(old, ReplicationStream.of([(45, 6, COMMIT), (46, 7, PUT)]), None, RULES)
    cut, new = index.buckets
    assert cut == VlsnBucket(1, 0, 3, 1, 4, 41, (38, 41))
    assert (new.first, index.range) == (6, VlsnRange(1, 1, 7, 6, 6))


def test_places_that_are_not_known_end_no_bucket() -> None:
    bucket = VlsnBucket(1, 0, 3, 1, 12, 90, (38, 50, 0, 80))
    old = VlsnIndex(VlsnRange(1, 1, 12, 12, 12), [bucket])
    index = merge_stream(old, ReplicationStream.of([(70, 10, COMMIT)]), None, RULES)
    assert index.buckets[0] == VlsnBucket(1, 0, 3, 1, 4, 50, (38, 50))


def test_what_does_not_follow_is_refused() -> None:
    entries = [(38 + i, 1 + i, COMMIT) for i in range(9)]
    old = index_of(entries, [9], RULES)
    with pytest.raises(MisfitError, match="ends at VLSN 9, and the log continues with 11"):
        merge_stream(old, ReplicationStream.of([(60, 11, PUT)]), None, RULES)
    with pytest.raises(MisfitError, match="ends at VLSN -1, and the log continues with 2"):
        merge_stream(VlsnIndex(EMPTY_RANGE, ()), ReplicationStream.of([(60, 2, PUT)]), None, RULES)
    converted = ReplicationStream.of([(60, 2, PUT)])
    index = merge_stream(VlsnIndex(EMPTY_RANGE, ()), converted, None, RULES, converted=True)
    assert index.range == VlsnRange(1, 2, 2, -1, -1)


def test_a_range_beyond_its_buckets_is_refused() -> None:
    entries = [(38 + i, 1 + i, COMMIT) for i in range(9)]
    old = index_of(entries, [9], RULES)
    beyond = VlsnIndex(VlsnRange(1, 1, 20, 20, 20), old.buckets)
    with pytest.raises(MisfitError, match="should end at VLSN 20, but no bucket leads there"):
        merge_stream(beyond, ReplicationStream.of([(60, 12, COMMIT)]), None, RULES)
    with pytest.raises(MisfitError, match="has buckets after that"):
        merge_stream(
            VlsnIndex(EMPTY_RANGE, old.buckets), ReplicationStream.of([(38, 1, PUT)]), None, RULES
        )


def test_a_commit_in_the_index_is_not_rolled_back() -> None:
    entries = [(38 + i, 1 + i, COMMIT) for i in range(9)]
    old = index_of(entries, [9], RULES)
    with pytest.raises(MisfitError, match="a commit at 9, and the log has 5 to 5"):
        merge_stream(old, ReplicationStream.of(()), Matchpoint(5, 42), RULES)


def test_the_head_goes_with_its_files() -> None:
    entries = [(i // 6 * BIG + 38 + i, 1 + i, COMMIT) for i in range(18)]
    index = index_of(entries, [18], DEFAULTS)
    left = without_head(index, 6, 1)
    assert (left.range, left.buckets) == (VlsnRange(1, 7, 18, 18, 18), list(index.buckets[1:]))
    assert without_head(left, 6, 1) is left
    check(left, entries)


def test_a_gap_behind_the_head_gets_a_ghost() -> None:
    entries = [(i // 6 * BIG + 38 + i, 1 + i, COMMIT) for i in range(18)]
    whole = index_of(entries, [18], DEFAULTS)
    index = VlsnIndex(whole.range, [whole.buckets[0], whole.buckets[2]])
    left = without_head(index, 6, 1)
    assert left.buckets == [GhostBucket(1, 7, BIG + 38, 2 * BIG + 50), whole.buckets[2]]


def test_the_last_commit_does_not_go() -> None:
    index = index_of([(38 + i, 1 + i, COMMIT if i < 3 else PUT) for i in range(9)], [9], RULES)
    with pytest.raises(MisfitError, match="VLSNs up to 5 are missing"):
        without_head(index, 5, 1)
    with pytest.raises(MisfitError, match="VLSNs up to 5 are missing"):
        without_head(VlsnIndex(EMPTY_RANGE, ()), 5, 1)
    assert without_head(index, 2, 1).range == VlsnRange(1, 3, 9, 3, -1)
