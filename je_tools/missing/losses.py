"""Losses from missing files of a log: databases, ranges of keys, single keys, and survivors.

A missing file takes nodes of B-trees with it, whose keys are then known only as ranges, and
records, whose keys are still in slots of other files. The survivors are the records that `salvage`
would get out of the other files.

Source: je-log.md "Where a log ends, and what damage costs".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.btree.children import NODES_AT_ONCE, Children, Leaves, bound
from je_tools.btree.number_set import NumberSet
from je_tools.btree.old_duplicates import expanded
from je_tools.errors import InputError
from je_tools.formats.image import Image, ImagePart
from je_tools.formats.je.fetch import Found, fetch
from je_tools.formats.je.flags import SlotState
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.keysort import equal_keys, order_keys, search_sorted
from je_tools.formats.spans import Spans, joined_spans
from je_tools.log.environment import Environment, check_numbers
from je_tools.log.images import unchanged
from je_tools.log.names import FIXED_NAMES, INTERNAL_PREFIX
from je_tools.recovery.database import ID_DB, NAME_DB, Database
from je_tools.recovery.findings import log_findings
from je_tools.recovery.opening import held_snapshot
from je_tools.recovery.overlay import Overlay, match
from je_tools.recovery.reading import RecordReader
from je_tools.salvage.survivors import Kept, find_kept, whole_keys
from je_tools.verify.consistency import unreadable_findings

if TYPE_CHECKING:
    from je_tools.btree.tree import Tree
    from je_tools.findings import Finding
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.log.scan import Scanner
    from je_tools.recovery.snapshot import Snapshot

_NO_KEYS = Spans(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64))


class FileState(StrEnum):
    """Reason why entries of a file are lost."""

    NAMED = "taken as missing"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    TOO_SHORT = "too short"
    """It exists, and ends before an entry that should be in it."""
    DAMAGED = "damaged"
    """It exists, and holds no whole entry at a place that should have one."""
    ERASED = "erased"
    """It exists, and an eraser has overwritten an entry that should be in it."""
    OTHER = "other entries"
    """It exists, and holds other entries than it should."""


_BY_FOUND = {
    Found.NO_FILE: FileState.TOO_SHORT,
    Found.NO_ENTRY: FileState.DAMAGED,
    Found.BAD: FileState.DAMAGED,
    Found.ERASED: FileState.ERASED,
    Found.GOOD: FileState.OTHER,
}
"""State of a file, by the content found at a lost place in it."""


class FileLoss(Struct, frozen=True):
    """A file with which something is lost, or could be.

    Attributes:
        file_no: number of the file.
        state: reason for the loss.
        place_count: number of different lost places in it.
        reason: error of the operating system, for a file that cannot be opened.
    """

    file_no: int
    state: FileState
    place_count: int
    reason: str | None = None


class LostRange(Struct, frozen=True):
    """A range of keys whose node is lost.

    Attributes:
        low, high: bounds of the keys, from `low` up to and without `high`; None if open.
        level: level of the node, 1 for a bottom node.
        lsn: lost LSN: of the node, or of the full version that it needs.
        key_count: number of keys in it; None if unknown.
        kept_count: number of its keys of which the rest of the log has a record.
    """

    low: bytes | None
    high: bytes | None
    level: int
    lsn: int
    key_count: int | None = None
    kept_count: int = 0

    @property
    def is_everything(self) -> bool:
        """True if it holds every key."""
        return self.low is None and self.high is None

    def holds(self, key: bytes) -> bool:
        """Return whether a key is in it, in byte order."""
        return (self.low is None or self.low <= key) and (self.high is None or key < self.high)


class Loss(Struct):
    """Loss of one database.

    Attributes:
        name: name of the database; `id:7` if it has none.
        db_id: id of the database.
        descriptor_lsn: LSN of the lost descriptor, and with it the whole database is lost; None
            if the descriptor exists.
        name_lost: True if its name is lost.
        ranges: lost ranges, in key order.
        keys: keys of records that are lost alone, in the order of the tree.
        key_lsns: int64; LSNs of these records.
        kept: bool; True for those of which the rest of the log has another version.
        whole_count: number of records of a database lost as a whole; None if unknown.
        whole_kept_count: number of its records in the rest of the log.
    """

    name: str
    db_id: int
    descriptor_lsn: int | None = None
    name_lost: bool = False
    ranges: list[LostRange] = field(default_factory=list)
    keys: Spans = _NO_KEYS
    key_lsns: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    kept: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    whole_count: int | None = None
    whole_kept_count: int = 0

    def __bool__(self) -> bool:
        parts = (self.is_whole, self.name_lost, self.ranges, len(self.keys))
        return any(map(bool, parts))

    @property
    def is_internal(self) -> bool:
        """True if the database is one of the engine's own."""
        return self.db_id in FIXED_NAMES or self.name.startswith(INTERNAL_PREFIX)

    @property
    def is_whole(self) -> bool:
        """True if the whole database is lost."""
        return self.descriptor_lsn is not None

    @property
    def key_count(self) -> int | None:
        """Number of lost keys, as far as they can be counted; None if none can."""
        if self.is_whole:
            return self.whole_count
        counts = [one.key_count for one in self.ranges if one.key_count is not None]
        return len(self.keys) + sum(counts) if counts or not self.ranges or len(self.keys) else None

    @property
    def kept_count(self) -> int:
        """Number of lost keys of which the rest of the log has a record."""
        in_ranges = sum(one.kept_count for one in self.ranges)
        return self.whole_kept_count + int(self.kept.sum()) + in_ranges

    @property
    def lsns(self) -> list[int]:
        """All lost LSNs."""
        own = [] if self.descriptor_lsn is None else [self.descriptor_lsn]
        found = [*own, *(each.lsn for each in self.ranges), *self.key_lsns.tolist()]
        return [lsn for lsn in found if lsn != NULL_LSN]


