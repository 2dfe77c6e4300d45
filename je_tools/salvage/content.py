"""Contents of a log in columns: every written record, the ends of transactions, and nodes.

The log is read once, by threads. A record takes 41 bytes whatever the size of its key and data,
since only its identity is stored. A bottom node takes 25 bytes, a transaction about one bit. If
records and nodes take more than `core.spill.MEMORY_MAX` bytes, they are in temporary files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from je_tools.core.spill import RowTable, Spill
from je_tools.formats.je.entry.identity import Seed, new_seed
from je_tools.log.names import NamedDatabase, resolve_databases
from je_tools.salvage.entry_masks import KEYED_VERSION
from je_tools.salvage.extents import ReadableExtents
from je_tools.salvage.inspector import (
    MAP_LNS,
    NODE_KINDS,
    BottomNodes,
    ContentInspector,
    DatabaseCodes,
    DatabaseKind,
    RangeContent,
    kinds_in,
)
from je_tools.salvage.record_versions import VERSION_KINDS, RecordVersions
from je_tools.salvage.transactions import TransactionIds

if TYPE_CHECKING:
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import FileState
    from je_tools.log.scan import Scanner

_SECOND_OF_LN = RecordVersions.__struct_fields__.index("second")
_SECOND_OF_NODE = BottomNodes.__struct_fields__.index("second")


class Content(Struct, frozen=True):
    """Contents of a whole log.

    Attributes:
        lns: the record versions, as columns of `RecordVersions`.
        bottom_nodes: the bottom nodes, as columns of `BottomNodes`.
        db_ids: database ids by the number that `lns` uses.
        committed, aborted: ids of transactions.
        databases: named databases by id.
        kinds: properties by id, of the databases that have a descriptor in the log.
        readable: readable extents of the log.
        unerased: readable extents without the entries that an eraser has overwritten.
        undecodable: number of LNs that have a good checksum but cannot be decoded.
        states: state of each file as it was read.
        seed: secret of the identities in `lns` and `bottom_nodes`.
    """

    lns: RowTable
    bottom_nodes: RowTable
    db_ids: tuple[int, ...]
    committed: TransactionIds
    aborted: TransactionIds
    databases: Mapping[int, NamedDatabase]
    kinds: Mapping[int, DatabaseKind]
    readable: ReadableExtents
    unerased: ReadableExtents
    undecodable: int
    states: tuple[FileState, ...]
    seed: Seed


def read_content(
    environment: Environment, scanner: Scanner, spill: Spill, *, internal: bool = False
) -> Content:
    """Read the contents of a log in one pass.

    Args:
        environment: the log.
        scanner: reads the files.
        spill: memory budget for records and nodes.
        internal: True to read LNs that have fields instead of data, too: names and descriptors of
            databases, and file summaries.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
        InputError: a file cannot be read.
        RefusedError: a temporary file cannot be written.
    """
    old_duplicates = _duplicates_before(environment, scanner)
    inspector = ContentInspector(DatabaseCodes(), new_seed(), old_duplicates, internal)
    seen: list[RangeContent] = []
    states: list[FileState] = []
    lns = RowTable(spill, VERSION_KINDS, _SECOND_OF_LN)
    bottom_nodes = RowTable(spill, NODE_KINDS, _SECOND_OF_NODE)
    committed, aborted = TransactionIds(), TransactionIds()
    for part in scanner.scan(environment, inspector):
        for found in part.results:
            seen.append(found)
            _move(found.lns, lns)
            _move(found.bottom_nodes, bottom_nodes)
            for ids, ended in zip((committed, aborted), found.ends, strict=True):
                ids.add(ended)
            found.ends.clear()
        if part.end is not None:
            states.append(part.end)
    committed.finish()
    aborted.finish()
    kinds: dict[int, DatabaseKind] = {}
    for each in seen:
        kinds |= each.kinds
    return Content(
        lns=lns,
        bottom_nodes=bottom_nodes,
        db_ids=tuple(inspector.codes.codes),
        committed=committed,
        aborted=aborted,
        databases=resolve_databases(each.names for each in seen),
        kinds=kinds,
        readable=ReadableExtents.of(each.readable for each in seen),
        unerased=ReadableExtents.of(each.unerased for each in seen),
        undecodable=sum(each.undecodable for each in seen),
        states=tuple(states),
        seed=inspector.seed,
    )


def _move(pieces: list[Any], table: RowTable) -> None:
    """Append the columns of pieces to a table, and clear the list to free its memory."""
    for piece in pieces:
        table.append([getattr(piece, name) for name in piece.__struct_fields__])
    pieces.clear()


def _duplicates_before(environment: Environment, scanner: Scanner) -> frozenset[int]:
    """Return the ids of databases with duplicates; none unless a file is before KEYED_VERSION."""
    if all(file.version >= KEYED_VERSION for file in environment.files):
        return frozenset()
    kinds: dict[int, DatabaseKind] = {}

    def inspect(rows: Rows) -> dict[int, DatabaseKind]:
        return kinds_in(rows.select(np.flatnonzero(MAP_LNS[rows.type] & rows.good)))

    for part in scanner.scan(environment, inspect):
        for found in part.results:
            kinds |= found
    return frozenset(id_ for id_, kind in kinds.items() if kind.has_duplicates)
