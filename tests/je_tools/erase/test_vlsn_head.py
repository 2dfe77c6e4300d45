"""The head of the VLSN index ends at a bucket's border, before all that limits it."""

from __future__ import annotations

import pytest

from je_tools.erase.options import MIN_VLSNS, ErasureOptions
from je_tools.erase.vlsn_head import VlsnHead, choose_head
from je_tools.formats.je.header import lsn_of
from je_tools.formats.je.internal.replication import VlsnBucket, VlsnRange
from je_tools.vlsn.index import VlsnIndex

COUNT = 400
"""VLSNs in a bucket; there are ten buckets, two in each file."""

LAST = 10 * COUNT
END = lsn_of(5, 0)
FORCE = ErasureOptions(force=True)


def index(*, last_sync: int = LAST) -> VlsnIndex:
    """Return an index whose buckets lead to places at 100 bytes for each VLSN."""
    buckets = []
    for no in range(10):
        first, last = no * COUNT + 1, (no + 1) * COUNT
        offsets = [100 * (first + place * 10) for place in range(COUNT // 10)]
        last_lsn = lsn_of(no // 2, 100 * last)
        buckets.append(VlsnBucket(1, no // 2, 10, first, last, last_lsn, tuple(offsets)))
    return VlsnIndex(VlsnRange(1, 1, LAST, last_sync, last_sync), buckets)


def head(
    options: ErasureOptions = FORCE,
    *,
    cutoff_lsn: int = END,
    last_file_no: int = 9,
    last_sync: int = LAST,
) -> VlsnHead:
    """Return what is given up of the index."""
    return choose_head(index(last_sync=last_sync), cutoff_lsn, last_file_no, options)


def gone_count(found: VlsnHead) -> int:
    """Return the number of VLSNs that are given up."""
    return found.after.range.first - found.before.range.first


def test_all_buckets_but_the_last_can_go() -> None:
    found = head()
    assert (gone_count(found), found.last_gone) == (9 * COUNT, 9 * COUNT)
    assert found.after.buckets == index().buckets[9:]


@pytest.mark.parametrize(("more", "count"), [(-1, 1), (0, 2)])
def test_recovery_may_read_a_bucket(more: int, count: int) -> None:
    """A bucket is given up if its last entry is before the LSN from which recovery reads."""
    border = index().buckets[1]
    assert isinstance(border, VlsnBucket)
    found = head(cutoff_lsn=border.last_lsn + 1 + more)
    assert gone_count(found) == count * COUNT
    assert "recovery" in found.limit


@pytest.mark.parametrize(("last_sync", "count"), [(3 * COUNT, 2), (3 * COUNT + 1, 3), (1, 0)])
def test_the_last_sync_point_stays(last_sync: int, count: int) -> None:
    found = head(last_sync=last_sync)
    assert gone_count(found) == count * COUNT
    assert "sync point" in found.limit
    assert found.after.range.first <= found.after.range.last_sync


@pytest.mark.parametrize(("below", "count"), [(2 * COUNT, 1), (2 * COUNT + 1, 2), (1, 0)])
def test_vlsns_from_a_limit_on_stay(below: int, count: int) -> None:
    found = head(ErasureOptions(force=True, vlsn_below=below))
    assert gone_count(found) == count * COUNT
    assert found.limit == "--vlsn-below"
    assert found.after.range.first <= below


def test_the_smallest_number_of_vlsns_stays() -> None:
    found = head(ErasureOptions())
    assert gone_count(found) == (LAST - MIN_VLSNS) // COUNT * COUNT
    assert found.after.range.last - found.after.range.first + 1 >= MIN_VLSNS


def test_vlsns_of_files_that_are_not_erased_stay() -> None:
    assert gone_count(head(last_file_no=1)) == 4 * COUNT
