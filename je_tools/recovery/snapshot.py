"""Snapshots: environments as the engine has them after recovery, in memory and read-only.

Source: je-log.md "Recovery" and "Reading the current content"; RecoveryManager.recover,
JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.btree.faults import Faults
from je_tools.btree.key_ranges import KeyRange
from je_tools.btree.replay import KeyOrder, Replayed, nothing_replayed
from je_tools.btree.tree import BINS_AT_ONCE, Children, Fault, FaultKind, Tree
from je_tools.core.ordered import map_in_order
from je_tools.core.properties import HALT, read_settings
from je_tools.errors import InputError
from je_tools.formats.arrays import rows_by
from je_tools.formats.image import Image, Part
from je_tools.formats.je.entries import Entry
from je_tools.formats.je.fetch import Found, fetch, fetch_entry
from je_tools.formats.je.header import NULL_LSN, lsn_text
from je_tools.formats.je.internal_names import EXPIRATION_DB
from je_tools.formats.je.nodes import LEVEL_MASK, read_nodes
from je_tools.formats.spans import Spans
from je_tools.log.environment import Environment, check_numbers
from je_tools.log.images import check_image, map_files, unchanged
from je_tools.log.names import INTERNAL_PREFIX
from je_tools.log.records import Batch, Coming, Note, Records
from je_tools.log.scan import Scanner
from je_tools.recovery.end import (
    Checkpoint,
    EndReason,
    LogEnd,
    Refusal,
    find_checkpoint,
    find_end,
)
from je_tools.recovery.interval import COMMITTED, Interval, LoggedNodes, read_interval
from je_tools.recovery.overlay import Overlay, Rules, decide
from je_tools.recovery.reading import Reading

REPLICATED_ENV, CONVERTED = 1, 2
"""Bits of a DbTree's flags; CONVERTED: not replicated at first. Source: DbTree, JE 7.5.11."""

ID_DB, NAME_DB = 0, 1
"""Ids of the databases that hold the descriptors and the names of all databases."""

DUPLICATES, TEMPORARY, REPLICATED_DB, PREFIXING = 0x01, 0x02, 0x04, 0x10
"""Bits of a database's flags. Source: DatabaseImpl, JE 7.5.11."""

_TEMPORARY_UNTIL = 17
"""Newest log version whose engine is known to remove temporary databases.

The engine of version 26 has none any more, and treats one that it finds like any other. Source:
DatabaseImpl, JE 18.3.12 and that of Oracle NoSQL with log version 26.
"""

_REPLAYED_TWICE = 8
"""Newest log version whose engine replays nodes twice; JE 7.5 (version 15) does not."""

_CHECKS_CHAINS = 17
"""Log version of the engine that checks prevOffsets before it recovers."""

_FILE_NO_MAX = (1 << 31) - 1

T = TypeVar("T")
_TWO_PART_SINCE = 8


