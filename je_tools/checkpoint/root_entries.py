"""Entries that begin and end a checkpoint: CkptStart, DbTree and CkptEnd.

Source: je-log.md "Checkpoints"; Checkpointer.doCheckpoint, CheckpointEnd, JE 5.0.73 and 18.3.12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from je_tools.checkpoint.contents import INVOKER
from je_tools.formats.je.flags import CkptEndFlag
from je_tools.formats.je.types import CKPT_START_NO
from je_tools.recovery.internal_databases import is_replicated

if TYPE_CHECKING:
    from je_tools.checkpoint.checkpoint_log import CheckpointLog
    from je_tools.checkpoint.contents import CheckpointContents, CheckpointSettings
    from je_tools.recovery.snapshot import Snapshot

_NO_CLEANER_STATE: dict[str, Any] = {
    "cleaner_last_file_no": -1,
    "cleaner_initial_adjustment_count": 0,
    "cleaner_adjustment_count": 0,
    "cleaner_adjustments": (),
    "completed_scan_count": 0,
    "completed_scans": (),
}
"""CkptEnd fields that only some log versions have. Source: CheckpointEnd, JE 5.0.73."""


def write_start(snapshot: Snapshot, log: CheckpointLog, now_ms: int) -> int:
    """Append the CkptStart and return its LSN."""
    started = {"time_ms": now_ms, "ckpt_id": _ckpt_id(snapshot), "invoker": INVOKER}
    return log.entry("CkptStart", started).lsn


def first_active(snapshot: Snapshot, start_lsn: int) -> int:
    """Return the first LSN of the transactions that stay open, or `start_lsn` if there are none."""
    lns = snapshot.interval.lns
    kept = np.isin(lns.txn_id, list(snapshot.kept_txns))
    return int(lns.lsn[kept].min(initial=start_lsn))


def write_end(
    snapshot: Snapshot,
    log: CheckpointLog,
    settings: CheckpointSettings,
    descriptors: Mapping[str, Any],
    contents: CheckpointContents,
) -> None:
    """Append the DbTree and the CkptEnd, and set their LSNs in `contents`.

    Args:
        snapshot: the log as recovery leaves it.
        log: log to append to.
        settings: settings of the checkpoint.
        descriptors: the descriptors in the DbTree, by its fields.
        contents: the checkpoint so far.
    """
    root = snapshot.entry(snapshot.checkpoint.root_lsn)
    assert root is not None
    id_fields = log.last_ids.fields
    last_ids = {name: id_fields[name] for name in root.fields if name.startswith("last_")}
    contents.root_lsn = log.entry("DbTree", {**root.fields, **descriptors, **last_ids}).lsn
    fields = {**_NO_CLEANER_STATE, **snapshot.checkpoint.fields, **id_fields}
    flags = CkptEndFlag.ROOT_PRESENT
    if settings.before_erasure and is_replicated(snapshot):
        # A node whose log would be cut back past this checkpoint needs the older tree, which is
        # erased. This flag makes the engine do a network restore instead.
        flags |= CkptEndFlag.CLEANED_FILES_GO
    fields |= {"invoker": INVOKER, "time_ms": settings.now_ms, "flags": int(flags)}
    fields |= {"ckpt_start_lsn": contents.start_lsn, "root_lsn": contents.root_lsn}
    fields |= {"first_active_lsn": contents.first_active_lsn, "ckpt_id": _ckpt_id(snapshot)}
    contents.end_lsn = log.entry("CkptEnd", fields).lsn


def _ckpt_id(snapshot: Snapshot) -> int:
    """Return one more than the last checkpoint id in the log."""
    known = [int(snapshot.checkpoint.fields.get("ckpt_id", 0))]
    known += [
        int(mark.fields["ckpt_id"])
        for mark in snapshot.end.marks
        if mark.type_no == CKPT_START_NO and "ckpt_id" in mark.fields
    ]
    return max(known) + 1
