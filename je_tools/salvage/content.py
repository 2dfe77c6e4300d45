"""Contents of a log in columns: every written record, the ends of transactions, and nodes.

One pass over the log, in threads. Only the identity of a record is stored, about 41 bytes,
whatever the size of its key and data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.je.entry.identity import Seed, new_seed
from je_tools.log.names import NamedDatabase, resolve_databases
from je_tools.salvage.entry_masks import KEYED_VERSION
from je_tools.salvage.extents import ReadableExtents
from je_tools.salvage.inspector import (
    MAP_LNS,
    BottomNodes,
    ContentInspector,
    DatabaseCodes,
    DatabaseKind,
    RangeContent,
    kinds_in,
)
from je_tools.salvage.record_versions import RecordVersions, add_columns, joined_columns, no_columns

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import FileState
    from je_tools.log.scan import Scanner


class Content(Struct, frozen=True):
    """Contents of a whole log.

    Attributes:
        lns: the records.
        leaves: the bottom nodes.
        db_ids: database ids by the index that `lns` uses.
        committed, aborted: int64, sorted; ids of transactions.
        databases: names by id.
        kinds: descriptors by id, of the databases that have one in the log.
        readable: readable extents of the log.
        unerased: readable extents without the entries that an eraser has overwritten.
        undecodable: number of LNs that have a good checksum but cannot be decoded.
        states: state of each file as it was read.
    """

    lns: RecordVersions
    leaves: BottomNodes
    db_ids: tuple[int, ...]
    committed: Ints
    aborted: Ints
    databases: Mapping[int, NamedDatabase]
    kinds: Mapping[int, DatabaseKind]
    readable: ReadableExtents
    unerased: ReadableExtents
    undecodable: int
    states: tuple[FileState, ...]
    seed: Seed


def read_content(environment: Environment, scanner: Scanner, *, internal: bool = False) -> Content:
    """Read the contents of a log in one pass.

    Args:
        environment: the log.
        scanner: reads the files.
        internal: also read LNs that have fields instead of data: names and descriptors of
            databases, and file summaries.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
        InputError: a file cannot be read.
    """
    old_duplicates = _duplicates_before(environment, scanner)
    inspector = ContentInspector(DatabaseCodes(), new_seed(), old_duplicates, internal)
    seen: list[RangeContent] = []
    states: list[FileState] = []
    columns = no_columns()
    for part in scanner.scan(environment, inspector):
        for found in part.results:
            seen.append(found)
            add_columns(columns, found.lns)
        if part.end is not None:
            states.append(part.end)
    kinds: dict[int, DatabaseKind] = {}
    for each in seen:
        kinds |= each.kinds
    return Content(
        lns=joined_columns(columns),
        leaves=_joined_leaves([leaves for each in seen for leaves in each.leaves]),
        db_ids=tuple(inspector.codes.codes),
        committed=_sorted_ids(each.ends[0] for each in seen),
        aborted=_sorted_ids(each.ends[1] for each in seen),
        databases=resolve_databases(each.names for each in seen),
        kinds=kinds,
        readable=ReadableExtents.of(each.readable for each in seen),
        unerased=ReadableExtents.of(each.unerased for each in seen),
        undecodable=sum(each.undecodable for each in seen),
        states=tuple(states),
        seed=inspector.seed,
    )


def _duplicates_before(environment: Environment, scanner: Scanner) -> frozenset[int]:
    """Return the databases with duplicates if a file is older than KEYED_VERSION; else none."""
    if all(file.version >= KEYED_VERSION for file in environment.files):
        return frozenset()
    kinds: dict[int, DatabaseKind] = {}

    def inspect(rows: Rows) -> dict[int, DatabaseKind]:
        return kinds_in(rows.select(np.flatnonzero(MAP_LNS[rows.type] & rows.good)))

    for part in scanner.scan(environment, inspect):
        for found in part.results:
            kinds |= found
    return frozenset(id_ for id_, kind in kinds.items() if kind.has_duplicates)


def _joined_leaves(pieces: list[BottomNodes]) -> BottomNodes:
    none = np.empty(0, np.int64)
    return BottomNodes(
        np.concatenate([none, *(each.lsn for each in pieces)]),
        np.concatenate([none, *(each.db_id for each in pieces)]),
        np.concatenate([none, *(each.node_id for each in pieces)]),
        np.concatenate([none.astype(np.bool_), *(each.is_delta for each in pieces)]),
    )


def _sorted_ids(pieces: Iterable[Ints]) -> Ints:
    return np.sort(np.concatenate([np.empty(0, np.int64), *pieces]))
