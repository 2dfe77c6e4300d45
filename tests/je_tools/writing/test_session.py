"""Sessions: refusals, locations of new files, and the check after writing."""

from __future__ import annotations

import errno
import os
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from je_tools.errors import RefusedError
from je_tools.log.opening import open_environment
from je_tools.writing import session as module
from je_tools.writing.disk import Disk
from je_tools.writing.file_reads import read_at
from je_tools.writing.lock import EnvironmentLock
from je_tools.writing.session import Session
from je_tools.writing.stamps import stamp_files
from tests.builders.power_cuts import Recorder
from tests.je_tools.writing.operations import (
    begun_file,
    digests,
    operate,
    others_files,
    put_back,
    small_log,
    write_more,
)


def begun(home: Path, disk: Disk | None = None) -> Session:
    return Session(open_environment([home]), "test", None, disk=disk or Recorder())


def test_nothing_is_written_where_nothing_changes(home: Path) -> None:
    before = digests(home)
    with begun(home) as session:
        session.sync()
        session.finish()
    assert digests(home) == before
    assert session.journal_no is None


def test_the_lock_must_be_held(home: Path) -> None:
    lock = EnvironmentLock(home)
    with pytest.raises(ValueError, match="not held"):
        Session(open_environment([home]), "test", lock)
    with lock, Session(open_environment([home]), "test", lock) as session:
        session.append(2, (home / "00000002.jdb").stat().st_size, b"x")
        session.finish()
    assert (session.journal_no, session.appended) == (1, 1)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda home: os.truncate(home / "00000001.jdb", 900), "had 2,052 bytes \\(now 900\\)"),
        (lambda home: (home / "00000001.jdb").unlink(), r"00000001\.jdb: existed"),
        (lambda home: (home / "00000009.jdb").touch(), r"00000009\.jdb: did not exist"),
        (lambda home: os.utime(home / "00000001.jdb"), "was written to or replaced"),
    ],
)
def test_a_log_that_changed_since_it_was_read_is_refused(
    change: object, text: str, home: Path
) -> None:
    environment = open_environment([home])
    stamps = stamp_files(environment)
    assert callable(change)
    change(home)
    after = digests(home)
    session = Session(environment, "test", None, stamps=stamps)
    with session, pytest.raises(RefusedError, match=text + r".*; nothing was changed"):
        session.cut(2, 50)
    assert digests(home) == after


def test_new_files_lie_where_the_engine_looks_for_them(tmp_path: Path) -> None:
    home = small_log(tmp_path / "env", data_directories=3)
    operate(home, "checkpoint")
    assert (home / "data002" / "00000004.jdb").is_file()
    (home / "je.properties").write_text("je.log.nDataDirectories=2")
    with begun(home) as session, pytest.raises(RefusedError, match="with 2 data directories"):
        session.append(5, 0, begun_file(5))


def test_unusable_files_are_called_as_the_engine_calls_them(home: Path) -> None:
    for name in ("00000003.bad", "00000003.bad.1"):
        (home / name).touch()
    with begun(home) as session:
        assert session.set_aside(3) == home / "00000003.bad.2"
        assert session.set_aside(2) == home / "00000002.bad"
        session.finish()
    assert sorted(path.name for path in home.glob("*.jdb")) == ["00000000.jdb", "00000001.jdb"]


def test_new_files_belong_to_whom_their_neighbours_do(home: Path) -> None:
    for path in home.iterdir():
        path.chmod(0o640)
        if os.geteuid() == 0:
            os.chown(path, 4711, 4712)
    operate(home, "checkpoint", Disk())
    new, old = (home / "00000004.jdb").stat(), (home / "00000000.jdb").stat()
    assert (new.st_uid, new.st_gid, new.st_mode) == (old.st_uid, old.st_gid, old.st_mode)


