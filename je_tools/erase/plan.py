"""Plan of an erasure: what would be overwritten in each file, what stays, and why.

Source: je-log.md "Data eraser"; DataEraser.startCycle and eraseFile, JE 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.erase.cycle import choose_cycle
from je_tools.erase.judging import (
    IN_KIND_BELOW,
    ErasureRules,
    ReasonTotals,
    count_held,
    judge,
)
from je_tools.erase.needed_entries import needed_entries
from je_tools.erase.options import BATCH_MAX
from je_tools.erase.preconditions import obstacles, replays_nodes
from je_tools.erase.reasons import KeepReason
from je_tools.erase.rewritten_databases import rewritable
from je_tools.erase.vlsn_head import choose_head
from je_tools.formats.je.flags import CkptEndFlag
from je_tools.formats.je.header import lsn_of
from je_tools.formats.je.log.walk import erased_no
from je_tools.recovery.internal_databases import is_replicated
from je_tools.recovery.utilization import reserved_files
from je_tools.vlsn.index_state import read_index_state

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from je_tools.erase.cycle import EraserCycle
    from je_tools.erase.options import ErasureOptions
    from je_tools.erase.preconditions import ErasureObstacle
    from je_tools.erase.vlsn_head import VlsnHead
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.log_files import LogFile
    from je_tools.recovery.snapshot import Snapshot


class FileErasure(Struct, frozen=True):
    """Erasure of one file.

    Attributes:
        file: the file.
        totals: its entries by reason.
        kept: reason why the file stays as it is; None if entries of it are overwritten.
        is_deleted: True if the whole file is deleted, since the cleaner has reserved it.
    """

    file: LogFile
    totals: ReasonTotals
    kept: KeepReason | None
    is_deleted: bool

    @property
    def is_in_kind(self) -> bool:
        """True if entries keep their type: engines of this log version know no erased entries."""
        return self.file.version < IN_KIND_BELOW

    @property
    def fsync_count(self) -> int:
        """Number of fsyncs for the file, as many as the engine's eraser makes.

        In kind, there is one for the redo journal and one for the file.
        """
        count = self.totals.erase_count
        if not count or self.is_deleted:
            return 0
        return 2 if self.is_in_kind else 1 + 2 * -(-count // BATCH_MAX)


class ErasurePlan(Struct, frozen=True):
    """Plan of an erasure.

    Attributes:
        files: the files in log order.
        rules: the rules that decide about each entry.
        obstacles: reasons not to erase anything; usually none.
        head: VLSNs that are given up; None if the log has no VLSN index.
        needs_checkpoint: True if a checkpoint is written before anything is erased.
        cycle: cycle of the eraser; None if all files are erased at once.
        rewritten: ids of databases whose trees the checkpoint writes anew.
    """

    files: tuple[FileErasure, ...]
    rules: ErasureRules
    obstacles: tuple[ErasureObstacle, ...]
    head: VlsnHead | None
    needs_checkpoint: bool
    cycle: EraserCycle | None
    rewritten: frozenset[int]

    @property
    def is_in_kind(self) -> bool:
        """True if engines of the log's version know no erased entries."""
        return self.files[-1].is_in_kind

    @property
    def totals(self) -> ReasonTotals:
        """Entries of all files that are not deleted, by reason."""
        total = ReasonTotals()
        for each in self.files:
            if not each.is_deleted:
                total.merge(each.totals)
        return total

    @property
    def deleted(self) -> list[LogFile]:
        """Reserved files to delete."""
        return [each.file for each in self.files if each.is_deleted]

    @property
    def work_size(self) -> int:
        """Bytes of the files in which entries are overwritten, and of those that are deleted."""
        return sum(each.file.size for each in self.files if each.is_deleted or each.fsync_count)

    def throttled_seconds(self, rate: int | None, now_ms: int) -> float | None:
        """Return the time that a throttle gives the erasure; None without throttle or work.

        Args:
            rate: bytes of files per second; None to spread the work over a cycle.
            now_ms: current time.
        """
        if not self.work_size:
            return None
        if rate is not None:
            return self.work_size / rate
        if self.cycle is not None:
            return max(self.cycle.state.end_ms - now_ms, 0) / 1000
        return None

    @property
    def fsync_count(self) -> int:
        """Number of times that files are made durable while entries are overwritten."""
        return sum(each.fsync_count for each in self.files)


