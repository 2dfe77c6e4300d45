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


class PartitionMeta(Struct, frozen=True):
    """Fields of the page.

    Attributes:
        size: number of rows.
        update_counter: number of the last update, if none before is missing.
        state: state of the partition, by its ordinal; 255 for none.
    """

    size: int
    update_counter: int
    state: int


def read_partition_meta(page: bytes, *, is_big: bool) -> PartitionMeta | None:
    """Return the fields of a plain page; None if it is not the first page of a partition."""
    order = ">" if is_big else "<"
    fields = struct.Struct(f"{order}qqqB")
    if len(page) < _SIZE_OFFSET + fields.size:
        return None
    (type_no,) = struct.unpack_from(f"{order}H", page, _TYPE_OFFSET)
    if type_no != PART_META_NO:
        return None
    size, update_counter, _, state = fields.unpack_from(page, _SIZE_OFFSET)
    return PartitionMeta(size, update_counter, state)
