"""Plan to rebuild a VLSN index: compare the stored one with the log, and build a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.core.escaping import quoted
from je_tools.errors import RefusedError
from je_tools.recovery.internal_databases import check_replicated
from je_tools.vlsn.all_findings import findings_of
from je_tools.vlsn.forecast import Forecast, forecasts
from je_tools.vlsn.index import MisfitError, VlsnIndex
from je_tools.vlsn.index_state import IndexState, read_index_state
from je_tools.vlsn.judged_buckets import StoredBuckets, judge_buckets, right_in_stream
from je_tools.vlsn.rebuilt_index import first_vlsn, rebuilt
from je_tools.vlsn.recovered_index import merged_index, stream_since_checkpoint
from je_tools.vlsn.stored_index import mappings_of
from je_tools.vlsn.stream_probe import StreamProbe
from je_tools.vlsn.stream_tail import TailReader
from je_tools.vlsn.whole_stream import indexable, read_whole_stream, summarize_stream

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.recovery.snapshot import Snapshot


class RebuildPlan(Struct, frozen=True):
    """A stored index, and the one that replaces it.

    Attributes:
        state: the stored index.
        judged: its buckets, compared with the log; None if the index is in order.
        findings: findings on the index and the stream.
        new: the new index; None if the stored one is in order.
        recovered: the new index after recovery; None if the stored one is in order.
        forecasts: what the engine would do with the stored index.
    """

    state: IndexState
    judged: StoredBuckets | None
    findings: list[Finding]
    new: VlsnIndex | None
    recovered: VlsnIndex | None
    forecasts: list[Forecast]


def plan_rebuild(snapshot: Snapshot) -> RebuildPlan:
    """Read the whole log, compare the index with it, and build a new index if it is damaged.

    Raises:
        InputError: the log is not that of a replicated node, or a file cannot be read.
        RefusedError: the stream has gaps or repeats, or the engine would not continue any index.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    check_replicated(snapshot)
    state = read_index_state(snapshot)
    mappings = mappings_of(state.usable.buckets).in_lsn_order()
    probe = StreamProbe(mappings.lsn, mappings.vlsn, state.usable.range, snapshot.end.next_lsn)
    summary = summarize_stream(snapshot, probe, TailReader(snapshot).newest_ends)
    findings = findings_of(snapshot, state, mappings, summary)
    is_wrong = any(each.code.startswith("vlsn-index-") for each in findings)
    if not is_wrong and summary.runs.is_whole:
        return RebuildPlan(state, None, findings, None, None, [])
    # All entries of the stream are kept in memory only if the index or the stream is damaged.
    stream = indexable(snapshot, read_whole_stream(snapshot))
    if not is_wrong:
        return RebuildPlan(state, None, findings, None, None, [])
    judged = judge_buckets(state.stored, right_in_stream(state.stored, stream))
    name = snapshot.environment.name
    if not len(stream):
        raise RefusedError(
            f"{name}: the log has no entry of the replication stream, so there is nothing to build "
            "an index from: restore the whole node from another one (network restore)"
        )
    first = first_vlsn(state.stored, judged, stream)
    stream = stream.select(stream.vlsn >= first)
    new = rebuilt(snapshot, stream, judged.right)
    try:
        recovered = merged_index(snapshot, new, stream_since_checkpoint(snapshot), is_new=True)
    except MisfitError as error:
        raise RefusedError(
            f"{name}: the engine would not continue with an index of this log: {error}. `je-tools "
            f"vlsn check {quoted(name)}` shows what is wrong with the log."
        ) from error
    if recovered.range.last != int(stream.vlsn[-1]):
        raise AssertionError(f"{name}: a rebuilt index ends at {recovered.range.last}")
    predicted = forecasts(state, judged, summary, snapshot.end.files[-1].version)
    return RebuildPlan(state, judged, findings, new, recovered, predicted)
