"""Search for lost records: those that the rest of the log names, and that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.core.spill import RowTable
from je_tools.formats.je.entry.identity import newest_of
from je_tools.formats.je.internal.names import INTERNAL_PREFIX
from je_tools.log.names import FIXED_NAMES
from je_tools.recovery.database import NAME_DB
from je_tools.salvage.choice import Mode
from je_tools.salvage.dangling import DanglingFinder
from je_tools.salvage.dangling_rows import DanglingTable
from je_tools.salvage.gaps import GapKind, LogGap
from je_tools.salvage.inspector import BottomNodes, node_identities

if TYPE_CHECKING:
    from je_tools.core.spill import Spill
    from je_tools.formats.arrays import Ints
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.salvage.content import Content


class Dangling(Struct, frozen=True):
    """Records and LSNs that the rest of a log names in places that cannot be read.

    Attributes:
        records: the records.
        lsns: the LSNs, some of them repeated, each with a digest of it.
    """

    records: DanglingTable
    lsns: RowTable


def find_dangling(
    environment: Environment,
    scanner: Scanner,
    content: Content,
    spill: Spill,
    excluded: Ints,
    gaps: Sequence[LogGap],
) -> Dangling | None:
    """Find what the rest of the log names in its gaps, by reading the log a second time.

    Args:
        environment: the log.
        scanner: reads the files.
        content: contents of the log.
        spill: memory budget for what is found.
        excluded: int64; ids of databases that are left out.
        gaps: gaps of the log.

    Returns:
        What was found; None, without reading, if the log is a whole directory without erased
        entries in which only the tail is unreadable.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
        InputError: a file cannot be read.
        RefusedError: a temporary file cannot be written.
    """
    has_erased = len(content.unerased.start) != len(content.readable.start)
    # Files that were named one by one may be any part of a log.
    is_whole = environment.is_directory and not has_erased
    if is_whole and all(gap.kind is GapKind.TAIL for gap in gaps):
        return None
    find = DanglingFinder(content, newest_nodes(content.bottom_nodes), excluded)
    found = Dangling(DanglingTable(spill), RowTable(spill, (np.int64, np.int64), digest=1))
    for part in replace(scanner, progress=None, check=True).scan(environment, find):
        for each in part.results:
            for references in each.dangling:
                found.records.append(references)
            each.dangling.clear()
            _, digests = node_identities(np.zeros_like(each.lsns), each.lsns, content.seed)
            found.lsns.append((each.lsns, digests))
    return found


def newest_nodes(bottom_nodes: RowTable) -> Ints:
    """Return the sorted LSNs of each bottom node's newest version and newest full version."""
    found: list[Ints] = []
    for columns in bottom_nodes.partitions():
        nodes = BottomNodes(*columns)
        newest = newest_of(nodes.first, nodes.second, np.ones(len(nodes.lsn), np.bool_))
        full = newest_of(nodes.first, nodes.second, ~nodes.is_delta)
        found.append(nodes.lsn[newest | full])
    return np.sort(np.concatenate(found))


def excluded_ids(content: Content, mode: Mode, *, internal: bool) -> Ints:
    """Return the ids of the databases of which nothing comes back."""
    found = set() if internal else set(FIXED_NAMES)
    for db_id, database in content.databases.items():
        is_internal = database.name.startswith(INTERNAL_PREFIX)
        is_gone = database.removed and mode is Mode.COMMITTED
        if (is_internal and not internal) or is_gone:
            found.add(db_id)
    # The keys of the database of names show which databases there were.
    found.discard(NAME_DB)
    return np.array(sorted(found), np.int64)
