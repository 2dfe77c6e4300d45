"""The plan of a node's recovery: what its next start would do, and whether it succeeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.core.escaping import counted
from je_tools.errors import InputError
from je_tools.findings import Severity
from je_tools.formats.ignite.page_ids import INDEX_PARTITION
from je_tools.formats.ignite.types import type_name
from je_tools.ignite.caches import cache_names
from je_tools.ignite.checkpoints.node_checkpoints import node_checkpoints
from je_tools.ignite.logical.updates import logical_updates
from je_tools.ignite.pages.files import page_folder
from je_tools.ignite.recovery.configurations import lacking_configurations
from je_tools.ignite.recovery.page_damage import judged_pages
from je_tools.ignite.recovery.physical import PhysicalRecovery, recovered_pages
from je_tools.ignite.recovery.prediction import Predictor
from je_tools.ignite.recovery.walked import walked_pages
from je_tools.ignite.values.side_files import UNCHECKED

if TYPE_CHECKING:
    from je_tools.ignite.checkpoints.node_checkpoints import NodeCheckpoints
    from je_tools.ignite.logical.updates import LogicalUpdates
    from je_tools.ignite.node_findings import NodeFinding
    from je_tools.ignite.recovery.page_damage import DamagedPages, JudgedPages
    from je_tools.ignite.recovery.walked import ReadNode
    from je_tools.ignite.store import Node, Store
    from je_tools.log.scan_options import Progress

_READS_THEM = "`je-tools ignite wal verify` reads them."


class StartOutcome(StrEnum):
    """Outcomes of the next start of a node."""

    STARTS = "starts"
    LOSES = "starts with losses"
    """It starts, and reports nothing of what is lost."""
    UNCLEAR = "unclear"
    REFUSED = "does not start"


class ChangeCount(Struct, frozen=True):
    """Applied records of one type."""

    node: str
    type: str
    records: int


class PageFileChange(Struct, frozen=True):
    """A file of pages that physical recovery writes.

    Attributes:
        node: name of the node.
        group: name of the cache group; its id if no folder has its name.
        partition: partition; None for an index.
        pages: pages that are written.
        exists: False if the file is made.
    """

    node: str
    group: str
    partition: int | None
    pages: int
    exists: bool


class LeftOut(Struct, frozen=True):
    """A transaction that did not commit, whose entries are not applied."""

    node: str
    transaction: str


class NodePlan(Struct, frozen=True):
    """Recovery of one node.

    Attributes:
        node: the node.
        checkpoints: its checkpoints.
        physical: the physical part.
        logical: the logical part; None if its begin is unclear.
        damaged: runs of damaged pages of its files; None if the pages were not read.
        findings: what prevents the start, and what is lost.
        not_checked: what was not checked, besides `left_to_others`.
    """

    node: Node
    checkpoints: NodeCheckpoints
    physical: PhysicalRecovery
    logical: LogicalUpdates | None
    damaged: list[DamagedPages] | None
    findings: tuple[NodeFinding, ...]
    not_checked: tuple[str, ...]

    @property
    def left_to_others(self) -> tuple[str, ...]:
        """Parts that recovery does not read, with the command that does; `doctor` reads all."""
        copies = "Copies of the log that recovery does not read"
        before = self.checkpoints.unread_before
        if before is None or before == (0, 0):
            return (f"{copies}: {_READS_THEM}",)
        older = (
            f"The log before segment {before[0]}, offset {before[1]}: recovery does not read it, "
            "so damage there needs no repair for the start. Historical rebalance and change data "
            f"capture read it. {_READS_THEM[0].upper()}{_READS_THEM[1:]}"
        )
        return (f"{copies}: {_READS_THEM}", older)

    @property
    def outcome(self) -> StartOutcome:
        """Outcome of the next start."""
        codes = {each.code for each in self.findings if each.severity is not Severity.NOTE}
        if "recovery-refused" in codes:
            return StartOutcome.REFUSED
        if "recovery-unclear" in codes:
            return StartOutcome.UNCLEAR
        return StartOutcome.LOSES if "recovery-loss" in codes else StartOutcome.STARTS


def plan_recovery(
    store: Store,
    threads: int,
    *,
    pages: bool = True,
    progress: Progress | None = None,
    read: Mapping[str, ReadNode] | None = None,
) -> list[NodePlan]:
    """Return what the next start of each node would do.

    Args:
        store: the nodes.
        threads: number of segments, or blocks of pages, to read at once.
        pages: False to leave the files of pages unread.
        progress: called with the bytes of each segment that was read; None for nothing.
        read: by the name of a node: what was read of it already.

    Raises:
        InputError: a node has no folder of markers or caches.
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    root, known = str(store.roots[0]), read or {}
    return [
        _plan(node, root, threads, progress, pages=pages, read=known.get(node.name))
        for node in store.nodes
    ]


