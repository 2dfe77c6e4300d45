"""What is lost with files of a log: databases, ranges of keys, keys, and what is left of them.

A file that is gone takes nodes of B-trees along, whose keys are known only as ranges then, and
records, whose keys the slots of other files still tell.

Source: je-log.md "Where a log ends, and what damage costs".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from je_tools.btree.old_duplicates import expanded
from je_tools.btree.tree import NODES_AT_ONCE, Children, Known, Leaves, Tree, bound
from je_tools.environment import Environment
from je_tools.errors import InputError
from je_tools.findings import Finding
from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.image import Image, Part
from je_tools.formats.je.fetch import Found, fetch
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.keysort import (
    equal_keys,
    group_keys,
    search_sorted,
)
from je_tools.formats.je.layout import SLOT_EMBEDDED
from je_tools.formats.je.nodes import joined_spans
from je_tools.formats.spans import Spans
from je_tools.recovery.findings import log_findings
from je_tools.recovery.interval import DELETED, INVISIBLE, TRANSACTIONAL, Lns, read_interval
from je_tools.recovery.overlay import Overlay, match
from je_tools.recovery.reading import Reading
from je_tools.scan import Scanner
from je_tools.snapshot import ID_DB, NAME_DB, Database, Snapshot, held_snapshot

_FOREVER = 1 << 62
_NO_KEYS = Spans(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class LostRange:
    """Keys of which the node is lost.

    Attributes:
        low, high: from `low` on and below `high`; None where open.
        level: of the node, 1 for a bottom node.
        lsn: that is lost: of the node, or of the full version that it needs.
        kept_count: keys of the range of which the rest of the log has a record.
    """

    low: bytes | None
    high: bytes | None
    level: int
    lsn: int
    kept_count: int = 0


@dataclass
class Loss:
    """What one database loses.

    Attributes:
        name: of the database; `id:7` where it has none.
        db_id: its id.
        descriptor_lsn: of the descriptor that is lost, and with it the whole database; None where
            it is there.
        ranges: in the order of keys.
        keys: of records that are lost alone, in the order of the tree.
        key_lsns: int64; of these records.
        kept: bool; of which of these the rest of the log has another version.
        kept_count: keys of a database that is lost as a whole with a record in the rest.
    """

    name: str
    db_id: int
    descriptor_lsn: int | None = None
    ranges: list[LostRange] = field(default_factory=list)
    keys: Spans = _NO_KEYS
    key_lsns: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    kept: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    kept_count: int = 0

    def __bool__(self) -> bool:
        return self.descriptor_lsn is not None or bool(self.ranges) or len(self.keys) > 0

    @property
    def lsns(self) -> list[int]:
        """All that are lost."""
        own = [] if self.descriptor_lsn is None else [self.descriptor_lsn]
        return [*own, *(each.lsn for each in self.ranges), *self.key_lsns.tolist()]


@dataclass(frozen=True)
class Report:
    """What is lost with files.

    Attributes:
        named: numbers of files that were taken to be missing.
        losses: of the databases that lose something.
        findings: what the engine would say of the log as it is.
        refused: why there is no tree to look at; None where there is one.
    """

    named: frozenset[int]
    losses: tuple[Loss, ...]
    findings: tuple[Finding, ...] = ()
    refused: str | None = None

    @property
    def files(self) -> dict[int, int]:
        """Numbers of the files that something is lost with, and how many places name each."""
        numbers = [lsn >> 32 & 0xFFFFFFFF for loss in self.losses for lsn in loss.lsns]
        found, counts = np.unique(np.array(numbers, np.int64), return_counts=True)
        return dict(zip(found.tolist(), counts.tolist(), strict=True))


def report_missing(
    environment: Environment, scanner: Scanner, without: Iterable[int], now_ms: int
) -> Report:
    """What is lost with the files that are not there, or with some that are.

    Args:
        environment: a whole directory.
        scanner: how it is read.
        without: numbers of files to be taken as missing; where the log is complete otherwise, what
            is lost is told for the state that it is in with them.
        now_ms: what has expired by then is not missed.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    named = frozenset(without)
    with ExitStack() as stack:
        try:
            held = held_snapshot(environment, scanner, now_ms=now_ms)
            snapshot = stack.enter_context(held)
        except InputError as error:
            return Report(named, (), refused=str(error))
        losses = tuple(_Search(snapshot, named).losses())
        return Report(named, losses, tuple(log_findings(snapshot)))