class Database(Struct, frozen=True):
    """A database of a snapshot.

    Attributes:
        db_id: its id.
        name: None if no name leads to it, as after an unfinished removal. If the entry that maps
            its name to its id is lost, the name in its descriptor.
        record: its descriptor as the log has it, of log version `record_version`.
        root_lsn: LSN of its tree's root after recovery; NULL_LSN without one.
        map_ln_lsn: LSN of its descriptor's entry; NULL_LSN for the two that the DbTree describes.
    """

    db_id: int
    name: str | None
    record: Mapping[str, Any]
    root_lsn: int
    map_ln_lsn: int
    record_version: int

    @property
    def flags(self) -> int:
        """Flag bits, as stored."""
        return int(self.record["db_flags"])

    @property
    def has_duplicates(self) -> bool:
        """True if a key may have several records."""
        return bool(self.flags & DUPLICATES)

    @property
    def old_duplicates(self) -> bool:
        """True if duplicates have the form of log versions before 8."""
        return self.has_duplicates and self.record_version < _TWO_PART_SINCE

    @property
    def is_internal(self) -> bool:
        """True if it is one of the engine's own."""
        return self.db_id in (ID_DB, NAME_DB) or (self.name or "").startswith(INTERNAL_PREFIX)

    @property
    def comparators(self) -> tuple[bytes, ...]:
        """Serialized comparators of the application, for keys and duplicates; usually none."""
        both = (self.record["btree_comparator"], self.record["dup_comparator"])
        return tuple(one for one in both if one)


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
        lost_names: names in use, of unknown databases.
        temporary: former names by id of temporary databases, which recovery removes.
        faults: faults of trees, as far as they have been read.
        kept_txns: ids of transactions without an end that count as committed; see `take_snapshot`.
        to_lsn: LSN of the entry requested as the last one of the log; None for its real end.
    """

    environment: Environment
    end: LogEnd
    checkpoint: Checkpoint
    refusals: tuple[Refusal, ...]
    image: Image
    interval: Interval
    rules: Rules
    now_ms: int
    scanner: Scanner
    databases: dict[int, Database] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    lost_names: set[str] = field(default_factory=set)
    temporary: dict[int, str] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    kept_txns: frozenset[int] = frozenset()
    to_lsn: int | None = None
    _overlays: dict[int, Overlay] = field(default_factory=dict)
    _others: list[Image] = field(default_factory=list)

    @property
    def threads(self) -> int:
        """Number of threads that read BINs."""
        return self.scanner.threads_for(self.environment.size)

    @property
    def first_lsn(self) -> int:
        """LSN of the first entry that recovery reads."""
        return _first_lsn(self.end, self.checkpoint)

    @functools.cached_property
    def was_crashed(self) -> bool:
        """True if recovery has something to do, or has written the last checkpoint.

        A crash can leave slots outside of their node's range, and a later close keeps them.
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
        return {db_id: nodes.take(rows) for db_id, rows in rows_by(nodes.db_id).items()}

    @functools.cached_property
    def _lns_by_db(self) -> dict[int, npt.NDArray[np.int32]]:
        """Rows of the interval's LNs, in log order, by database."""
        by_db = rows_by(self.interval.lns.db_id)
        return {db_id: rows.astype(np.int32) for db_id, rows in by_db.items()}

    def tree(self, database: Database) -> Tree:
        """Return the tree of a database."""
        order = KeyOrder(
            ordered=not database.comparators,
            two_part=database.has_duplicates and not database.old_duplicates,
        )
        return Tree(
            self.image,
            database.db_id,
            database.root_lsn,
            self._replayed(database.db_id, order),
            order,
            old_duplicates=database.old_duplicates,
        )

    def _replayed(self, db_id: int, order: KeyOrder) -> Replayed:
        """Return the nodes of a database that recovery places by their identifier keys."""
        nodes = self._nodes_by_db.get(db_id)
        if nodes is None:
            return nothing_replayed(order)
        nodes = nodes.take(np.flatnonzero(~nodes.is_root))
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

    def change_count(self, db_id: int) -> int:
        """Return the number of writes to records of a database in the recovery interval."""
        return len(self.changes(db_id))

    def is_changed(self, db_id: int) -> bool:
        """Return whether recovery changes a record of a database, or replays one of its nodes."""
        return db_id in self._nodes_by_db or len(self.overlay(db_id)) > 0

    def changes(self, db_id: int) -> npt.NDArray[np.int32]:
        """Return the rows of the interval's LNs of a database, ascending."""
        return self._lns_by_db.get(db_id, np.empty(0, np.int32))

    def _decide(self, db_id: int) -> Overlay:
        rows = self.changes(db_id)
        database = self.databases[db_id]
        # Engines that can replay old duplicates are too old for all else here.
        if database.root_lsn == NULL_LSN or database.old_duplicates:
            rows = rows[:0]
        tree = self.tree(database)
        overlay, faults = decide(tree, self.interval.lns, rows, self.rules, self.threads)
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
        reading = self.reading(database, with_data, show_expired, inside)
        for records, faults in self.in_order(reading.children(), reading.read):
            self.faults.extend(faults)
            if len(records):
                yield records
        if reading.has_left:
            records, faults = reading.left()
            self.faults.extend(faults)
            yield records
        self.faults.extend(reading.tree.faults)

    def batches(
        self, database: Database, *, show_expired: bool = False, inside: KeyRange | None = None
    ) -> Iterator[Batch]:
        """Yield the records of a database as `records`, in batches that the caller reads.

        Reading a batch notes its faults, with which the caller extends `faults` in batch order.
        """
        reading = self.reading(database, True, show_expired, inside)
        if not reading.is_apart:
            yield from self.records(database, show_expired=show_expired, inside=inside)
            return
        for children in reading.children():
            yield Coming(partial(self._read, reading, children))
        # A page that is gone may have held an upper node.
        self._check_torn()
        self.faults.extend(reading.tree.faults)

    def _read(self, reading: Reading, children: Children, note: Note) -> Records:
        records, faults = reading.read(children)
        note(faults)
        self._check_torn()
        return records

    def count(self, database: Database, *, show_expired: bool = False) -> int:
        """Return the number of records that `records` yields, without building them."""
        reading = self.reading(database, False, show_expired)
        total = 0
        for counted, faults in self.in_order(reading.children(BINS_AT_ONCE), reading.count):
            total += counted
            self.faults.extend(faults)
        if reading.has_left:
            records, faults = reading.left()
            total += len(records)
            self.faults.extend(faults)
        self.faults.extend(reading.tree.faults)
        return total

    def read_upper_nodes(self, database: Database) -> None:
        """Read all nodes of a database except its BINs, to find their faults."""
        tree = self.tree(database)
        for _ in tree.leaf_children():
            self._check_torn()
        self.faults.extend(tree.faults)

    def _check_torn(self) -> None:
        """Call `check_files` if a page could not be read."""
        if self.image.is_torn:
            self.check_files()

    def reading(
        self,
        database: Database,
        with_data: bool,
        show_expired: bool,
        inside: KeyRange | None = None,
    ) -> Reading:
        """Return the reader of a database's records; see `records`."""
        tree = self.tree(database)
        if inside is not None and tree.two_part:
            inside = inside.of_two_parts()
        return Reading(
            tree,
            self.overlay(database.db_id),
            with_data=with_data,
            now_ms=None if show_expired else self.now_ms,
            inside=inside,
        )

    def in_order(self, children: Iterator[Children], work: Callable[[Children], T]) -> Iterator[T]:
        """Yield the results of `work` on BINs, in their order, read ahead in threads.

        Raises:
            StoppedError: a file became shorter, or its device failed.
        """
        for each in map_in_order(work, children, self.threads):
            self._check_torn()
            yield each
        # A page that is gone may have held an upper node.
        self._check_torn()

    def map_files(self, parts: Sequence[Part]) -> Image:
        """Map files of the log as another image, which `check_files` checks too.

        Raises:
            StoppedError: one cannot be mapped any more, or is shorter than stated.
        """
        image = map_files(parts)
        self._others.append(image)
        return image

    def check_files(self) -> None:
        """Check that all files still have their length.

        Raises:
            StoppedError: one is shorter, or its device failed, so results may be wrong.
        """
        for image in (self.image, *self._others):
            check_image(image)


