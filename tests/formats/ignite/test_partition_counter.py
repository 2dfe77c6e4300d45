"""The update counter in the pages of a partition, with updates after gaps."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from je_tools.formats.ignite.page_image import ChangedPages, PageImage
from je_tools.formats.ignite.partition_counter import read_gaps, read_stored_counter

SIZE = 1024
DATA_PART = 32
BLOB = struct.pack(">biqqqq", 1, 2, 7, 1, 9, 3)


def _image(order: str, blob: bytes, *, version: int = 2, item: int = 0) -> PageImage:
    """Return a meta page whose link leads to the only item of page 1."""
    meta, data = bytearray(SIZE), bytearray(SIZE)
    struct.pack_into(f"{order}HHIQ", meta, 0, 14, version, 0, 1 << 48 | 3 << 32)
    struct.pack_into(f"{order}qqqB", meta, 104, 20, 5, 0, 1)
    struct.pack_into(f"{order}Q", meta, 153, item << 56 | 1 << 48 | 3 << 32 | 1)
    struct.pack_into(f"{order}HHIQ", data, 0, DATA_PART, 1, 0, 1 << 48 | 3 << 32 | 1)
    at = SIZE - len(blob) - 6
    data[50] = 1
    struct.pack_into(f"{order}H", data, 54, at)
    struct.pack_into(f"{order}Hi", data, at, len(blob) + 4, len(blob))
    data[at + 6 :] = blob
    pages = np.frombuffer(bytes(meta + data), np.uint8).reshape(2, SIZE)
    empty = np.empty(0, np.uint8)
    return PageImage(empty, SIZE, SIZE, order == ">", 3, ChangedPages.plain(np.arange(2), pages))


@pytest.mark.parametrize("order", "<>")
def test_the_counter_and_updates_after_gaps(order: str) -> None:
    found = read_stored_counter(_image(order, BLOB))
    assert found is not None
    assert (found.meta.size, found.meta.update_counter, found.meta.state) == (20, 5, 1)
    assert found.beyond == ((7, 1), (9, 3))
    old = read_stored_counter(_image(order, BLOB, version=1))
    assert old is not None
    assert old.beyond == ()


def test_what_cannot_be_read_is_not_taken_for_nothing() -> None:
    for image in (_image("<", BLOB[:-1]), _image("<", BLOB, item=3)):
        found = read_stored_counter(image)
        assert found is not None
        assert found.beyond is None
    image = _image("<", BLOB)
    second = ChangedPages.plain(np.arange(1, 2), image.changed.data[SIZE:].reshape(1, SIZE))
    none = PageImage(image.base, SIZE, SIZE, False, 3, second)
    assert read_stored_counter(none) is None


def test_gaps_as_the_engine_writes_them() -> None:
    assert read_gaps(BLOB) == ((7, 1), (9, 3))
    assert read_gaps(b"") == ()
    assert read_gaps(BLOB[:-1]) is None
    assert read_gaps(b"\x02" + BLOB[1:]) is None