@dataclass(frozen=True)
class _Search:
    """The search for what is lost.

    Attributes:
        snapshot: with all files that are there.
        named: of which these are taken to be missing.
    """

    snapshot: Snapshot
    named: frozenset[int]

    def losses(self) -> Iterator[Loss]:
        """Of each database, those that lose nothing left out."""
        descriptors = self._of_tree(self.snapshot.databases[ID_DB])
        found = [descriptors, self._of_tree(self.snapshot.databases[NAME_DB])]
        found += self._of_descriptors(descriptors)
        gone = {loss.db_id for loss in found}
        for db_id, database in self.snapshot.databases.items():
            if db_id not in gone:
                found.append(self._of_tree(database))
        found = [loss for loss in found if loss]
        if found:
            _Rest(self.snapshot, self.named).look_for(found)
        yield from found

    def is_gone(self, lsns: Ints) -> Mask:
        """Which LSNs lie in files that are taken to be missing."""
        return np.isin(lsns >> 32 & 0xFFFFFFFF, list(self.named))

    def _of_descriptors(self, descriptors: Loss) -> Iterator[Loss]:
        """Databases whose descriptor is lost, as far as their names are left."""
        snapshot = self.snapshot
        keys = [descriptors.keys[row] or b"" for row in range(len(descriptors.keys))]
        lsns = dict(zip(keys, descriptors.key_lsns.tolist(), strict=True))
        names = _names(snapshot)
        for number in (text for text in keys if text.lstrip(b"-").isdigit()):
            names.setdefault(int(number), f"id:{int(number)}")
        for db_id, name in names.items():
            key = str(db_id).encode()
            lost = [one for one in descriptors.ranges if _holds(one, key)]
            if key in lsns or lost:
                lsn = lsns[key] if key in lsns else lost[0].lsn
                yield Loss(name, db_id, lsn)
            elif db_id not in snapshot.databases:
                yield Loss(name, db_id, NULL_LSN)

    def _of_tree(self, database: Database) -> Loss:
        """What is lost of a tree, from its root down."""
        name = f"id:{database.db_id}" if database.name is None else database.name
        loss = Loss(name, database.db_id)
        tree = self.snapshot.tree(database)
        if tree.root_lsn == NULL_LSN:
            return loss
        overlay = self.snapshot.overlay(database.db_id)
        pieces = [
            self._records(tree, leaves, overlay)
            for leaves in self._leaves(tree, tree.root(), loss, Known())
        ]
        pieces.append(self._changed(tree, overlay, loss))
        loss.keys = joined_spans([keys for keys, _ in pieces])
        loss.key_lsns = np.concatenate([lsns for _, lsns in pieces])
        loss.kept = np.zeros(len(loss.keys), np.bool_)
        return loss

    def _leaves(self, tree: Tree, children: Children, loss: Loss, known: Known) -> Iterator[Leaves]:
        """Bottom nodes that are there; what is not goes to the loss."""
        leaves = self._without_lost(tree.read(children), loss)
        if leaves.children.level <= 1:
            yield leaves
            return
        # In a damaged tree there may be more ways than anybody can go.
        again = leaves.nodes.good.copy()
        again[again] = ~known.first_times(leaves.nodes.lsn[again])
        below = tree.children_of(replace(leaves, nodes=leaves.nodes.without(again)))
        for first in range(0, len(below), NODES_AT_ONCE):
            yield from self._leaves(
                tree, below.take(slice(first, first + NODES_AT_ONCE)), loss, known
            )

    def _without_lost(self, leaves: Leaves, loss: Loss) -> Leaves:
        nodes, children = leaves.nodes, leaves.children
        lost_lsn = np.full(len(nodes), NULL_LSN, np.int64)
        logged, fulls = leaves.logged
        deltas = np.flatnonzero(logged.is_delta)
        bases = logged.last_full_lsn[deltas]
        no_base = self.is_gone(bases) | ~fulls.good
        lost_lsn[deltas[no_base]] = bases[no_base]
        gone = self.is_gone(nodes.lsn) | ~nodes.good
        lost_lsn[gone] = nodes.lsn[gone]
        is_lost = gone.copy()
        is_lost[deltas[no_base]] = True
        for row in np.flatnonzero(is_lost).tolist():
            low, high = children.low[row], children.high[row]
            loss.ranges.append(LostRange(low, high, children.level, int(lost_lsn[row])))
        return replace(leaves, nodes=nodes.without(is_lost))

    def _records(self, tree: Tree, leaves: Leaves, overlay: Overlay) -> tuple[Spans, Ints]:
        """Keys of slots whose record is lost."""
        slots, _ = tree.slots_in_range(leaves)
        if tree.old_duplicates:
            # What is in files that are left leads on; what is not stays a slot, and is lost.
            slots, _ = expanded(replace(tree, image=self.left), slots)
        _, changed = match(tree, overlay.key, slots)
        now_ms = self.snapshot.now_ms
        asked = ~slots.deleted & ~changed & (slots.state & SLOT_EMBEDDED == 0)
        asked &= (slots.expires_ms == 0) | (slots.expires_ms >= now_ms)
        if tree.two_part:
            asked[:] = False
        slots = slots.take(asked)
        lost = self._lost(tree.image, slots.lsn, fast=tree.fast)
        return slots.key.take(lost), slots.lsn[lost]

    def _changed(self, tree: Tree, overlay: Overlay, loss: Loss) -> tuple[Spans, Ints]:
        """Keys whose record recovery brings back, and that is lost."""
        reading = Reading(replace(tree, image=self.left), overlay, with_data=True, now_ms=None)
        lacking = reading.lacking_changes(0, len(overlay))
        keys, lsns = lacking.key, lacking.lsn
        outside = np.ones(len(keys), np.bool_)
        for low, high in _places(tree, keys, loss.ranges):
            outside[low:high] = False
        return keys.take(outside), lsns[outside]

    @cached_property
    def left(self) -> Image:
        """The files that are left."""
        files = self.snapshot.end.files
        parts = [Part(each.path, each.file_no, each.version, each.size) for each in files]
        last = parts.pop()
        parts.append(replace(last, stop=self.snapshot.end.next_offset))
        return self.snapshot.map_files([part for part in parts if part.file_no not in self.named])

    def _lost(self, image: Image, lsns: Ints, *, fast: bool) -> Mask:
        found = fetch(image, lsns, fast=fast, check=False).found
        return self.is_gone(lsns) | (found <= Found.NO_ENTRY)


