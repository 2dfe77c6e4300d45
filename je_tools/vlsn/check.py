"""Check of a VLSN index against the log, and of the replication stream against itself.

The log is read once. `verify` judges its bytes and the sequence of its VLSNs; the stream is kept as
columns, 22 bytes an entry, and the index is compared with these.

Source: VLSNIndex.verify, DbStreamVerify, RollbackTracker, JE 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from je_tools.verify.judge import InspectedRows, Judge, RowInspector
from je_tools.verify.totals import Totals
from je_tools.verify.watched import watched_entries
from je_tools.vlsn.all_findings import findings_of
from je_tools.vlsn.index_state import read_index_state
from je_tools.vlsn.logged import LoggedRows, LoggedStream, collect_logged, joined_logged

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.recovery.snapshot import Snapshot


class StreamCheck(Struct, frozen=True):
    """Result of a check.

    Attributes:
        totals: counts of the verification of the log, with those of all findings.
        mapping_count: number of mappings that were compared with the log.
        stream: entries of the stream.
        findings: those of the log, then those of the index and the stream.
    """

    totals: Totals
    mapping_count: int
    stream: LoggedStream
    findings: list[Finding]


class _Work(Struct, frozen=True):
    """Work for a scan: what `verify` sees of rows, and their entries of the stream."""

    inspector: RowInspector

    def __call__(self, rows: Rows) -> tuple[InspectedRows, LoggedRows]:
        return self.inspector(rows), collect_logged(rows)


def check_stream(snapshot: Snapshot) -> StreamCheck:
    """Check the VLSN index of a node and its replication stream, by reading the whole log.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    totals = Totals(snapshot.environment.name)
    judge = Judge(snapshot.environment, totals)
    findings: list[Finding] = []
    logged: list[LoggedRows] = []
    scanner = replace(
        snapshot.scanner.staged("vlsn check", snapshot.environment.size),
        wide=True,
        asked=judge.inspector.asked,
        watched=watched_entries,
    )
    for part in scanner.scan(snapshot.environment, _Work(judge.inspector)):
        findings += judge.merge(part, [seen for seen, _ in part.results])
        logged += [rows for _, rows in part.results]
    findings += judge.finish()
    stream = joined_logged(logged).up_to(snapshot.end.next_lsn)
    index = read_index_state(snapshot)
    of_stream = findings_of(snapshot, index, stream)
    for each in of_stream:
        totals.count(each)
    return StreamCheck(totals, len(index.mappings), stream, [*findings, *of_stream])
