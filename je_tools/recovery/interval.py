"""The part of a log that recovery replays, read in one pass.

Source: je-log.md "Recovery"; RecoveryManager.buildTree, UndoReader, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.types import (
    ROLLBACK_START_NO,
)
from je_tools.recovery.backward import STRAIGHT, BackwardPath, walk_backward
from je_tools.recovery.interval_scan import IntervalCollector, scan_interval
from je_tools.recovery.interval_tables import (
    COMMITTED,
    NO_ENDS,
    NO_LNS,
    NO_NODES,
    SKIPPED,
    Lns,
    LoggedNodes,
    RollbackPeriod,
    TxnEnds,
    joined,
)

if TYPE_CHECKING:
    from je_tools.formats.files.image import Image
    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile
    from je_tools.log.scan import Scanner

_AT_ONCE = 1 << 16


class ReplayInterval(Struct, frozen=True):
    """The entries that recovery replays.

    Attributes:
        lns, nodes, ends: columns in log order.
        periods: rollbacks in the order of their starts, without those that `backward` skips.
        in_doubt: ids of transactions that were prepared and have no end.
        damaged: LSN and length of each range of the files that holds no good entry.
        backward: path of the backward passes.
        skipped_ends: Commits and Aborts that `backward` skips; not in `ends`.
        break_lsns: LSNs of good entries whose prevOffset is not that of the entry before, and of
            files whose header does not name the last entry of the file before. They may lie before
            the first entry that recovery reads, in the same file.
    """

    lns: Lns
    nodes: LoggedNodes
    ends: TxnEnds
    periods: tuple[RollbackPeriod, ...]
    in_doubt: frozenset[int]
    damaged: tuple[tuple[int, int], ...]
    backward: BackwardPath
    skipped_ends: TxnEnds
    break_lsns: tuple[int, ...]


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
) -> ReplayInterval:
    """Read the entries that recovery replays.

    Args:
        environment: the log.
        files: its files, up to the one in which the log ends.
        image: image of these files.
        scanner: settings for reading them.
        first_lsn: LSN of the first entry to read.
        nodes_from: LSN from which nodes count.
        last_lsn: LSN of the last entry; None for entries that recovery does not read, as
            those after the end of the log.
        next_lsn: LSN after the last entry.
        end_lsn: LSN of the last CkptEnd; NULL_LSN without one.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    some = tuple(file for file in files if file.file_no >= first_lsn >> 32)
    starts = dict(zip(image.file_nos.tolist(), image.starts.tolist(), strict=True))
    work = IntervalCollector(starts, first_lsn, nodes_from, next_lsn, end_lsn)
    found = scan_interval(replace(environment, files=some), work, scanner)
    lns, all_ends = joined(found.lns, NO_LNS), joined(found.ends, NO_ENDS)
    nodes = joined(found.nodes, NO_NODES)
    for rows in (lns, nodes):
        has_key = rows.key_size > 0
        image.load(rows.key_position[has_key], rows.key_size[has_key].astype(np.int64))
    backward = STRAIGHT
    # With damage the engine does not open the log at all, so the path does not matter.
    is_broken = any(lsn > first_lsn for lsn in found.break_lsns)
    if is_broken and not found.damaged and last_lsn is not None:
        backward = walk_backward(environment, some, scanner, first_lsn=first_lsn, last_lsn=last_lsn)
        lns.flags[backward.misses(lns.lsn)] |= SKIPPED
    missed = backward.misses(all_ends.lsn)
    ends = all_ends.select(~missed)
    _mark_committed(lns, ends)
    return ReplayInterval(
        lns=lns,
        nodes=nodes,
        ends=ends,
        periods=_periods(each for each in found.rollbacks if not backward.misses_one(each[0])),
        in_doubt=frozenset(each for each in found.prepared if not (ends.txn_id == each).any()),
        damaged=tuple(found.damaged),
        backward=backward,
        skipped_ends=all_ends.select(missed),
        break_lsns=tuple(found.break_lsns),
    )


def _mark_committed(lns: Lns, ends: TxnEnds) -> None:
    """Mark the LNs of committed transactions.

    LNs near each other in the log have similar ids, so batches in log order hit the cache.
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
    for lsn, type_no, fields in rollbacks:
        if "matchpoint_lsn" not in fields:
            continue
        matchpoint = int(str(fields["matchpoint_lsn"]))
        if type_no == ROLLBACK_START_NO:
            ids = frozenset(fields["active_txns"])  # type: ignore[call-overload]
            found[lsn] = RollbackPeriod(matchpoint, lsn, NULL_LSN, ids)
        else:
            start = int(str(fields["rollback_start_lsn"]))
            known = found.get(start) or RollbackPeriod(matchpoint, start, NULL_LSN, None)
            found[start] = replace(known, end_lsn=lsn)
    return tuple(found[start] for start in sorted(found))
