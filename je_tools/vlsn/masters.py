"""Masters of a group over time, as the sync points of a log name them.

A node that becomes master logs a Matchpoint. Each Commit and Abort names the master, and from log
version 22 on its term.

Source: Matchpoint, TxnEnd.getMasterId and getMasterTerm, JE 25.3.17.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.arrays import first_rows
from je_tools.formats.je.internal.replication import VlsnBucket
from je_tools.vlsn.index import is_plausible
from je_tools.vlsn.stretch import read_stretch
from je_tools.vlsn.sync_points import ABSENT, SyncPoints, next_sync_points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from je_tools.formats.arrays import Ints, Mask
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.index import Bucket

SAMPLES = 256
"""Number of places at which a log is sampled for its masters; more if it has more buckets."""

REFINED_MAX = 64
"""Largest number of changes of the master whose places are searched between two samples."""


class MasterTerm(Struct, frozen=True):
    """A time in which one node was master, as far as sync points show it.

    Attributes:
        master_node_id: id of the node.
        master_term: its term; None before log version 22.
        first_vlsn, last_vlsn: its first and last sync points that were read.
        first_ms, last_ms: their times.
    """

    master_node_id: int
    master_term: int | None
    first_vlsn: int
    last_vlsn: int
    first_ms: int
    last_ms: int


def master_terms(sync: SyncPoints) -> list[MasterTerm]:
    """Return the masters that sync points name, in VLSN order.

    A Matchpoint names no term, so it belongs to the same term as the entries after it.
    """
    if not len(sync):
        return []
    starts = np.flatnonzero(np.append(True, _changes(sync)))
    stops = np.append(starts[1:], len(sync)) - 1
    terms = _terms(sync)
    return [
        MasterTerm(
            int(sync.master_node_id[first]),
            int(terms[first]) if terms[first] != ABSENT else None,
            int(sync.vlsn[first]),
            int(sync.vlsn[last]),
            int(sync.time_ms[first]),
            int(sync.time_ms[last]),
        )
        for first, last in zip(starts.tolist(), stops.tolist(), strict=True)
    ]


def _terms(sync: SyncPoints) -> Ints:
    """Return the term of each sync point; a Matchpoint has that of the next sync point."""
    known = sync.master_term != ABSENT
    if not known.any():
        return sync.master_term
    last = len(sync) - 1
    own = np.where(known, np.arange(len(sync)), last)
    following = np.minimum.accumulate(own[::-1])[::-1]
    terms = np.where(known[following], sync.master_term[following], ABSENT)
    same = sync.master_node_id[following] == sync.master_node_id
    return np.where(same, terms, ABSENT)


def _changes(sync: SyncPoints) -> Mask:
    """Return a mask of the borders between sync points of different masters or terms."""
    nodes, terms = sync.master_node_id, _terms(sync)
    other: Mask = nodes[1:] != nodes[:-1]
    other |= terms[1:] != terms[:-1]
    return other


def places_to_sample(buckets: Sequence[Bucket]) -> Ints:
    """Return LSNs of mappings, about SAMPLES of them and at least one for each bucket."""
    lsns: list[int] = []
    for bucket in buckets:
        if isinstance(bucket, VlsnBucket) and is_plausible(bucket):
            count = len(bucket.offsets)
            step = max(count * len(buckets) // SAMPLES, 1)
            lsns += [bucket.file_no << 32 | each for each in bucket.offsets[::step] if each]
    return np.array(lsns, np.int64)


def sampled_terms(snapshot: Snapshot, lsns: Ints, tail: SyncPoints) -> list[MasterTerm]:
    """Return the masters that samples of a log show.

    If a node was master only between two samples that name the same other master, it is missed.
    Between samples that name different masters, all sync points are read, so that the first and
    last VLSNs of the masters are exact.

    Args:
        snapshot: the log.
        lsns: int64; LSNs of entries. The next sync point after each is a sample.
        tail: all sync points from some place in the log to its end.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    if len(tail):
        lsns = lsns[lsns < tail.lsn[0]]
    sampled = next_sync_points(snapshot.image, lsns)
    sync = _in_order(SyncPoints.joined([sampled, tail]))
    borders = np.flatnonzero(_changes(sync))[:REFINED_MAX]
    between = [_between(snapshot, sync, int(at)) for at in borders]
    return master_terms(_in_order(SyncPoints.joined([sync, *between])))


def _between(snapshot: Snapshot, sync: SyncPoints, at: int) -> SyncPoints:
    """Read the sync points between two neighbouring samples, both included."""
    first, last = int(sync.lsn[at]), int(sync.lsn[at + 1])
    with closing(read_stretch(snapshot, first, last, SyncPoints.of_rows)) as pieces:
        found = SyncPoints.joined(list(pieces))
    return found.select((found.lsn >= first) & (found.lsn <= last))


def _in_order(sync: SyncPoints) -> SyncPoints:
    """Return sync points in VLSN order, each once."""
    return sync.select(first_rows(sync.vlsn))
