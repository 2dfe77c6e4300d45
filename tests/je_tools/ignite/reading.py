"""Reading of whole write-ahead logs, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from je_tools.formats.ignite.types import type_name
from je_tools.formats.ignite.walk import RecordRows
from je_tools.ignite.store import Node, open_store
from je_tools.ignite.wal.segment_reading import copies_of, read_segment

Pointer = tuple[int, int, int, str]
"""Segment, offset in the file, length, name of the type."""


def node_of(store: Path, name: str = "node1") -> Node:
    """Return a node of a store."""
    (node,) = open_store([store], [name]).nodes
    return node


def each_rows(node: Node) -> Iterator[tuple[int, RecordRows]]:
    """Yield the records of a node with the index of their segment."""
    for copies in copies_of(node):
        with read_segment(copies.chosen) as (rows, _):
            for some in rows:
                yield copies.index, some


def pointers(node: Node) -> list[Pointer]:
    """Return the records of a node."""
    found: list[Pointer] = []
    for index, rows in each_rows(node):
        columns = rows.columns
        facts = zip(
            columns.at.tolist(), columns.length.tolist(), columns.type_no.tolist(), strict=True
        )
        found += [(index, at, length, type_name(no)) for at, length, no in facts]
    return found