class Report(Struct, frozen=True):
    """Losses from missing files.

    Attributes:
        files: files with losses, files that were named, and files that cannot be opened.
        losses: losses of the databases that lose something.
        findings: objections of the engine to the log as it is.
        refused: reason why there is no tree to examine; None if there is one.
    """

    files: tuple[FileLoss, ...]
    losses: tuple[Loss, ...]
    findings: tuple[Finding, ...] = ()
    refused: str | None = None


class Wanted(Struct, frozen=True):
    """Options of a search for losses.

    Attributes:
        now_ms: records that have expired by then are not missed.
        without: numbers of files to treat as missing; if the log is complete otherwise, losses
            are reported for its state with these files.
        to_lsn: treat the entry at this LSN as the end of the log.
    """

    now_ms: int
    without: frozenset[int] = frozenset()
    to_lsn: int | None = None


def report_missing(environment: Environment, scanner: Scanner, wanted: Wanted) -> Report:
    """Report the losses from files that are missing, or from files to treat as missing.

    Args:
        environment: a whole directory; its unreadable files count as missing.
        scanner: options of the scan.
        wanted: options of the search.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: two files have the same number.
    """
    check_numbers(environment)
    with ExitStack() as stack:
        try:
            held = held_snapshot(environment, scanner, now_ms=wanted.now_ms, to_lsn=wanted.to_lsn)
            snapshot = stack.enter_context(held)
        except InputError as error:
            files = tuple(_files(environment, wanted.without, {}))
            findings = tuple(unreadable_findings(environment))
            return Report(files, (), findings, str(error))
        search = _Search(snapshot, wanted)
        losses = tuple(search.losses())
        files = tuple(_files(environment, wanted.without, search.places(losses)))
        return Report(files, losses, tuple(log_findings(snapshot)))