@contextmanager
def held_snapshot(
    environment: Environment,
    scanner: Scanner,
    *,
    now_ms: int,
    to_lsn: int | None = None,
    as_member: bool = False,
) -> Iterator[Snapshot]:
    """Take a snapshot whose files must not change while it is in use; see `take_snapshot`.

    Call `check_files` once more before an output made from it gets its name.

    Raises:
        StoppedError: a file shrank, vanished or was replaced, which may show only at the end.
    """
    snapshot = take_snapshot(
        environment, scanner, now_ms=now_ms, to_lsn=to_lsn, as_member=as_member
    )
    with unchanged(snapshot.check_files):
        yield snapshot


def take_snapshot(
    environment: Environment,
    scanner: Scanner,
    *,
    now_ms: int,
    to_lsn: int | None = None,
    as_member: bool = False,
) -> Snapshot:
    """Return the log as the engine would see it; for results to publish, use `held_snapshot`.

    Args:
        environment: the log, a whole directory.
        scanner: options of the scan.
        now_ms: time at which records are read.
        to_lsn: treat the entry at this LSN as the end of the log.
        as_member: see the log as a member of a replication group, which goes on with transactions
            of the group that have no end.

    Raises:
        InputError: the log has no root, so that there is nothing to show; or a file number is
            higher than any log's, or two files have the same number.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    check_numbers(environment)
    _check_highest(environment)
    end = find_end(environment, scanner, to_lsn)
    if end.refusal in (Refusal.NO_FILES, Refusal.BAD_FILE_HEADER):
        raise _no_tree(environment, end.refusal)
    checkpoint, refusal = find_checkpoint(environment, end, scanner)
    if checkpoint.root_lsn == NULL_LSN:
        raise _no_tree(environment, Refusal.NO_ROOT)
    image = _image(end)
    with unchanged(lambda: check_image(image)):
        snapshot = _snapshot_of(
            environment, end, checkpoint, refusal, image, scanner, now_ms, as_member
        )
    snapshot.to_lsn = to_lsn
    return snapshot


def _snapshot_of(
    environment: Environment,
    end: LogEnd,
    checkpoint: Checkpoint,
    refusal: Refusal | None,
    image: Image,
    scanner: Scanner,
    now_ms: int,
    as_member: bool,
) -> Snapshot:
    first = _first_lsn(end, checkpoint)
    interval = read_interval(
        environment,
        end.files,
        image,
        scanner,
        first_lsn=first,
        nodes_from=max(checkpoint.start_lsn, 0),
        last_lsn=end.last_lsn,
        next_lsn=end.next_lsn,
        end_lsn=checkpoint.end_lsn,
    )
    periods = [
        each
        for each in interval.periods
        if each.end_lsn == NULL_LSN or each.end_lsn > checkpoint.start_lsn
    ]
    rules = Rules(checkpoint.start_lsn, periods)
    refusals = {
        end.refusal: True,
        refusal: True,
        Refusal.MISSING_FILE: not _is_gapless(end, checkpoint),
        Refusal.DAMAGED_INTERVAL: len(interval.damaged) > 0,
        Refusal.COMMIT_ROLLED_BACK: rules.takes_back_commits(interval.ends),
        Refusal.HALT_CHOSEN: _is_to_halt(environment, end),
        Refusal.BROKEN_CHAIN: _is_chain_fatal(end, interval),
    }
    snapshot = Snapshot(
        environment,
        end,
        checkpoint,
        tuple(each for each, applies in refusals.items() if applies and each is not None),
        image,
        interval,
        rules,
        now_ms,
        scanner,
        kept_txns=_keep_open(interval, rules) if as_member else frozenset(),
    )
    _find_databases(snapshot)
    return snapshot


def _keep_open(interval: Interval, rules: Rules) -> frozenset[int]:
    """Let transactions of the group without an end count as committed, and return their ids.

    Source: RecoveryManager.resurrect, Replay, JE 18.3.12.
    """
    lns, ends = interval.lns, interval.ends
    kept = rules.is_undone(lns) & (lns.txn_id < 0)
    kept &= ~np.isin(lns.txn_id, ends.txn_id[~ends.is_commit])
    lns.flags[kept] |= COMMITTED
    return frozenset(np.unique(lns.txn_id[kept]).tolist())


def _check_highest(environment: Environment) -> None:
    """Refuse files above _FILE_NO_MAX: LSNs are compared as signed numbers."""
    if environment.files and environment.files[-1].file_no > _FILE_NO_MAX:
        path = environment.files[-1].path
        raise InputError(
            f"{path}: the number of the file is above {_FILE_NO_MAX:08x}, and no log has come so "
            "far. If it is not of this log, look at a copy without it; `je-tools dump` reads it."
        )


def _first_lsn(end: LogEnd, checkpoint: Checkpoint) -> int:
    """Return the LSN of the first entry that recovery reads."""
    begin = end.files[0].file_no << 32
    if checkpoint.end_lsn == NULL_LSN:
        return begin
    return max(begin, min(checkpoint.start_lsn, checkpoint.first_active_lsn))


def _is_gapless(end: LogEnd, checkpoint: Checkpoint) -> bool:
    """Return whether no file is missing between the first active entry and the log's end."""
    if checkpoint.end_lsn == NULL_LSN:
        return True
    first = min(checkpoint.start_lsn, checkpoint.first_active_lsn) >> 32
    there = [file.file_no for file in end.files if file.file_no >= first]
    return there[:1] == [first] and len(there) == end.files[-1].file_no - first + 1