def _plan(
    node: Node,
    root: str,
    threads: int,
    progress: Progress | None,
    *,
    pages: bool,
    read: ReadNode | None,
) -> NodePlan:
    found = node_checkpoints(node, threads, progress) if read is None else read.checkpoints
    physical = recovered_pages(node, threads, found) if read is None else read.physical
    logical = None
    if physical.begin is None or physical.begin.pointer is not None:
        try:
            logical = logical_updates(node, threads, None, found)
        except InputError:
            # The predictor reports the marker.
            logical = None
    judged = None
    if pages:
        walked = walked_pages(node, physical, threads) if read is None else read.walked
        judged = judged_pages(node, physical, walked)
    lacking = lacking_configurations(node, {} if judged is None else judged.rows)
    predictor = Predictor(node, root, found, physical)
    findings = tuple(predictor.findings(logical, judged, lacking))
    not_checked = tuple(_not_checked(judged, logical))
    damaged = None if judged is None else judged.damaged
    return NodePlan(node, found, physical, logical, damaged, findings, not_checked)


def _not_checked(judged: JudgedPages | None, logical: LogicalUpdates | None) -> Iterator[str]:
    if judged is None:
        yield "The files of pages."
    else:
        yield "The content of pages whose checksum is right."
        if judged.encrypted:
            yield encrypted_text(judged.encrypted)
        for reason, count in judged.unwalked.items():
            yield f"Pages that are lost at the ends of {counted(count, 'file')}: {reason}."
    if logical is not None and logical.encrypted:
        yield (
            f"Encrypted entries of the log ({logical.encrypted:,}): only the node has their key. "
            "They are not among the updates."
        )
    yield "The configuration with which the node will start."
    yield UNCHECKED


def encrypted_text(count: int) -> str:
    """Return what was not checked in encrypted pages, in words."""
    text = f"Types, places and content of {counted(count, 'encrypted page')}: only their "
    return f"{text}checksums were compared."


def change_counts(plan: NodePlan) -> list[ChangeCount]:
    """Return the records that physical recovery applies, by type."""
    replay = plan.physical.replay
    if replay is None:
        return []
    applied = replay.applied.tolist()
    counts = [(type_name(no), count) for no, count in enumerate(applied) if count]
    return [ChangeCount(plan.node.name, name, count) for name, count in counts]


def file_changes(plan: NodePlan) -> list[PageFileChange]:
    """Return the files that physical recovery writes, by group and partition."""
    replay = plan.physical.replay
    if replay is None:
        return []
    places, names = replay.places(), cache_names(plan.node).groups
    files = {(each.group, each.partition) for each in page_folder(plan.node).files}
    keys = np.stack([places.group_id, places.partition], axis=1)
    pairs, counts = np.unique(keys, axis=0, return_counts=True)
    changes = []
    for (group_id, partition), count in zip(pairs.tolist(), counts.tolist(), strict=True):
        group = names.get(group_id, str(group_id))
        number = None if partition == INDEX_PARTITION else partition
        exists = (group, partition) in files
        changes.append(PageFileChange(plan.node.name, group, number, count, exists))
    return sorted(changes, key=lambda each: (each.group, each.partition is None, each.partition))


def left_out(plan: NodePlan) -> list[LeftOut]:
    """Return the transactions that are not applied."""
    versions = plan.logical.uncommitted if plan.logical is not None else ()
    return [LeftOut(plan.node.name, ":".join(map(str, version))) for version in versions]
