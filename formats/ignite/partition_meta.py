"""The first page of a partition: what its last checkpoint knew of it.

Source: PageMetaIO, PagePartitionMetaIO, Ignite 2.18.0.
"""

from __future__ import annotations

import struct
from typing import Literal

import numpy as np
from msgspec import Struct

from je_tools.formats import _native

PART_META_NO = 14
"""Type of the page."""

_FIELDS = {
    name: (since, at, np.dtype("u8" if kind == "page" else kind))
    for type_no, since, _, name, at, kind in _native.page_fields()[0]
    if type_no == PART_META_NO
}
"""First version, offset and type of each field; the extension declares them."""


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
    order: Literal[">", "<"] = ">" if is_big else "<"
    if len(page) < 4:
        return None
    type_no, version = struct.unpack_from(f"{order}HH", page)
    if type_no != PART_META_NO:
        return None

    def number(name: str) -> int | None:
        since, at, kind = _FIELDS[name]
        if version < since or at + kind.itemsize > len(page):
            return None
        return int(np.frombuffer(page, kind.newbyteorder(order), 1, at)[0])

    size, counter, state = number("size"), number("update_counter"), number("state")
    if size is None or counter is None or state is None:
        return None
    return PartitionMeta(size, counter, state, number("gaps") or 0)