def _is_chain_fatal(end: LogEnd, interval: Interval) -> bool:
    """Return whether prevOffsets keep the engine from opening the log.

    JE 18.3 checks them in whole files beforehand, up to the one before the last, and also in the
    last if its number is 0. Source: RecoveryManager.recover, DbVerifyLog.verify,
    JE 18.3.12.
    """
    if interval.backward.failed_lsn != NULL_LSN:
        return True
    last = end.files[-1]
    if last.version != _CHECKS_CHAINS:
        return False
    return any(lsn >> 32 < last.file_no or not last.file_no for lsn in interval.break_lsns)


def _is_to_halt(environment: Environment, end: LogEnd) -> bool:
    """Return whether the engine was told to halt instead of cutting off Commits."""
    if end.reason is not EndReason.DAMAGED or not len(end.commits_behind):
        return False
    return environment.is_directory and read_settings(Path(environment.name)).switch(HALT)


def _image(end: LogEnd) -> Image:
    parts = [Part(file.path, file.file_no, file.version, file.size) for file in end.files[:-1]]
    last = end.files[-1]
    parts.append(Part(last.path, last.file_no, last.version, end.next_offset))
    return map_files(parts)


def _no_tree(environment: Environment, why: Refusal) -> InputError:
    texts = {
        Refusal.NO_FILES: "no file holds an entry",
        Refusal.BAD_FILE_HEADER: "the header of the last file is no good",
        Refusal.NO_ROOT: "there is no root of the databases in what is left of the log",
    }
    return InputError(
        f"{environment.name}: {texts[why]}, so the engine would not open it either. "
        "`je-tools salvage` gets records out without a tree."
    )


