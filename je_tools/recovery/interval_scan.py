"""Entries of an interval collected by a scan of the log, in threads.

The columns hold only numbers of each LN: the position of its key, not the key.

Source: je-log.md "Recovery"; RecoveryManager.buildTree, UndoReader, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import asdict

from je_tools.core.memory import give_back_memory
from je_tools.formats.je import header as h
from je_tools.formats.je.btree.nodes import BIN_NO, DELTA_NO, IN_NO
from je_tools.formats.je.entry.columns import MAX_ROWS, Columns, decode
from je_tools.formats.je.flags import LEVEL_MASK, HeaderFlag, NodeFlag
from je_tools.formats.je.log.walk import NO_OFFSET
from je_tools.formats.je.types import (
    ABORT_NO,
    BY_NAME,
    COMMIT_NO,
    ENTRY_TYPES,
    IS_LN,
    IS_NODE,
    ROLLBACK_START_NO,
    Family,
    Group,
    mask_of,
)
from je_tools.log.entry_table import build_table
from je_tools.recovery.interval_tables import (
    DELETED,
    INVISIBLE,
    REPLICATED,
    TRANSACTIONAL,
    Lns,
    LoggedNodes,
    TxnEnds,
)

if TYPE_CHECKING:
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner

_ROLLBACK_NOS = (ROLLBACK_START_NO, BY_NAME["RollbackEnd"].no)

_IS_TXN_LN = mask_of(
    each.no for each in ENTRY_TYPES.values() if Group.LN in each.groups and each.transactional
)


_IS_BOTTOM = mask_of((BIN_NO, DELTA_NO))

_HAS_ROOT_MARK = mask_of((IN_NO, BIN_NO, DELTA_NO))

_IS_END = mask_of((COMMIT_NO, ABORT_NO))

_IS_ROLLBACK = mask_of(_ROLLBACK_NOS)

_IS_PREPARE = mask_of((BY_NAME["Prepare"].no,))

_WANTED = frozenset({"db_id", "txn_id", "key", "data"})

_NODE_WANTED = frozenset({"db_id", "node_id", "booleans", "identifier_key", "level"})

_OLD_DELTA_WANTED = frozenset({"db_id", "last_full_lsn"})


class FoundEntries(Struct):
    """Entries of an interval, and places of damage, found in a part of the log.

    Attributes:
        rollbacks: LSN, type number and fields of RollbackStarts and RollbackEnds.
        prepared: ids of transactions with a Prepare.
        damaged, break_lsns: as in `ReplayInterval`.
    """

    lns: list[Lns] = field(default_factory=list)
    nodes: list[LoggedNodes] = field(default_factory=list)
    ends: list[TxnEnds] = field(default_factory=list)
    rollbacks: list[tuple[int, int, dict[str, object]]] = field(default_factory=list)
    prepared: list[int] = field(default_factory=list)
    damaged: list[tuple[int, int]] = field(default_factory=list)
    break_lsns: list[int] = field(default_factory=list)


class IntervalCollector(Struct, frozen=True):
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

    def __call__(self, rows: Rows) -> FoundEntries:
        """Return the entries of some rows."""
        found = FoundEntries()
        lsn = rows.lsn
        keep = (lsn >= self.first_lsn) & (lsn < self.next_lsn)
        # Engines from 18.3 on check the sums of whole files, so damage before first_lsn counts.
        bad = np.flatnonzero((lsn < self.next_lsn) & ~rows.good).tolist()
        found.damaged = [(int(lsn[row]), rows.size_of(row)) for row in bad]
        keep &= rows.good
        for mask, add in (
            (IS_LN, self._add_lns),
            (IS_NODE, self._add_nodes),
            (_IS_END, self._add_ends),
        ):
            wanted = np.flatnonzero(keep & mask[rows.type])
            for first in range(0, len(wanted), MAX_ROWS):
                add(rows.select(wanted[first : first + MAX_ROWS]), found)
        for row in np.flatnonzero(keep & _IS_ROLLBACK[rows.type]).tolist():
            found.rollbacks.append((int(lsn[row]), int(rows.type[row]), dict(rows.fields(row))))
        for row in np.flatnonzero(keep & _IS_PREPARE[rows.type]).tolist():
            fields = rows.fields(row)
            found.prepared += [fields["txn_id"]] if "txn_id" in fields else []
        return found

    def _add_lns(self, rows: Rows, found: FoundEntries) -> None:
        table = build_table(rows, wanted=_WANTED)
        flags = np.where(table.data_size < 0, DELETED, 0)
        flags |= np.where(_IS_TXN_LN[rows.type], TRANSACTIONAL, 0)
        flags |= np.where(rows.invisible, INVISIBLE, 0) | np.where(rows.replicated, REPLICATED, 0)
        position = table.key_start + (self.starts[rows.file_no] + rows.base)
        usable = table.has_db & (table.key_size >= 0)
        lns = Lns(
            rows.lsn,
            # As views, these columns would keep arrays alive that are many times as large.
            table.db_id.copy(),
            table.txn_id.copy(),
            position,
            table.key_size.astype(np.int32),
            flags.astype(np.uint8),
        )
        found.lns.append(lns if usable.all() else lns.select(usable))

    def _add_nodes(self, rows: Rows, found: FoundEntries) -> None:
        lsn = rows.lsn
        unfinished = (rows.flags & HeaderFlag.PROVISIONAL_BEFORE_CKPT_END.value != 0) & (
            lsn < self.end_lsn
        )
        provisional = (rows.flags & HeaderFlag.PROVISIONAL_YES.value != 0) | unfinished
        rows = rows.select(~provisional & (lsn >= self.nodes_from))
        for family, wanted in (
            (Family.NODE, _NODE_WANTED),
            (Family.OLD_DELTA, _OLD_DELTA_WANTED),
        ):
            of_family = np.isin(
                rows.type, [t.no for t in ENTRY_TYPES.values() if t.family is family]
            )
            some = rows.select(of_family)
            if not len(some):
                continue
            decoded = decode(some, family, wanted=wanted)
            head = decoded.fields
            if not head.has("db_id"):
                continue
            in_image = self.starts[rows.file_no] + rows.base
            add = _old_deltas if family is Family.OLD_DELTA else _node_rows
            nodes = add(some, head, in_image)
            # The engine skips a bottom node that is marked as a root.
            kept = ~decoded.bad & ~(nodes.is_root & _IS_BOTTOM[some.type])
            found.nodes.append(nodes.select(kept))

    def _add_ends(self, rows: Rows, found: FoundEntries) -> None:
        decoded = decode(rows, Family.TXN_END)
        head = decoded.fields
        if head.has("txn_id"):
            txn_id, time_ms = head.number("txn_id").copy(), head.number("time_ms").copy()
            ends = TxnEnds(rows.lsn, txn_id, time_ms, rows.type == COMMIT_NO)
            found.ends.append(ends)


def _node_rows(rows: Rows, head: Columns, in_image: int) -> LoggedNodes:
    position, size = head.span("identifier_key")
    return LoggedNodes(
        rows.lsn,
        head.number("db_id").copy(),
        head.number("node_id").copy(),
        position + in_image,
        size.astype(np.int32),
        (head.number("level") & LEVEL_MASK).astype(np.int32),
        (head.number("booleans") & NodeFlag.ROOT != 0) & _HAS_ROOT_MARK[rows.type],
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


def scan_interval(
    environment: Environment, work: IntervalCollector, scanner: Scanner
) -> FoundEntries:
    """Read all files of an environment with `work`, and find damage and broken links.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    all_found = FoundEntries()
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
    if scanner.threads_for(environment.size) > 1:
        # The buffers of the threads are free, but malloc holds on to them.
        give_back_memory()
    return all_found
