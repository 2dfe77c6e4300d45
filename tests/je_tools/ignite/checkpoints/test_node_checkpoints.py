"""Checkpoints: equal to those of the engine, and each planted fault found."""

from __future__ import annotations

import struct
from pathlib import Path
from uuid import UUID

import pytest

from je_tools.errors import InputError
from je_tools.findings import Severity
from je_tools.formats.ignite.markers import MarkerKind
from je_tools.ignite.checkpoints.judge import CheckpointJudge
from je_tools.ignite.checkpoints.node_checkpoints import NodeCheckpoints, node_checkpoints
from je_tools.ignite.checkpoints.reach import group_reach, partition_reach
from je_tools.ignite.node_findings import NodeFinding
from tests.builders import ignite as build
from tests.corpus import IgniteNode, damaged_store
from tests.je_tools.ignite.reading import node_of
from tests.truth.ignite import EngineRecord, engine_records

ORDERS = ("<", ">")
ONE, TWO, THREE = build.CHECKPOINTS
FOREIGN = UUID(int=9)


def _read(store: Path, node: str = "node1") -> NodeCheckpoints:
    return node_checkpoints(node_of(store, node), 2)


def _findings(store: Path) -> list[NodeFinding]:
    return list(CheckpointJudge(_read(store), str(store)).findings())


def _codes(store: Path) -> list[tuple[str, Severity]]:
    return [(each.code, each.severity) for each in _findings(store)]


def _marker(store: Path, n: int, kind: str) -> Path:
    name = f"{build.CHECKPOINT_TIMES[n]}-{build.CHECKPOINTS[n]}-{kind}.bin"
    return store / "db" / "node1" / "cp" / name


def _engine_markers(node: IgniteNode) -> set[tuple[str, ...]]:
    lines = (node.truth / "markers.tsv").read_text().splitlines()
    rows = [tuple(line.split("\t")) for line in lines if not line.startswith("#")]
    return {row for row in rows if len(row) == 6}


def _engine_checkpoints(node: IgniteNode) -> list[EngineRecord]:
    records = engine_records(node.truth / "wal.tsv.gz")
    return [each for each in records if each.type_name == "CHECKPOINT_RECORD"]


def test_markers_are_those_of_the_engine(ignite_node: IgniteNode) -> None:
    found = set()
    for each in _read(ignite_node.store, ignite_node.node).checkpoints:
        for marker in filter(None, (each.begin, each.end)):
            assert marker.pointer is not None
            place = (marker.pointer.segment, marker.pointer.offset, marker.pointer.length)
            texts = (each.time_ms, each.checkpoint, marker.name.kind.value, *place)
            found.add(tuple(map(str, texts)))
    assert found == _engine_markers(ignite_node)


def test_records_are_those_of_the_engine(ignite_node: IgniteNode) -> None:
    found = _read(ignite_node.store, ignite_node.node)
    engine = {
        each.detail.split(" ")[0].removeprefix("id="): each
        for each in _engine_checkpoints(ignite_node)
    }
    assert {str(each.checkpoint) for each in found.checkpoints} <= engine.keys()
    for each in found.checkpoints:
        assert each.record is not None
        assert each.pointer is not None
        record = engine[str(each.checkpoint)]
        # In a compacted segment, the engine reports the place in the unpacked file.
        assert (each.pointer.segment, each.pointer.length) == (record.segment, record.length)


def test_a_store_of_the_engine_has_only_notes(ignite_node: IgniteNode) -> None:
    found = _read(ignite_node.store, ignite_node.node)
    judge = CheckpointJudge(found, str(ignite_node.store))
    kinds = {(row[1], row[2]) for row in _engine_markers(ignite_node)}
    begun = {checkpoint for checkpoint, kind in kinds if kind == "START"}
    ended = {checkpoint for checkpoint, kind in kinds if kind == "END"}
    notes = [each.code for each in judge.findings()]
    assert notes == ["marker-unfinished"] * len(begun - ended)
    assert found.need.status == ("unfinished" if begun - ended else "finished")
    assert found.need.missing == ()


