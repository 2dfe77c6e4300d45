"""The summary of a stream says the same as its columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from je_tools.formats.je.internal.replication import VlsnRange
from je_tools.vlsn import stream_summary
from je_tools.vlsn.index_state import read_index_state
from je_tools.vlsn.logged_stream import EntryState, LoggedStream
from je_tools.vlsn.stored_index import mappings_of, read_stored
from je_tools.vlsn.stream_probe import StreamProbe
from je_tools.vlsn.stream_summary import StreamSummary
from je_tools.vlsn.stream_tail import TailReader
from je_tools.vlsn.sync_points import IS_SYNC_POINT, IS_TXN_END
from je_tools.vlsn.whole_stream import read_whole_stream, summarize_stream
from tests.corpus import FIXTURES, Environment
from tests.je_tools.checkpoint.nodes import copy_up_to, entries_of, nodes, stream_of
from tests.je_tools.vlsn.indexes import NOW_MS, append_entry, copy_of, snapshot_of_node

ROLLED_BACK = FIXTURES / "starrocks-rep-uncommitted" / "node1"
LAST = 1 << 60


def summary_of(home: Path, index_last: int | None = None) -> StreamSummary:
    snapshot = snapshot_of_node(home)
    index = read_index_state(snapshot).usable
    mappings = mappings_of(index.buckets).in_lsn_order()
    covered = index.range
    if index_last is not None:
        covered = VlsnRange(1, 1, index_last, index_last, index_last)
    probe = StreamProbe(mappings.lsn, mappings.vlsn, covered, snapshot.end.next_lsn)
    return summarize_stream(snapshot, probe, TailReader(snapshot).newest_ends)


def assert_same(home: Path, *, with_ends: bool = True) -> LoggedStream:
    logged = read_whole_stream(snapshot_of_node(home)).logged
    visible = logged.state == EntryState.VISIBLE
    for last in {LAST, *np.quantile(logged.vlsn, [0.2, 0.9]).astype(int).tolist()}:
        summary = summary_of(home, last)
        assert summary.entry_count == len(logged)
        assert summary.visible_count == visible.sum()
        assert summary.first_vlsn == logged.vlsn[visible].min()
        covered = visible & (logged.vlsn <= last)
        newest = [logged.vlsn[mask][-1] for mask in (
            visible, covered & IS_SYNC_POINT[logged.type], covered & IS_TXN_END[logged.type]
        )]  # fmt: skip
        end = summary.end
        assert not with_ends or [end.last_vlsn, end.last_sync, end.last_txn_end] == newest
    hidden = logged.state == EntryState.INVISIBLE
    assert (summary.states(logged.lsn, logged.vlsn, hidden) == logged.state).all()
    assert [each.start_lsn for each in summary.rollbacks] == [
        each.start_lsn for each in logged.rollbacks
    ]
    return logged


@pytest.mark.parametrize("node", nodes())
def test_of_what_engines_wrote(node: Environment) -> None:
    assert_same(node.home)
    assert summary_of(node.home).is_right.all()


def test_of_a_rollback_without_marks(tmp_path: Path) -> None:
    """The last sync points are before the rollback, and so not among the rows after it."""
    lsn = entries_of(ROLLED_BACK)[-1].lsn
    home = copy_up_to(ROLLED_BACK, lsn, tmp_path / "node", unmarked=True)
    logged = assert_same(home)
    assert (logged.state == EntryState.ROLLED_BACK).any()


def test_of_a_rollback_over_ends_of_transactions(tmp_path: Path) -> None:
    """The newest sync points were undone, so the log is searched for earlier ones."""
    home = copy_of(ROLLED_BACK, tmp_path / "node")
    stream = stream_of(home)
    vlsn = sorted(vlsn for vlsn, each in stream.items() if each.type_no == 17)[-5]
    fields = {
        "matchpoint_vlsn": vlsn,
        "matchpoint_lsn": stream[vlsn].lsn,
        "time_ms": NOW_MS,
        "active_txn_count": 0,
        "active_txns": [],
    }
    append_entry(home, "RollbackStart", fields)
    assert summary_of(home, LAST).end.last_sync == vlsn
    assert_same(home)


def test_of_vlsns_that_were_used_twice(tmp_path: Path) -> None:
    home = copy_of(ROLLED_BACK, tmp_path / "node")
    last = max(stream_of(home))
    for vlsn in (last - 2, last - 1, last - 20, last):
        append_entry(home, "Matchpoint", {"time_ms": NOW_MS, "master_node_id": 1}, vlsn=vlsn)
    logged = assert_same(home, with_ends=False)
    assert (logged.state == EntryState.REPEATED).sum() == 4


def test_a_mapping_to_a_vlsn_that_was_used_again_is_wrong(tmp_path: Path) -> None:
    home = copy_of(ROLLED_BACK, tmp_path / "node")
    last = max(stream_of(home))
    stored = mappings_of(read_stored(snapshot_of_node(home)).buckets).in_lsn_order()
    append_entry(home, "Matchpoint", {"time_ms": NOW_MS, "master_node_id": 1}, vlsn=last)
    snapshot = snapshot_of_node(home)
    covered = read_index_state(snapshot).usable.range
    probe = StreamProbe(stored.lsn, stored.vlsn, covered, snapshot.end.next_lsn)
    summary = summarize_stream(snapshot, probe, TailReader(snapshot).newest_ends)
    assert stored.vlsn[~summary.is_right].tolist() == [last]


def test_a_hostile_number_of_runs_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_summary, "RUNS_MAX", 2)
    home = copy_of(ROLLED_BACK, tmp_path / "node")
    last = max(stream_of(home))
    for vlsn in (last + 5, last + 10, last + 15):
        append_entry(home, "Matchpoint", {"time_ms": NOW_MS, "master_node_id": 1}, vlsn=vlsn)
    assert len(summary_of(home).runs) == 2
