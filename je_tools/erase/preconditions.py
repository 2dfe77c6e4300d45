"""Conditions under which entries of a log may be overwritten.

Source: je-log.md "Data eraser"; the conditions were tried on logs of JE 5.0.73 to 25.3.17.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.checkpoint.checks import check_openable
from je_tools.checkpoint.log_end import is_to_cut
from je_tools.core.escaping import counted, quoted
from je_tools.erase.journal_clearing import journals_text
from je_tools.erase.judging import VERSION_MIN
from je_tools.errors import RefusedError
from je_tools.formats.je.flags import LEVEL_MASK
from je_tools.formats.je.header import NULL_LSN, lsn_text
from je_tools.recovery.interval_tables import INVISIBLE
from je_tools.recovery.utilization import missing_in_use

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot


class ObstacleKind(StrEnum):
    """Kinds of reasons not to erase anything in a log."""

    REMOTE = "remote"
    NO_CHECKPOINT = "no-checkpoint-at-end"
    REPLAYED_NODES = "replayed-nodes"
    OPEN_TRANSACTION = "open-transaction"
    TORN_END = "torn-end"
    DAMAGE = "damage"
    MISSING_FILE = "missing-file"
    OLD_VERSION = "old-version"
    UNDO_JOURNAL = "undo-journal"
    REFUSED = "engine-refuses"


class ErasureObstacle(Struct, frozen=True):
    """A reason not to erase anything in a log.

    Attributes:
        kind: kind of the reason.
        text: what is wrong, and what to do, as a sentence.
        is_mended_by_checkpoint: True if a checkpoint removes it.
    """

    kind: ObstacleKind
    text: str
    is_mended_by_checkpoint: bool = False

    @property
    def is_damage(self) -> bool:
        """True if something that the log should hold is damaged or missing."""
        return self.kind in (ObstacleKind.DAMAGE, ObstacleKind.MISSING_FILE)


def obstacles(snapshot: Snapshot, damaged_count: int) -> list[ErasureObstacle]:
    """Return the reasons not to erase anything in a log.

    Args:
        snapshot: the log, all trees of which have been read.
        damaged_count: number of entries with wrong checksums, and of gaps between entries.
    """
    return [
        *_of_openness(snapshot),
        *_of_journals(snapshot),
        *_of_end(snapshot),
        *_of_damage(snapshot, damaged_count),
    ]


def _of_openness(snapshot: Snapshot) -> Iterator[ErasureObstacle]:
    if snapshot.environment.is_remote:
        yield ErasureObstacle(
            ObstacleKind.REMOTE,
            "the log lies in an object store, where je-tools changes nothing: copy the environment "
            "to a file system",
        )
    version = snapshot.end.files[-1].version
    if version < VERSION_MIN:
        yield ErasureObstacle(
            ObstacleKind.OLD_VERSION,
            f"the log has version {version}, and je-tools erases only from {VERSION_MIN} on",
        )
    try:
        check_openable(snapshot)
    except RefusedError as error:
        yield ErasureObstacle(ObstacleKind.REFUSED, str(error))


def _of_journals(snapshot: Snapshot) -> Iterator[ErasureObstacle]:
    if snapshot.environment.is_remote:
        return
    text = journals_text(Path(snapshot.environment.name), with_own=False)
    if text is not None:
        yield ErasureObstacle(ObstacleKind.UNDO_JOURNAL, text)


def _of_end(snapshot: Snapshot) -> Iterator[ErasureObstacle]:
    """Yield the obstacles because of which recovery reads more than the last checkpoint."""
    name = quoted(snapshot.environment.name)
    if is_to_cut(snapshot):
        yield ErasureObstacle(
            ObstacleKind.TORN_END,
            "other bytes follow the last entry of the log; `je-tools recover "
            f"{name}` shows what an engine would cut off",
        )
    if snapshot.checkpoint.end_lsn != snapshot.end.last_lsn:
        yield ErasureObstacle(
            ObstacleKind.NO_CHECKPOINT,
            "the log does not end with a checkpoint, so recovery still needs older entries; "
            "--checkpoint-first writes one",
            is_mended_by_checkpoint=True,
        )
    elif replays_nodes(snapshot):
        yield ErasureObstacle(
            ObstacleKind.REPLAYED_NODES,
            "the last checkpoint did not write the upper nodes of all trees, so recovery reads "
            "older ones to find the places of nodes; --checkpoint-first writes all",
            is_mended_by_checkpoint=True,
        )
    open_ids = unfinished_transactions(snapshot)
    if open_ids:
        yield ErasureObstacle(
            ObstacleKind.OPEN_TRANSACTION,
            f"{counted(len(open_ids), 'transaction')} without a Commit or an Abort, the first "
            f"{open_ids[0]}: recovery needs the versions before it. --checkpoint-first undoes "
            "those of this node; those of a group end when the node joins it",
            is_mended_by_checkpoint=not any(each < 0 for each in open_ids),
        )


def _of_damage(snapshot: Snapshot, damaged_count: int) -> Iterator[ErasureObstacle]:
    """Yield the damage because of which the set of needed entries may be incomplete."""
    name = quoted(snapshot.environment.name)
    if damaged_count:
        yield ErasureObstacle(
            ObstacleKind.DAMAGE,
            f"the log has {counted(damaged_count, 'damaged place')}; `je-tools verify {name}` "
            "lists them",
        )
    damage = snapshot.faults.damage
    if damage:
        yield ErasureObstacle(
            ObstacleKind.DAMAGE,
            f"trees are damaged, first at {lsn_text(damage[0].lsn)} ({damage[0].kind}), so it is "
            f"not known what they need; `je-tools verify --tree {name}` lists the damage",
        )
    missing = missing_in_use(snapshot)
    if missing:
        yield ErasureObstacle(
            ObstacleKind.MISSING_FILE,
            f"{missing[0]:08x}.jdb is in use but missing; `je-tools missing {name}` lists what is "
            "lost with it",
        )


def replays_nodes(snapshot: Snapshot) -> bool:
    """Return True if recovery places nodes in trees whose upper nodes are older.

    Recovery finds their places through the versions that they replace, so JE 25.3.17 does not open
    such a log once these versions are erased. The checkpoint when an environment is closed, like
    those of je-tools, writes all trees up to their roots. Then there is no upper node to place, and
    a BIN that was logged meanwhile is below a root that was logged after it.

    Source: RecoveryManager.recoverIN, JE 25.3.17.
    """
    nodes = snapshot.interval.nodes
    roots = {db_id: each.root_lsn for db_id, each in snapshot.databases.items()}
    root_lsn = np.array([roots.get(db_id, NULL_LSN) for db_id in nodes.db_id.tolist()], np.int64)
    is_upper = nodes.level & LEVEL_MASK > 1
    return bool((~nodes.is_root & (is_upper | (nodes.lsn > root_lsn))).any())


def unfinished_transactions(snapshot: Snapshot) -> list[int]:
    """Return the ids of transactions in the recovery interval without an end, ascending."""
    lns, ends = snapshot.interval.lns, snapshot.interval.ends
    visible = (lns.txn_id != 0) & (lns.flags & INVISIBLE == 0)
    found = np.setdiff1d(lns.txn_id[visible], ends.txn_id)
    return sorted({*found.tolist(), *snapshot.interval.in_doubt})
