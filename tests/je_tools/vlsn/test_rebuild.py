"""`vlsn rebuild` makes the index that the engine has, repairs all damage, and can be undone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from je_tools.append.apply import plan_append
from je_tools.errors import EXIT_DAMAGE, EXIT_INPUT, EXIT_OK, EXIT_REFUSED
from je_tools.formats.je.internal.replication import VlsnRange
from je_tools.operations.index_rebuild import IndexRebuild
from je_tools.operations.stream_rollback import StreamRollback
from je_tools.vlsn.index import NO_VLSN, BucketRules
from je_tools.vlsn.index_state import read_index_state
from je_tools.vlsn.judged_buckets import judge_buckets, right_in_stream
from je_tools.vlsn.rebuild_plan import plan_rebuild
from je_tools.vlsn.rebuilt_index import first_vlsn, rebuilt
from je_tools.vlsn.recovered_index import merged_index, read_index, stream_since_checkpoint
from je_tools.vlsn.stored_index import mappings_of
from je_tools.vlsn.whole_stream import indexable, read_whole_stream
from tests.corpus import FIXTURES, Environment
from tests.je_tools.checkpoint.nodes import copy_up_to, entries_of, member, nodes, stream_of, write
from tests.je_tools.dumped import je_tools
from tests.je_tools.vlsn.damages import DAMAGES
from tests.je_tools.vlsn.indexes import NOW_MS, append_entry, copy_of, snapshot_of_node
from tests.je_tools.writing.operations import digests, put_back

NODE = FIXTURES / "starrocks-rep-uncommitted" / "node1"
CRASHED = FIXTURES / "v17-rep-uncommitted-before" / "node1"
PLAIN = FIXTURES / "v17-basic" / "env"
MILD = ("middle missing",)
"""Damage that the engine does not mind, and that is a warning."""


@pytest.mark.parametrize("node", nodes())
def test_the_rebuilt_index_is_the_engines(node: Environment) -> None:
    """It has the same range, also after recovery, and leads to the same entries."""
    snapshot = member(node.home)
    assert plan_rebuild(snapshot).new is None
    stream = indexable(snapshot, read_whole_stream(snapshot))
    state = read_index_state(snapshot)
    judged = judge_buckets(state.stored, right_in_stream(state.stored, stream))
    first = first_vlsn(state.stored, judged, stream)
    stream = stream.select(stream.vlsn >= first)
    index = rebuilt(snapshot, stream)
    engines = read_index(snapshot)
    assert index.range == engines.range
    recovered = merged_index(snapshot, index, stream_since_checkpoint(snapshot))
    assert state.recovered is not None
    assert recovered.range == state.recovered.range
    shown = {vlsn: entry.lsn for vlsn, entry in stream_of(node.home).items()}
    for each in (index, engines):
        mappings = mappings_of(each.buckets)
        assert [shown[vlsn] for vlsn in mappings.vlsn.tolist()] == mappings.lsn.tolist()
    assert_whole(snapshot, index.buckets, index.range.last)


def assert_whole(snapshot: object, buckets: object, last: int) -> None:
    """Check that buckets cover every VLSN, and that no VLSN is far from a mapping."""
    rules = BucketRules(10, 1000, 100_000)
    expected = None
    for bucket in buckets:  # type: ignore[attr-defined]
        assert expected in (None, bucket.first)
        assert len(bucket.offsets) <= rules.mappings
        assert all(bucket.offsets)
        assert (np.diff(bucket.offsets) <= rules.distance).all()
        expected = bucket.last + 1
    assert (expected or 0) - 1 == last or last == NO_VLSN


@pytest.fixture(scope="module")
def whole() -> VlsnRange:
    """Return the range of the index of NODE."""
    return read_index(snapshot_of_node(NODE)).range


@pytest.mark.parametrize("name", DAMAGES)
def test_every_damage_is_mended(name: str, whole: VlsnRange, tmp_path: Path) -> None:
    home = copy_of(NODE, tmp_path / "node")
    DAMAGES[name](home)
    before = digests(home)
    dry = je_tools("vlsn", "rebuild", home, "--format", "jsonl")
    rows = [json.loads(line) for line in dry.out.splitlines()]
    assert digests(home) == before
    assert dry.code == (EXIT_OK if name in MILD else EXIT_DAMAGE)
    assert {"append", "changes", "landmarks", "forecasts", "findings"} >= {
        row["section"] for row in rows if "section" in row
    }
    forecasts = [row for row in rows if row.get("section") == "forecasts"]
    assert forecasts
    checked = je_tools("vlsn", "check", home)
    assert all(row["damage"] in " ".join(checked.err.split()) for row in forecasts)
    done = je_tools("vlsn", "rebuild", home, "--apply")
    assert done.code == EXIT_OK, done.err
    assert "before the first node of the group is opened" in done.err
    found = je_tools("vlsn", "check", home, "--format", "jsonl").out.splitlines()
    assert not [row for row in map(json.loads, found) if row["code"].startswith("vlsn")]
    assert read_index(snapshot_of_node(home)).range == whole
    put_back(home)
    assert digests(home) == before


@pytest.mark.parametrize("name", ["no database", "short"])
def test_a_rebuilt_index_is_not_rebuilt_again(name: str, tmp_path: Path) -> None:
    home = copy_of(NODE, tmp_path / "node")
    DAMAGES[name](home)
    assert je_tools("vlsn", "rebuild", home, "--apply").code == EXIT_OK
    again = je_tools("vlsn", "rebuild", home)
    assert again.code == EXIT_OK
    assert b"the log is as it should be" in again.out


def test_an_index_in_order_stays_as_it_is(tmp_path: Path) -> None:
    home = copy_of(CRASHED, tmp_path / "node")
    before = digests(home)
    for words in ((), ("--apply",)):
        done = je_tools("vlsn", "rebuild", home, *words)
        assert done.code == EXIT_OK
        assert "before the first node" not in done.err
    assert digests(home) == before


def test_a_copy_gets_the_index(tmp_path: Path) -> None:
    home = copy_of(NODE, tmp_path / "node")
    DAMAGES["short"](home)
    before = digests(home)
    done = je_tools("vlsn", "rebuild", home, "--apply", "--output", tmp_path / "copy")
    assert done.code == EXIT_OK, done.err
    assert digests(home) == before
    assert je_tools("vlsn", "check", tmp_path / "copy").code == EXIT_OK


@pytest.mark.parametrize("name", ["no records", "no range", "short", "no tree", "no database"])
def test_a_node_with_vlsns_after_its_checkpoint(name: str, tmp_path: Path) -> None:
    """The index ends before the first of them, and recovery appends them."""
    home = copy_of(CRASHED, tmp_path / "node")
    foretold = read_index_state(snapshot_of_node(home)).recovered
    DAMAGES[name](home)
    done = je_tools("vlsn", "rebuild", home, "--apply")
    assert done.code == EXIT_OK, done.err
    state = read_index_state(snapshot_of_node(home))
    assert state.stored.range is not None
    assert state.tracked_vlsn == state.stored.range.last + 1
    assert state.recovered is not None
    assert foretold is not None
    assert state.recovered.range == foretold.range
    assert je_tools("vlsn", "check", home).code == EXIT_OK


@pytest.mark.parametrize(("step", "text"), [(0, "used twice"), (2, "missing or damaged")])
def test_a_stream_that_is_not_whole_is_refused(step: int, text: str, tmp_path: Path) -> None:
    """The message names both sides."""
    home = copy_of(NODE, tmp_path / "node")
    DAMAGES["short"](home)
    last = max(stream_of(home))
    append_entry(home, "Matchpoint", {"time_ms": NOW_MS, "master_node_id": 1}, vlsn=last + step)
    before = digests(home)
    for words in ((), ("--apply",)):
        done = je_tools("vlsn", "rebuild", home, *words)
        assert done.code == EXIT_REFUSED
        assert f"VLSN {last + step} at 0x0/" in done.err
        assert f"follows VLSN {last} at 0x0/" in done.err
        assert text in done.err
    assert digests(home) == before


def test_a_stream_after_a_checkpoint_cut_short(tmp_path: Path) -> None:
    """Nothing was logged after the checkpoint, so the index reaches the end of the stream."""
    home = copy_up_to(CRASHED, entries_of(CRASHED)[-1].lsn, tmp_path / "node")
    write(home)
    DAMAGES["no records"](home)
    last = max(stream_of(home))
    assert je_tools("vlsn", "rebuild", home, "--apply").code == EXIT_OK
    assert read_index(snapshot_of_node(home)).range.last == last


def test_an_index_that_is_not_as_planned_is_a_difference(tmp_path: Path) -> None:
    """The log read after the write may be anything; it is reported, and raises nothing."""
    before = member(CRASHED)
    rollback, rebuild = StreamRollback(1224), IndexRebuild()
    plan_append(before, rollback)
    for name, text in {"unreadable bucket": "not readable", "short": "continues with"}.items():
        home = copy_of(CRASHED, tmp_path / name)
        DAMAGES[name](home)
        told = rollback.difference(before, member(home))
        assert "would not continue with the VLSN index" in told
        assert text in told
    plan_append(member(home), rebuild)
    assert "not readable" in rebuild.difference(before, member(tmp_path / "unreadable bucket"))
    assert "not the new one" in rebuild.difference(before, member(home))


def test_a_log_without_replication_is_refused() -> None:
    done = je_tools("vlsn", "rebuild", PLAIN)
    assert done.code == EXIT_INPUT
    assert "not replicated" in done.err
