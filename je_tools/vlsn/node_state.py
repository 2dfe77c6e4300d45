"""State of a node: its VLSN index, the end of its stream and its masters.

Of most of the log, only samples are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.formats.je.header import lsn_text
from je_tools.journal.last_id import last_journal_id
from je_tools.recovery.findings import snapshot_findings
from je_tools.recovery.internal_databases import check_replicated
from je_tools.vlsn.group_names import GroupNames, read_group_names
from je_tools.vlsn.index_findings import (
    end_findings,
    group_findings,
    misfit_finding,
    record_findings,
)
from je_tools.vlsn.index_state import IndexState, read_index_state
from je_tools.vlsn.masters import MasterTerm, places_to_sample, sampled_terms
from je_tools.vlsn.own_member import OwnMember, find_own_member
from je_tools.vlsn.stream_tail import StreamTail, TailReader

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.quick_check import QuickCheck


class NodeState(Struct, frozen=True):
    """State of a node of a group.

    Attributes:
        env: name of the environment.
        state_id: text that differs between two nodes, and between two states of one node.
        log_version: log version of the last file.
        group: its group.
        own: the member of the group that this node is.
        index: its VLSN index.
        tail: end of its stream.
        journal_id: last journal id of a StarRocks or Doris front end; None without a journal.
        masters: masters that samples of the log show, the oldest first.
        read_size, size: bytes of the files of which all entries were read, and of all files.
        findings: findings on the parts that were read.
    """

    env: str
    state_id: str
    log_version: int
    group: GroupNames
    own: OwnMember
    index: IndexState
    tail: StreamTail
    journal_id: int | None
    masters: list[MasterTerm]
    read_size: int
    size: int
    findings: list[Finding]

    @property
    def checkpoint_vlsn(self) -> int | None:
        """Last VLSN before the last checkpoint began."""
        tracked = self.index.tracked_vlsn
        return self.tail.last_vlsn if tracked is None else tracked - 1


def read_node(
    snapshot: Snapshot,
    sync_count: int,
    *,
    known: QuickCheck | None = None,
    with_masters: bool = True,
) -> tuple[NodeState, TailReader]:
    """Read the state of a node.

    Args:
        snapshot: the log.
        sync_count: number of sync points to read at the end of the log.
        known: result of a quick check, so that group and index are not read again.
        with_masters: sample the log for masters; else the state has none.

    Returns:
        The state, and the reader of the tail, which can go back further.

    Raises:
        InputError: the log is not that of a replicated node, or a file cannot be read.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    check_replicated(snapshot)
    group = read_group_names(snapshot) if known is None else known.group
    index = read_index_state(snapshot) if known is None else known.index
    reader = TailReader(snapshot)
    tail = reader.at_least(sync_count)
    # Reading adds faults, which are findings too.
    journal_id = last_journal_id(snapshot)
    places = places_to_sample(index.usable.buckets) if with_masters else None
    masters = [] if places is None else sampled_terms(snapshot, places, tail.sync)
    findings = [
        *snapshot_findings(snapshot),
        *group_findings(snapshot, group),
        *record_findings(snapshot, index.stored, index.tracked_vlsn),
        *misfit_finding(snapshot, index.refusal),
        *end_findings(snapshot, index.usable, tail.end(index.usable.range.last)),
        *reader.findings,
    ]
    size = sum(file.size for file in snapshot.end.files)
    state = NodeState(
        env=snapshot.environment.name,
        state_id=_state_id(snapshot),
        log_version=snapshot.end.files[-1].version,
        group=group,
        own=find_own_member(Path(snapshot.environment.name), group),
        index=index,
        tail=tail.last(sync_count),
        journal_id=journal_id,
        masters=masters,
        read_size=reader.read_size,
        size=size,
        findings=findings,
    )
    return state, reader


def _state_id(snapshot: Snapshot) -> str:
    """Return a text made of the end of the log and the times of its last file and checkpoint.

    The logs of two nodes may end at the same LSN, but each node writes its own checkpoints.
    """
    checkpoint, last = snapshot.checkpoint, snapshot.end.files[-1]
    ended = f"{lsn_text(checkpoint.end_lsn)} {checkpoint.fields.get('time_ms')}"
    return f"{lsn_text(snapshot.end.last_lsn)} {last.header.created_ms} {ended}"
