"""Opening of a log as recovery does it: its end, its checkpoint, the interval, then a snapshot.

Source: je-log.md "Recovery"; RecoveryManager.recover, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from je_tools.core.properties import HALT, read_settings
from je_tools.errors import InputError
from je_tools.formats.files.image import Image, ImagePart
from je_tools.formats.je.header import NULL_LSN
from je_tools.log.environment import Environment, check_numbers
from je_tools.log.images import check_image, map_files, unchanged
from je_tools.recovery.catalogue import find_databases
from je_tools.recovery.end import (
    EndReason,
    LogEnd,
    Refusal,
    StartCheckpoint,
    find_checkpoint,
    find_end,
    is_gapless,
)
from je_tools.recovery.interval import ReplayInterval, read_interval
from je_tools.recovery.interval_tables import COMMITTED
from je_tools.recovery.replay_rules import ReplayRules
from je_tools.recovery.snapshot import Snapshot, first_lsn_of

if TYPE_CHECKING:
    from je_tools.log.scan import Scanner

_CHECKS_CHAINS = 17
"""Log version of the only engine that checks prevOffsets before it recovers."""

_FILE_NO_MAX = (1 << 31) - 1


class NoTreeError(InputError):
    """A log without a root of the databases, from which recovery can read nothing.

    Attributes:
        refusal: reason why the engine would not open it.
    """

    def __init__(self, text: str, refusal: Refusal) -> None:
        super().__init__(text)
        self.refusal = refusal


@contextmanager
def held_snapshot(
    environment: Environment,
    scanner: Scanner,
    *,
    now_ms: int,
    to_lsn: int | None = None,
    as_member: bool = False,
) -> Iterator[Snapshot]:
    """Take a snapshot as `take_snapshot` does, and check at the end that its files did not change.

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
        as_member: open the log as a member of a replication group does: transactions of the group
            without an end are not undone.

    Raises:
        NoTreeError: the log has no root, so there is nothing to show.
        InputError: a file number is higher than any log's, or two files have the same number, or
            the DbTree cannot be read.
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
    if scanner.pace is not None:
        image.before_fetch = scanner.pace.settle
    with unchanged(lambda: check_image(image)):
        snapshot = _snapshot_of(
            environment, end, checkpoint, refusal, image, scanner, now_ms, as_member
        )
    snapshot.to_lsn = to_lsn
    return snapshot


def _snapshot_of(
    environment: Environment,
    end: LogEnd,
    checkpoint: StartCheckpoint,
    refusal: Refusal | None,
    image: Image,
    scanner: Scanner,
    now_ms: int,
    as_member: bool,
) -> Snapshot:
    first = first_lsn_of(end, checkpoint)
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
    rules = ReplayRules(checkpoint.start_lsn, periods)
    refusals = {
        end.refusal: True,
        refusal: True,
        Refusal.MISSING_FILE: not is_gapless(end, checkpoint),
        Refusal.DAMAGED_INTERVAL: len(interval.damaged) > 0,
        Refusal.COMMIT_ROLLED_BACK: rules.takes_back_commits(interval.ends),
        Refusal.HALT_CHOSEN: _is_to_halt(environment, end),
        Refusal.BROKEN_CHAIN: _is_chain_fatal(end, interval),
    }
    snapshot = Snapshot(
        environment=environment,
        end=end,
        checkpoint=checkpoint,
        refusals=tuple(each for each, applies in refusals.items() if applies and each is not None),
        image=image,
        interval=interval,
        rules=rules,
        now_ms=now_ms,
        scanner=scanner,
        kept_txns=_keep_open(interval, rules) if as_member else frozenset(),
    )
    find_databases(snapshot)
    return snapshot


def _keep_open(interval: ReplayInterval, rules: ReplayRules) -> frozenset[int]:
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
            f"{path}: the file number is above {_FILE_NO_MAX:08x}, which no log reaches. If the "
            "file does not belong to this log, use a copy of the log without it. `je-tools "
            "dump` reads the file."
        )


def _is_chain_fatal(end: LogEnd, interval: ReplayInterval) -> bool:
    """Return True if prevOffsets keep the engine from opening the log.

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
    """Return True if the engine is configured to halt instead of cutting off Commits."""
    if end.reason is not EndReason.DAMAGED or not len(end.commits_after_end):
        return False
    return environment.is_directory and read_settings(environment.home).switch(HALT)


def _image(end: LogEnd) -> Image:
    parts = [ImagePart(file.path, file.file_no, file.version, file.size) for file in end.files[:-1]]
    last = end.files[-1]
    parts.append(ImagePart(last.path, last.file_no, last.version, end.next_offset))
    return map_files(parts)


def _no_tree(environment: Environment, why: Refusal) -> NoTreeError:
    texts = {
        Refusal.NO_FILES: "no file holds an entry",
        Refusal.BAD_FILE_HEADER: "the header of the last file is damaged",
        Refusal.NO_ROOT: "the rest of the log has no root of the databases",
    }
    return NoTreeError(
        f"{environment.name}: {texts[why]}, so the engine would not open it either. "
        "`je-tools salvage` gets records out without a tree.",
        why,
    )
