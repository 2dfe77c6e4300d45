"""Findings on a VLSN index by itself, and on its end compared with the end of the log.

Source: VLSNIndex.verifyDb, VLSNTracker.verify, VLSNBucket, JE 18.3.12; what the engine does with
each kind of damage was observed on JE 7.5.11, 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats.je.header import NULL_LSN, lsn_text
from je_tools.formats.je.internal.records import Unreadable
from je_tools.formats.je.internal.replication import RANGE_KEY, GhostBucket, VlsnBucket, VlsnRange
from je_tools.group.members import problem_findings
from je_tools.log.file_findings import finding_at
from je_tools.vlsn.index import FIRST_VLSN, NO_VLSN, VlsnIndex, is_plausible

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.group_names import GroupNames
    from je_tools.vlsn.logged_stream import StreamEnd
    from je_tools.vlsn.stored_index import IndexRecord, StoredIndex

_OFFSET = (1 << 32) - 1


def vlsn_finding(snapshot: Snapshot, code: str, lsn: int, expected: str, found: str) -> Finding:
    """Return a finding with what is expected and found; without a place for a negative LSN."""
    place = lsn if lsn >= 0 else NULL_LSN
    return finding_at(snapshot.environment, code, place, expected=expected, found=found)


def group_findings(snapshot: Snapshot, group: GroupNames) -> Iterator[Finding]:
    """Yield a finding if the group of a node is not known, and one for each contradiction."""
    yield from problem_findings(snapshot, group.contradictions)
    if group.problem is not None:
        yield vlsn_finding(
            snapshot, "group-unreadable", NULL_LSN, "the group and its members", group.problem
        )


def misfit_finding(snapshot: Snapshot, refusal: str | None) -> Iterator[Finding]:
    """Yield a finding if recovery cannot merge the stream into the index."""
    if refusal is not None:
        expected = "VLSNs since the last checkpoint that overlap or follow the index"
        yield vlsn_finding(
            snapshot, "vlsn-index-refused", NULL_LSN, expected, f"the index: {refusal}"
        )


def record_findings(
    snapshot: Snapshot, stored: StoredIndex, tracked_vlsn: int | None
) -> Iterator[Finding]:
    """Yield the findings on the records of an index, in key order.

    Args:
        snapshot: the log.
        stored: the records.
        tracked_vlsn: first VLSN since the last checkpoint began; None without one.
    """
    if stored.db_id is None:
        yield vlsn_finding(
            snapshot, "vlsn-index-lost", NULL_LSN, "a VLSN index", "no database of it"
        )
        return
    if stored.is_damaged:
        found = "a damaged node of its tree, so records may be missing"
        yield vlsn_finding(snapshot, "vlsn-index-lost", NULL_LSN, "all records of the index", found)
    for each in stored.unreadable:
        assert isinstance(each.record, Unreadable)
        found = f"none that can be read: {each.record.reason}"
        yield vlsn_finding(snapshot, "vlsn-index-lost", each.lsn, _named(each), found)
    if stored.range is None and not any(each.key == RANGE_KEY for each in stored.unreadable):
        count = len(stored.buckets)
        found = f"none, and {count:,} buckets" if count else "no record at all"
        # Recovery fills an empty index with what was logged since the last checkpoint began.
        is_new = snapshot.checkpoint.end_lsn == NULL_LSN or tracked_vlsn == FIRST_VLSN
        if count or not is_new:
            yield vlsn_finding(
                snapshot, "vlsn-index-lost", NULL_LSN, "the record of the range", found
            )
    yield from _bucket_findings(snapshot, stored)
    if stored.range is not None:
        yield from _range_findings(snapshot, stored, stored.range)


def _named(record: IndexRecord) -> str:
    if record.key is None:
        return "a record with a VLSN as its key"
    return "the range" if record.key == RANGE_KEY else f"the bucket of VLSN {record.key}"


def _bucket_findings(snapshot: Snapshot, stored: StoredIndex) -> Iterator[Finding]:
    named = [each for each in stored.records if isinstance(each.record, VlsnBucket | GhostBucket)]
    for each in named:
        if isinstance(each.record, VlsnBucket):
            for expected, found in _faults_of(each.record):
                text = f"bucket of VLSN {each.record.first}: {found}"
                yield vlsn_finding(snapshot, "vlsn-index-bucket", each.lsn, expected, text)
    for before, each in pairwise(named):
        one, other = before.record, each.record
        if isinstance(other, GhostBucket):
            found = f"bucket of VLSN {other.first}: a ghost bucket after others"
            yield vlsn_finding(
                snapshot, "vlsn-index-bucket", each.lsn, "ghosts only at the head", found
            )
        elif isinstance(one, VlsnBucket) and isinstance(other, VlsnBucket):
            yield from _order_findings(snapshot, one, other, each.lsn)


def _faults_of(bucket: VlsnBucket) -> Iterator[tuple[str, str]]:
    """Yield what a bucket should have and what it has, for each contradiction in it."""
    if not is_plausible(bucket):
        yield (
            "numbers of a log",
            f"file {bucket.file_no}, stride {bucket.stride}, VLSNs {bucket.first} to {bucket.last}",
        )
        return
    offsets = np.array(bucket.offsets, np.int64)
    known = offsets[offsets != 0]
    if not len(offsets) or not offsets[0]:
        yield "an offset of its first VLSN", "none"
    if (np.diff(known) <= 0).any():
        yield "ascending offsets", "offsets that go back"
    if bucket.last_lsn >> 32 != bucket.file_no:
        yield (
            f"VLSNs in one file, {bucket.file_no:#x}",
            f"VLSN {bucket.last} in file {bucket.last_lsn >> 32:#x}",
        )
    elif len(known) and bucket.last_lsn & _OFFSET < int(known[-1]):
        yield (
            f"the last VLSN at or after {known[-1]:#x}",
            f"VLSN {bucket.last} at {bucket.last_lsn & _OFFSET:#x}",
        )
    most = bucket.first + (len(offsets) - 1) * bucket.stride
    if len(offsets) and most > bucket.last:
        yield f"mappings up to VLSN {bucket.last}", f"one of VLSN {most}"


def _order_findings(
    snapshot: Snapshot, one: VlsnBucket, other: VlsnBucket, lsn: int
) -> Iterator[Finding]:
    if other.first <= one.last:
        expected = f"a first VLSN after {one.last}, which the bucket before covers"
        found = f"bucket of VLSN {other.first}: it overlaps the one of VLSN {one.first}"
        yield vlsn_finding(snapshot, "vlsn-index-bucket", lsn, expected, found)
    elif is_plausible(one) and is_plausible(other) and other.offsets:
        begins = other.file_no << 32 | other.offsets[0]
        if begins <= one.last_lsn:
            expected = f"a first LSN after {lsn_text(one.last_lsn)}"
            found = f"bucket of VLSN {other.first}: it begins at {lsn_text(begins)}"
            yield vlsn_finding(snapshot, "vlsn-index-bucket", lsn, expected, found)
        if other.first - one.last > one.stride:
            expected = f"a bucket of VLSN {one.last + 1}, or a gap that the engine leaves"
            found = f"no bucket of VLSNs {one.last + 1} to {other.first - 1}"
            yield vlsn_finding(snapshot, "vlsn-index-gap", lsn, expected, found)


def _range_findings(
    snapshot: Snapshot, stored: StoredIndex, covered: VlsnRange
) -> Iterator[Finding]:
    """Yield findings of fields of the range that contradict the buckets, or each other."""
    lsn = next(each.lsn for each in stored.records if each.record is covered)
    records = [each for each in stored.records if each.key not in (RANGE_KEY, None)]
    if not records and covered.first != NO_VLSN:
        expected = f"buckets of VLSNs {covered.first} to {covered.last}"
        yield vlsn_finding(snapshot, "vlsn-index-lost", lsn, expected, "no bucket")
    elif records and covered.first != records[0].key:
        expected = f"first={records[0].key}, as the first bucket has it"
        yield vlsn_finding(snapshot, "vlsn-index-range", lsn, expected, f"first={covered.first}")
    # A bucket that cannot be read has a finding of its own.
    last = records[-1].record if records else None
    if isinstance(last, VlsnBucket) and covered.last != last.last:
        expected = f"last={last.last}, as the last bucket has it"
        yield vlsn_finding(snapshot, "vlsn-index-range", lsn, expected, f"last={covered.last}")
    if not covered.last_txn_end <= covered.last_sync <= covered.last:
        expected = "txnEnd <= sync <= last"
        found = f"{covered.last_txn_end}, {covered.last_sync}, {covered.last}"
        yield vlsn_finding(snapshot, "vlsn-index-range", lsn, expected, found)


def end_findings(snapshot: Snapshot, index: VlsnIndex, end: StreamEnd) -> Iterator[Finding]:
    """Yield findings of differences between the end of an index and the end of the log.

    Args:
        snapshot: the log.
        index: as recovery leaves it.
        end: end of the stream in the log.
    """
    covered, last = index.range, end.last_vlsn
    if last is None:
        return
    if covered.last < last:
        expected = f"an index up to VLSN {last}, the last of the log"
        found = f"last={covered.last} after recovery; the next entry would get VLSN " + (
            f"{covered.last + 1}" if covered.last != NO_VLSN else "1"
        )
        yield vlsn_finding(snapshot, "vlsn-index-short", NULL_LSN, expected, found)
    if covered.last > last:
        expected = f"last={last}, the last VLSN of the log"
        found = f"last={covered.last} after recovery"
        yield vlsn_finding(snapshot, "vlsn-index-range", NULL_LSN, expected, found)
    newest = {
        "sync": (covered.last_sync, end.last_sync),
        "txnEnd": (covered.last_txn_end, end.last_txn_end),
    }
    for name, (stored, logged) in newest.items():
        if logged is not None and stored != logged and covered.last != NO_VLSN:
            expected = f"{name}={logged}, as in the log"
            found = f"{name}={stored} after recovery"
            yield vlsn_finding(snapshot, "vlsn-index-range", NULL_LSN, expected, found)
