"""Findings on the replication stream of a whole log, and on the mappings that lead into it.

Source: VLSNIndex.verify, RollbackTracker.checkCommit and RollbackPeriod, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from je_tools.core.escaping import counted
from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.header import NULL_LSN, lsn_text
from je_tools.formats.je.log.fetch import Found, fetch
from je_tools.formats.je.types import type_name
from je_tools.vlsn.index_findings import vlsn_finding
from je_tools.vlsn.judged_buckets import hidden
from je_tools.vlsn.logged_stream import EntryState
from je_tools.vlsn.rolled_back import read_rolled_back

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.formats.arrays import Ints
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.index import VlsnIndex
    from je_tools.vlsn.node_rollbacks import NodeRollback
    from je_tools.vlsn.stored_index import Mappings
    from je_tools.vlsn.stream_summary import StreamSummary

LISTED = 100
"""Largest number of mappings that are reported one by one."""

_MISSING = {
    Found.NO_FILE: "no file, or one that ends before that",
    Found.NO_ENTRY: "no entry",
    Found.BAD: "an entry with a wrong checksum",
    Found.ERASED: "an entry that the eraser overwrote",
}


def mapping_findings(
    snapshot: Snapshot, index: VlsnIndex, mappings: Mappings, summary: StreamSummary
) -> Iterator[Finding]:
    """Yield a finding for each mapping that does not lead to the visible entry of its VLSN.

    Args:
        snapshot: the log.
        index: the index, as recovery leaves it.
        mappings: its mappings, in LSN order.
        summary: the whole stream of the log.
    """
    wrong = np.flatnonzero(~summary.is_right)
    listed = wrong[:LISTED]
    listed = listed[np.argsort(mappings.vlsn[listed], kind="stable")]
    found = _found_at(snapshot, mappings.lsn[listed], summary)
    for row, text in zip(listed.tolist(), found, strict=True):
        bucket = index.buckets[int(mappings.bucket[row])]
        expected = f"VLSN {int(mappings.vlsn[row])}, as the bucket of VLSN {bucket.first} has it"
        yield vlsn_finding(snapshot, "vlsn-index-mapping", int(mappings.lsn[row]), expected, text)
    if len(wrong) > LISTED:
        found_text = counted(len(wrong) - LISTED, "more wrong mapping")
        yield vlsn_finding(
            snapshot, "vlsn-index-mapping", NULL_LSN, f"{len(mappings):,} mappings", found_text
        )


def _found_at(snapshot: Snapshot, lsns: Ints, summary: StreamSummary) -> Iterator[str]:
    """Yield a description of what is at each of some LSNs."""
    entries = fetch(snapshot.image, lsns)
    states = summary.states(lsns, entries.vlsn, hidden(entries))
    for row in range(len(lsns)):
        missing = _MISSING.get(Found(int(entries.found[row])))
        if missing is not None:
            yield missing
            continue
        name, vlsn = type_name(int(entries.type[row])), int(entries.vlsn[row])
        text = f"{name} without a VLSN" if vlsn <= 0 else f"{name} of VLSN {vlsn}"
        is_entry = vlsn > 0 and int(entries.flags[row]) & HeaderFlag.REPLICATED
        state = EntryState(int(states[row])) if is_entry else EntryState.VISIBLE
        yield text if state is EntryState.VISIBLE else f"{text}, {state.label}"


def rollback_findings(snapshot: Snapshot, rollbacks: Sequence[NodeRollback]) -> Iterator[Finding]:
    """Yield the findings on the rollbacks of a stream.

    The log from each matchpoint to its RollbackStart is read again.

    Args:
        snapshot: the log.
        rollbacks: all of its rollbacks, in log order.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    for each, inside in zip(rollbacks, read_rolled_back(snapshot, rollbacks), strict=True):
        yield from _matchpoint_finding(snapshot, each)
        if inside.commits.count:
            expected = f"no Commit in the rollback to VLSN {each.matchpoint_vlsn}"
            found = f"{inside.commits.count:,}, first that of VLSN {inside.commits.first_vlsn}"
            yield vlsn_finding(snapshot, "vlsn-rollback", inside.commits.first_lsn, expected, found)
        left = inside.unmarked
        if left.count and each.end_lsn != NULL_LSN:
            expected = (
                f"invisible entries between VLSN {each.matchpoint_vlsn} and the rollback at "
                f"{lsn_text(each.start_lsn)}"
            )
            found = f"{left.count:,} that are visible, VLSN {left.first_vlsn} to {left.last_vlsn}"
            yield vlsn_finding(snapshot, "vlsn-unmarked", left.first_lsn, expected, found)
    for before, after in _wrongly_nested(rollbacks):
        expected = f"a matchpoint outside of the rollback at {lsn_text(before.start_lsn)}"
        found = f"one inside, at {lsn_text(after.matchpoint_lsn)}"
        yield vlsn_finding(snapshot, "vlsn-rollback", after.start_lsn, expected, found)


def _wrongly_nested(
    rollbacks: Sequence[NodeRollback],
) -> Iterator[tuple[NodeRollback, NodeRollback]]:
    """Yield pairs of rollbacks: an earlier one, and a later one whose matchpoint lies inside it.

    Args:
        rollbacks: in log order.
    """
    earlier: list[NodeRollback] = []
    for each in rollbacks:
        # A later matchpoint inside one of these lies inside this rollback too.
        while earlier and earlier[-1].matchpoint_lsn >= each.matchpoint_lsn:
            earlier.pop()
        if earlier and each.matchpoint_lsn < earlier[-1].start_lsn:
            yield earlier[-1], each
        earlier.append(each)


def _matchpoint_finding(snapshot: Snapshot, rollback: NodeRollback) -> Iterator[Finding]:
    """Yield a finding if the matchpoint of a rollback is not the entry that its start names."""
    lsn = rollback.matchpoint_lsn
    if not any(file.file_no == lsn >> 32 for file in snapshot.end.files):
        return
    entries = fetch(snapshot.image, np.array([lsn], np.int64))
    vlsn = int(entries.vlsn[0])
    is_there = bool(entries.good[0]) and lsn < snapshot.end.next_lsn and vlsn > 0
    is_there = is_there and bool(int(entries.flags[0]) & HeaderFlag.REPLICATED)
    if is_there and vlsn == rollback.matchpoint_vlsn:
        return
    found = f"VLSN {vlsn}" if is_there else "no entry of the stream"
    expected = f"VLSN {rollback.matchpoint_vlsn} at its matchpoint, {lsn_text(lsn)}"
    yield vlsn_finding(snapshot, "vlsn-rollback", rollback.start_lsn, expected, found)