def test_counters_are_those_of_the_newest_record(ignite_node: IgniteNode) -> None:
    found = _read(ignite_node.store, ignite_node.node)
    newest = str(found.checkpoints[-1].checkpoint)
    (record,) = [r for r in _engine_checkpoints(ignite_node) if f"id={newest} " in r.detail]
    expected = set()
    for part in record.detail.strip().split(" | ")[1:]:
        group, *rows = part.split(" ")
        for row in rows:
            partition, size, counter, _ = map(int, row.split("/"))
            expected.add((int(group.removeprefix("grp=")), partition, size, counter))
    reach = list(partition_reach(found))
    assert {(r.group_id, r.partition, r.size, r.counter_to) for r in reach} == expected
    assert all(0 <= r.counter_from <= r.counter_to for r in reach)


def test_planted_markers_are_found(ignite_damage: Path, tmp_path: Path) -> None:
    codes = [
        c
        for c, severity in _codes(damaged_store(ignite_damage, tmp_path))
        if severity is not Severity.NOTE
    ]
    expected = {
        "ignite-marker-empty": ["marker-bad"],
        "ignite-marker-foreign": ["checkpoint-no-record", "checkpoint-missing-wal"],
    }
    assert codes == expected.get(ignite_damage.name, [])


@pytest.mark.parametrize("order", ORDERS)
def test_an_unfinished_checkpoint_needs_the_log_from_the_one_before(
    order: str, tmp_path: Path
) -> None:
    pointers = build.write_checkpointed_store(tmp_path, order)
    found = _read(tmp_path)
    assert [each.record is not None for each in found.checkpoints] == [True] * 3
    need = found.need
    assert (need.status, need.first, need.offset, need.last) == ("unfinished", *pointers[1][:2], 2)
    assert (need.needed_files, need.removable_files) == (2, 1)
    assert _codes(tmp_path) == [("marker-unfinished", Severity.NOTE)]


def test_a_finished_checkpoint_needs_the_log_from_its_begin(tmp_path: Path) -> None:
    pointers = build.write_checkpointed_store(tmp_path)
    build.write_marker(tmp_path, build.CHECKPOINT_TIMES[2], THREE, "END", pointers[2])
    need = _read(tmp_path).need
    assert (need.status, need.first, need.removable_files) == ("finished", 2, 2)
    assert _codes(tmp_path) == []


def test_a_mark_tells_where_the_replay_of_pages_begins(tmp_path: Path) -> None:
    payload = build.checkpoint_payload(ONE, {0: 1}, mark=(0, 29, 29))
    second = build.checkpoint_payload(TWO, {0: 1}, mark=(1, 29, 29))
    recovery = ("MEMORY_RECOVERY", build.recovery_payload(1))
    segments = [
        build.segment(n, [recovery, ("CHECKPOINT_RECORD", each)])
        for n, each in enumerate((payload, second))
    ]
    build.write_store(tmp_path, [data for data, _ in segments], [])
    places = [(n, offsets[1], len(payload) + 21) for n, (_, offsets) in enumerate(segments)]
    build.write_marker(tmp_path, 1, ONE, "START", places[0])
    build.write_marker(tmp_path, 1, ONE, "END", places[0])
    build.write_marker(tmp_path, 2, TWO, "START", places[1])
    need = _read(tmp_path).need
    assert (need.status, need.first, need.offset) == ("unfinished", 1, 29)


def test_the_reach_ends_at_a_missing_segment(tmp_path: Path) -> None:
    build.write_checkpointed_store(tmp_path)
    (group,) = group_reach(_read(tmp_path))
    assert (group.partitions, group.segment, group.updates, group.size) == (2, 0, 30, 60)
    (tmp_path / "db/wal/archive/node1/0000000000000001.wal").unlink()
    found = _read(tmp_path)
    assert [(r.segment, r.counter_from) for r in partition_reach(found)] == [(2, 20), (2, 10)]
    assert found.need.missing == ((1, 2),)
    assert found.need.removable_files == 0
    assert ("checkpoint-missing-wal", Severity.ERROR) in _codes(tmp_path)


def test_an_old_checkpoint_may_have_lost_its_segment(tmp_path: Path) -> None:
    build.write_checkpointed_store(tmp_path)
    (tmp_path / "db/wal/archive/node1/0000000000000000.wal").unlink()
    notes = {severity for _, severity in _codes(tmp_path)}
    assert _codes(tmp_path)[0][0] == "checkpoint-no-record"
    assert notes == {Severity.NOTE}


@pytest.mark.parametrize("content", [b"", bytes(15), bytes(17), struct.pack("<qii", -1, 0, 0)])
def test_a_marker_that_is_no_pointer(content: bytes, tmp_path: Path) -> None:
    build.write_checkpointed_store(tmp_path)
    _marker(tmp_path, 2, "START").write_bytes(content)
    found = _read(tmp_path)
    assert ("marker-bad", Severity.ERROR) in _codes(tmp_path)
    assert (found.need.status, found.need.first, found.need.removable_files) == ("unclear", None, 0)


