"""A store of Ignite whose node died in a checkpoint, with the changes of pages in its log."""

from __future__ import annotations

import struct
from pathlib import Path

from je_tools.formats.ignite.ids import cache_id
from tests.builders import ignite as build
from tests.builders import ignite_pages as pages

GROUP = cache_id("first")
ROWS = (b"a row", b"another row")
MADE = 6
"""Index of the page that the log makes at the end of partition 0."""


def page_id(partition: int, index: int) -> int:
    """Return the id of a page of rows."""
    return 1 << 48 | partition << 32 | index


def change(partition: int, index: int, rest: bytes, order: str = "<") -> bytes:
    """Return the payload of a record that changes a page of the cache `first`."""
    return struct.pack(f"{order}iQ", GROUP, page_id(partition, index)) + rest


def changes(order: str = "<") -> list[build.Record]:
    """Return an image of a page, and a page that is made with two rows."""
    made = struct.pack(f"{order}HHQ", 1, 1, page_id(0, MADE))
    rows = [struct.pack(f"{order}H", len(row)) + row for row in ROWS]
    image = pages.page(1, 4, order=order)
    return [
        ("PAGE_RECORD", change(1, 4, image[:4] + bytes(4) + image[8:], order)),
        ("INIT_NEW_PAGE_RECORD", change(0, MADE, made, order)),
        *(("DATA_PAGE_INSERT_RECORD", change(0, MADE, row, order)) for row in rows),
    ]


def write_unfinished_store(root: Path, order: str = "<") -> Path:
    """Write a store with a finished checkpoint, changes of pages, and an unfinished checkpoint."""
    first, second = build.CHECKPOINTS[:2]
    entry = ("DATA_RECORD_V2", build.data_payload(b"k", b"v", order=order))
    begun = [
        ("CHECKPOINT_RECORD", build.checkpoint_payload(each, {0: 3}, order=order))
        for each in (first, second)
    ]
    # Transaction 5:6:7 is prepared, and its entries are left out.
    prepared = ("TX_RECORD", build.tx_payload(2, 2000, order))
    records = [entry, begun[0], *changes(order), begun[1], entry, prepared]
    data, offsets = build.segment(0, records, order=order, end=bytes(40))
    build.write_store(root, [], [data])
    pages.write_page_store(root, order)
    pages.damage(root / "db" / "node1" / "cache-first" / "part-1.bin", 4)
    for n, number, kinds in ((0, 1, ("START", "END")), (1, 6, ("START",))):
        pointer = (0, offsets[number], len(records[number][1]) + 21)
        for kind in kinds:
            build.write_marker(
                root, build.CHECKPOINT_TIMES[n], build.CHECKPOINTS[n], kind, pointer, order
            )
    return root
