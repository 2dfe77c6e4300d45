"""What is put back, what is told of it, and what is refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from je_tools.environment import open_environment
from je_tools.errors import RefusedError
from je_tools.writing.disk import Disk
from je_tools.writing.session import Session, read_at
from je_tools.writing.undo import list_undos
from tests.builders.power_cuts import KilledError, Recorder
from tests.je_tools.writing.operations import (
    OPERATIONS,
    begun_file,
    digests,
    operate,
    put_back,
    small_log,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return small_log(tmp_path / "env")


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
            append(home)
        else:
            operate(home, name)
        states.append(without_journals(home))
    for state in states[-2::-1]:
        put_back(home)
        assert without_journals(home) == state
    assert list_undos(home) == []


def without_journals(home: Path) -> dict[str, str]:
    return {name: digest for name, digest in digests(home).items() if "je-tools" not in name}


def append(home: Path) -> None:
    environment = open_environment([home])
    last = environment.files[-1]
    with Session(environment, "later", None) as session:
        session.append(last.file_no, last.size, b"x" * 100)
        session.finish()


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
    "appended": (grow, r"00000003\.jdb: had [0-9,]+ bytes, and has [0-9,]+ when the operation"),
    "changed": (change, r"00000003\.jdb: has other bytes at 0x26"),
    "older": (change_an_older, r"00000001\.jdb: was written to since, or is a copy"),
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
        ("appended", "has [0-9,]+ bytes; something else"),
        ("changed", "has other bytes at"),
        ("begun", "was not there"),
    ],
)
def test_so_is_one_that_was_written_to_after_a_crash(what: str, text: str, home: Path) -> None:
    """The operation did not come to its end, and the engine went on where it stopped."""
    operate(home, "checkpoint")
    journal = home / ".je-tools-undo" / "000001" / "journal"
    data = journal.read_bytes()
    journal.write_bytes(data[: data.rindex(b"JEU1")])
    assert not list_undos(home)[0].is_finished
    WRITTEN[what][0](home)
    with pytest.raises(RefusedError, match=text):
        put_back(home)


def test_where_a_torn_piece_ends_the_engine_may_have_gone_on(home: Path) -> None:
    """Inside what the journal announces lie bytes that are not ours, nor zeros."""
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
        append(home)


def test_a_journal_that_is_damaged_puts_nothing_back(home: Path) -> None:
    operate(home, "checkpoint")
    journal = home / ".je-tools-undo" / "000001" / "journal"
    data = bytearray(journal.read_bytes())
    data[data.index(b"saved") + 60] ^= 1
    journal.write_bytes(data)
    with pytest.raises(RefusedError):
        put_back(home)


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
