"""Files that the cleaner has reserved are deleted, unless something of them is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from je_tools.erase.options import ErasureOptions
from je_tools.erase.plan import plan_erasure
from je_tools.erase.results import ErasureHooks
from je_tools.recovery.utilization import reserved_files
from je_tools.vlsn.recovered_index import read_index
from tests.builders.erasable import old, reserve, used
from tests.builders.power_cuts import Call, Recorder
from tests.builders.trees import TreeLog, descriptor_ln, slot
from tests.corpus import environments
from tests.damage.running import je_tools
from tests.je_tools.erase.erasing import copy_of, erase, log_bytes
from tests.je_tools.snapshots import codes_of, contents_of, snapshot_of

JUST_ERASE = ErasureOptions()
FIRST, SECOND = "00000000.jdb", "00000001.jdb"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a log of three files, of which the first two are reserved and the second is in use."""
    log = TreeLog()
    old(log, "first")
    log.next_file()
    old(log, "second")
    lsn = log.ln(b"key", b"live")
    log.next_file()
    old(log, "third")
    log.database(b"db", log.tree([slot(b"key", lsn)]))
    reserve(log, 0, 1)
    log.checkpoint()
    return log.write(tmp_path / "env")


def names_of(home: Path) -> list[str]:
    """Return the names of the log files."""
    return list(log_bytes(home))


def test_a_file_that_nothing_needs_is_deleted(home: Path) -> None:
    """And its name is durably gone before any other file is changed."""
    before = contents_of(snapshot_of(home))
    assert sorted(reserved_files(snapshot_of(home))) == [0, 1]
    disk = Recorder()
    result = erase(home, JUST_ERASE, disk=disk)
    assert [file.path.name for file in result.deleted] == [FIRST]
    assert names_of(home) == [SECOND, "00000002.jdb"]
    (at,) = [i for i, call in enumerate(disk.calls) if call == Call("unlink", home / FIRST)]
    assert disk.calls[at + 1] == Call("sync_folder", home)
    assert not any(call.name == "write" for call in disk.calls[:at])
    assert contents_of(snapshot_of(home)) == before == {"db": [(b"key", b"live")]}
    assert codes_of(snapshot_of(home)) == []


def test_a_file_that_is_in_use_is_erased_instead(home: Path) -> None:
    result = erase(home, JUST_ERASE)
    assert SECOND in [file.path.name for file in result.erased]
    data = log_bytes(home)[SECOND]
    assert b"live" in data
    assert b"Qz7-second" not in data
    # In the next run it is the same.
    erase(home, JUST_ERASE)
    assert log_bytes(home)[SECOND] == data


def test_a_file_that_recovery_reads_stays(tmp_path: Path) -> None:
    """Recovery begins at the first active LSN, in the reserved file."""
    log = TreeLog()
    active = log.here
    old(log, "active")
    log.next_file()
    live = used(log, "db")
    reserve(log, 0)
    log.checkpoint(first_active_lsn=active)
    home = log.write(tmp_path / "env")
    files = log_bytes(home)
    assert not plan_erasure(snapshot_of(home), JUST_ERASE).deleted
    erase(home, JUST_ERASE)
    assert log_bytes(home)[FIRST] == files[FIRST]
    assert contents_of(snapshot_of(home)) == {"db": [(b"key", live)]}


@pytest.mark.parametrize("has_descriptor", [True, False])
def test_a_file_with_the_name_of_a_database_stays(has_descriptor: bool, tmp_path: Path) -> None:
    """It has no records and no nodes, but the trees of names and of ids lead there."""
    log = TreeLog()
    root = log.tree([slot(b"key", log.ln(b"key", b"live"))])
    log.next_file()
    log.database(b"db", root)
    log.next_file()
    if not has_descriptor:
        log.mapped[:] = [slot(b"6", log.put("MapLN", descriptor_ln(b"db", root, 6)))]
    reserve(log, 1)
    log.checkpoint()
    home = log.write(tmp_path / "env")
    result = erase(home, JUST_ERASE)
    assert not result.deleted
    assert contents_of(snapshot_of(home)) == {"db": [(b"key", b"live")]}
    assert codes_of(snapshot_of(home)) == []


def test_reserved_files_can_be_kept(home: Path) -> None:
    done = je_tools("erase", "run", home, "--keep-reserved", "--apply")
    assert done.code == 0, done.err
    data = log_bytes(home)
    assert names_of(home) == [FIRST, SECOND, "00000002.jdb"]
    assert b"Qz7-" not in b"".join(data.values())


def test_files_with_another_name_and_protected_files_are_not_deleted(
    home: Path, tmp_path: Path
) -> None:
    files = log_bytes(home)
    result = erase(home, JUST_ERASE, ErasureHooks(is_protected=lambda file: file.file_no == 0))
    assert [file.path.name for file in result.protected] == [FIRST]
    assert not result.deleted
    (tmp_path / "backup").hardlink_to(home / FIRST)
    assert not erase(home, JUST_ERASE).deleted
    assert log_bytes(home)[FIRST] == files[FIRST]


def test_an_erasure_that_ended_after_the_deletion_goes_on(home: Path) -> None:
    stops: list[int] = []
    hooks = ErasureHooks(should_stop=lambda: len(stops) > 0, on_work=lambda _: stops.append(1))
    first = erase(home, JUST_ERASE, hooks)
    assert [file.path.name for file in first.deleted] == [FIRST]
    assert first.pending
    assert codes_of(snapshot_of(home)) == []
    rest = erase(home, JUST_ERASE)
    assert not rest.deleted
    assert b"Qz7-" not in b"".join(log_bytes(home).values())


def test_a_file_that_an_engine_reserved(tmp_path: Path) -> None:
    """Its VLSNs leave the index, which still has at least a thousand others."""
    for name in [each.name for each in environments() if each.name == "starrocks-fe/node1"]:
        home = copy_of(name, tmp_path / "env")
        before = contents_of(snapshot_of(home))
        record = reserved_files(snapshot_of(home))[0]
        result = erase(home)
        assert [file.path.name for file in result.deleted] == [FIRST]
        assert FIRST not in names_of(home)
        range_ = read_index(snapshot_of(home)).range
        assert 1000 < record.last_vlsn < range_.first <= range_.last - 1000 + 1
        assert contents_of(snapshot_of(home)) == before
        assert codes_of(snapshot_of(home)) == []
