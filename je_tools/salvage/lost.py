"""Search for losses: the records that the rest of the log refers to but cannot reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.core.spill import RowTable
from je_tools.formats.je.entry.identity import newest_of
from je_tools.log.names import FIXED_NAMES
from je_tools.salvage.choice import Mode
from je_tools.salvage.dangling import DanglingFinder
from je_tools.salvage.dangling_rows import DanglingTable
from je_tools.salvage.gaps import GapKind, LogGap
from je_tools.salvage.inspector import BottomNodes, node_identities
from je_tools.salvage.internal_names import INTERNAL, NAMES_ID

if TYPE_CHECKING:
    from je_tools.core.spill import Spill
    from je_tools.formats.arrays import Ints
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.salvage.content import Content


class Dangling(Struct, frozen=True):
    """Everything unreadable that the rest of a log names.

    Attributes:
        records: the records.
        lsns: the LSNs, repeated, each with a digest of it.
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
    """Find what the rest of the log names in its gaps; None if nothing but the tail is unreadable.

    The log is read a second time unless it is a whole directory, without erased entries, in which
    only the tail is unreadable.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
        InputError: a file cannot be read.
        RefusedError: a temporary file cannot be written.
    """
    erases = len(content.unerased.start) != len(content.readable.start)
    # Files that were named one by one may be any part of a log.
    is_whole = environment.is_directory and not erases
    if is_whole and all(gap.kind is GapKind.TAIL for gap in gaps):
        return None
    find = DanglingFinder(content, newest_leaves(content.leaves), excluded)
    found = Dangling(DanglingTable(spill), RowTable(spill, (np.int64, np.int64), digest=1))
    for part in replace(scanner, progress=None, check=True).scan(environment, find):
        for each in part.results:
            for references in each.dangling:
                found.records.append(references)
            each.dangling.clear()
            _, digests = node_identities(np.zeros_like(each.lsns), each.lsns, content.seed)
            found.lsns.append((each.lsns, digests))
    return found


def newest_leaves(leaves: RowTable) -> Ints:
    """Return the sorted LSNs of each bottom node's newest version and newest full version."""
    found: list[Ints] = []
    for columns in leaves.partitions():
        nodes = BottomNodes(*columns)
        newest = newest_of(nodes.first, nodes.second, np.ones(len(nodes.lsn), np.bool_))
        full = newest_of(nodes.first, nodes.second, ~nodes.is_delta)
        found.append(nodes.lsn[newest | full])
    return np.sort(np.concatenate(found))


def excluded_ids(content: Content, mode: Mode, *, internal: bool) -> Ints:
    """Return the ids of the databases of which nothing comes back."""
    found = set() if internal else set(FIXED_NAMES)
    for db_id, database in content.databases.items():
        is_internal = database.name.startswith(INTERNAL)
        is_gone = database.removed and mode is Mode.COMMITTED
        if (is_internal and not internal) or is_gone:
            found.add(db_id)
    # The keys of its slots are the names of databases.
    found.discard(NAMES_ID)
    return np.array(sorted(found), np.int64)
