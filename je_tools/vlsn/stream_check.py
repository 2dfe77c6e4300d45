"""Check of a VLSN index against the log, and of the replication stream against itself.

The log is read once. A `Judge` checks its bytes and the sequence of its VLSNs, and a probe looks up
the mappings of the index among its entries. Only the parts inside rollbacks are read again.

Source: VLSNIndex.verify, DbStreamVerify, RollbackTracker, JE 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from je_tools.verify.judge import InspectedRows, Judge, RowInspector
from je_tools.verify.totals import Totals
from je_tools.verify.watched_entries import watched_entries
from je_tools.vlsn.all_findings import findings_of
from je_tools.vlsn.forecast import Forecast, forecasts
from je_tools.vlsn.index_state import IndexState, read_index_state
from je_tools.vlsn.judged_buckets import judge_buckets, right_in_log
from je_tools.vlsn.stored_index import mappings_of
from je_tools.vlsn.stream_probe import ProbedRows, StreamProbe
from je_tools.vlsn.stream_summary import StreamSummary, SummaryBuilder
from je_tools.vlsn.stream_tail import TailReader

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.recovery.snapshot import Snapshot


class StreamCheck(Struct, frozen=True):
    """Result of a check.

    Attributes:
        totals: counts of the verification of the log, with those of all findings.
        mapping_count: number of mappings that were compared with the log.
        stream: summary of the stream.
        findings: those of the log, then those of the index and the stream.
        forecasts: what the engine would do with the index, if it is damaged.
    """

    totals: Totals
    mapping_count: int
    stream: StreamSummary
    findings: list[Finding]
    forecasts: list[Forecast]


class _CheckWork(Struct, frozen=True):
    """Work for a scan: summarize rows for the judge, and the replication stream in them."""

    inspector: RowInspector
    probe: StreamProbe

    def __call__(self, rows: Rows) -> tuple[InspectedRows, ProbedRows | None]:
        seen = self.inspector(rows)
        return seen, self.probe(rows, seen.runs)


def check_stream(snapshot: Snapshot) -> StreamCheck:
    """Check the VLSN index of a node and its replication stream, by reading the whole log.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    totals = Totals(snapshot.environment.name)
    judge = Judge(snapshot.environment, totals)
    index = read_index_state(snapshot)
    mappings = mappings_of(index.usable.buckets).in_lsn_order()
    probe = StreamProbe(mappings.lsn, mappings.vlsn, index.usable.range, snapshot.end.next_lsn)
    builder = SummaryBuilder(probe)
    findings: list[Finding] = []
    scanner = replace(
        snapshot.scanner.staged("vlsn check", snapshot.environment.size),
        wide=True,
        asked=judge.inspector.asked,
        watched=watched_entries,
    )
    for part in scanner.scan(snapshot.environment, _CheckWork(judge.inspector, probe)):
        findings += judge.merge(part, [seen for seen, _ in part.results])
        builder.add(probed for _, probed in part.results)
    findings += judge.finish()
    stream = builder.finish(TailReader(snapshot).newest_ends)
    of_stream = findings_of(snapshot, index, mappings, stream)
    for each in of_stream:
        totals.count(each)
    return StreamCheck(
        totals,
        len(mappings),
        stream,
        [*findings, *of_stream],
        _forecasts(snapshot, index, stream, of_stream),
    )


def _forecasts(
    snapshot: Snapshot, index: IndexState, stream: StreamSummary, found: list[Finding]
) -> list[Forecast]:
    """Return what the engine would do with an index that has findings."""
    if not any(each.code.startswith("vlsn-index-") for each in found):
        return []
    judged = judge_buckets(
        index.stored, right_in_log(snapshot, mappings_of(index.stored.buckets), stream)
    )
    return forecasts(index, judged, stream, snapshot.end.files[-1].version)