def plan_erasure(
    snapshot: Snapshot, options: ErasureOptions, *, is_checkpointed: bool = False
) -> ErasurePlan:
    """Return what an erasure would do; nothing is written.

    With `checkpoint_first`, the plan is for the log after the checkpoint that will be written. The
    entries that this checkpoint makes obsolete are not in it.

    Args:
        snapshot: the log as recovery leaves it; all its trees are read.
        options: options.
        is_checkpointed: True if the checkpoint that `checkpoint_first` asks for has been written,
            or none was needed.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
        UsageError: there is no database with a name in `options.rewritten`.
        RefusedError: the tree of a database in `options.rewritten` cannot be written anew.
    """
    needed = needed_entries(snapshot)
    cycle = None if options.period_ms is None else choose_cycle(snapshot, options.period_ms)
    kept_files = _kept_files(snapshot, options, cycle)
    last = snapshot.end.files[-1]
    last_file_no, is_in_kind = last.file_no, last.version < IN_KIND_BELOW
    to_come = options.checkpoint_first and not is_checkpointed
    now_lsn = _cutoff(snapshot)
    cutoff_lsn = snapshot.end.next_lsn if to_come else now_lsn
    head = _head(snapshot, options, kept_files, cutoff_lsn)
    rules = ErasureRules(
        cutoff_lsn=cutoff_lsn,
        tail_lsn=min(now_lsn, lsn_of(last_file_no, 0)) if is_in_kind else now_lsn,
        needed=needed,
        db_ids=np.array(sorted(snapshot.databases), np.int64),
        duplicates_ids=_duplicates(snapshot),
        unordered_ids=_unordered(snapshot),
        # The checkpoint that is still to be written begins another file.
        last_file_no=last_file_no + 1 if to_come else last_file_no,
        now_ms=snapshot.now_ms,
        vlsn_min=None if head is None else max(head.after.range.first, 0),
        kept_files=kept_files,
        interrupted=options.interrupted,
    )
    reserved = frozenset() if options.keep_reserved else frozenset(reserved_files(snapshot))
    totals, damaged_count = count_reasons(snapshot, rules, reserved)
    files = tuple(_file(file, totals[file.file_no], rules, reserved) for file in snapshot.end.files)
    found = obstacles(snapshot, damaged_count)
    if options.checkpoint_first:
        found = [each for each in found if not each.is_mended_by_checkpoint]
    rewritten = rewritable(snapshot, options.rewritten)
    has_work = any(each.is_deleted or each.fsync_count for each in files)
    needs_checkpoint = bool(rewritten) or (has_work and _needs_checkpoint(snapshot, head))
    needs_checkpoint |= to_come and any(each.tail_count for each in totals.values())
    return ErasurePlan(files, rules, tuple(found), head, needs_checkpoint, cycle, rewritten)


def count_reasons(
    snapshot: Snapshot, rules: ErasureRules, reserved: Collection[int] = ()
) -> tuple[dict[int, ReasonTotals], int]:
    """Return the entries of each file by reason, and the number of damaged places in all files.

    An erased entry that a tree needs is damage.

    Args:
        snapshot: the log.
        rules: the rules.
        reserved: numbers of the files that the cleaner has reserved.
    """
    totals = {file.file_no: ReasonTotals() for file in snapshot.environment.files}
    damaged_count = 0

    def count(every: Rows) -> tuple[int, ReasonTotals, int]:
        rows = every.without_damaged()
        bad_count = len(every) - len(rows)
        erased = rows.offset[rows.type == erased_no(rows.version)]
        bad_count += int(np.count_nonzero(rules.needed.contains(rows.file_no, erased)))
        counted = ReasonTotals.of(rows, judge(rows, rules), rules)
        if rows.file_no in reserved:
            counted.held_count = count_held(rows, rules)
        return rows.file_no, counted, bad_count

    for part in snapshot.scanner.scan(snapshot.environment, count):
        for file_no, counted, bad_count in part.results:
            totals[file_no].merge(counted)
            damaged_count += bad_count
        damaged_count += len(part.gaps) + len(part.chain_breaks)
    return totals, damaged_count


def _cutoff(snapshot: Snapshot) -> int:
    """Return the LSN from which recovery reads entries after the last checkpoint."""
    checkpoint = snapshot.checkpoint
    return max(min(checkpoint.first_active_lsn, checkpoint.start_lsn), 0)


def _duplicates(snapshot: Snapshot) -> Ints:
    """Return the ids of databases with duplicates."""
    databases = snapshot.databases.items()
    return np.array(sorted(no for no, each in databases if each.has_duplicates), np.int64)


def _head(
    snapshot: Snapshot,
    options: ErasureOptions,
    kept_files: Mapping[int, KeepReason],
    cutoff_lsn: int,
) -> VlsnHead | None:
    if not is_replicated(snapshot):
        return None
    index = read_index_state(snapshot).usable
    chosen = {file.file_no for file in snapshot.end.files} - kept_files.keys()
    return choose_head(index, cutoff_lsn, max(chosen, default=-1), options)


def _needs_checkpoint(snapshot: Snapshot, head: VlsnHead | None) -> bool:
    """Return True if the log needs a checkpoint of our own before it is erased."""
    if snapshot.checkpoint.end_lsn != snapshot.end.last_lsn or replays_nodes(snapshot):
        return True
    if head is None:
        return False
    is_marked = bool(int(snapshot.checkpoint.fields.get("flags", 0)) & CkptEndFlag.CLEANED_FILES_GO)
    return head.last_gone is not None or not is_marked


def _unordered(snapshot: Snapshot) -> Ints:
    """Return the ids of databases with comparators of their application that have changes."""
    return np.array(
        sorted(
            db_id
            for db_id, database in snapshot.databases.items()
            if database.comparators and snapshot.is_changed(db_id)
        ),
        np.int64,
    )


def _kept_files(
    snapshot: Snapshot, options: ErasureOptions, cycle: EraserCycle | None
) -> dict[int, KeepReason]:
    """Return the files that stay as they are, with the reason."""
    kept = {} if cycle is None else cycle.kept_files(snapshot)
    kept |= dict.fromkeys(options.protected, KeepReason.PROTECTED)
    for file in snapshot.environment.files:
        if file.path.is_symlink():
            kept[file.file_no] = KeepReason.SYMBOLIC_LINK
        elif file.path.stat().st_nlink > 1:
            kept[file.file_no] = KeepReason.HARD_LINK
    return kept


def _file(
    file: LogFile, totals: ReasonTotals, rules: ErasureRules, reserved: Collection[int]
) -> FileErasure:
    kept = rules.kept_files.get(file.file_no)
    is_deleted = file.file_no in reserved and not totals.held_count and kept is None
    return FileErasure(file, totals, kept, is_deleted)