def _files(
    environment: Environment, named: frozenset[int], places: Mapping[int, Sequence[Found]]
) -> Iterator[FileLoss]:
    """Yield the files of a report, by number.

    Args:
        environment: the log.
        named: files that are treated as missing.
        places: by file number, the content found at each lost place.
    """
    reasons = {file.file_no: file.reason for file in environment.unreadable}
    there = set(environment.numbers)
    for number in sorted({*named, *reasons, *places}):
        found = places.get(number, ())
        state = FileState.MISSING
        if number in named:
            state = FileState.NAMED
        elif number in reasons:
            state = FileState.UNREADABLE
        elif number in there:
            state = _BY_FOUND[min(found)]
        yield FileLoss(number, state, len(found), reasons.get(number))


class _Search(Struct, frozen=True, dict=True):
    """Search for losses.

    Attributes:
        snapshot: the log with all files that exist.
        wanted: options of the search.
    """

    snapshot: Snapshot
    wanted: Wanted

    def losses(self) -> Iterator[Loss]:
        """Yield the losses of the databases that lose something."""
        descriptors = self._of_tree(self.snapshot.databases[ID_DB])
        names = self._of_tree(self.snapshot.databases[NAME_DB])
        found = [descriptors, names, *self._of_descriptors(descriptors, names)]
        gone = {loss.db_id for loss in found}
        for db_id, database in self.snapshot.databases.items():
            if db_id not in gone:
                found.append(self._of_tree(database))
        taken = _Taken.by(names)
        for loss in found if names else ():
            self._look_for_name(loss, taken)
        found = [loss for loss in found if loss]
        if found:
            with unchanged(self.kept.salvaged.check_files):
                for loss in found:
                    self._count(loss)
        yield from found

    def places(self, losses: Iterable[Loss]) -> dict[int, list[Found]]:
        """Return, by file number, the content found at each lost place."""
        lsns = np.unique(np.array([lsn for loss in losses for lsn in loss.lsns], np.int64))
        found = fetch(self.snapshot.image, lsns).found
        places: dict[int, list[Found]] = {}
        for lsn, each in zip(lsns.tolist(), found.tolist(), strict=True):
            places.setdefault(lsn >> 32 & 0xFFFFFFFF, []).append(Found(each))
        return places

    @cached_property
    def kept(self) -> Kept:
        """Survivors in the remaining files."""
        snapshot, wanted = self.snapshot, self.wanted
        cut = None
        if wanted.to_lsn is not None:
            cut = (snapshot.end.files[-1].file_no, snapshot.end.next_offset)
        return find_kept(snapshot.environment, snapshot.scanner, wanted.without, cut)

    def is_gone(self, lsns: Ints) -> Mask:
        """Return a mask of the LSNs that lie in files treated as missing."""
        return np.isin(lsns >> 32 & 0xFFFFFFFF, list(self.wanted.without))

    def _of_descriptors(self, descriptors: Loss, names: Loss) -> Iterator[Loss]:
        """Yield databases whose descriptor is lost, as far as anything names them."""
        if not descriptors:
            return
        snapshot = self.snapshot
        lost = _Taken.by(descriptors)
        known = dict(snapshot.names)
        if names and not self.wanted.without:
            # With files treated as missing, the snapshot still reads the names from all files.
            known = {i: each.name for i, each in self.kept.live().items()} | known
        for number in (text for text in lost.alone if text.lstrip(b"-").isdigit()):
            known.setdefault(int(number), f"id:{int(number)}")
        for db_id, name in known.items():
            lsn = lost.lsn_of(str(db_id).encode())
            database = snapshot.databases.get(db_id)
            if lsn is None and (db_id not in snapshot.names or database is not None):
                continue
            loss = Loss(name, db_id, NULL_LSN if lsn is None else lsn)
            if database is not None and self.is_gone(np.array([loss.descriptor_lsn])).all():
                loss.whole_count = snapshot.count(database)
            yield loss

    def _look_for_name(self, loss: Loss, names: _Taken) -> None:
        """Set whether the name of a database is lost, and its name if the survivors have it."""
        if loss.db_id in FIXED_NAMES:
            return
        name = self.snapshot.names.get(loss.db_id)
        if name is not None:
            key = name.encode("utf-8", "surrogateescape")
            loss.name_lost = names.lsn_of(key) is not None
            return
        known = self.kept.database(loss.db_id)
        # A database that is being removed had lost its name already.
        loss.name_lost = known is None or not known.removed
        if known is not None:
            loss.name = known.name

    def _of_tree(self, database: Database) -> Loss:
        """Return the loss of a tree, from its root down."""
        name = f"id:{database.db_id}" if database.name is None else database.name
        loss = Loss(name, database.db_id)
        tree = self.snapshot.tree(database)
        if tree.root_lsn == NULL_LSN:
            return loss
        overlay = self.snapshot.overlay(database.db_id)
        pieces = [
            self._records(tree, leaves, overlay)
            for leaves in self._leaves(tree, tree.root(), loss, NumberSet())
        ]
        pieces.append(self._changed(tree, overlay, loss))
        loss.keys = joined_spans([keys for keys, _ in pieces])
        loss.key_lsns = np.concatenate([lsns for _, lsns in pieces])
        loss.kept = np.zeros(len(loss.keys), np.bool_)
        return loss

    def _leaves(
        self, tree: Tree, children: Children, loss: Loss, known: NumberSet
    ) -> Iterator[Leaves]:
        """Yield the bottom nodes that exist; add the ranges of lost nodes to the loss."""
        leaves = self._without_lost(tree.read(children), loss)
        if leaves.children.level <= 1:
            yield leaves
            return
        # In a damaged tree the paths to a node can be too many to follow: visit each node once.
        again = leaves.nodes.good.copy()
        again[again] = ~known.first_times(leaves.nodes.lsn[again])
        below = tree.children_of(replace(leaves, nodes=leaves.nodes.without(again)))
        for first in range(0, len(below), NODES_AT_ONCE):
            yield from self._leaves(
                tree, below.select(slice(first, first + NODES_AT_ONCE)), loss, known
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
        """Return keys and LSNs of slots whose record is lost."""
        slots, _ = tree.slots_in_range(leaves)
        if tree.old_duplicates:
            # A duplicate tree in a remaining file is expanded; else its slot stays, and is lost.
            slots, _ = expanded(replace(tree, image=self.left), slots)
        _, changed = match(tree, overlay.key, slots)
        now_ms = self.snapshot.now_ms
        asked = ~slots.deleted & ~changed & (slots.state & SlotState.EMBEDDED == 0)
        asked &= (slots.expires_ms == 0) | (slots.expires_ms >= now_ms)
        if tree.two_part:
            asked[:] = False
        slots = slots.select(asked)
        lost = self._lost(tree.image, slots.lsn)
        return slots.key.select(lost), slots.lsn[lost]

    def _changed(self, tree: Tree, overlay: Overlay, loss: Loss) -> tuple[Spans, Ints]:
        """Return keys and LSNs of records that recovery restores and that are lost."""
        reading = RecordReader(replace(tree, image=self.left), overlay, with_data=True, now_ms=None)
        lacking = reading.lacking_changes(0, len(overlay))
        keys, lsns = lacking.key, lacking.lsn
        outside = np.ones(len(keys), np.bool_)
        for low, high in places(tree, keys, loss.ranges):
            outside[low:high] = False
        return keys.select(outside), lsns[outside]

    @cached_property
    def left(self) -> Image:
        """Image of the remaining files."""
        files = self.snapshot.end.files
        parts = [ImagePart(each.path, each.file_no, each.version, each.size) for each in files]
        last = parts.pop()
        parts.append(replace(last, stop=self.snapshot.end.next_offset))
        return self.snapshot.map_files(
            [part for part in parts if part.file_no not in self.wanted.without]
        )

    def _lost(self, image: Image, lsns: Ints) -> Mask:
        found = fetch(image, lsns, check=False).found
        return self.is_gone(lsns) | (found <= Found.NO_ENTRY)

    def _count(self, loss: Loss) -> None:
        """Count the lost keys of which the remaining files have a record, even an older one."""
        database = self.snapshot.databases.get(loss.db_id)
        if loss.is_whole or database is None:
            loss.whole_kept_count = len(self.kept.keys(loss.db_id, two_part=False))
            return
        tree = self.snapshot.tree(database)
        keys = self.kept.keys(loss.db_id, two_part=tree.two_part)
        keys = keys.select(order_keys(keys, two_part=tree.by_parts))
        if len(keys):
            at = search_sorted(keys, loss.keys, two_part=tree.by_parts)
            at = np.minimum(at, len(keys) - 1)
            loss.kept = equal_keys(keys.select(at), loss.keys)
        found = places(tree, keys, loss.ranges)
        counts = self._keys_in(loss, database, tree)
        loss.ranges = [
            replace(one, key_count=count, kept_count=high - low)
            for one, count, (low, high) in zip(loss.ranges, counts, found, strict=True)
        ]

    def _keys_in(self, loss: Loss, database: Database, tree: Tree) -> list[int | None]:
        """Return the number of keys in each range; None if its node cannot be read."""
        lsns = np.array([one.lsn for one in loss.ranges], np.int64)
        is_told = self.is_gone(lsns)
        if not tree.ordered:
            is_told &= np.array([one.is_everything for one in loss.ranges], np.bool_)
        counts = np.zeros(len(lsns), np.int64)
        for batch in self.snapshot.records(database, with_data=False) if is_told.any() else ():
            keys = whole_keys(batch) if tree.two_part else batch.key
            counts += [high - low for low, high in places(tree, keys, loss.ranges)]
        pairs = zip(counts.tolist(), is_told.tolist(), strict=True)
        return [count if told else None for count, told in pairs]


def places(tree: Tree, keys: Spans, ranges: Sequence[LostRange]) -> list[tuple[int, int]]:
    """Return start and end of each range as indexes into ascending keys.

    If the order of keys is unknown, only a range of all keys holds any.
    """
    if not tree.ordered:
        return [(0, len(keys) if one.is_everything else 0) for one in ranges]
    if not ranges:
        return []
    bounds = joined_spans([bound(key) for one in ranges for key in (one.low, one.high)])
    found = search_sorted(keys, bounds, two_part=tree.by_parts).reshape(-1, 2)
    is_open = bounds.sizes.reshape(-1, 2) < 0
    found[is_open[:, 0], 0] = 0
    found[is_open[:, 1], 1] = len(keys)
    return [(low, high) for low, high in found.tolist()]


class _Taken(Struct, frozen=True):
    """Keys of a loss, in a database whose keys are ordered by their bytes.

    Attributes:
        alone: LSNs of records that are lost alone, by key.
        ranges: lost ranges, by their lower bounds.
        lows: these bounds, empty for an open one.
    """

    alone: dict[bytes, int]
    ranges: list[LostRange]
    lows: list[bytes]

    @classmethod
    def by(cls, loss: Loss) -> _Taken:
        """Return the keys of a loss."""
        keys = (loss.keys[row] or b"" for row in range(len(loss.keys)))
        alone = dict(zip(keys, loss.key_lsns.tolist(), strict=True))
        ranges = sorted(loss.ranges, key=lambda one: one.low or b"")
        return cls(alone, ranges, [one.low or b"" for one in ranges])

    def lsn_of(self, key: bytes) -> int | None:
        """Return the LSN with which a key is lost, or None if it is not lost."""
        at = bisect_right(self.lows, key) - 1
        if key in self.alone or at < 0 or not self.ranges[at].holds(key):
            return self.alone.get(key)
        return self.ranges[at].lsn
