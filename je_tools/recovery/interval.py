"""The part of a log that recovery replays, in columns: LNs, nodes, ends of transactions.

It is read in one pass, in threads. The columns hold only numbers of each LN: the position of its
key, not the key.

Source: je-log.md "Recovery"; RecoveryManager.buildTree, UndoReader, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import asdict, astuple, replace

from je_tools.core.memory import give_back_memory
from je_tools.formats.je import header as h
from je_tools.formats.je.columns import MAX_ROWS, Columns, decode
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.nodes import BIN_NO, DELTA_NO, IN_NO, IS_ROOT, LEVEL_MASK
from je_tools.formats.je.types import (
    ABORT_NO,
    BY_NAME,
    COMMIT_NO,
    ENTRY_TYPES,
    ROLLBACK_START_NO,
    Family,
    Group,
    mask_of,
)
from je_tools.formats.je.walk import NO_OFFSET
from je_tools.log.entry_table import build_table
from je_tools.recovery.backward import STRAIGHT, Backward, walk_backward

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.image import Image
    from je_tools.formats.je.reader import Rows
    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile
    from je_tools.log.scan import Scanner

DELETED, TRANSACTIONAL, INVISIBLE, REPLICATED, COMMITTED, SKIPPED = 1, 2, 4, 8, 16, 32
"""Bits of an LN's `flags`.