def _find_databases(snapshot: Snapshot) -> None:
    """Find the databases by the tree of their descriptors and that of their names."""
    tree = snapshot.entry(snapshot.checkpoint.root_lsn)
    if tree is None or "id_database" not in tree.fields:
        raise InputError(
            f"{snapshot.environment.name}: the root of the databases, which is to be at "
            f"{lsn_text(snapshot.checkpoint.root_lsn)}, cannot be read, so the engine would not "
            "open the log either. `je-tools salvage` gets records out without a tree."
        )
    for db_id, name, group in (
        (ID_DB, "_jeIdMap", "id_database"),
        (NAME_DB, "_jeNameMap", "name_database"),
    ):
        record = tree.fields[group]
        root = snapshot.root_of(db_id, record)
        snapshot.databases[db_id] = Database(db_id, name, record, root, NULL_LSN, tree.version)
    names = _names(snapshot)
    # Computed from the names: `faults` keeps only a limited number.
    lacks_own = any(name.startswith(INTERNAL_PREFIX) for name in snapshot.lost_names)
    for key, lsn in _lsns_of(snapshot, ID_DB):
        entry = snapshot.entry(lsn)
        if entry is None or "database" not in entry.fields:
            snapshot.faults.append(_lacking(snapshot, ID_DB, key, lsn))
            continue
        record = entry.fields["database"]
        db_id = record["id"]
        root = snapshot.root_of(db_id, record)
        version = entry.version
        snapshot.databases[db_id] = Database(db_id, names.get(db_id), record, root, lsn, version)
    snapshot.names = names | _names_by_descriptors(snapshot)
    if _take_temporary(snapshot):
        snapshot.refusals += (Refusal.NAMELESS_TEMPORARY,)
    if _has_unlogged_root(snapshot):
        snapshot.refusals += (Refusal.UNLOGGED_ROOT,)
    if lacks_own or _lacks_own(snapshot) or _lacks_expirations(snapshot):
        snapshot.refusals += (Refusal.OWN_DATABASE_LOST,)


def _names(snapshot: Snapshot) -> dict[int, str]:
    """Return names of databases by id."""
    names = {}
    for key, lsn in _lsns_of(snapshot, NAME_DB):
        entry = snapshot.entry(lsn)
        name = key.decode("utf-8", "surrogateescape")
        if entry is None or "name_db_id" not in entry.fields:
            snapshot.faults.append(_lacking(snapshot, NAME_DB, key, lsn))
            snapshot.lost_names.add(name)
            continue
        names[int(entry.fields["name_db_id"])] = name
    return names


