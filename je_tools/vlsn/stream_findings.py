"""Findings on the replication stream of a whole log, and on the mappings that lead into it.

Source: VLSNIndex.verify, RollbackTracker.checkCommit and RollbackPeriod, JE 18.3.12.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats.je.header import NULL_LSN, lsn_text
from je_tools.formats.je.log.fetch import Found, fetch
from je_tools.formats.je.types import COMMIT_NO, type_name
from je_tools.vlsn.index_findings import made
from je_tools.vlsn.logged import EntryState, LoggedStream
from je_tools.vlsn.stored import mappings_of

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.index import VlsnIndex
    from je_tools.vlsn.rollback_starts import Rollback
    from je_tools.vlsn.stored import Mappings

LISTED = 100
"""Largest number of mappings that are reported one by one."""

_MISSING = {
    Found.NO_FILE: "no file, or one that ends before that",
    Found.NO_ENTRY: "no entry",
    Found.BAD: "an entry with a wrong checksum",
    Found.ERASED: "an entry that the eraser overwrote",
}


def mapping_findings(
    snapshot: Snapshot, index: VlsnIndex, stream: LoggedStream
) -> Iterator[Finding]:
    """Yield a finding for each mapping that does not lead to the visible entry of its VLSN.

    Args:
        snapshot: the log.
        index: the index, as recovery leaves it.
        stream: the whole stream of the log.
    """
    mappings = mappings_of(index.buckets)
    if not len(mappings):
        return
    wrong = np.flatnonzero(~_is_right(mappings, stream))
    listed = wrong[:LISTED]
    found = _found_at(snapshot, mappings.lsn[listed], stream)
    for row, text in zip(listed.tolist(), found, strict=True):
        bucket = index.buckets[int(mappings.bucket[row])]
        expected = f"VLSN {int(mappings.vlsn[row])}, as the bucket of VLSN {bucket.first} has it"
        yield made(snapshot, "vlsn-index-mapping", int(mappings.lsn[row]), expected, text)
    if len(wrong) > LISTED:
        found_text = f"{len(wrong) - LISTED:,} more mappings that lead elsewhere"
        yield made(
            snapshot, "vlsn-index-mapping", NULL_LSN, f"{len(mappings):,} mappings", found_text
        )


def _is_right(mappings: Mappings, stream: LoggedStream) -> Mask:
    if not len(stream):
        return np.zeros(len(mappings), np.bool_)
    at = np.minimum(np.searchsorted(stream.lsn, mappings.lsn), len(stream) - 1)
    right: Mask = (stream.lsn[at] == mappings.lsn) & (stream.vlsn[at] == mappings.vlsn)
    right &= stream.state[at] == EntryState.VISIBLE
    return right


def _found_at(snapshot: Snapshot, lsns: Ints, stream: LoggedStream) -> Iterator[str]:
    """Yield what is at each of some LSNs."""
    entries = fetch(snapshot.image, lsns)
    for row, lsn in enumerate(lsns.tolist()):
        missing = _MISSING.get(Found(int(entries.found[row])))
        if missing is not None:
            yield missing
            continue
        name, vlsn = type_name(int(entries.type[row])), int(entries.vlsn[row])
        text = f"{name} without a VLSN" if vlsn <= 0 else f"{name} of VLSN {vlsn}"
        at = int(np.searchsorted(stream.lsn, lsn))
        is_known = at < len(stream) and int(stream.lsn[at]) == lsn
        state = EntryState(int(stream.state[at])) if is_known else EntryState.VISIBLE
        yield text if state is EntryState.VISIBLE else f"{text}, {state.label}"


def rollback_findings(snapshot: Snapshot, stream: LoggedStream) -> Iterator[Finding]:
    """Yield the findings on the rollbacks of a stream."""
    for each in stream.rollbacks:
        yield from _matchpoint_finding(snapshot, each, stream)
        first = int(np.searchsorted(stream.lsn, each.matchpoint_lsn, "right"))
        stop = int(np.searchsorted(stream.lsn, each.start_lsn))
        commits = first + np.flatnonzero(stream.type[first:stop] == COMMIT_NO)
        if len(commits):
            row = int(commits[0])
            expected = f"no Commit in the rollback to VLSN {each.matchpoint_vlsn}"
            found = f"{len(commits):,}, first that of VLSN {int(stream.vlsn[row])}"
            yield made(snapshot, "vlsn-rollback", int(stream.lsn[row]), expected, found)
        left = first + np.flatnonzero(stream.state[first:stop] == EntryState.ROLLED_BACK)
        if len(left) and each.end_lsn != NULL_LSN:
            row, last = int(left[0]), int(left[-1])
            expected = (
                f"invisible entries between VLSN {each.matchpoint_vlsn} and the rollback at "
                f"{lsn_text(each.start_lsn)}"
            )
            found = (
                f"{len(left):,} that are visible, VLSN {int(stream.vlsn[row])} to "
                f"{int(stream.vlsn[last])}"
            )
            yield made(snapshot, "vlsn-unmarked", int(stream.lsn[row]), expected, found)
    for before, after in _wrongly_nested(stream.rollbacks):
        expected = f"a matchpoint outside of the rollback at {lsn_text(before.start_lsn)}"
        found = f"one inside, at {lsn_text(after.matchpoint_lsn)}"
        yield made(snapshot, "vlsn-rollback", after.start_lsn, expected, found)


def _wrongly_nested(rollbacks: Sequence[Rollback]) -> Iterator[tuple[Rollback, Rollback]]:
    """Yield each rollback whose matchpoint lies inside an earlier one, after the earlier one.

    Args:
        rollbacks: in log order.
    """
    earlier: list[Rollback] = []
    for each in rollbacks:
        # A later matchpoint cannot lie in these without lying in this rollback too.
        while earlier and earlier[-1].matchpoint_lsn >= each.matchpoint_lsn:
            earlier.pop()
        if earlier and each.matchpoint_lsn < earlier[-1].start_lsn:
            yield earlier[-1], each
        earlier.append(each)


def _matchpoint_finding(
    snapshot: Snapshot, rollback: Rollback, stream: LoggedStream
) -> Iterator[Finding]:
    """Yield a finding if the matchpoint of a rollback is not what its RollbackStart names."""
    lsn = rollback.matchpoint_lsn
    if not any(file.file_no == lsn >> 32 for file in snapshot.end.files):
        return
    at = int(np.searchsorted(stream.lsn, lsn))
    is_there = at < len(stream) and int(stream.lsn[at]) == lsn
    if is_there and int(stream.vlsn[at]) == rollback.matchpoint_vlsn:
        return
    found = f"VLSN {int(stream.vlsn[at])}" if is_there else "no entry of the stream"
    expected = f"VLSN {rollback.matchpoint_vlsn} at its matchpoint, {lsn_text(lsn)}"
    yield made(snapshot, "vlsn-rollback", rollback.start_lsn, expected, found)
