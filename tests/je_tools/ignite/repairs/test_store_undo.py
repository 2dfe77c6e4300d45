"""Undo of operations on stores: what is put back, reported and refused."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from je_tools.errors import RefusedError
from je_tools.ignite.repairs.edits import create_file, set_aside, write_bytes, write_zeros
from je_tools.ignite.repairs.session import StoreSession
from je_tools.writing.disk import Disk
from je_tools.writing.undo_steps import UndoState
from tests.builders.power_cuts import KilledError, Recorder
from tests.je_tools.dumped import je_tools
from tests.je_tools.ignite.repairs.operations import (
    OPERATIONS,
    digests,
    node_of,
    operate,
    put_back,
    small_store,
    undos_of,
)
from tests.je_tools.writing.test_lock import HOLD

PART = Path("db", "node1", "cache-a", "part-0.bin")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small_store(tmp_path / "store")


def journal_of(root: Path) -> Path:
    return root / "db" / "node1" / ".je-tools-undo" / "000001" / "journal"


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_store_is_what_it_was(name: str, root: Path) -> None:
    before = digests(root)
    times = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}
    operate(root, name, Disk())
    (undo,) = undos_of(root)
    assert (undo.number, undo.operation, undo.state) == (1, name, UndoState.FINISHED)
    assert undo.saved_size + undo.appended_size > 0
    assert digests(root) != before
    put_back(root, Disk())
    assert digests(root) == before
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_operations_are_put_back_newest_first(root: Path) -> None:
    states = [digests(root)]
    for name in ("pages", "cut"):
        operate(root, name, Disk())
        states.append(digests(root))
    assert [undo.number for undo in undos_of(root)] == [1, 2]
    put_back(root, Disk())
    put_back(root, Disk())
    assert digests(root) == states[0]


def _changed(root: Path) -> None:
    (root / PART).write_bytes(b"x")


def _touched(root: Path) -> None:
    os.utime(root / PART)


def _added(root: Path) -> None:
    (root / "db" / "node1" / "cp" / "9-end.bin").write_bytes(b"x")


def _gone(root: Path) -> None:
    (root / "db" / "node1" / "cache-a" / "part-1.bin").unlink()


def _started(root: Path) -> None:
    (root / "db" / "node1" / "lock").write_bytes(b"\0[a node]")


def _lost(root: Path) -> None:
    next(root.rglob("*.removed")).unlink()


def _spoiled(root: Path) -> None:
    next(root.rglob("*.removed")).write_bytes(b"x")


@pytest.mark.parametrize("change", [_changed, _touched, _added, _gone, _started])
@pytest.mark.parametrize("name", ["pages", "cut"])
def test_what_was_written_since_is_kept(
    name: str, change: Callable[[Path], None], root: Path
) -> None:
    operate(root, name, Disk())
    change(root)
    after = digests(root)
    with pytest.raises(RefusedError, match=r"since|another time"):
        put_back(root)
    assert digests(root) == after


@pytest.mark.parametrize("change", [_lost, _spoiled])
def test_a_file_that_was_set_aside_must_be_whole(
    change: Callable[[Path], None], root: Path
) -> None:
    operate(root, "cut", Disk())
    change(root)
    with pytest.raises(RefusedError, match="set aside"):
        put_back(root)


def first_change(root: Path) -> int:
    """Return the number of calls that the operation `pages` makes before it changes a file."""
    disk = Recorder()
    operate(Path(shutil.copytree(root, root.with_name("counted"))), "pages", disk)
    return next(i for i, call in enumerate(disk.calls) if call.path.name == PART.name)


@pytest.mark.parametrize("later", [0, 1, 3])
def test_an_interrupted_operation_is_put_back_unless_a_node_started(later: int, root: Path) -> None:
    before = digests(root)
    with pytest.raises(KilledError):
        operate(root, "pages", Recorder(first_change(root) + later))
    assert undos_of(root)[-1].state is UndoState.UNFINISHED
    with pytest.raises(RefusedError, match=r"was interrupted; first run .*undo .*--apply"):
        operate(root, "cut")
    lock = root / "db" / "node1" / "lock"
    times, data = lock.stat().st_mtime_ns, lock.read_bytes()
    _started(root)
    with pytest.raises(RefusedError, match="since"):
        put_back(root)
    lock.write_bytes(data)
    os.utime(lock, ns=(times, times))
    put_back(root)
    assert digests(root) == before


def test_other_bytes_in_a_span_that_was_to_be_written(root: Path) -> None:
    with pytest.raises(KilledError):
        operate(root, "pages", Recorder(first_change(root) + 1))
    data = bytearray((root / PART).read_bytes())
    data[3] ^= 1
    (root / PART).write_bytes(data)
    with pytest.raises(RefusedError, match="has other bytes at 0x3"):
        put_back(root)


def test_a_copy_is_put_back_when_that_is_asked_for(root: Path) -> None:
    before = digests(root)
    operate(root, "replaced", Disk())
    copy = root.with_name("copy")
    shutil.copytree(root, copy, copy_function=shutil.copyfile)
    with pytest.raises(RefusedError, match="--any-time"):
        put_back(copy)
    put_back(copy, any_time=True)
    assert digests(copy) == before


@pytest.mark.parametrize("at", [30, 400, -40])
def test_a_damaged_journal_puts_nothing_back(at: int, root: Path) -> None:
    operate(root, "cut", Disk())
    journal = journal_of(root)
    data = bytearray(journal.read_bytes())
    data[at] ^= 1
    journal.write_bytes(data)
    after = digests(root)
    (undo,) = undos_of(root)
    if undo.damage is None:
        # The frame that ends the operation may be torn, as after a crash.
        assert undo.state is UndoState.UNFINISHED
        return
    with pytest.raises(RefusedError, match="the undo journal is damaged"):
        put_back(root)
    assert digests(root) == after
    undo.drop(Disk())
    assert not list(root.rglob(".je-tools-undo"))


@pytest.mark.parametrize("name", ["../../etc/passwd", "node/../x", "work/.je-tools-undo/x", "x"])
def test_a_journal_names_no_file_elsewhere(name: str, root: Path) -> None:
    from je_tools.ignite.repairs.frames import check_store_frame
    from je_tools.writing.frames import JournalError

    with pytest.raises(JournalError):
        check_store_frame({"record": "create", "file": name, "size": 1, "sure": 0}, 0, 1)


def test_a_node_that_runs_keeps_its_files(root: Path) -> None:
    before = digests(root)
    lock = root / "db" / "node1" / "lock"
    command = [sys.executable, "-c", HOLD.replace("a+b", "r+b"), lock, str(fcntl.LOCK_EX), "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(RefusedError, match=rf"process {process.pid} .* runs on this folder"):
            operate(root, "pages")
        process.kill()
    assert digests(root) == before


def test_a_file_that_changed_since_the_plan(root: Path) -> None:
    with StoreSession(node_of(root)) as session:
        edits = OPERATIONS["pages"](root)
        _touched(root)
        before = digests(root)
        with pytest.raises(RefusedError, match=r"part-0.bin.*; nothing was changed"):
            session.apply(edits, "pages")
    assert digests(root) == before


def test_no_file_is_changed_that_has_another_name(root: Path, tmp_path: Path) -> None:
    os.link(root / PART, tmp_path / "backup")
    before = digests(root)
    with pytest.raises(RefusedError, match="another hard link"):
        operate(root, "pages")
    assert digests(root) == before


def test_a_full_disk_is_noticed_before(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs

    def little(path: Path) -> os.statvfs_result:
        info = real(path)
        return os.statvfs_result((*info[:4], 1, *info[5:10]))

    monkeypatch.setattr("je_tools.ignite.repairs.session.os.statvfs", little)
    before = digests(root)
    with pytest.raises(RefusedError, match="free space first; nothing was changed"):
        operate(root, "pages")
    assert digests(root) == before


def test_edits_that_contradict_each_other(root: Path) -> None:
    part = root / PART
    wrong = [
        [write_bytes(part, 0, b"xx", "a"), write_zeros(part, 1, 1, "b")],
        [write_bytes(part, part.stat().st_size + 1, b"x", "a")],
        [set_aside(part, "a"), write_zeros(part, 0, 1, "b")],
        [write_zeros(part, 0, 1, "a"), set_aside(part, "b")],
    ]
    for edits in wrong:
        with StoreSession(node_of(root)) as session, pytest.raises(ValueError, match=str(part)):
            session.apply(edits, "wrong")
    with StoreSession(node_of(root)) as session, pytest.raises(RefusedError, match="exists"):
        session.apply([create_file(part, b"x", "a")], "wrong")
    assert not list(root.rglob(".je-tools-undo"))


def test_the_command_lists_and_puts_back(root: Path) -> None:
    before = digests(root)
    shown = je_tools("ignite", "undo", str(root))
    assert (shown.code, shown.out) == (0, b"Undo journals\nnone\n")
    operate(root, "cut", Disk())
    shown = je_tools("ignite", "undo", str(root))
    assert shown.code == 0
    assert b"rename" in shown.out
    assert b"write-back" in shown.out
    assert "--apply` reverts undo 1" in shown.err
    done = je_tools("ignite", "undo", str(root), "--node", "node1", "--apply")
    assert (done.code, digests(root)) == (0, before), done.err
    assert "undo 1 (cut) is reverted: the store is as it was before" in done.err
    operate(root, "pages", Disk())
    dropped = je_tools("ignite", "undo", str(root), "--drop", "all", "--apply")
    assert dropped.code == 0
    assert not list(root.rglob(".je-tools-undo"))
    assert je_tools("ignite", "undo", str(root), "--drop", "7").code == 2
