"""Space of files compared with the engine's output, reasons for files, and disk limits."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from je_tools.core.properties import Settings
from je_tools.formats.je.internal.cleaner import Expirations
from je_tools.log.log_files import LogFile
from je_tools.log.opening import open_environment
from je_tools.records.databases import Shape, shape_of
from je_tools.recovery.utilization import FileSummary, Utilization, reserved_files
from je_tools.space.recount import recount
from je_tools.space.usage import (
    DiskUse,
    FileReason,
    FileRole,
    FileSpace,
    Space,
    deletable,
    measure_space,
)
from tests.builders.trees import TreeLog, slot
from tests.corpus import Environment, corpus, environment
from tests.je_tools.corpus_snapshots import database_named
from tests.je_tools.snapshots import snapshot_of

_ROW = re.compile(r"^([0-9a-f]{8})\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)$", re.MULTILINE)
GIB = 1 << 30


def test_as_the_engine_has_told(environment_with_truth: Environment) -> None:
    assert environment_with_truth.truth is not None
    told = environment_with_truth.truth / "space.txt"
    if not told.is_file():
        return
    snapshot = snapshot_of(environment_with_truth.home)
    space = measure_space(snapshot)
    found = {each.file.file_no: each.counted for each in space.files}
    is_closed = snapshot.checkpoint.end_lsn == snapshot.end.last_lsn
    for match in _ROW.finditer(told.read_text()):
        used = found[int(match[1], 16)]
        size, average, least, most = (int(number) for number in match.groups()[1:])
        counted = used or Utilization(0, 0, 0)
        if is_closed:
            # The engine counts the last entries of a checkpoint when it opens the log again.
            assert size - 1 <= counted.total_size // 1024 <= size
            assert (counted.average, counted.least, counted.most) == (average, least, most)
        else:
            assert counted.total_size // 1024 <= size


@pytest.mark.parametrize("name", ["v17-basic", "v26-basic", "v17-crash-txn", "v26-dbops"])
def test_recount_covers_every_byte(name: str) -> None:
    """tests/engine compares the numbers themselves with the engine's."""
    snapshot = snapshot_of(environment(name).home)
    counted = recount(snapshot)
    for part in snapshot.environment.files:
        no = part.file_no
        live = counted.live_records[no] + counted.live_nodes[no]
        assert counted.obsolete_size(no) == counted.total[no] - live > 0
        assert counted.live_deltas[no] <= counted.obsolete_size(no)
        assert counted.bases[no] <= counted.live_nodes[no]
    assert not snapshot.faults


def test_records_of_a_tree_of_unknown_order_that_no_slot_names_yet(tmp_path: Path) -> None:
    def live(name: str, comparator: bytes, size: int) -> tuple[int, Shape]:
        log = TreeLog()
        root = log.tree([slot(b"a", log.ln(b"a", b"1"))])
        log.database(b"db", root, btree_comparator=comparator)
        log.checkpoint()
        log.ln(b"z", b"2" * size)
        snapshot = snapshot_of(log.write(tmp_path / name))
        shape = shape_of(snapshot, database_named(snapshot, "db"))
        return recount(snapshot).live_records.total(), shape

    for name, comparator in (("plain", b""), ("compared", b"serialized")):
        small, large = (live(f"{name}{size}", comparator, size) for size in (100, 110))
        assert large[0] - small[0] == 10
        assert (small[1].records, large[1].record_bytes - small[1].record_bytes) == (2, 10)


def test_why_files_are_there(tmp_path: Path) -> None:
    home = tmp_path / "env"
    shutil.copytree(environment("v17-crash-txn").home, home)
    (each,) = measure_space(snapshot_of(home)).files
    assert each.state is FileRole.LAST
    held = {FileReason.LAST, FileReason.INTERVAL, FileReason.LIVE, FileReason.OPEN_TRANSACTION}
    assert set(each.reasons) == held
    os.link(home / "00000000.jdb", tmp_path / "kept")
    snapshot = snapshot_of(home)
    (each,) = measure_space(snapshot, recount(snapshot)).files
    assert set(each.reasons) == held | {FileReason.HARD_LINK, FileReason.DELTA_BASE}


def test_a_node_of_a_group_keeps_what_its_index_leads_to() -> None:
    (each,) = measure_space(snapshot_of(environment("v26-rep-committed/node1").home)).files
    assert FileReason.VLSN_INDEX in each.reasons


def test_a_reserved_file_is_told_from_others() -> None:
    """Only the corpus has a log with one; tests below check the consequences, too."""
    if corpus() is None:
        return
    snapshot = snapshot_of(environment("starrocks-fe/node1").home)
    reserved = reserved_files(snapshot)
    assert [(each.first_vlsn, each.last_vlsn) for each in reserved.values()] == [(1, 7485)]
    space = measure_space(snapshot)
    first, last = space.files
    assert (first.state, last.state) == (FileRole.RESERVED, FileRole.LAST)
    assert first.counted is None
    assert FileReason.RESERVED in first.reasons
    assert space.reserved == (first,)
    assert space.disk.reserved_size == first.file.size
    assert space.disk.active_size == last.file.size