COMMITTED: the backward passes read the Commit of its transaction. SKIPPED: they skip the LN.
"""

_AT_ONCE = 1 << 16

_ROLLBACK_NOS = (ROLLBACK_START_NO, BY_NAME["RollbackEnd"].no)
_IS_LN = mask_of(each.no for each in ENTRY_TYPES.values() if Group.LN in each.groups)
_IS_TXN_LN = mask_of(
    each.no for each in ENTRY_TYPES.values() if Group.LN in each.groups and each.transactional
)
_IS_NODE = mask_of(
    each.no for each in ENTRY_TYPES.values() if each.family in (Family.NODE, Family.OLD_DELTA)
)
_IS_BOTTOM = mask_of((BIN_NO, DELTA_NO))
_HAS_ROOT_MARK = mask_of((IN_NO, BIN_NO, DELTA_NO))
_IS_END = mask_of((COMMIT_NO, ABORT_NO))
_IS_ROLLBACK = mask_of(_ROLLBACK_NOS)
_IS_PREPARE = mask_of((BY_NAME["Prepare"].no,))
_WANTED = frozenset({"db_id", "txn_id", "key", "data"})
_NODE_WANTED = frozenset({"db_id", "node_id", "booleans", "identifier_key", "level"})
_OLD_DELTA_WANTED = frozenset({"db_id", "last_full_lsn"})


class Table(Struct, frozen=True):
    """Columns of one length."""

    def __len__(self) -> int:
        return len(getattr(self, self.__struct_fields__[0]))


class Lns(Table, frozen=True):
    """LNs in log order.

    Attributes:
        lsn, db_id: int64.
        txn_id: int64; 0 outside transactions.
        key_position: int64; position of the key in the image.
        key_size: int32.
        flags: uint8; bits from DELETED to SKIPPED.
    """

    lsn: Ints
    db_id: Ints
    txn_id: Ints
    key_position: Ints
    key_size: npt.NDArray[np.int32]
    flags: npt.NDArray[np.uint8]

    def take(self, keep: npt.NDArray[Any]) -> Lns:
        """Select rows by a mask, or by an index array in its order."""
        return Lns(*(column[keep] for column in astuple(self)))


class Writes(Table, frozen=True):
    """The columns of `Lns` that undo and redo need."""

    lsn: Ints
    txn_id: Ints
    flags: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, lns: Lns, rows: npt.NDArray[Any]) -> Writes:
        """Select the columns of some rows, in their order."""
        return cls(lns.lsn[rows], lns.txn_id[rows], lns.flags[rows])

    def take(self, keep: npt.NDArray[Any] | slice) -> Writes:
        """Select rows by a mask, by an index array in its order, or by a slice."""
        return Writes(self.lsn[keep], self.txn_id[keep], self.flags[keep])


class LoggedNodes(Table, frozen=True):
    """Nodes that recovery replays, in log order.

    Attributes:
        lsn, db_id: int64.
        node_id: int64; for a delta of the old form, the LSN of its full version.
        key_position: int64; position of the identifier key in the image.
        key_size: int32; -1 for a delta of the old form, which has none.
        level: int32; as logged, without the bits that mark the tree; 0 for a delta of the old form.
        is_root, is_old_delta: bool.
    """

    lsn: Ints
    db_id: Ints
    node_id: Ints
    key_position: Ints
    key_size: npt.NDArray[np.int32]
    level: npt.NDArray[np.int32]
    is_root: Mask
    is_old_delta: Mask

    def take(self, keep: npt.NDArray[Any]) -> LoggedNodes:
        """Select rows by a mask, or by an index array in its order."""
        return LoggedNodes(*(column[keep] for column in astuple(self)))


class TxnEnds(Table, frozen=True):
    """Commits and Aborts.

    Attributes:
        lsn, txn_id, time_ms: int64.
        is_commit: bool.
    """

    lsn: Ints
    txn_id: Ints
    time_ms: Ints
    is_commit: Mask

    def take(self, keep: npt.NDArray[Any]) -> TxnEnds:
        """Select rows by a mask, or by an index array in its order."""
        return TxnEnds(*(column[keep] for column in astuple(self)))


class RollbackPeriod(Struct, frozen=True):
    """A rollback: it takes back LNs of some transactions between matchpoint and RollbackStart.

    Attributes:
        matchpoint_lsn, start_lsn: bounds of the period, both exclusive.
        end_lsn: LSN of the RollbackEnd; NULL_LSN if there is none.
        txn_ids: ids of the transactions that were active; None if the RollbackStart was not read.
    """

    matchpoint_lsn: int
    start_lsn: int
    end_lsn: int
    txn_ids: frozenset[int] | None


class Interval(Struct, frozen=True):
    """The entries that recovery replays.

    Attributes:
        lns, nodes, ends: columns in log order.
        periods: rollbacks in the order of their starts, without those that `backward` skips.
        in_doubt: ids of transactions that were prepared and have no end.
        damaged: LSN and length of each stretch of its files that is no good entry.
        backward: path of the backward passes.
        skipped_ends: Commits and Aborts that `backward` skips; not in `ends`.
        break_lsns: LSNs of good entries that do not name the entry before them, and of files whose
            header does not name the last entry of the file before; in all of the files, also
            before the first entry that recovery reads.
    """

    lns: Lns
    nodes: LoggedNodes
    ends: TxnEnds
    periods: tuple[RollbackPeriod, ...]
    in_doubt: frozenset[int]
    damaged: tuple[tuple[int, int], ...]
    backward: Backward
    skipped_ends: TxnEnds
    break_lsns: tuple[int, ...]


class _Found(Struct):
    """Entries of an interval found in one range of the log."""

    lns: list[Lns] = field(default_factory=list)
    nodes: list[LoggedNodes] = field(default_factory=list)
    ends: list[TxnEnds] = field(default_factory=list)
    rollbacks: list[tuple[int, int, dict[str, object]]] = field(default_factory=list)
    prepared: list[int] = field(default_factory=list)
    damaged: list[tuple[int, int]] = field(default_factory=list)
    break_lsns: list[int] = field(default_factory=list)


class _Collector(Struct, frozen=True):
    """Work for a scan: collect the entries of an interval.

    Attributes:
        starts: position of each file in the image, by file number.
        first_lsn: LSN of the first entry to collect.
        nodes_from: LSN from which nodes are collected.
        next_lsn: LSN after the last entry.
        end_lsn: LSN of the last CkptEnd; NULL_LSN without one.
    """

    starts: dict[int, int]
    first_lsn: int
    nodes_from: int
    next_lsn: int
    end_lsn: int

    def __call__(self, rows: Rows) -> _Found:
        found = _Found()
        lsn = rows.lsn
        keep = (lsn >= self.first_lsn) & (lsn < self.next_lsn)
        # Engines from 18.3 on check the sums of whole files, so damage before first_lsn counts.
        bad = np.flatnonzero((lsn < self.next_lsn) & ~rows.good).tolist()
        found.damaged = [(int(lsn[row]), rows.size_of(row)) for row in bad]
        keep &= rows.good
        for mask, add in (
            (_IS_LN, self._add_lns),
            (_IS_NODE, self._add_nodes),
            (_IS_END, self._add_ends),
        ):
            wanted = np.flatnonzero(keep & mask[rows.type])
            for first in range(0, len(wanted), MAX_ROWS):
                add(rows.take(wanted[first : first + MAX_ROWS]), found)
        for row in np.flatnonzero(keep & _IS_ROLLBACK[rows.type]).tolist():
            found.rollbacks.append((int(lsn[row]), int(rows.type[row]), dict(rows.fields(row))))
        for row in np.flatnonzero(keep & _IS_PREPARE[rows.type]).tolist():
            said = rows.fields(row)
            found.prepared += [said["txn_id"]] if "txn_id" in said else []
        return found

    def _add_lns(self, rows: Rows, found: _Found) -> None:
        table = build_table(rows, wanted=_WANTED)
        flags = np.where(table.data_size < 0, DELETED, 0)
        flags |= np.where(_IS_TXN_LN[rows.type], TRANSACTIONAL, 0)
        flags |= np.where(rows.invisible, INVISIBLE, 0) | np.where(rows.replicated, REPLICATED, 0)
        position = table.key_start + (self.starts[rows.file_no] + rows.base)
        usable = table.has_db & (table.key_size >= 0)
        lns = Lns(
            rows.lsn,
            # Copy: as views these columns would keep arrays alive that are many times as large.
            table.db_id.copy(),
            table.txn_id.copy(),
            position,
            table.key_size.astype(np.int32),
            flags.astype(np.uint8),
        )
        found.lns.append(lns if usable.all() else lns.take(usable))

    def _add_nodes(self, rows: Rows, found: _Found) -> None:
        lsn = rows.lsn
        unfinished = (rows.flags & h.PROVISIONAL_BEFORE_CKPT_END != 0) & (lsn < self.end_lsn)
        provisional = (rows.flags & h.PROVISIONAL_YES != 0) | unfinished
        rows = rows.take(~provisional & (lsn >= self.nodes_from))
        for family, wanted in (
            (Family.NODE, _NODE_WANTED),
            (Family.OLD_DELTA, _OLD_DELTA_WANTED),
        ):
            of_family = np.isin(
                rows.type, [t.no for t in ENTRY_TYPES.values() if t.family is family]
            )
            some = rows.take(of_family)
            if not len(some):
                continue
            decoded = decode(some, family, wanted=wanted)
            head = decoded.fields
            if not head.has("db_id"):
                continue
            in_image = self.starts[rows.file_no] + rows.base
            add = _old_deltas if family is Family.OLD_DELTA else _nodes
            nodes = add(some, head, in_image)
            # The engine skips a bottom node that is marked as a root.
            kept = ~decoded.bad & ~(nodes.is_root & _IS_BOTTOM[some.type])
            found.nodes.append(nodes.take(kept))

    def _add_ends(self, rows: Rows, found: _Found) -> None:
        decoded = decode(rows, Family.TXN_END)
        head = decoded.fields
        if head.has("txn_id"):
            txn_id, time_ms = head.number("txn_id").copy(), head.number("time_ms").copy()
            ends = TxnEnds(rows.lsn, txn_id, time_ms, rows.type == COMMIT_NO)
            found.ends.append(ends)


def _nodes(rows: Rows, head: Columns, in_image: int) -> LoggedNodes:
    position, size = head.span("identifier_key")
    return LoggedNodes(
        rows.lsn,
        head.number("db_id").copy(),
        head.number("node_id").copy(),
        position + in_image,
        size.astype(np.int32),
        (head.number("level") & LEVEL_MASK).astype(np.int32),
        (head.number("booleans") & IS_ROOT != 0) & _HAS_ROOT_MARK[rows.type],
        np.zeros(len(rows), np.bool_),
    )


def _old_deltas(rows: Rows, head: Columns, in_image: int) -> LoggedNodes:
    n = len(rows)
    return LoggedNodes(
        rows.lsn,
        head.number("db_id").copy(),
        head.number("last_full_lsn").copy(),
        np.full(n, in_image),
        np.full(n, -1, np.int32),
        np.zeros(n, np.int32),
        np.zeros(n, np.bool_),
        np.ones(n, np.bool_),
    )


def read_interval(
    environment: Environment,
    files: Sequence[LogFile],
    image: Image,
    scanner: Scanner,
    *,
    first_lsn: int,
    nodes_from: int,
    last_lsn: int | None,
    next_lsn: int,
    end_lsn: int,
) -> Interval:
    """Read the entries that recovery replays.

    Args:
        environment: the log.
        files: its files, up to the one in which the log ends.
        image: image of these files.
        scanner: settings for reading them.
        first_lsn: LSN of the first entry to read.
        nodes_from: LSN from which nodes count.
        last_lsn: LSN of the last entry; None if no recovery reads these bytes.
        next_lsn: LSN after the last entry.
        end_lsn: LSN of the last CkptEnd; NULL_LSN without one.
    """
    some = tuple(file for file in files if file.file_no >= first_lsn >> 32)
    starts = dict(zip(image.file_nos.tolist(), image.starts.tolist(), strict=True))
    work = _Collector(starts, first_lsn, nodes_from, next_lsn, end_lsn)
    found = _read_all(replace(environment, files=some), work, scanner)
    lns, all_ends = _joined(found.lns, _NO_LNS), _joined(found.ends, _NO_ENDS)
    backward = STRAIGHT
    # With damage the engine does not open the log at all, so the path does not matter.
    is_broken = any(lsn > first_lsn for lsn in found.break_lsns)
    if is_broken and not found.damaged and last_lsn is not None:
        backward = walk_backward(environment, some, scanner, first_lsn=first_lsn, last_lsn=last_lsn)
        lns.flags[backward.misses(lns.lsn)] |= SKIPPED
    missed = backward.misses(all_ends.lsn)
    ends = all_ends.take(~missed)
    _mark_committed(lns, ends)
    return Interval(
        lns,
        _joined(found.nodes, _NO_NODES),
        ends,
        _periods(each for each in found.rollbacks if not backward.misses_one(each[0])),
        frozenset(each for each in found.prepared if not (ends.txn_id == each).any()),
        tuple(found.damaged),
        backward,
        all_ends.take(missed),
        tuple(found.break_lsns),
    )


def _read_all(environment: Environment, work: _Collector, scanner: Scanner) -> _Found:
    """Read all files of an environment; also find damage, and broken links between files."""
    all_found = _Found()
    last_offset, last_file_no = NO_OFFSET, NO_OFFSET
    # Wide ranges would take more memory than the whole result.
    for part in scanner.stepping().scan(environment, work):
        base = h.lsn_of(part.file.file_no, 0)
        all_found.damaged += [
            (base + gap.start, gap.stop - gap.start)
            for gap in part.gaps
            if base + gap.start < work.next_lsn
        ]
        all_found.break_lsns += [
            base + each.offset for each in part.chain_breaks if base + each.offset < work.next_lsn
        ]
        named = part.file.header.last_entry_in_prev_file_offset
        if last_file_no == part.file.file_no - 1 and last_offset not in (NO_OFFSET, named):
            all_found.break_lsns.append(base)
        end = part.end
        if end is not None:
            last_offset, last_file_no = end.last, part.file.file_no
        is_last = part.file is environment.files[-1]
        if end is not None and end.tail < end.size and not is_last:
            all_found.damaged.append((base + end.tail, end.size - end.tail))
        for found in part.results:
            for name, rows in asdict(found).items():
                getattr(all_found, name).extend(rows)
    # The buffers of the threads are free, but malloc holds on to them.
    give_back_memory()
    return all_found


T = TypeVar("T", Lns, LoggedNodes, TxnEnds)

_GIVEN_BACK_FROM = 1 << 20
"""Least size of a column, in bytes, for which giving memory back is worth the time."""

_NONE, _FALSE = np.empty(0, np.int64), np.empty(0, np.bool_)
_NO_LNS = Lns(_NONE, _NONE, _NONE, _NONE, np.empty(0, np.int32), np.empty(0, np.uint8))
_NO_NODES = LoggedNodes(
    _NONE, _NONE, _NONE, _NONE, np.empty(0, np.int32), np.empty(0, np.int32), _FALSE, _FALSE
)
_NO_ENDS = TxnEnds(_NONE, _NONE, _NONE, _FALSE)


def _joined(parts: list[T], none: T) -> T:
    """Concatenate the parts; empty the list, and free each of their columns once it is copied."""
    if not parts:
        return none
    columns = {name: [getattr(part, name) for part in parts] for name in none.__struct_fields__}
    parts.clear()
    joined = {}
    for name in none.__struct_fields__:
        joined[name] = np.concatenate(columns.pop(name))
        if joined[name].nbytes >= _GIVEN_BACK_FROM:
            # malloc would hold on to the memory of many small arrays.
            give_back_memory()
    return type(none)(**joined)


def _mark_committed(lns: Lns, ends: TxnEnds) -> None:
    """Mark the LNs of committed transactions, in batches.

    Batches are in log order, where nearby ids follow each other, so that searches hit the cache.
    """
    committed = np.sort(ends.txn_id[ends.is_commit])
    for first in range(0, len(lns) if len(committed) else 0, _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        ids = lns.txn_id[some]
        at = np.minimum(np.searchsorted(committed, ids), len(committed) - 1)
        lns.flags[some] |= np.where(committed[at] == ids, COMMITTED, 0).astype(np.uint8)


def _periods(
    rollbacks: Iterable[tuple[int, int, dict[str, object]]],
) -> tuple[RollbackPeriod, ...]:
    """Build periods from RollbackStarts and RollbackEnds, in the order of their starts."""
    found: dict[int, RollbackPeriod] = {}
    for lsn, type_no, said in rollbacks:
        if "matchpoint_lsn" not in said:
            continue
        matchpoint = int(str(said["matchpoint_lsn"]))
        if type_no == ROLLBACK_START_NO:
            ids = frozenset(said["active_txns"])  # type: ignore[call-overload]
            found[lsn] = RollbackPeriod(matchpoint, lsn, NULL_LSN, ids)
        else:
            start = int(str(said["rollback_start_lsn"]))
            known = found.get(start) or RollbackPeriod(matchpoint, start, NULL_LSN, None)
            found[start] = replace(known, end_lsn=lsn)
    return tuple(found[start] for start in sorted(found))
