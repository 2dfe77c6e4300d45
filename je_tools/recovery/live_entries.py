"""Live entries of a tree: its nodes, the full versions that its deltas need, and its records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from msgspec import Struct

from je_tools.btree.children import BINS_AT_ONCE, Children, LoadedNodes
from je_tools.formats.je.flags import LnFlag
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.fetch import fetch
from je_tools.formats.je.types import Family
from je_tools.recovery.outcomes import KeyOutcome

if TYPE_CHECKING:
    from je_tools.btree.fault_kinds import Fault
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints
    from je_tools.recovery.database import Database
    from je_tools.recovery.record_reader import RecordReader
    from je_tools.recovery.snapshot import Snapshot


class LiveEntries(Struct, frozen=True):
    """Live entries of a part of a tree.

    Attributes:
        records: int64 LSNs of LNs that slots name and whose data is not in the slot.
        record_sizes: int64; bytes of each of these; 0 if there is no entry.
        nodes: int64 LSNs of the full nodes in place, without `bases`.
        bases: int64 LSNs of the full versions that `deltas` need.
        deltas: int64 LSNs of the deltas in place.
    """

    records: Ints
    record_sizes: Ints
    nodes: Ints
    bases: Ints
    deltas: Ints


T = TypeVar("T")


def map_live_entries(
    snapshot: Snapshot, database: Database, work: Callable[[Tree, LiveEntries], T]
) -> Iterator[T]:
    """Yield results of `work` on the live parts of a tree; add its faults to `snapshot.faults`.

    Args:
        snapshot: the log.
        database: a database that has a root.
        work: called with each part, in threads.
    """
    reader = snapshot.record_reader(database, with_data=False, show_expired=True)
    tree = reader.tree
    uppers: list[T] = []

    def add_uppers(loaded: LoadedNodes) -> None:
        uppers.append(work(tree, live_part(_NONE, _NONE, loaded)))

    def measure(children: Children) -> tuple[T, list[Fault]]:
        loaded = tree.read(children)
        slots, alive, changes, faults = reader.slots_and_changes(loaded)
        # If the slot holds the data, embedded or in a two-part key, the LN is obsolete at once.
        outside = alive & (slots.data_size < 0) & (slots.lsn != NULL_LSN)
        if tree.two_part:
            outside[:] = False
        lsns, sizes = slots.lsn[outside], slots.logged_size[outside]
        lsns = np.concatenate((lsns, lns_of_changes(reader, changes)))
        sizes = np.concatenate((sizes, np.zeros(len(lsns) - len(sizes), np.int64)))
        unknown = np.flatnonzero(sizes <= 0)
        if len(unknown):
            sizes[unknown] = entry_sizes(tree, lsns[unknown])
        return work(tree, live_part(lsns, sizes, loaded)), faults

    for part, faults in snapshot.in_order(
        tree.unread_bins(seen=add_uppers, at_once=BINS_AT_ONCE), measure
    ):
        yield part
        yield from uppers
        uppers.clear()
        snapshot.faults.extend(faults)
    yield from uppers
    if reader.has_unplaced:
        left = lns_of_changes(reader, reader.unplaced_changes())
        yield work(tree, LiveEntries(left, entry_sizes(tree, left), _NONE, _NONE, _NONE))
    snapshot.faults.extend(tree.faults)


_NONE = np.empty(0, np.int64)


def live_part(lsns: Ints, sizes: Ints, loaded: LoadedNodes) -> LiveEntries:
    """Return records, and the live entries of nodes, as one part.

    Args:
        lsns: int64; LSNs of the records.
        sizes: int64; bytes of each record.
        loaded: the nodes.
    """
    nodes = loaded.logged[0]
    used = loaded.nodes.good & nodes.good
    deltas = used & nodes.is_delta
    bases = nodes.last_full_lsn[deltas]
    return LiveEntries(
        lsns, sizes, nodes.lsn[used & ~deltas], bases[bases != NULL_LSN], nodes.lsn[deltas]
    )


def lns_of_changes(reader: RecordReader, changes: Ints, *, with_duplicates: bool = False) -> Ints:
    """Return the LSNs of the LNs that hold the records of changes, except records in slots.

    Args:
        reader: the reader of the database.
        changes: rows of the overlay.
        with_duplicates: include the LNs of a database with duplicates. Its slots hold whole
            records, so the engine counts these LNs as obsolete.
    """
    overlay = reader.overlay
    outcomes = overlay.outcome[changes]
    lsns = overlay.lsn[changes]
    if (reader.tree.two_part and not with_duplicates) or not len(lsns):
        return np.empty(0, np.int64)
    entries = fetch(reader.tree.image, lsns, check=False)
    holding = np.where(outcomes == KeyOutcome.LN, lsns, NULL_LSN)
    for family in (Family.LN, Family.NAME_LN):
        rows = np.flatnonzero(entries.is_family(family))
        wanted = frozenset({"flags", "abort_lsn"})
        for some, decoded in entries.decode(family, rows, wanted=wanted):
            head = decoded.fields
            flags = head.number("flags") if head.has("flags") else np.zeros(len(some), np.int64)
            back = outcomes[some] == KeyOutcome.ABORT_VERSION
            if head.has("abort_lsn"):
                known = back & head.is_present("abort_lsn") & (flags & LnFlag.ABORT_DATA == 0)
                holding[some[known]] = head.number("abort_lsn")[known]
            holding[some[~back & (flags & LnFlag.EMBEDDED != 0)]] = NULL_LSN
    outside: Ints = holding[holding != NULL_LSN]
    return outside


def entry_sizes(tree: Tree, lsns: Ints) -> Ints:
    """Return the sizes of the entries at LSNs; 0 if there is none."""
    found = fetch(tree.image, lsns, check=False)
    sizes: Ints = np.where(found.good, found.size, 0)
    return sizes
