"""Truncation of a log: whether it may be cut at an entry, and which Commits that would remove.

Source: DbTruncateLog, VLSNIndex and TxnCommit's dtvlsn, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.checkpoint.contents import INVOKER
from je_tools.checkpoint.log_end import files_after
from je_tools.core.escaping import counted, quoted
from je_tools.errors import RefusedError
from je_tools.formats.je.entry.columns import MAX_ROWS, decode
from je_tools.formats.je.header import FILE_HEADER_SIZE, lsn_of, lsn_text
from je_tools.formats.je.types import COMMIT_NO, Family
from je_tools.recovery.end import EndReason, find_checkpoint, find_end
from je_tools.recovery.internal_databases import is_replicated

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.recovery.snapshot import Snapshot


class GroupCommits(Struct, frozen=True):
    """Commits of the replication group after the end of a log, which a truncation would remove.

    Attributes:
        entry_count: number of replicated entries, Commits and others.
        commit_count: number of Commits.
        durable_count: number of Commits up to `dtvlsn`.
        dtvlsn: highest dtvlsn in these Commits: a majority of the group has everything up to it; 0
            if unknown.
    """

    entry_count: int
    commit_count: int
    durable_count: int
    dtvlsn: int


def was_cut_there(environment: Environment, scanner: Scanner, to_lsn: int) -> bool:
    """Return True if a log has already been cut back to an entry: only our checkpoint follows it.

    Args:
        environment: the log.
        scanner: scanner for reading the log.
        to_lsn: LSN of the entry.
    """
    scanner = replace(scanner, progress=None)
    whole = find_end(environment, scanner)
    if whole.refusal is not None or not whole.files:
        return False
    checkpoint, _ = find_checkpoint(environment, whole, scanner)
    invoker = checkpoint.fields.get("invoker")
    if checkpoint.end_lsn != whole.last_lsn or invoker != INVOKER:
        return False
    end = find_end(environment, scanner, to_lsn)
    if not end.last_lsn <= to_lsn < end.next_lsn:
        return False
    next_lsns = {end.next_lsn}
    if not end.cut_size:
        next_lsns.add(lsn_of(end.files[-1].file_no + 1, FILE_HEADER_SIZE))
    return checkpoint.start_lsn in next_lsns


def check_reached(snapshot: Snapshot, to_lsn: int) -> None:
    """Check that the log reaches the entry with which it is to end.

    Args:
        snapshot: the log up to the entry.
        to_lsn: LSN of the entry.

    Raises:
        RefusedError: it ends before that, at damage or at a missing file.
    """
    end = snapshot.end
    if to_lsn < end.next_lsn or any(each.file.file_no == to_lsn >> 32 for each in end.skipped):
        return
    name = snapshot.environment.name
    raise RefusedError(
        f"{name}: the log ends at {lsn_text(end.next_lsn)}, before the chosen end "
        f"{lsn_text(to_lsn)}. The bytes after that are damaged or no entry, and the engine "
        f"does not read past them. `je-tools recover {quoted(name)}` lists the Commits after "
        f"the damage, and `je-tools salvage {quoted(name)} --output DIR` gets records out. To "
        "cut the log at the damage, omit the earlier end."
    )


def check_state(snapshot: Snapshot) -> None:
    """Check that all records of a log up to an earlier end can still be read.

    Raises:
        RefusedError: some are gone.
    """
    name = snapshot.environment.name
    scanner = snapshot.scanner.staged("check the rest", 0)
    for database in list(snapshot.databases.values()):
        for batch in snapshot.records(database):
            scanner.advance(int(batch.key.sizes.sum() + batch.data.sizes.clip(0).sum()))
    if snapshot.faults.damage:
        first = snapshot.faults.damage[0]
        last = lsn_text(snapshot.end.last_lsn)
        raise RefusedError(
            f"{name}: the log no longer holds the whole state at {last}: the entry at "
            f"{lsn_text(first.lsn)} is lost ({first.kind}). The cleaner removes entries that "
            f"are not in use. `je-tools export {quoted(name)} --all --to-lsn {last}` gets out "
            "the remaining records, and reports the lost ones. Choose a later end, or "
            "restore a backup."
        )


FORCE_ADVICE = "If you want that, add --force."


def group_refusal(snapshot: Snapshot) -> str | None:
    """Return the reason not to cut a member of a replication group unless forced.

    Args:
        snapshot: the log up to the cut: an earlier end, or damage.

    Returns:
        The reason; None if nothing is cut, if the environment is not a member of a group, or if a
        cut at damage removes no Commits of the group.
    """
    end = snapshot.end
    is_chosen = end.reason is EndReason.CHOSEN
    is_damaged = end.reason is EndReason.DAMAGED and len(end.commits_after_end)
    is_less = end.cut_size or files_after(snapshot)
    if not is_less or not (is_chosen or is_damaged):
        return None
    cut = group_commits_after(snapshot)
    # The part that stays may end before the environment became a member.
    if not (is_replicated(snapshot) or cut.entry_count):
        return None
    if not is_chosen and not cut.commit_count:
        return None
    durable = ""
    if cut.durable_count:
        durable = (
            f" {cut.durable_count:,} of the {cut.commit_count:,} Commits that would be lost were "
            f"acknowledged by a majority (dtvlsn {cut.dtvlsn}), so applications rely on them."
        )
    elif cut.commit_count:
        durable = f" {counted(cut.commit_count, 'Commit')} of the group would be lost."
    return (
        f"{snapshot.environment.name}: the environment is a member of a replication "
        f"group.{durable} When the node starts again, a master that has the lost entries "
        "sends them. If this node becomes the master, the other nodes roll those entries "
        "back, or refuse to start."
    )


def group_commits_after(snapshot: Snapshot) -> GroupCommits:
    """Count the Commits of the group after the end of a log, and those that a majority has."""
    end = snapshot.end
    files = (end.files[-1], *files_after(snapshot))
    work = _Commits(end.next_lsn)
    size = sum(file.size for file in files)
    scanner = snapshot.scanner.staged("read the loss", size)
    count, vlsns, dtvlsns = 0, [_NONE], [_NONE]
    for part in scanner.scan(replace(snapshot.environment, files=files), work):
        for entry_count, vlsn, dtvlsn in part.results:
            count += entry_count
            vlsns.append(vlsn)
            dtvlsns.append(dtvlsn)
    vlsn = np.concatenate(vlsns)
    highest = int(np.concatenate(dtvlsns).max(initial=0))
    return GroupCommits(count, len(vlsn), int(np.count_nonzero(vlsn <= highest)), highest)


_NONE = np.empty(0, np.int64)


class _Commits(Struct, frozen=True):
    """Work for a scan: count replicated entries from an LSN on; collect VLSN, dtvlsn of Commits."""

    from_lsn: int

    def __call__(self, rows: Rows) -> tuple[int, Ints, Ints]:
        of_group = rows.good & rows.replicated & ~rows.invisible & (rows.lsn >= self.from_lsn)
        own = np.flatnonzero(of_group & (rows.type == COMMIT_NO))
        vlsns, dtvlsns = [_NONE], [_NONE]
        for first in range(0, len(own), MAX_ROWS):
            some = rows.select(own[first : first + MAX_ROWS])
            decoded = decode(some, Family.TXN_END, wanted=frozenset({"dtvlsn"}))
            vlsns.append(some.vlsn[~decoded.bad])
            dtvlsns.append(decoded.fields.known("dtvlsn")[~decoded.bad])
        return int(np.count_nonzero(of_group)), np.concatenate(vlsns), np.concatenate(dtvlsns)