def _places(tree: Tree, keys: Spans, ranges: Sequence[LostRange]) -> list[tuple[int, int]]:
    """From which of ascending keys on each range begins, and where it ends.

    Where the order of keys is not known nothing is in a range.
    """
    if not tree.ordered or not ranges:
        return [(0, 0)] * len(ranges)
    bounds = joined_spans([bound(key) for one in ranges for key in (one.low, one.high)])
    found = search_sorted(keys, bounds, two_part=tree.by_parts, fast=tree.fast).reshape(-1, 2)
    is_open = bounds.sizes.reshape(-1, 2) < 0
    found[is_open[:, 0], 0] = 0
    found[is_open[:, 1], 1] = len(keys)
    return [(low, high) for low, high in found.tolist()]


def _holds(lost: LostRange, key: bytes) -> bool:
    return (lost.low is None or lost.low <= key) and (lost.high is None or key < lost.high)


def _names(snapshot: Snapshot) -> dict[int, str]:
    """Names of databases by id, as far as they can be read."""
    names = {}
    for batch in snapshot.records(snapshot.databases[NAME_DB], with_data=False):
        for row in range(len(batch)):
            entry = snapshot.entry(int(batch.lsn[row]))
            if entry is not None and "name_db_id" in entry.fields:
                key = batch.key[row] or b""
                names[int(entry.fields["name_db_id"])] = key.decode("utf-8", "surrogateescape")
    return names


@dataclass(frozen=True)
class _Rest:
    """The records that files hold which are left."""

    snapshot: Snapshot
    named: frozenset[int]

    def look_for(self, losses: Sequence[Loss]) -> None:
        """Tell what of the losses other files have, be it older."""
        lns, committed = self._lns()
        for loss in losses:
            own = np.flatnonzero(lns.db_id == loss.db_id)
            if len(own):
                self._look_for(loss, lns.take(own), committed)

    def _lns(self) -> tuple[Lns, Ints]:
        end = self.snapshot.end
        files = [file for file in end.files if file.file_no not in self.named]
        interval = read_interval(
            self.snapshot.environment,
            files,
            self.snapshot.image,
            replace(self.snapshot.scanner, progress=None),
            first_lsn=0,
            nodes_from=_FOREVER,
            next_lsn=end.next_lsn,
            end_lsn=NULL_LSN,
        )
        return interval.lns, np.unique(interval.ends.txn_id[interval.ends.is_commit])

    def _look_for(self, loss: Loss, lns: Lns, committed: Ints) -> None:
        database = self.snapshot.databases.get(loss.db_id)
        tree = self.snapshot.tree(database) if database else _bare_tree(self.snapshot)
        counts = lns.flags & INVISIBLE == 0
        counts &= (lns.flags & TRANSACTIONAL == 0) | np.isin(lns.txn_id, committed)
        lns = lns.take(counts)
        keys = Spans(tree.image.data, lns.key_position, lns.key_size.astype(np.int64))
        order, is_new = group_keys(keys, two_part=tree.by_parts, fast=tree.fast)
        is_last = np.append(is_new[1:], True)[: len(keys)]
        alive = is_last & (lns.flags[order] & DELETED == 0)
        keys = keys.take(order[alive])
        if loss.descriptor_lsn is not None:
            loss.kept_count = len(keys)
            return
        if len(keys):
            at = search_sorted(keys, loss.keys, two_part=tree.by_parts, fast=tree.fast)
            at = np.minimum(at, len(keys) - 1)
            loss.kept = equal_keys(keys.take(at), loss.keys, fast=tree.fast)
        places = _places(tree, keys, loss.ranges)
        loss.ranges = [
            replace(one, kept_count=high - low)
            for one, (low, high) in zip(loss.ranges, places, strict=True)
        ]


def _bare_tree(snapshot: Snapshot) -> Tree:
    """How keys of a database are read whose descriptor is lost."""
    return Tree(snapshot.image, NULL_LSN, NULL_LSN, fast=snapshot.fast)
