"""Undo: restored files, reports and refusals."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from je_tools.errors import RefusedError
from je_tools.writing.disk import Disk
from je_tools.writing.file_reads import read_at
from je_tools.writing.undo import clear_remains, list_undos
from je_tools.writing.undo_steps import UndoState
from tests.builders.power_cuts import KilledError, Recorder
from tests.je_tools.dumped import je_tools
from tests.je_tools.writing.operations import (
    OPERATIONS,
    begun_file,
    digests,
    journal_of,
    operate,
    put_back,
    small_log,
    spoil,
    without_journals,
    write_more,
)


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_directory_is_what_it_was(name: str, home: Path) -> None:
    before, times = digests(home), {p: p.stat().st_mtime_ns for p in home.iterdir()}
    operate(home, name, Disk())
    (undo,) = list_undos(home)
    assert (undo.number, undo.operation, undo.is_finished) == (1, name, True)
    assert undo.saved_size > 0
    assert digests(home) != before
    put_back(home, Disk())
    assert digests(home) == before
    assert {p: p.stat().st_mtime_ns for p in home.iterdir()} == times


def test_journals_are_put_back_one_after_the_other(home: Path) -> None:
    states = [digests(home)]
    for name in ("rollback", "later", "later"):
        if name == "later":
            write_more(home)
        else:
            operate(home, name)
        states.append(without_journals(home))
    for state in states[-2::-1]:
        put_back(home)
        assert without_journals(home) == state
    assert list_undos(home) == []


def grow(home: Path) -> None:
    with (home / "00000003.jdb").open("ab") as file:
        file.write(b"more")


def change(home: Path) -> None:
    times = (home / "00000003.jdb").stat().st_mtime_ns
    data = bytearray((home / "00000003.jdb").read_bytes())
    data[200] ^= 1
    (home / "00000003.jdb").write_bytes(data)
    os.utime(home / "00000003.jdb", ns=(times, times))


def change_an_older(home: Path) -> None:
    data = (home / "00000001.jdb").read_bytes()
    (home / "00000001.jdb").write_bytes(data)


WRITTEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "appended": (
        grow,
        r"00000003\.jdb: had [0-9,]+ bytes when the operation ended, and has [0-9,]+ now; another",
    ),
    "changed": (change, r"00000003\.jdb: has other bytes at 0x26"),
    "older": (change_an_older, r"00000001\.jdb: the file was written to since, or is a copy"),
    "begun": (lambda home: (home / "00000007.jdb").touch(), r"00000007\.jdb: was not there"),
    "removed": (lambda home: (home / "00000001.jdb").unlink(), r"00000001\.jdb: was there"),
}


@pytest.mark.parametrize("what", WRITTEN)
def test_a_log_that_was_written_to_since_is_refused(what: str, home: Path) -> None:
    operate(home, "checkpoint")
    write, text = WRITTEN[what]
    write(home)
    after = digests(home)
    with pytest.raises(RefusedError, match=text):
        put_back(home)
    assert digests(home) == after


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("appended", "has [0-9,]+ bytes, but should have 0 to [0-9,]+; another program"),
        ("changed", "has other bytes at .*, or the journal has lost its end"),
        ("begun", "was not there"),
    ],
)
def test_so_is_one_that_was_written_to_after_a_crash(what: str, text: str, home: Path) -> None:
    """The operation did not finish, and the engine continued where it stopped."""
    operate(home, "checkpoint")
    journal = home / ".je-tools-undo" / "000001" / "journal"
    data = journal.read_bytes()
    journal.write_bytes(data[: data.rindex(b"JEU1")])
    assert not list_undos(home)[0].is_finished
    WRITTEN[what][0](home)
    with pytest.raises(RefusedError, match=text):
        put_back(home)


def test_where_a_torn_piece_ends_the_engine_may_have_gone_on(home: Path) -> None:
    """The range that the journal announces holds bytes that are neither ours nor zeros."""
    calls = Recorder()
    operate(home, "checkpoint", calls)
    writes = [i for i, call in enumerate(calls.calls) if call.name == "write"]
    target = writes[-2]
    path = calls.calls[target].path.name
    shutil.rmtree(home)
    small_log(home)
    before = digests(home)
    with pytest.raises(KilledError):
        operate(home, "checkpoint", Recorder(target))
    size = (home / path).stat().st_size
    with (home / path).open("ab") as file:
        file.write(begun_file(0)[38:400])
    assert (home / path).stat().st_size > size
    with pytest.raises(RefusedError, match=f"{path}: has other bytes at {size:#x}"):
        put_back(home)
    os.truncate(home / path, size)
    put_back(home)
    assert digests(home) == before


def test_a_copy_has_other_times(home: Path, tmp_path: Path) -> None:
    before = digests(home)
    operate(home, "checkpoint")
    copy = shutil.copytree(home, tmp_path / "copy", copy_function=shutil.copyfile)
    (undo,) = list_undos(copy)
    with pytest.raises(RefusedError, match="repeat with --any-time"):
        undo.check()
    undo.check(any_time=True)
    with Disk() as disk:
        undo.apply(disk)
    assert digests(copy) == before


def test_nothing_is_written_while_an_undo_is_not_finished(home: Path) -> None:
    operate(home, "checkpoint")
    disk = Recorder()
    copy = shutil.copytree(home, home.with_name("copy"))
    put_back(copy, disk)
    last = max(i for i, call in enumerate(disk.calls) if call.name == "truncate")
    with pytest.raises(KilledError):
        put_back(home, Recorder(last))
    assert list_undos(home)[0].is_begun
    with pytest.raises(RefusedError, match=r"undo 1 was interrupted.*nothing was changed"):
        write_more(home)


def assert_kept(home: Path, text: str) -> None:
    """Check that nothing is put back or removed, and that this is reported as journal damage."""
    before = digests(home)
    with pytest.raises(RefusedError, match=text) as told:
        put_back(home)
    assert "another program has written" not in str(told.value)
    assert f"`je-tools undo {home} --drop 1 --apply` removes" in str(told.value)
    assert digests(home) == before
    with Disk() as disk:
        clear_remains(home, disk)
    assert digests(home) == before


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_journal_that_is_damaged_stays_with_all_it_keeps(name: str, home: Path) -> None:
    """The damage may be anywhere but in the last frame, as nothing later shows that one."""
    operate(home, name, Disk())
    data = journal_of(home).read_bytes()
    last = data.rindex(b"JEU1")
    for offset in [*range(0, 60, 5), *range(60, last, 97), last - 2]:
        spoil(journal_of(home), offset)
        (undo,) = list_undos(home)
        assert (undo.state, undo.steps) == (UndoState.DAMAGED, []), offset
        assert undo.saved_size > 0
        assert_kept(home, r"the undo journal is damaged: the bytes from [0-9,]+ of [0-9,]+ on")
        journal_of(home).write_bytes(data)


@pytest.mark.parametrize("name", OPERATIONS)
def test_damage_of_the_last_frame_is_no_torn_write(name: str, home: Path) -> None:
    """It was written whole: no sector of it is missing."""
    operate(home, name, Disk())
    data = journal_of(home).read_bytes()
    last = data.rindex(b"JEU1")
    for offset in (last, last + 5, last + 20, len(data) - 2):
        spoil(journal_of(home), offset)
        assert_kept(home, "damaged: the bytes from [0-9,]+ of [0-9,]+ on were changed")
        journal_of(home).write_bytes(data)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_journal_that_lost_its_end_never_takes_back_a_part(name: str, home: Path) -> None:
    """A copy may stop anywhere; the log shows that there was more."""
    operate(home, name, Disk())
    data = journal_of(home).read_bytes()
    for size in range(0, data.rindex(b"JEU1"), 53):
        journal_of(home).write_bytes(data[:size])
        cut = digests(home)
        for undo in list_undos(home):
            with pytest.raises(RefusedError, match=r"damaged|the journal has lost its end"):
                undo.check(any_time=True)
        with pytest.raises(RefusedError):
            put_back(home)
        assert digests(home) == cut, size


def test_a_journal_that_is_gone_is_damaged(home: Path) -> None:
    operate(home, "earlier-end")
    journal_of(home).unlink()
    (undo,) = list_undos(home)
    assert (undo.state, undo.operation, undo.time_ms) == (UndoState.DAMAGED, "unknown", None)
    kept = home / ".je-tools-undo" / "000001" / "00000003.jdb.removed"
    assert_kept(home, f"it has no file journal.*{kept} to {home}/00000003.jdb")


@pytest.mark.parametrize("what", ["folder", "journal"])
def test_so_is_one_of_which_only_data_directories_have_something(what: str, tmp_path: Path) -> None:
    home = small_log(tmp_path / "env", data_directories=3)
    operate(home, "earlier-end")
    journal_of(home).unlink()
    shutil.rmtree(home / ".je-tools-undo" if what == "folder" else journal_of(home).parent)
    kept = home / "data001" / ".je-tools-undo" / "000001" / "00000003.jdb.removed"
    assert_kept(home, f"it has no file journal.*{kept} to {home}/data001/00000003.jdb")
    with pytest.raises(RefusedError, match="the journal of undo 1 is damaged"):
        write_more(home)
    with Disk() as disk:
        list_undos(home)[0].drop(disk)
        clear_remains(home, disk)
    assert not list(home.rglob(".je-tools*"))


def test_a_removal_that_was_interrupted_takes_no_later_journal_with_it(home: Path) -> None:
    operate(home, "earlier-end")
    (undo,) = list_undos(home)
    with pytest.raises(KilledError):
        undo.drop(Recorder(3))
    assert list_undos(home) == []
    write_more(home)
    write_more(home)
    with Disk() as disk:
        clear_remains(home, disk)
    assert [undo.number for undo in list_undos(home)] == [2, 3]


@pytest.mark.parametrize("size", [0, 50, None])
def test_what_is_kept_beside_a_journal_is_looked_at(size: int | None, home: Path) -> None:
    operate(home, "earlier-end")
    kept = home / ".je-tools-undo" / "000001" / "00000002.jdb.removed"
    if size is None:
        spoil(kept, 200)
    else:
        os.truncate(kept, size)
    text = "the file was moved out of the log, and is damaged: it no longer holds the [0-9,]+ bytes"
    assert_kept(home, f"{kept}: {text}.*move it by hand to {home}/00000002.jdb")
    kept.unlink()
    assert_kept(home, f"{kept}: the file was moved out of the log, and no longer exists")


def test_what_the_journal_does_not_tell_of_stays(home: Path) -> None:
    operate(home, "checkpoint")
    stray = home / ".je-tools-undo" / "000001" / "00000009.jdb.removed"
    stray.write_bytes(b"something")
    assert_kept(home, "it does not record 1 file that it keeps")
    (undo,) = list_undos(home)
    assert (undo.state, undo.steps) == (UndoState.DAMAGED, [])
    assert je_tools("undo", home).code == 3
    assert je_tools("undo", home, "--drop", "all", "--apply").code == 6
    with Disk() as disk, pytest.raises(RefusedError, match="does not record 1 file"):
        undo.apply(disk)
    assert stray.read_bytes() == b"something"


def test_what_is_put_back_is_read_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path, offset: int, size: int, *, fresh: bool = False) -> bytes:
        data = read_at(path, offset, size)
        return bytes([data[0] ^ 1]) + data[1:] if fresh else data

    before = digests(home)
    operate(home, "checkpoint")
    monkeypatch.setattr("je_tools.writing.undo.read_at", read)
    with pytest.raises(
        RefusedError, match=r"the disk is unreliable\. The journal is kept; the undo"
    ):
        put_back(home)
    monkeypatch.undo()
    assert list_undos(home)[0].saved_size > 0
    put_back(home)
    assert digests(home) == before


def test_a_damaged_journal_of_an_undo_that_may_be_unfinished_stops_writing(home: Path) -> None:
    operate(home, "checkpoint")
    data = journal_of(home).read_bytes()
    spoil(journal_of(home), 100)
    write_more(home)
    put_back(home)
    spoil(journal_of(home), data.rindex(b"JEU1") + 5)
    with pytest.raises(
        RefusedError, match="undo 1 is damaged, and may belong to an interrupted undo"
    ):
        write_more(home)


def test_a_journal_is_dropped(home: Path) -> None:
    operate(home, "earlier-end")
    after = without_journals(home)
    (undo,) = list_undos(home)
    with Disk() as disk:
        undo.drop(disk)
    assert digests(home) == after
    assert not (home / ".je-tools-undo").exists()


def test_what_was_flipped_is_looked_at(home: Path) -> None:
    operate(home, "rollback")
    path = home / "00000001.jdb"
    times = path.stat().st_mtime_ns
    old = read_at(path, 60, 1)
    with Disk() as disk:
        disk.write(path, 60, bytes([old[0] ^ 2]))
    os.utime(path, ns=(times, times))
    with pytest.raises(RefusedError, match=r"00000001\.jdb: has other bytes at 0x3c"):
        put_back(home)
