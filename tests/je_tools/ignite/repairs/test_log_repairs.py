"""Repairs that are planned for damaged logs and markers, and damage that is left."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from je_tools.errors import RefusedError, StoppedError
from je_tools.formats.ignite.segments import (
    SEGMENT_HEADER_SIZE,
    SegmentHeader,
    read_segment_header,
)
from je_tools.formats.ignite.types import NUMBERS
from je_tools.ignite.repairs import bogus_markers, lost_records
from je_tools.ignite.repairs.edits import EditKind, FileBytes
from je_tools.ignite.repairs.log_plan import LogPlan, plan_log_repairs
from je_tools.ignite.repairs.log_repairs import filler_record
from je_tools.ignite.repairs.lost_records import LostLogRecords
from je_tools.ignite.repairs.session import StoreSession
from je_tools.ignite.segment_files import inspect_segment
from je_tools.ignite.wal.segment_reading import read_segment
from tests.builders.ignite import (
    checkpoint_payload,
    data_payload,
    segment,
    write_marker,
    write_store,
)
from tests.builders.ignite_pages import page_file
from tests.builders.power_cuts import Recorder
from tests.je_tools.ignite.repairs.operations import digests, node_of

DATA = ("DATA_RECORD_V2", data_payload(b"key", b"value"))
FIRST, SECOND, OTHER = UUID(int=1), UUID(int=2), UUID(int=9)
TIMES = {FIRST: 1000, SECOND: 2000, OTHER: 3000}
ARCHIVE, WORK = Path("db", "wal", "archive", "node1"), Path("db", "wal", "node1")


class Log:
    """A store with a finished checkpoint in each of segments 0 and 1, and the offsets of records.

    Segment 1 is in the archive and in the ring, segment 2 only in the ring.
    """

    def __init__(self, root: Path, order: str = "<") -> None:
        self.root = root
        self.order = order
        self.data: list[bytes] = []
        self.offsets: list[list[int]] = []
        for no, checkpoint in enumerate((FIRST, SECOND, None)):
            records = [DATA] * 6
            if checkpoint is not None:
                records.insert(1, ("CHECKPOINT_RECORD", checkpoint_payload(checkpoint, {0: no})))
            if order == ">":
                records = [("DATA_RECORD_V2", data_payload(b"key", b"value", order=">"))] * 6
                if checkpoint is not None:
                    payload = checkpoint_payload(checkpoint, {0: no}, order=">")
                    records.insert(1, ("CHECKPOINT_RECORD", payload))
            data, offsets = segment(no, records, order=order)
            self.data.append(data)
            self.offsets.append(offsets)
        ring = [data.ljust(4096, b"\0") for data in self.data]
        write_store(root, self.data[:2], ring)
        (root / "db" / "node1" / "lock").touch()
        for no, checkpoint in enumerate((FIRST, SECOND)):
            for kind in ("START", "END"):
                self.marker(checkpoint, kind, no)

    def pointer(self, no: int) -> tuple[int, int, int]:
        first, second = self.offsets[no][1:3]
        return no, first, second - first

    def marker(self, checkpoint: UUID, kind: str, no: int) -> Path:
        return write_marker(
            self.root, TIMES[checkpoint], checkpoint, kind, self.pointer(no), self.order
        )

    def spoil(self, folder: Path, no: int, record: int, at: int = 40) -> None:
        """Flip a bit of a record in one copy of its segment."""
        path = self.root / folder / f"{no:016}.wal"
        data = bytearray(path.read_bytes())
        data[self.offsets[no][record] + at] ^= 4
        path.write_bytes(data)

    def plan(self, to_pointer: tuple[int, int] | None = None) -> LogPlan:
        return plan_log_repairs(node_of(self.root), 1, to_pointer)

    def repair(self, to_pointer: tuple[int, int] | None = None) -> LogPlan:
        with StoreSession(node_of(self.root), Recorder()) as session:
            plan = self.plan(to_pointer)
            session.apply(plan.edits, "recover")
        return plan

    def records(self, folder: Path, no: int) -> list[tuple[int, int]]:
        """Return offset and type of each record of a file that ends without damage."""
        with read_segment(inspect_segment(self.root / folder / f"{no:016}.wal")) as (rows, end):
            found = [
                pair
                for some in rows
                for pair in zip(
                    some.columns.at.tolist(), some.columns.type_no.tolist(), strict=True
                )
            ]
        assert not end.gaps
        return found


@pytest.fixture(params=["<", ">"], ids=["little", "big"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    return Log(tmp_path / "store", request.param)


def reasons(plan: LogPlan) -> str:
    return " | ".join(each.reason for each in plan.unrepaired)


def test_a_whole_log_needs_nothing(log: Log) -> None:
    plan = log.plan()
    assert (plan.repairs, plan.unrepaired, plan.first) == ((), (), 1)


def test_damage_that_recovery_does_not_read_is_left(log: Log) -> None:
    log.spoil(ARCHIVE, 0, 3)
    log.spoil(WORK, 1, 3)
    assert not log.plan().repairs


def test_bytes_are_taken_from_the_ring(log: Log) -> None:
    whole = digests(log.root)
    log.spoil(ARCHIVE, 1, 3)
    log.spoil(ARCHIVE, 1, 5)
    plan = log.repair()
    assert [each.lost for each in plan.repairs] == [None, None]
    assert {k: v for k, v in digests(log.root).items() if "undo" not in k} == whole


@pytest.mark.parametrize("size", [700, 300])
def test_an_archived_segment_that_was_cut_gets_its_end_back(log: Log, size: int) -> None:
    path = log.root / ARCHIVE / f"{1:016}.wal"
    path.write_bytes(log.data[1][:size])
    log.repair()
    assert path.read_bytes().rstrip(b"\0") == log.data[1]


def test_a_segment_that_the_archive_lacks_is_copied_from_the_ring(log: Log) -> None:
    path = log.root / ARCHIVE / f"{1:016}.wal"
    (log.root / ARCHIVE / f"{2:016}.wal").write_bytes(log.data[2])
    path.unlink()
    (repair,) = log.repair().repairs
    (edit,) = repair.edits
    assert edit.kind is EditKind.CREATE
    # A segment may be larger than the memory.
    assert isinstance(edit.data, FileBytes)
    assert path.read_bytes().rstrip(b"\0") == log.data[1]


def test_bytes_of_a_file_are_read_when_they_are_needed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    data = FileBytes(path)
    assert (len(data), data[2:5], data[8:99]) == (10, b"234", b"89")
    path.write_bytes(b"0123")
    with pytest.raises(StoppedError, match="became shorter"):
        data[2:5]


@pytest.mark.parametrize("no", [1, 2])
def test_a_header_that_no_file_has_is_written_anew(log: Log, no: int) -> None:
    for folder in (ARCHIVE, WORK)[no == 2 :]:
        path = log.root / folder / f"{no:016}.wal"
        path.write_bytes(b"\5garbage" + path.read_bytes()[8:])
    log.repair()
    folder = WORK if no == 2 else ARCHIVE
    data = (log.root / folder / f"{no:016}.wal").read_bytes()
    assert data.rstrip(b"\0") == log.data[no].rstrip(b"\0")


def test_an_unreadable_record_gives_way_to_one_that_recovery_ignores(log: Log) -> None:
    for folder in (ARCHIVE, WORK):
        log.spoil(folder, 1, 3)
    log.spoil(WORK, 2, 1)
    plan = log.repair()
    for repair in plan.repairs:
        assert repair.lost is not None
        assert repair.lost.text == "one record, probably DATA_RECORD_V2"
        (entry,) = repair.lost.entries
        assert (entry.cache_id, entry.op) == (9, "UPDATE")
    filler = NUMBERS["CLUSTER_SNAPSHOT"]
    assert log.records(ARCHIVE, 1)[3] == (log.offsets[1][3], filler)
    assert log.records(WORK, 2)[1] == (log.offsets[2][1], filler)
    assert not log.plan().repairs


def test_only_the_first_entries_of_a_lost_record_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = data_payload(b"key", b"value")[12:]
    data, (at,) = segment(0, [("DATA_RECORD_V2", struct.pack("<iq", 5, 1000) + entry * 5)])
    header = read_segment_header(data[:SEGMENT_HEADER_SIZE])
    assert isinstance(header, SegmentHeader)
    made: list[Any] = []
    monkeypatch.setattr(lost_records, "ENTRIES_MAX", 2)
    monkeypatch.setattr(lost_records, "LostEntry", lambda *args: made.append(args) or args)
    record = np.frombuffer(data[at:-1], np.uint8)
    entries, more = lost_records._entries(header, NUMBERS["DATA_RECORD_V2"], record)
    assert (len(entries), more, len(made)) == (2, 3, 2)
    assert entries == tuple(made)


def test_records_at_the_end_of_a_segment_that_no_file_has(log: Log) -> None:
    for folder in (ARCHIVE, WORK):
        log.spoil(folder, 1, 6)
    (repair,) = log.repair().repairs
    assert repair.lost is not None
    assert [offset for offset, _ in log.records(ARCHIVE, 1)] == log.offsets[1][:6]


@pytest.mark.parametrize("record", [1, 0])
def test_no_record_before_the_newest_checkpoint_is_passed_over(log: Log, record: int) -> None:
    """Recovery reads changes of pages there if the checkpoint is not finished."""
    (log.root / "db" / "node1" / "cp" / f"{TIMES[SECOND]}-{SECOND}-END.bin").unlink()
    for folder in (ARCHIVE, WORK):
        log.spoil(folder, 1, record)
    plan = log.plan()
    assert not plan.repairs
    assert "recovery needs" in reasons(plan) or "no checkpoint" in reasons(plan)


def test_a_segment_in_no_file(log: Log) -> None:
    for folder in (ARCHIVE, WORK):
        (log.root / folder / f"{1:016}.wal").unlink()
    plan = log.plan()
    assert not plan.repairs
    assert "segment 1 is in no file" in reasons(plan)


@pytest.mark.parametrize("size", range(21, 60))
def test_a_filler_is_a_record_of_the_size_that_is_asked_for(size: int, tmp_path: Path) -> None:
    data, offsets = segment(3, [DATA])
    header = read_segment_header(data[:29])
    assert isinstance(header, SegmentHeader)
    record = filler_record(header, offsets[0], size)
    if record is None:
        assert 21 < size < 25
        return
    assert len(record) == size
    path = tmp_path / f"{3:016}.wal"
    path.write_bytes(data[:29] + record + b"\x29")
    with read_segment(inspect_segment(path)) as (rows, end):
        assert [some.columns.length.tolist() for some in rows] == [[size]]
    assert not end.gaps


def test_a_cut_leaves_the_records_before_it(log: Log) -> None:
    cut = log.offsets[1][4]
    log.repair((1, cut))
    assert [offset for offset, _ in log.records(WORK, 1)] == log.offsets[1][:4]
    files = [path.name for path in sorted((log.root / ARCHIVE).glob("*.wal"))]
    assert files == [f"{0:016}.wal"]
    assert not (log.root / WORK / f"{2:016}.wal").exists()


def test_a_cut_in_a_segment_that_the_ring_lacks(log: Log) -> None:
    (log.root / WORK / f"{1:016}.wal").write_bytes(bytes(4096))
    log.repair((1, log.offsets[1][4]))
    assert [offset for offset, _ in log.records(WORK, 1)] == log.offsets[1][:4]
    assert (log.root / WORK / f"{1:016}.wal").stat().st_size == 4096


@pytest.mark.parametrize(
    ("segment_no", "record", "add", "text"),
    [
        (1, 1, 0, "the log can only be cut after its record"),
        (0, 4, 0, "the log can only be cut after its record"),
        (1, 4, 1, "no record begins there; records nearby: offset"),
        (7, 1, 0, "no file that the engine reads has the segment"),
    ],
)
def test_a_cut_that_is_refused(log: Log, segment_no: int, record: int, add: int, text: str) -> None:
    offset = log.offsets[min(segment_no, 2)][record] + add
    with pytest.raises(RefusedError, match=text):
        log.plan((segment_no, offset))


def test_a_cut_after_damage_that_stays(log: Log) -> None:
    for folder in (ARCHIVE, WORK):
        (log.root / folder / f"{1:016}.wal").unlink()
    with pytest.raises(RefusedError, match=r"damage before the cut remains|no checkpoint"):
        log.plan((2, log.offsets[2][3]))


def test_an_archived_segment_without_a_header_is_archived_anew(log: Log) -> None:
    """The node does so with the complete segment of the ring, once the file is gone."""
    path = log.root / ARCHIVE / f"{1:016}.wal"
    path.write_bytes(bytes(29) + log.data[1][29:])
    (repair,) = log.repair().repairs
    assert [(each.kind, each.path) for each in repair.edits] == [(EditKind.SET_ASIDE, path)]
    assert log.plan().edits == []


@pytest.mark.parametrize("lost_ring", [(0, 1, 2), (1,)], ids=["no ring", "not its segment"])
def test_an_archived_segment_without_a_header_stays_if_no_other_file_has_it(
    log: Log, lost_ring: tuple[int, ...]
) -> None:
    path = log.root / ARCHIVE / f"{1:016}.wal"
    path.write_bytes(bytes(512) + log.data[1][512:])
    for no in lost_ring:
        (log.root / WORK / f"{no:016}.wal").unlink()
    plan = log.plan()
    assert "may be the only one with the records of its segment" in reasons(plan)
    assert all(edit.path != path for edit in plan.edits)
    path.write_bytes(bytes(512))
    assert path in [edit.path for edit in log.plan().edits]


def test_a_file_without_a_header_after_the_ring_is_lost(log: Log) -> None:
    path = log.root / ARCHIVE / f"{3:016}.wal"
    path.write_bytes(bytes(99))
    (nothing,) = log.plan().repairs
    path.write_bytes(b"no header".ljust(99))
    (repair,) = log.plan().repairs
    assert [edit.path for edit in nothing.edits] == [edit.path for edit in repair.edits] == [path]
    assert nothing.lost is None
    assert repair.lost == LostLogRecords(3, 0, 99)


@pytest.mark.parametrize("no", [1, 2])
def test_a_cut_sets_aside_later_files_without_a_header(log: Log, no: int) -> None:
    """The node could not archive the segment of this name, once it is complete."""
    log.repair((1, log.offsets[1][3]))
    file = log.root / ARCHIVE / f"{no:016}.wal"
    file.write_bytes(b"no header".ljust(99))
    log.repair((1, log.offsets[1][2]))
    assert not file.exists()


def test_many_forged_begins_are_judged_by_one_look_at_the_log(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    looked = bogus_markers.logged_versions
    monkeypatch.setattr(
        bogus_markers, "logged_versions", lambda *args: looks.append(args) or looked(*args)
    )
    for no in range(50):
        write_marker(log.root, 4000 + no, UUID(int=100 + no), "START", (9, 29, 100))
    assert len(plan_log_repairs(node_of(log.root), 1).edits) == 50
    assert len(looks) == 1


@pytest.mark.parametrize("content", [b"", b"short", (77).to_bytes(8, "little") + bytes(8)])
def test_a_begin_that_no_checkpoint_wrote_is_set_aside(log: Log, content: bytes) -> None:
    marker = log.root / "db" / "node1" / "cp" / f"{TIMES[OTHER]}-{OTHER}-START.bin"
    marker.write_bytes(content)
    (repair,) = log.repair().repairs
    assert [each.kind for each in repair.edits] == [EditKind.SET_ASIDE]
    assert not marker.exists()


NAMES = ("1-x", f"{TIMES[SECOND]}-copy", f"9{'0' * 19}-{OTHER}", f"5000-{OTHER}-old")


@pytest.mark.parametrize("name", NAMES)
def test_a_marker_with_a_bad_name_is_set_aside(log: Log, name: str) -> None:
    folder = log.root / "db" / "node1" / "cp"
    whole = digests(log.root)
    for kind in ("START", "END"):
        (folder / f"{name}-{kind}.bin").write_bytes(b"x" * 16)
    repairs = log.repair().repairs
    assert [edit.kind for each in repairs for edit in each.edits] == [EditKind.SET_ASIDE] * 2
    assert {k: v for k, v in digests(log.root).items() if "undo" not in k} == whole


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "without its first segment"])
def test_an_end_with_a_bad_name_is_kept_if_the_log_before_it_is_gone(
    log: Log, is_whole: bool
) -> None:
    folder = log.root / "db" / "node1" / "cp"
    end = folder / f"{TIMES[SECOND]}-{SECOND}-END.bin"
    content = end.read_bytes()
    bad = end.rename(folder / f"{TIMES[SECOND]}-x-END.bin")
    if is_whole:
        (repair,) = log.plan().repairs
        assert [(each.kind, each.path) for each in repair.edits] == [(EditKind.SET_ASIDE, bad)]
        return
    copy = folder / f"{TIMES[SECOND]}-y-END.bin"
    copy.write_bytes(content)
    for place in (ARCHIVE, WORK):
        (log.root / place / f"{0:016}.wal").unlink()
    log.repair()
    assert not bad.exists()
    assert not copy.exists()
    assert end.read_bytes() == content
    assert log.plan().checkpoints.need.status == "finished"


def test_an_end_with_a_bad_name_of_no_checkpoint_stays_if_the_log_is_gone(log: Log) -> None:
    folder = log.root / "db" / "node1" / "cp"
    end = folder / f"{TIMES[SECOND]}-{SECOND}-END.bin"
    end.write_bytes(b"x" * 16)
    bad = end.rename(folder / f"{TIMES[SECOND]}-x-END.bin")
    for place in (ARCHIVE, WORK):
        (log.root / place / f"{0:016}.wal").unlink()
    plan = log.plan()
    assert "without it, recovery needs log that is not there" in reasons(plan)
    assert all(edit.path != bad for edit in plan.edits)


def test_a_begin_with_a_bad_name_that_may_be_real_stays(log: Log) -> None:
    """It is the only marker of the second checkpoint, whose pages may have been written."""
    folder = log.root / "db" / "node1" / "cp"
    (folder / f"{TIMES[SECOND]}-{SECOND}-END.bin").unlink()
    begin = folder / f"{TIMES[SECOND]}-{SECOND}-START.bin"
    bad = begin.rename(folder / f"{TIMES[SECOND]}-x-START.bin")
    plan = log.plan()
    assert "it may be real: the log has a checkpoint without a begin" in reasons(plan)
    assert all(edit.path != bad for edit in plan.edits)


def test_a_copy_of_a_begin_is_set_aside_while_the_checkpoint_is_unfinished(log: Log) -> None:
    folder = log.root / "db" / "node1" / "cp"
    (folder / f"{TIMES[SECOND]}-{SECOND}-END.bin").unlink()
    begin = folder / f"{TIMES[SECOND]}-{SECOND}-START.bin"
    copy = folder / f"{TIMES[SECOND]}-{SECOND}-copy-START.bin"
    copy.write_bytes(begin.read_bytes())
    assert [edit.path for edit in log.plan().edits] == [copy]


def test_a_begin_that_may_be_real_stays(log: Log) -> None:
    marker = log.root / "db" / "node1" / "cp" / f"{TIMES[OTHER]}-{OTHER}-START.bin"
    marker.write_bytes(b"")
    log.spoil(WORK, 2, 2)
    plan = log.plan()
    assert "it may be real: the log after the last finished checkpoint is not whole" in reasons(
        plan
    )
    assert all(edit.path != marker for edit in plan.edits)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "has pages, and is not in the last finished checkpoint"),
        (b"no header".ljust(99), "has no readable header"),
    ],
)
def test_a_begin_stays_if_a_partition_may_be_newer(
    log: Log, content: bytes | None, reason: str
) -> None:
    """The last finished checkpoint lists only partitions of another group."""
    file = log.root / "db" / "node1" / "cache-first" / "part-0.bin"
    file.parent.mkdir()
    file.write_bytes(page_file(0, [14, 15], log.order) if content is None else content)
    marker = log.root / "db" / "node1" / "cp" / f"{TIMES[OTHER]}-{OTHER}-START.bin"
    marker.write_bytes(b"")
    plan = log.plan()
    assert (plan.edits, f"first part-0.bin {reason}" in reasons(plan)) == ([], True)


def test_a_begin_stays_if_a_partition_cannot_be_read(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("je_tools.ignite.repairs.bogus_markers.cache_id", lambda _: 9)
    file = log.root / "db" / "node1" / "cache-first" / "part-0.bin"
    file.parent.mkdir()
    file.write_bytes(page_file(0, [14, 15], log.order))
    marker = log.root / "db" / "node1" / "cp" / f"{TIMES[OTHER]}-{OTHER}-START.bin"
    marker.write_bytes(b"")
    preadv = os.preadv

    def with_bad_sectors(fd: int, buffers: Any, offset: int) -> int:
        is_meta = offset + sum(map(len, buffers)) > 1024
        if is_meta and os.path.sameopenfile(fd, opened.fileno()):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return preadv(fd, buffers, offset)

    with file.open("rb") as opened:
        monkeypatch.setattr(os, "preadv", with_bad_sectors)
        plan = log.plan()
    assert (plan.edits, "has no readable meta page" in reasons(plan)) == ([], True)


def test_a_real_begin_gets_its_content_back(log: Log) -> None:
    (log.root / "db" / "node1" / "cp" / f"{TIMES[SECOND]}-{SECOND}-END.bin").unlink()
    marker = log.root / "db" / "node1" / "cp" / f"{TIMES[SECOND]}-{SECOND}-START.bin"
    content = marker.read_bytes()
    marker.write_bytes(b"")
    (repair,) = log.repair().repairs
    assert "the log has the record of checkpoint" in repair.edits[0].reason
    assert marker.read_bytes() == content


def test_a_real_unfinished_begin_is_never_removed(log: Log) -> None:
    (log.root / "db" / "node1" / "cp" / f"{TIMES[SECOND]}-{SECOND}-END.bin").unlink()
    assert not log.plan().edits
