"""Head of the VLSN index: the VLSNs that a node gives up, so that their entries can be erased.

Source: je-log.md "Data eraser"; DataEraser.truncateVLSNIndex, VLSNIndex.tryTruncateFromHead,
JE 25.3.17. The engine gives up whole files; here it is whole buckets.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.erase.options import MIN_VLSNS
from je_tools.formats.je.internal.replication import VlsnBucket
from je_tools.vlsn.index import NO_VLSN, VlsnIndex, from_bucket

if TYPE_CHECKING:
    from je_tools.erase.options import ErasureOptions


class VlsnHead(Struct, frozen=True):
    """The VLSNs that an erasure takes out of an index.

    Attributes:
        before, after: the index before and after it; the same if nothing is given up.
        limit: reason why no more VLSNs are given up, in words.
    """

    before: VlsnIndex
    after: VlsnIndex
    limit: str

    @property
    def last_gone(self) -> int | None:
        """Last VLSN that is given up; None for none."""
        if self.after.range.first == self.before.range.first:
            return None
        return self.after.range.first - 1


def choose_head(
    index: VlsnIndex, cutoff_lsn: int, last_file_no: int, options: ErasureOptions
) -> VlsnHead:
    """Choose the VLSNs to give up: as many as possible, in whole buckets.

    Args:
        index: the index as recovery leaves it.
        cutoff_lsn: buckets that reach this LSN stay.
        last_file_no: number of the last file to erase; buckets in later files stay.
        options: options of the erasure.
    """
    range_ = index.range
    if range_.first == NO_VLSN:
        return VlsnHead(index, index, "the index is empty")
    least = 1 if options.force else MIN_VLSNS
    limits = {
        range_.last - least: f"the index keeps {least:,} VLSNs",
        range_.last_sync - 1: "nodes may have to agree at the last sync point",
    }
    if options.vlsn_below is not None:
        limits[options.vlsn_below - 1] = "--vlsn-below"
    most = min(limits)
    gone = NO_VLSN
    for bucket, following in pairwise(index.buckets):
        if not isinstance(bucket, VlsnBucket) or following.first != bucket.last + 1:
            continue
        if bucket.last > most:
            return _cut(index, gone, limits[most])
        if bucket.file_no > last_file_no:
            return _cut(index, gone, "no later file is to be erased")
        if bucket.last_lsn >= cutoff_lsn:
            return _cut(index, gone, "recovery may need the entries after it")
        gone = bucket.last
    return _cut(index, gone, "the index keeps its last bucket")


def _cut(index: VlsnIndex, gone: int, limit: str) -> VlsnHead:
    if gone < index.range.first:
        return VlsnHead(index, index, limit)
    return VlsnHead(index, from_bucket(index, gone + 1), limit)
