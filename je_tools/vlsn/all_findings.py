"""All findings on a VLSN index and on the stream of a whole log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.vlsn.group_names import read_group_names
from je_tools.vlsn.index_findings import (
    end_findings,
    group_findings,
    misfit_finding,
    record_findings,
)
from je_tools.vlsn.stream_findings import mapping_findings, rollback_findings

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.vlsn.index_state import IndexState
    from je_tools.vlsn.stored_index import Mappings
    from je_tools.vlsn.stream_summary import StreamSummary


def findings_of(
    snapshot: Snapshot, index: IndexState, mappings: Mappings, summary: StreamSummary
) -> list[Finding]:
    """Return the findings on an index and on the stream of the whole log.

    Args:
        snapshot: the log.
        index: its index.
        mappings: those of `index.usable`, in LSN order.
        summary: the stream, with these mappings.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    return [
        *group_findings(snapshot, read_group_names(snapshot)),
        *record_findings(snapshot, index.stored, index.tracked_vlsn),
        *misfit_finding(snapshot, index.refusal),
        *end_findings(snapshot, index.usable, summary.end),
        *mapping_findings(snapshot, index.usable, mappings, summary),
        *rollback_findings(snapshot, summary.rollbacks),
    ]
