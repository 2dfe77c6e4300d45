"""The first page of a partition: what its last checkpoint knew of it.

Source: PageMetaIO, PagePartitionMetaIO, Ignite 2.18.0.
"""

from __future__ import annotations

import struct

from msgspec import Struct

PART_META_NO = 14
"""Type of the page."""

_TYPE_OFFSET = 0
_SIZE_OFFSET = 104
_GAPS_OFFSET = 153


class PartitionMeta(Struct, frozen=True):
    """Fields of the page.

    Attributes:
        size: number of rows.
        update_counter: number of the last update, if none before is missing.
        state: state of the partition, by its ordinal; 255 for none.
        gaps_link: link to the updates after gaps; 0 for none.
    """

    size: int
    update_counter: int
    state: int
    gaps_link: int


def read_partition_meta(page: bytes, *, is_big: bool) -> PartitionMeta | None:
    """Return the fields of a plain page; None if it is not the first page of a partition."""
    order = ">" if is_big else "<"
    fields = struct.Struct(f"{order}qqqB")
    if len(page) < _SIZE_OFFSET + fields.size:
        return None
    type_no, version = struct.unpack_from(f"{order}HH", page, _TYPE_OFFSET)
    if type_no != PART_META_NO:
        return None
    size, update_counter, _, state = fields.unpack_from(page, _SIZE_OFFSET)
    has_gaps = version > 1 and len(page) >= _GAPS_OFFSET + 8
    (gaps_link,) = struct.unpack_from(f"{order}Q", page, _GAPS_OFFSET) if has_gaps else (0,)
    return PartitionMeta(size, update_counter, state, gaps_link)