def test_names_that_are_no_checkpoints(tmp_path: Path) -> None:
    build.write_checkpointed_store(tmp_path)
    folder = tmp_path / "db" / "node1" / "cp"
    (folder / "7-nothing-START.bin").write_bytes(bytes(16))
    (folder / "8-x-START.bin.tmp").write_bytes(b"")
    assert [code for code, _ in _codes(tmp_path)] == [
        "marker-bad",
        "marker-leftover",
        "marker-unfinished",
    ]


def test_begin_and_end_that_differ(tmp_path: Path) -> None:
    pointers = build.write_checkpointed_store(tmp_path)
    build.write_marker(tmp_path, build.CHECKPOINT_TIMES[0], ONE, "END", pointers[1])
    assert ("marker-differs", Severity.ERROR) in _codes(tmp_path)


def test_an_end_without_a_begin(tmp_path: Path) -> None:
    build.write_checkpointed_store(tmp_path)
    _marker(tmp_path, 1, "START").unlink()
    assert ("marker-no-begin", Severity.ERROR) in _codes(tmp_path)


def test_a_removed_begin_is_seen_in_the_log(tmp_path: Path) -> None:
    pointers = build.write_checkpointed_store(tmp_path)
    _marker(tmp_path, 2, "START").unlink()
    (found,) = _findings(tmp_path)
    assert (found.code, found.segment, found.offset) == ("checkpoint-unmarked", *pointers[2][:2])
    assert found.severity is Severity.WARNING


def test_a_pointer_to_the_record_of_another_checkpoint(tmp_path: Path) -> None:
    pointers = build.write_checkpointed_store(tmp_path)
    build.write_marker(tmp_path, build.CHECKPOINT_TIMES[2] + 1, FOREIGN, "START", pointers[2])
    found = [each for each in _findings(tmp_path) if each.code == "checkpoint-no-record"]
    assert [each.found for each in found] == [f"that of checkpoint {THREE}"]
    assert _read(tmp_path).need.removable_files == 0


def test_a_store_without_markers_needs_the_whole_log(tmp_path: Path) -> None:
    build.write_checkpointed_store(tmp_path)
    for path in (tmp_path / "db" / "node1" / "cp").iterdir():
        path.unlink()
    found = _read(tmp_path)
    assert (found.need.status, found.need.first) == ("none", 0)
    assert [code for code, _ in _codes(tmp_path)] == ["checkpoint-unmarked"] * 3


def test_recovery_files_are_counted(tmp_path: Path) -> None:
    build.write_checkpointed_store(tmp_path)
    for n in range(2):
        name = f"{build.CHECKPOINT_TIMES[2]}-{THREE}-RECOVERY-{n}.bin"
        (tmp_path / "db" / "node1" / "cp" / name).write_bytes(b"")
    assert [each.recovery_files for each in _read(tmp_path).checkpoints] == [0, 0, 2]


def test_segments_alone_have_no_markers(tmp_path: Path) -> None:
    build.write_checkpointed_store(tmp_path)
    with pytest.raises(InputError, match="no checkpoint markers"):
        _read(tmp_path / "db" / "wal" / "node1", "")


def test_the_newest_markers_are_the_last(tmp_path: Path) -> None:
    build.write_checkpointed_store(tmp_path)
    kinds = [each.name.kind for each in _read(tmp_path).folder.markers]
    assert kinds == [MarkerKind.START, MarkerKind.END] * 2 + [MarkerKind.START]


def test_pages_are_not_replayed_from_compacted_segments(tmp_path: Path) -> None:
    build.write_checkpointed_store(tmp_path)
    path = tmp_path / "db/wal/archive/node1/0000000000000001.wal"
    path.write_bytes(build.header(1, compacted=True) + path.read_bytes()[29:])
    (missing,) = [each for each in _findings(tmp_path) if each.severity is Severity.ERROR]
    assert (missing.code, missing.segment) == ("checkpoint-missing-wal", 1)
    name = f"{build.CHECKPOINT_TIMES[2]}-{THREE}-RECOVERY-0.bin"
    (tmp_path / "db" / "node1" / "cp" / name).write_bytes(b"")
    assert _codes(tmp_path) == [("marker-unfinished", Severity.NOTE)]