def test_a_last_file_that_holds_nothing_is_behind_the_end(tmp_path: Path) -> None:
    home = tmp_path / "env"
    shutil.copytree(environment("v17-basic").home, home)
    (home / "00000001.jdb").write_bytes(b"")
    first, last = measure_space(snapshot_of(home)).files
    assert (first.state, last.state) == (FileRole.LAST, FileRole.AFTER_END)
    assert last.reasons == (FileReason.AFTER_END,)


def files_of(states: list[FileRole], size: int) -> tuple[FileSpace, ...]:
    """Return files of one size with these states, numbered from 0."""
    header = open_environment([environment("v17-basic").home]).files[0].header
    return tuple(
        FileSpace(LogFile(Path(f"{no:08x}.jdb"), no, size, header, 17), state, None, None, 0, ())
        for no, state in enumerate(states)
    )


def test_the_oldest_reserved_files_go_first() -> None:
    states = [
        FileRole.RESERVED,
        FileRole.ACTIVE,
        FileRole.RESERVED,
        FileRole.RESERVED,
        FileRole.LAST,
    ]
    nothing = DiskUse(0, 0, 0, 0, 0, 0, 0)
    space = Space(files_of(states, 100), Utilization(0, 0, 0), None, nothing, Settings())
    chosen = {
        wanted: [each.file.file_no for each in deletable(space, wanted)]
        for wanted in (0, 1, 100, 101, 300, 5000)
    }
    assert chosen == {
        0: [],
        1: [0],
        100: [0],
        101: [0, 2],
        300: [0, 2, 3],
        5000: [0, 2, 3],
    }


@pytest.mark.parametrize(
    ("free_disk", "max_disk", "free", "expected"),
    [
        (5, 0, 20, 35),
        (25, 0, 5, 0),
        (30, 0, 5, -5),
        (5, 100, 20, 35),
        (25, 100, 20, 15),
        (5, 80, 20, 20),
        (25, 80, 20, 0),
        (25, 200, 5, 0),
        (25, 75, 20, -5),
    ],
)
def test_what_may_be_written(free_disk: int, max_disk: int, free: int, expected: int) -> None:
    """The log has 75 bytes, 20 of them in reserved files, which can be deleted."""
    disk = DiskUse(max_disk, free_disk, 0, max_disk - free_disk if max_disk else 0, free, 55, 20)
    assert disk.available_size == expected
    assert disk.prohibits_writes == (expected <= 0)


def test_limits_that_are_not_known() -> None:
    disk = DiskUse(0, 5, 0, 0, None, 55, 20)
    assert disk.available_size is None
    assert disk.lacking_free_size is None
    assert not disk.prohibits_writes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        (f"je.maxDisk={GIB}", GIB),
        (f"je.maxDisk={20 * GIB}", 15 * GIB),
        (f"je.maxDisk={3 * GIB}\nje.freeDisk={GIB}", 2 * GIB),
    ],
)
def test_when_one_limit_lowers_the_other(text: str, expected: int, tmp_path: Path) -> None:
    home = tmp_path / "env"
    shutil.copytree(environment("v17-basic").home, home)
    (home / "je.properties").write_text(text)
    assert measure_space(snapshot_of(home)).disk.adjusted_max_disk == expected


def test_obsolete_sizes_are_never_more_than_there_is() -> None:
    """Recovery counts some of it twice, and damaged numbers can be anything."""
    twice = FileSummary(10, 1000, 4, 400, 5, 500, 100, 9, 9, 900, 3)
    assert twice.obsolete_size == 1000
    assert FileSummary(1, 100, 0, 0, 0, 0, 0, 5, 5, 500, 5).obsolete_size == 100
    assert FileSummary().obsolete_size == 0
    assert FileSummary(1, -5, 1, 1, 1, 1).obsolete_size == 0


def test_records_without_a_size_are_of_average_size() -> None:
    summary = FileSummary(4, 1000, 0, 0, 4, 1000, 0, 0, 3, 400, 1)
    assert summary.obsolete_size == 400 + 2 * 200


def test_expired_bytes_may_be_obsolete_too() -> None:
    used = Utilization(1000, 300, 200)
    assert (used.least, used.most, used.average) == (50, 70, 60)
    assert Utilization(1000, 100, 950).least == 0
    assert Utilization(0, 0, 0).average == 0


def test_nothing_is_expired_before_it_expires() -> None:
    assert Expirations(0, True, ((10, 5),)).expired_size(0) == 0
