"""What may be cut off a log, and what that takes away.

Source: DbTruncateLog, VLSNIndex and TxnCommit's dtvlsn, JE 18.3.12.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from je_tools.environment import LogFile
from je_tools.errors import RefusedError
from je_tools.formats.arrays import Ints
from je_tools.formats.je.columns import MAX_ROWS, decode
from je_tools.formats.je.header import lsn_text
from je_tools.formats.je.reader import Rows
from je_tools.formats.je.types import COMMIT_NO, Family
from je_tools.snapshot import REPLICATED_ENV, Snapshot


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Commits of the group behind the end of a log.

    Attributes:
        commit_count: all of them.
        durable_count: those that a majority has, as later Commits say.
        dtvlsn: up to which VLSN it has them; 0 where nothing is known.
    """

    commit_count: int
    durable_count: int
    dtvlsn: int


def files_behind(snapshot: Snapshot) -> tuple[LogFile, ...]:
    """Files behind the one in which the log ends."""
    last = snapshot.end.files[-1].file_no
    return tuple(file for file in snapshot.environment.files if file.file_no > last)


def is_replicated(snapshot: Snapshot) -> bool:
    """Whether the environment is a member of a replication group."""
    root = snapshot.entry(snapshot.checkpoint.root_lsn)
    return root is not None and bool(root.fields.get("flags", 0) & REPLICATED_ENV)


def check_cut(snapshot: Snapshot, *, force: bool) -> None:
    """Make sure that a log may be cut back to an earlier point.

    Args:
        snapshot: the log as it would be then.
        force: also where the group has what is cut off.

    Raises:
        RefusedError: it may not, or the log does not have all of that state any more.
    """
    name = snapshot.environment.name
    for database in list(snapshot.databases.values()):
        for _ in snapshot.records(database):
            pass
    if snapshot.faults.damage:
        first = snapshot.faults.damage[0]
        raise RefusedError(
            f"{name}: the log does not hold all of the state at {lsn_text(snapshot.end.last_lsn)} "
            f"any more: what was at {lsn_text(first.lsn)} is gone ({first.kind}), as the cleaner "
            "takes away what nobody needs. `je-tools verify --tree` with the same end tells all "
            "of it, `je-tools export` what is there. Cut back less far, or take a backup."
        )
    if not is_replicated(snapshot) or force:
        return
    told = acknowledged_behind(snapshot)
    durable = ""
    if told.durable_count:
        durable = (
            f" {told.durable_count:,} of the {told.commit_count:,} Commits that would go were "
            f"acknowledged by a majority (dtvlsn {told.dtvlsn}), so applications count on them."
        )
    raise RefusedError(
        f"{name}: a member of a replication group.{durable} When it starts again, a master sends "
        "it what was cut off, if it has that; where this node becomes the master, the others "
        "roll back what it does not have, or refuse to start. If that is what you want, add "
        "--force."
    )


def acknowledged_behind(snapshot: Snapshot) -> Acknowledged:
    """What the Commits behind the end of a log say."""
    end = snapshot.end
    files = (end.files[-1], *files_behind(snapshot))
    work = _Commits(end.next_lsn, snapshot.fast)
    scanner = replace(snapshot.scanner, progress=None)
    vlsns, dtvlsns = [_NONE], [_NONE]
    for part in scanner.scan(replace(snapshot.environment, files=files), work):
        for vlsn, dtvlsn in part.results:
            vlsns.append(vlsn)
            dtvlsns.append(dtvlsn)
    vlsn = np.concatenate(vlsns)
    highest = int(np.concatenate(dtvlsns).max(initial=0))
    return Acknowledged(len(vlsn), int(np.count_nonzero(vlsn <= highest)), highest)


_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class _Commits:
    """Work for a scan: VLSN and dtvlsn of the group's Commits from an LSN on."""

    from_lsn: int
    fast: bool

    def __call__(self, rows: Rows) -> tuple[Ints, Ints]:
        wanted = rows.good & (rows.type == COMMIT_NO) & rows.replicated & ~rows.invisible
        own = np.flatnonzero(wanted & (rows.lsn >= self.from_lsn))
        vlsns, dtvlsns = [_NONE], [_NONE]
        for first in range(0, len(own), MAX_ROWS):
            some = rows.take(own[first : first + MAX_ROWS])
            decoded = decode(some, Family.TXN_END, fast=self.fast, wanted=frozenset({"dtvlsn"}))
            vlsns.append(some.vlsn[~decoded.bad])
            dtvlsns.append(decoded.fields.known("dtvlsn")[~decoded.bad])
        return np.concatenate(vlsns), np.concatenate(dtvlsns)
