"""Export of the records of a store, as recovery would leave them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

from je_tools.core.ordered import map_in_order
from je_tools.ignite.caches import cache_names
from je_tools.ignite.records.columns import RecordOrigin
from je_tools.ignite.records.node_records import CacheFilter, NodeRecords
from je_tools.ignite.records.problems import MissingRecords, RecordProblem
from je_tools.ignite.records.recovered import recover_node
from je_tools.ignite.values.side_files import damaged_types
from je_tools.ignite.values.types import node_types

if TYPE_CHECKING:
    from je_tools.ignite.records.merge import CacheRecords
    from je_tools.ignite.store import Node, Store
    from je_tools.log.scan_options import Progress

Piece = TypeVar("Piece")


class CacheExport(Struct, Generic[Piece]):
    """An export of the records of a store.

    Attributes:
        wanted: caches and partitions.
        encode: encoder of records; several threads call it at once.
        threads: number of threads that encode.
        progress: called with the bytes of segments that were read.
        count: number of records so far.
        problems: what could not be read so far.
        known: partitions of the wanted caches so far, wanted or not.
        not_owned: node, group, partition and state of partitions whose state is not OWNING.
    """

    wanted: CacheFilter
    encode: Callable[[CacheRecords, RecordOrigin], Piece]
    threads: int
    progress: Progress | None = None
    count: int = 0
    problems: list[MissingRecords] = []
    known: set[int] = set()
    not_owned: list[tuple[str, str, int, str]] = []

    def run(self, store: Store) -> Iterator[Piece]:
        """Yield encoded records.

        Raises:
            InputError: a folder or file cannot be read, or markers do not tell where to begin.
            RefusedError: a temporary file cannot be written or read.
            StoppedError: a file shrank, vanished or was replaced while it was read.
        """
        for node in store.nodes:
            yield from self._node(node)

    def _node(self, node: Node) -> Iterator[Piece]:
        recovered = recover_node(node, self.threads, self.progress)
        origin = RecordOrigin(node.name, cache_names(node), node_types(node))
        reader = NodeRecords(node, recovered, self.wanted)

        def encoded(records: CacheRecords) -> tuple[int, Piece]:
            return len(records), self.encode(records, origin)

        for count, piece in map_in_order(encoded, reader.batches(), self.threads):
            self.count += count
            yield piece
        self.known |= reader.known
        self.problems += reader.problems
        self.problems += _of_types(node)
        self.not_owned += ((node.name, *each) for each in reader.not_owned)


def _of_types(node: Node) -> Iterator[MissingRecords]:
    """Yield the files of types that are damaged: names in values may be wrong, or missing."""
    for each in damaged_types(node):
        text = f"{each.path.name}: {each.found}; names of types and fields may be wrong"
        yield MissingRecords(RecordProblem.TYPES, node.name, None, None, 1, text)
