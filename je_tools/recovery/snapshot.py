"""Snapshots: environments as the engine has them after recovery, in memory and read-only.

Source: je-log.md "Recovery" and "Reading the current content"; RecoveryManager.recover,
JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from je_tools.btree.children import BINS_AT_ONCE, Children
from je_tools.btree.faults import Faults
from je_tools.btree.replay import KeyOrder, Replayed, nothing_replayed
from je_tools.btree.tree import Tree
from je_tools.core.ordered import map_in_order
from je_tools.formats.arrays import rows_by
from je_tools.formats.je.btree.nodes import read_nodes
from je_tools.formats.je.flags import LEVEL_MASK
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.log.fetch import fetch, fetch_entry
from je_tools.formats.spans import Spans
from je_tools.log.images import check_image, map_files
from je_tools.log.records import Batch, Note, Records, UnreadRecords
from je_tools.recovery.overlay import decide_outcomes
from je_tools.recovery.record_reader import RecordReader

if TYPE_CHECKING:
    from je_tools.btree.key_ranges import KeyRange
    from je_tools.findings import Finding
    from je_tools.formats.files.image import Image, ImagePart
    from je_tools.formats.je.entry.entries import Entry
    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile
    from je_tools.log.scan import Scanner
    from je_tools.recovery.database import Database
    from je_tools.recovery.end import (
        LogEnd,
        Refusal,
        StartCheckpoint,
    )
    from je_tools.recovery.interval import ReplayInterval
    from je_tools.recovery.interval_tables import LoggedNodes
    from je_tools.recovery.outcomes import Overlay
    from je_tools.recovery.replay_rules import ReplayRules

_REPLAYED_TWICE = 8
"""Newest log version whose engine replays nodes twice; JE 7.5 (version 15) does not."""

T = TypeVar("T")


class Snapshot(Struct, dict=True):
    """An environment after recovery.

    Attributes:
        environment: the log.
        end: end of the log.
        checkpoint: checkpoint at which recovery begins.
        refusals: reasons why the engine would not open it; usually none.
        image: image of the files.
        interval: entries that recovery replays.
        rules: rules by which it undoes and redoes.
        now_ms: time at which records are read, for those that expire.
        scanner: options of the scan.
        databases: databases by id: the two of the DbTree and all that have a descriptor.
        names: names of databases by id, including databases without a descriptor.
        lost_names: names whose entry cannot be read, so that their databases are unknown.
        temporary: names, by id, of the temporary databases that recovery removes.
        faults: faults of trees, as far as they have been read.
        kept_txns: ids of transactions without an end that count as committed; see `take_snapshot`.
        to_lsn: LSN of the entry requested as the last one of the log; None for its real end.
        is_verified: True if the checksums of all files have been verified.
        foreign: number of faults of trees at the last search for files of another log, and the
            findings of that search.
    """

    environment: Environment
    end: LogEnd
    checkpoint: StartCheckpoint
    refusals: tuple[Refusal, ...]
    image: Image
    interval: ReplayInterval
    rules: ReplayRules
    now_ms: int
    scanner: Scanner
    databases: dict[int, Database] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    lost_names: set[str] = field(default_factory=set)
    temporary: dict[int, str] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    kept_txns: frozenset[int] = frozenset()
    to_lsn: int | None = None
    is_verified: bool = False
    foreign: tuple[int, list[Finding]] = (0, [])
    _overlays: dict[int, Overlay] = field(default_factory=dict)
    _others: list[Image] = field(default_factory=list)

    @property
    def threads(self) -> int:
        """Number of threads that read BINs."""
        return self.scanner.threads_for(self.environment.size)

    @property
    def first_lsn(self) -> int:
        """LSN of the first entry that recovery reads."""
        return first_lsn_of(self.end, self.checkpoint)

    @property
    def unchecked_files(self) -> list[LogFile]:
        """Files before those that recovery reads, unless their checksums have been verified."""
        if self.is_verified:
            return []
        return [file for file in self.end.files if file.file_no < self.first_lsn >> 32]

    @functools.cached_property
    def was_crashed(self) -> bool:
        """True if recovery has something to do, or if recovery has written the last checkpoint.

        A crash can leave names without a descriptor, and nodes with the wrong identifier key.
        """
        if self.checkpoint.end_lsn != self.end.last_lsn:
            return True
        if self.checkpoint.fields.get("invoker") == "recovery":
            return True
        changed = (self.databases.get(db_id) for db_id in self._lns_by_db)
        return any(each is not None and not each.is_internal for each in changed)

    @functools.cached_property
    def _nodes_by_db(self) -> dict[int, LoggedNodes]:
        nodes = self.interval.nodes
        return {db_id: nodes.select(rows) for db_id, rows in rows_by(nodes.db_id).items()}

    @functools.cached_property
    def _lns_by_db(self) -> dict[int, npt.NDArray[np.int32]]:
        """Rows of the interval's LNs, in log order, by database."""
        by_db = rows_by(self.interval.lns.db_id)
        return {db_id: rows.astype(np.int32) for db_id, rows in by_db.items()}

    def tree(self, database: Database) -> Tree:
        """Return the B-tree of a database before undo and redo; see `overlay` for these."""
        order = KeyOrder(
            ordered=not database.comparators,
            two_part=database.has_duplicates and not database.old_duplicates,
        )
        return Tree(
            self.image,
            database.db_id,
            self._replayed(database.db_id, order),
            order,
            database.root_lsn,
            old_duplicates=database.old_duplicates,
        )

    def _replayed(self, db_id: int, order: KeyOrder) -> Replayed:
        """Return the nodes of a database that recovery places by their identifier keys."""
        nodes = self._nodes_by_db.get(db_id)
        if nodes is None:
            return nothing_replayed(order)
        nodes = nodes.select(np.flatnonzero(~nodes.is_root))
        key_size = nodes.key_size.astype(np.int64)
        columns = [nodes.node_id, nodes.level.astype(np.int64), nodes.key_position, key_size]
        old = np.flatnonzero(nodes.is_old_delta)
        if len(old):
            # An old delta has the id, the level and the key of the full version that it names.
            entries = fetch(self.image, nodes.node_id[old])
            fulls = read_nodes(entries)
            key, level = fulls.identifier_key, fulls.level & LEVEL_MASK
            for column, own in zip(
                columns, (fulls.node_id, level, key.starts, key.sizes), strict=True
            ):
                column[old] = own
        node_id, level, key_position, key_size = columns
        key = Spans(self.image.data, key_position, key_size)
        is_twice = self.end.files[-1].version <= _REPLAYED_TWICE
        return Replayed(nodes.lsn, node_id, level, key, order, is_twice)

    def root_of(self, db_id: int, record: Mapping[str, Any]) -> int:
        """Return the root of a tree: the one in its descriptor, or one that was logged later."""
        root = int(record["root_lsn"]) if record["tree_exists"] & 1 else NULL_LSN
        nodes = self._nodes_by_db.get(db_id)
        if nodes is None or not nodes.is_root.any():
            return root
        return max(root, int(nodes.lsn[nodes.is_root].max()))

    def overlay(self, db_id: int) -> Overlay:
        """Return the changes that undo and redo make in a database."""
        if db_id not in self._overlays:
            self._overlays[db_id] = self._decide(db_id)
        return self._overlays[db_id]

    def ln_count(self, db_id: int) -> int:
        """Return the number of writes to records of a database in the recovery interval."""
        return len(self.ln_rows(db_id))

    def is_changed(self, db_id: int) -> bool:
        """Return True if recovery changes a record of a database, or replays one of its nodes."""
        return db_id in self._nodes_by_db or len(self.overlay(db_id)) > 0

    def ln_rows(self, db_id: int) -> npt.NDArray[np.int32]:
        """Return the rows of the interval's LNs of a database, ascending."""
        return self._lns_by_db.get(db_id, np.empty(0, np.int32))

    def _decide(self, db_id: int) -> Overlay:
        rows = self.ln_rows(db_id)
        database = self.databases[db_id]
        # Engines from JE 5.0 on, whose recovery this module follows, cannot replay old duplicates.
        if database.root_lsn == NULL_LSN or database.old_duplicates:
            rows = rows[:0]
        tree = self.tree(database)
        overlay, faults = decide_outcomes(tree, self.interval.lns, rows, self.rules, self.threads)
        if overlay.redone_count or overlay.undone_count:
            faults.extend(tree.splits_cut_short())
        faults.extend(tree.faults)
        self.faults.extend(faults)
        return overlay

    def entry(self, lsn: int) -> Entry | None:
        """Return the entry at an LSN, or None if there is no good one."""
        return fetch_entry(self.image, lsn)

    def records(
        self,
        database: Database,
        *,
        with_data: bool = True,
        show_expired: bool = False,
        inside: KeyRange | None = None,
    ) -> Iterator[Records]:
        """Yield the records of a database in key order, in batches of some thousands.

        Args:
            database: a database of this snapshot.
            with_data: include data, and properties that only an LN holds.
            show_expired: include records that have expired at `now_ms`.
            inside: range of keys, which requires that keys are in byte order.
        """
        reader = self.record_reader(database, with_data, show_expired, inside)
        for records, faults in self.in_order(reader.children(), reader.read):
            self.faults.extend(faults)
            if len(records):
                yield records
        if reader.has_unplaced:
            records, faults = reader.unplaced_records()
            self.faults.extend(faults)
            yield records
        self.faults.extend(reader.tree.faults)

    def batches(
        self, database: Database, *, show_expired: bool = False, inside: KeyRange | None = None
    ) -> Iterator[Batch]:
        """Yield the records of a database like `records`, in batches that the caller reads.

        The caller may read batches in several threads. Reading one passes its faults to a `Note`,
        and the caller extends `faults` by these in the order of the batches.
        """
        reader = self.record_reader(database, True, show_expired, inside)
        if not reader.bins_are_independent:
            yield from self.records(database, show_expired=show_expired, inside=inside)
            return
        for children in reader.children():
            yield UnreadRecords(partial(self._read, reader, children))
        # The page that could not be read may have held an upper node.
        self._check_torn()
        self.faults.extend(reader.tree.faults)

    def _read(self, reader: RecordReader, children: Children, note: Note) -> Records:
        records, faults = reader.read(children)
        note(faults)
        self._check_torn()
        return records

    def count(self, database: Database, *, show_expired: bool = False) -> int:
        """Return the number of records that `records` yields, without building them."""
        reader = self.record_reader(database, False, show_expired)
        total = 0
        for counted, faults in self.in_order(reader.children(BINS_AT_ONCE), reader.count):
            total += counted
            self.faults.extend(faults)
        if reader.has_unplaced:
            records, faults = reader.unplaced_records()
            total += len(records)
            self.faults.extend(faults)
        self.faults.extend(reader.tree.faults)
        return total

    def read_upper_nodes(self, database: Database) -> None:
        """Read all nodes of a database except its BINs, to find their faults."""
        tree = self.tree(database)
        for _ in tree.unread_bins():
            self._check_torn()
        self.faults.extend(tree.faults)

    def _check_torn(self) -> None:
        """Call `check_files` if a page could not be read."""
        if self.image.has_lost_page:
            self.check_files()

    def record_reader(
        self,
        database: Database,
        with_data: bool,
        show_expired: bool,
        inside: KeyRange | None = None,
    ) -> RecordReader:
        """Return the reader of a database's records; see `records`."""
        tree = self.tree(database)
        if inside is not None and tree.two_part:
            inside = inside.of_two_parts()
        return RecordReader(
            tree,
            self.overlay(database.db_id),
            with_data=with_data,
            now_ms=None if show_expired else self.now_ms,
            inside=inside,
        )

    def in_order(self, children: Iterator[Children], work: Callable[[Children], T]) -> Iterator[T]:
        """Yield the results of `work` on batches of BINs, in their order; threads work ahead.

        Raises:
            StoppedError: a file became shorter, or its device failed.
        """
        for each in map_in_order(work, children, self.threads):
            self._check_torn()
            yield each
        # The page that could not be read may have held an upper node.
        self._check_torn()

    def map_files(self, parts: Sequence[ImagePart]) -> Image:
        """Map files of the log as another image, which `check_files` checks too.

        Raises:
            StoppedError: one cannot be mapped any more, or is shorter than stated.
        """
        image = map_files(parts)
        image.before_fetch = self.image.before_fetch
        self._others.append(image)
        return image

    def check_files(self) -> None:
        """Check that all files still have their length.

        Raises:
            StoppedError: one is shorter, or its device failed, so results may be wrong.
        """
        for image in (self.image, *self._others):
            check_image(image)


def first_lsn_of(end: LogEnd, checkpoint: StartCheckpoint) -> int:
    """Return the LSN of the first entry that recovery reads."""
    begin = end.files[0].file_no << 32
    if checkpoint.end_lsn == NULL_LSN:
        return begin
    return max(begin, min(checkpoint.start_lsn, checkpoint.first_active_lsn))