def _names_by_descriptors(snapshot: Snapshot) -> dict[int, str]:
    """Name databases by their descriptors if the name's entry is lost; return names by id."""
    unnamed = [each for each in snapshot.databases.values() if each.name is None]
    said = Counter(each.record.get("name") for each in unnamed)
    found = {}
    for each in unnamed:
        name = each.record.get("name")
        if name in snapshot.lost_names and said[name] == 1:
            snapshot.databases[each.db_id] = replace(each, name=name)
            snapshot.lost_names.remove(name)
            found[each.db_id] = str(name)
    return found


def _take_temporary(snapshot: Snapshot) -> bool:
    """Remove the names of temporary databases, which last only until they are closed.

    Each checkpoint logs the descriptors of all that are open, and recovery removes those that it
    meets. Source: RecoveryManager.redoOneLN and removeTempDbs, JE 7.5.11 and 18.3.12.

    Returns:
        True if one has no name, so that the engine fails to remove it.
    """
    is_nameless = False
    if snapshot.end.files[-1].version > _TEMPORARY_UNTIL:
        return is_nameless
    for db_id, database in snapshot.databases.items():
        is_met = database.map_ln_lsn >= max(snapshot.checkpoint.start_lsn, 0)
        if not database.flags & TEMPORARY or not is_met:
            continue
        if database.name is None:
            is_nameless = True
            continue
        snapshot.temporary[db_id] = database.name
        snapshot.databases[db_id] = replace(database, name=None)
        del snapshot.names[db_id]
    return is_nameless


def _has_unlogged_root(snapshot: Snapshot) -> bool:
    """Return whether a descriptor lacks the LSN of its root, although a root was logged.

    Source: RecoveryManager.RootUpdater.doWork, DbLsn.compareTo, JE 18.3.12.
    """
    return any(
        each.record["tree_exists"] & 1
        and int(each.record["root_lsn"]) == NULL_LSN
        and each.root_lsn != NULL_LSN
        for each in snapshot.databases.values()
    )


def _lacks_own(snapshot: Snapshot) -> bool:
    """Return whether the engine cannot find one of its own databases when it opens the log."""
    if any(
        name.startswith(INTERNAL_PREFIX) and db_id not in snapshot.databases
        for db_id, name in snapshot.names.items()
    ):
        return True
    prefix = INTERNAL_PREFIX.encode()
    return any(
        fault.db_id == NAME_DB
        and fault.kind not in (FaultKind.STRAY_SLOTS, FaultKind.SPLIT_CUT_SHORT)
        and (fault.low is None or fault.low[: len(prefix)] <= prefix)
        and (fault.high is None or fault.high >= prefix)
        for fault in snapshot.faults
    )


def _lacks_expirations(snapshot: Snapshot) -> bool:
    """Return whether records of expirations are lost, which the engine reads at each open.

    Source: ExpirationProfile.populateCache, JE 7.5.11 and 18.3.12.
    """
    lacks = False
    for database in list(snapshot.databases.values()):
        if database.name != EXPIRATION_DB:
            continue
        # Without data no entry is decoded; data in slots is there in any case.
        for batch in snapshot.records(database, with_data=False):
            rows = np.flatnonzero(batch.data.sizes < 0)
            found = fetch(snapshot.image, batch.lsn[rows]).found
            for row in rows[found != Found.GOOD].tolist():
                key, lsn = batch.key[row] or b"", int(batch.lsn[row])
                snapshot.faults.append(_lacking(snapshot, database.db_id, key, lsn))
                lacks = True
    return lacks


def _lacking(snapshot: Snapshot, db_id: int, key: bytes, lsn: int) -> Fault:
    """Return the fault of a descriptor or a name that a slot names and that cannot be read."""
    found = fetch(snapshot.image, np.array([lsn], np.int64)).found[0]
    kind = FaultKind.MISSING if found < Found.BAD else FaultKind.DAMAGED
    if found == Found.GOOD:
        kind = FaultKind.NOT_A_RECORD
    return Fault(kind, db_id, lsn, NULL_LSN, key, key)


def _lsns_of(snapshot: Snapshot, db_id: int) -> list[tuple[bytes, int]]:
    """Return key and LSN of each record of an internal database."""
    database = snapshot.databases[db_id]
    return [
        (batch.key[row] or b"", int(batch.lsn[row]))
        for batch in snapshot.records(database, with_data=False)
        for row in range(len(batch))
    ]