@pytest.mark.parametrize("has_unnamed_files", [True, False])
def test_another_user_writes_nothing(
    has_unnamed_files: bool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group member may be able to write but not to give files away; nothing is left."""
    others_files(monkeypatch, has_unnamed_files=has_unnamed_files)
    before = digests(home)
    with (
        begun(home) as session,
        pytest.raises(RefusedError, match="run the command as that user") as told,
    ):
        session.cut(2, 50)
    assert str(told.value).endswith("; nothing was changed")
    assert digests(home) == before
    assert not list(home.glob(".je-tools*"))


@pytest.mark.parametrize("link", [os.link, lambda path, name: name.symlink_to(path)])
def test_a_file_that_has_another_name_is_not_changed(
    link: Callable[[Path, Path], None], home: Path
) -> None:
    """A backup made of hard links would change with it."""
    path, backup = home / "00000002.jdb", home.parent / "backup.jdb"
    path.rename(backup)
    link(backup, path)
    before = digests(home)
    with begun(home) as session:
        session.check_own([1])
        with pytest.raises(RefusedError, match=r"00000002\.jdb: .*--output DIR"):
            session.check_own([1, 2])
    assert digests(home) == before


def test_a_link_is_not_taken_out_of_the_log(home: Path) -> None:
    """Moved, it would lead nowhere; a second name does not matter, as nothing is changed."""
    path, elsewhere = home / "00000002.jdb", home.parent / "00000002.jdb"
    os.link(path, elsewhere)
    with begun(home) as session:
        session.check_own([1], [2, 3])
    path.unlink()
    path.symlink_to("../00000002.jdb")
    before = digests(home)
    with (
        begun(home) as session,
        pytest.raises(RefusedError, match=r"00000002\.jdb: .*symbolic link.*--output DIR"),
    ):
        session.check_own([1], [2, 3])
    assert digests(home) == before


@pytest.mark.parametrize("what", ["folder", "link"])
def test_what_is_called_as_a_log_file_is_one(what: str, home: Path) -> None:
    operate(home, "checkpoint")
    path = home / "00000007.jdb"
    if what == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    before = digests(home)
    text = f"{path}: expected a log file, but the path .*: the engine does not open.*; move it away"
    with pytest.raises(RefusedError, match=text):
        write_more(home)
    with pytest.raises(RefusedError, match=text):
        put_back(home)
    assert digests(home) == before


def test_room_is_looked_for_beforehand(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = namedtuple("told", "f_bavail f_frsize")(10, 4096)
    monkeypatch.setattr(os, "statvfs", lambda _: told)
    with begun(home) as session:
        session.check_space(38_500)
        with pytest.raises(RefusedError, match="40,960 bytes are free, but up to"):
            session.check_space(38_600)


@pytest.mark.parametrize("flipped", [False, True])
def test_what_is_not_read_as_it_was_written_is_told(
    flipped: bool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: Path, offset: int, size: int, *, fresh: bool = False) -> bytes:
        data = read_at(path, offset, size)
        return bytes([data[0] ^ 1]) + data[1:] if fresh else data

    monkeypatch.setattr("je_tools.writing.pending_writes.read_at", read)
    with begun(home) as session:
        if flipped:
            session.flip_bits(0, 100, read_at(home / "00000000.jdb", 100, 1), b"?")
        else:
            session.append(2, (home / "00000002.jdb").stat().st_size, b"x" * 100)
        with pytest.raises(RefusedError, match=r"the disk is unreliable.*je-tools undo .* --apply"):
            session.finish()


def test_bits_that_are_not_what_they_were_are_not_flipped(home: Path) -> None:
    before = digests(home)
    with begun(home) as session:
        session.flip_bits(0, 100, bytes([read_at(home / "00000000.jdb", 100, 1)[0] ^ 1]), b"?")
        with pytest.raises(RefusedError, match=r"00000000\.jdb @0x64: expected .*, found"):
            session.sync()
    assert before.items() <= digests(home).items()


def test_what_a_full_disk_leaves_is_told(home: Path) -> None:
    disk = Recorder()
    with begun(home, disk) as session:
        session.append(2, (home / "00000002.jdb").stat().st_size, b"x" * 100)
        disk.fail_at, disk.error = len(disk.calls) + 11, errno.ENOSPC
        with pytest.raises(RefusedError, match=r"No space left.*the log is as after a crash"):
            session.sync()


def test_nothing_is_left_of_a_journal_that_could_not_be_made(home: Path) -> None:
    """Any call of the disk may fail before the first change."""
    before = digests(home)
    for at in range(20):
        with begun(home, Recorder(at, errno.ENOSPC)) as session:
            session.append(2, (home / "00000002.jdb").stat().st_size, b"x" * 100)
            with pytest.raises(RefusedError) as told:
                session.sync()
        if not str(told.value).endswith("; nothing was changed"):
            break
        assert digests(home) == before
        assert not list(home.glob(".je-tools*"))
    assert at > 8


def test_no_journal_where_none_is_wanted(home: Path) -> None:
    with Session(open_environment([home]), "test", None, undo=False, takes_away=True) as session:
        session.remove(3)
        session.cut(2, 100)
        session.append(2, 100, b"x" * 50)
        session.finish()
    assert sorted(path.name for path in home.iterdir()) == [f"0000000{i}.jdb" for i in range(3)]
    assert (home / "00000002.jdb").stat().st_size == 150


@pytest.mark.parametrize(
    "wrong",
    [
        lambda session: session.append(2, 7, b"x"),
        lambda session: session.append(1, 0, begun_file(1)),
        lambda session: session.append(9, 0, b"short"),
        lambda session: session.cut(1, 1 << 20),
        lambda session: session.remove(3),
        lambda session: session.flip_bits(0, 0, b"a", b"bc"),
        lambda session: session.flip_bits(0, 1 << 20, b"a", b"b"),
    ],
)
def test_what_makes_no_sense_is_a_bug(wrong: object, home: Path) -> None:
    before = digests(home)
    assert callable(wrong)
    with begun(home) as session, pytest.raises(ValueError, match=r"file|become"):
        wrong(session)
    assert digests(home) == before


def test_large_pieces_are_written_as_they_come(home: Path) -> None:
    """Pending data is bounded; a crash in the middle can still be put back."""
    disk = Recorder()
    end = (home / "00000002.jdb").stat().st_size
    piece = os.urandom(1 << 20)
    with begun(home, disk) as session:
        for i in range(20):
            session.append(2, end + (i << 20), piece)
            assert session._writes.size < module.PENDING_MAX
        session.finish()
    assert read_at(home / "00000002.jdb", end, 20 << 20) == piece * 20
    assert sum(call.name == "sync" for call in disk.calls) < 10
