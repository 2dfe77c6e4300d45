"""Operations at the end of a log: planned, in place, on a copy, undone, refused."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections import namedtuple
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from je_tools.append.apply import append_to_copy, plan_append
from je_tools.append.authors import last_author
from je_tools.append.operation import AppendLog, AppendOperation
from je_tools.errors import InputError, RefusedError
from je_tools.formats.je.header import lsn_of
from je_tools.formats.je.write.transactions import GroupAuthor
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.opening import take_snapshot
from je_tools.recovery.snapshot import Snapshot
from je_tools.writing.lock import EnvironmentLock
from tests.builders.power_cuts import KilledError, PowerCuts, Recorder
from tests.corpus import FIXTURES
from tests.je_tools.append.appending import OPERATIONS, Appending, Deletion, apply
from tests.je_tools.append.test_transactions import logged
from tests.je_tools.snapshots import NOW_MS, contents_of, snapshot_of
from tests.je_tools.writing.operations import digests, put_back, without_journals

each_operation = pytest.mark.parametrize("name", OPERATIONS)
CRASHED = OPERATIONS["deletion"]
STATES = (100, pytest.param(300, marks=pytest.mark.exhaustive))
"""Approximate numbers of states after power cuts, for each operation."""
FAILURES = 6
"""Approximate number of failing calls, for each operation."""


def member(home: Path) -> Snapshot:
    scanner = Scanner(threads=1)
    return take_snapshot(open_environment([home]), scanner, now_ms=NOW_MS, as_member=True)


@each_operation
def test_the_plan_is_what_is_written(name: str, tmp_path: Path) -> None:
    case = OPERATIONS[name]
    home, operation = case.copy(tmp_path / "env"), case.make()
    before = digests(home)
    plan = plan_append(member(home), operation)
    assert digests(home) == before
    done = apply(home, operation, Recorder())
    assert done.journal_no == 1
    assert (done.changes, done.first_lsn, done.last_lsn) == (
        plan.changes,
        plan.first_lsn,
        plan.last_lsn,
    )
    assert (done.size, done.flipped) == (plan.size, plan.flipped)
    assert plan.changes
    assert member(home).end.last_lsn == done.last_lsn
    put_back(home)
    assert digests(home) == before


@each_operation
def test_a_copy_leaves_the_log_as_it_is(name: str, tmp_path: Path) -> None:
    case = OPERATIONS[name]
    home, operation = case.copy(tmp_path / "env"), case.make()
    before = digests(home)
    scanner = Scanner(threads=1)
    environment = open_environment([home])
    append_to_copy(environment, tmp_path / "copy", scanner, operation, NOW_MS)
    assert digests(home) == before
    apply(home, operation, Recorder())
    assert without_journals(home) == digests(tmp_path / "copy")


def in_new_file(home: Path) -> None:
    """Let appended entries begin a new file."""
    (home / "je.properties").write_text("je.env.recoveryForceNewFile=true\n")


def torn(home: Path) -> None:
    with (home / "00000000.jdb").open("ab") as file:
        file.write(b"torn")


def linked(home: Path) -> None:
    os.link(home / "00000000.jdb", home.parent / "backup.jdb")


def misnamed(home: Path) -> None:
    (home / "00000009.jdb").mkdir()


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (torn, "other bytes follow the last entry .* `je-tools recover .* --apply` does that"),
        (linked, "has another hard link"),
        (misnamed, "00000009"),
    ],
)
def test_a_log_that_is_refused_stays_as_it_is(
    spoil: Callable[[Path], None], text: str, tmp_path: Path
) -> None:
    home = CRASHED.copy(tmp_path / "env")
    spoil(home)
    before = digests(home)
    with pytest.raises(RefusedError, match=text):
        apply(home, CRASHED.make(), Recorder())
    assert digests(home) == before
    assert not list(home.glob(".je-tools*"))


def test_damage_in_what_recovery_reads_is_refused(tmp_path: Path) -> None:
    """The log continues in another file, so that the damage is not its end."""
    home = CRASHED.copy(tmp_path / "env")
    first = member(home).first_lsn
    in_new_file(home)
    apply(home, CRASHED.make(), Recorder())
    path = home / "00000000.jdb"
    data = bytearray(path.read_bytes())
    data[(first & 0xFFFFFFFF) + 20] ^= 1
    path.write_bytes(data)
    before = digests(home)
    with pytest.raises(RefusedError, match="the engine would refuse to open this log"):
        apply(home, CRASHED.make(), Recorder())
    assert digests(home) == before


def test_an_old_log_is_only_read(tmp_path: Path) -> None:
    home = Appending("v6-halt/env", CRASHED.make).copy(tmp_path / "env")
    before = digests(home)
    with pytest.raises(InputError, match="does not write a log of version 6"):
        apply(home, CRASHED.make(), Recorder())
    assert digests(home) == before


def test_a_locked_environment_is_refused(tmp_path: Path) -> None:
    home = CRASHED.copy(tmp_path / "env")
    with EnvironmentLock(home):
        before = digests(home)
        with pytest.raises(RefusedError, match="has the environment open"):
            apply(home, CRASHED.make(), Recorder())
        assert digests(home) == before


def test_a_full_disk_is_seen_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = CRASHED.copy(tmp_path / "env")
    before = digests(home)
    full = namedtuple("full", "f_bavail f_frsize")(0, 4096)
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    with pytest.raises(RefusedError, match="0 bytes are free"):
        apply(home, CRASHED.make(), Recorder())
    assert digests(home) == before


class Meddling(Deletion):
    """A deletion during which something else writes to the log."""

    def write(self, log: AppendLog) -> None:
        path = Path(log.snapshot.environment.name) / "00000000.jdb"
        os.utime(path, ns=(0, 0))
        super().write(log)


def test_a_log_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    home = CRASHED.copy(tmp_path / "env")
    before = digests(home)
    with pytest.raises(RefusedError, match=r"was written to or replaced.*; nothing was changed"):
        apply(home, Meddling("people", 3), Recorder())
    assert digests(home) == before


class Wrong(Deletion):
    """A deletion that does not do what it says."""

    def difference(self, before: Snapshot, after: Snapshot) -> str:
        return "it did something else"


def test_a_result_that_is_wrong_is_reported(tmp_path: Path) -> None:
    home = CRASHED.copy(tmp_path / "env")
    before = digests(home)
    text = "the deletion was written, but it did something else.*`je-tools undo .* --apply`"
    with pytest.raises(RefusedError, match=text):
        apply(home, Wrong("people", 3), Recorder())
    put_back(home)
    assert digests(home) == before


class Unsteady(Deletion):
    """A deletion that does not do the same twice."""

    def write(self, log: AppendLog) -> None:
        super().write(log)
        self.count += 1


def test_an_operation_that_differs_from_its_plan_is_a_bug(tmp_path: Path) -> None:
    home = CRASHED.copy(tmp_path / "env")
    with pytest.raises(AssertionError, match="the plan is not what was written"):
        apply(home, Unsteady("people", 3), Recorder())


class Twice(AppendOperation):
    """A group transaction whose VLSNs are wrong."""

    name = "twice"

    def write(self, log: AppendLog) -> None:
        first = log.group_transaction(GroupAuthor(1, 0))
        second = log.group_transaction(GroupAuthor(1, 0))
        first.commit()
        second.commit()

    def difference(self, before: Snapshot, after: Snapshot) -> str:
        return ""


def test_two_group_transactions_do_not_share_vlsns(tmp_path: Path) -> None:
    home = Appending("v17-rep-uncommitted-before/node2", Twice).copy(tmp_path / "env")
    with pytest.raises(ValueError, match="VLSN 1224 follows 1224"):
        plan_append(member(home), Twice())


def test_new_files_are_begun(tmp_path: Path) -> None:
    """Nothing is appended to a file that a backup holds as it is."""
    home = CRASHED.copy(tmp_path / "env")
    in_new_file(home)
    done = apply(home, CRASHED.make(), Recorder())
    assert done.first_lsn == lsn_of(1, 38)
    assert member(home).end.last_lsn == done.last_lsn


def test_bits_are_flipped_before_what_follows_is_written(tmp_path: Path) -> None:
    """Otherwise a power cut could leave a RollbackEnd, and visible entries that it undoes."""
    case = OPERATIONS["rollback"]
    home, disk = case.copy(tmp_path / "env"), Recorder()
    size = (home / "00000000.jdb").stat().st_size
    apply(home, case.make(), disk)
    kinds = [
        "append" if call.name == "write" and call.value[0] >= size else call.name
        for call in disk.calls
        if call.path.suffix == ".jdb" and call.name != "set_times"
    ]
    steps = [kind for kind, _ in groupby(kinds)]
    assert steps == ["append", "sync", "write", "sync", "append", "sync"]


@pytest.mark.parametrize("states", STATES)
@each_operation
def test_records_are_all_changed_or_none(name: str, states: int, tmp_path: Path) -> None:
    """At each power cut, the log has the state before the operation, or that after it."""
    case = OPERATIONS[name]
    home, operation = case.copy(tmp_path / "env"), case.make()
    before = digests(home)
    seen = snapshot_of if case.is_long else member
    old = contents_of(seen(home))
    cuts, disk = PowerCuts(home), Recorder()
    apply(home, operation, disk)
    new = contents_of(seen(home))
    met = set()
    count = max(states // len(disk.calls), 1)
    for _, state in cuts.states(disk.calls, tmp_path, random.Random(name), count):
        log = {path.name: path.read_bytes() for path in state.glob("*.jdb")}
        key = tuple(sorted(log.items()))
        if key not in met:
            met.add(key)
            assert contents_of(seen(state)) in (old, new)
        put_back(state)
        assert digests(state) == before
        shutil.rmtree(state)
    assert len(met) > 2


@pytest.mark.parametrize(
    "error",
    [
        errno.EIO,
        pytest.param(errno.ENOSPC, marks=pytest.mark.exhaustive),
        pytest.param(None, marks=pytest.mark.exhaustive),
    ],
)
@each_operation
def test_a_disk_that_fails(name: str, error: int | None, tmp_path: Path) -> None:
    """It fails at some calls; the log then opens, and is put back."""
    case = OPERATIONS[name]
    disk = Recorder()
    apply(case.copy(tmp_path / "all"), case.make(), disk)
    for at in range(0, len(disk.calls), max(len(disk.calls) // FAILURES, 1)):
        home = case.copy(tmp_path / f"{at}")
        before = digests(home)
        with pytest.raises((RefusedError, KilledError)):
            apply(home, case.make(), Recorder(at, error))
        assert not member(home).refusals
        put_back(home)
        assert digests(home) == before
        shutil.rmtree(home)


def test_the_last_author_is_that_of_the_last_end() -> None:
    home = FIXTURES / "v17-rep-uncommitted-before" / "node2"
    ends = [found for found in logged(home) if found.entry.type_name in ("Commit", "Abort")]
    of_group = [found.entry.fields for found in ends if found.entry.header.vlsn is not None]
    found = last_author(member(home))
    assert found is not None
    assert found.node_id == of_group[-1]["master_node_id"]
    assert found.dtvlsn == of_group[-1]["dtvlsn"] > 0
    assert last_author(member(FIXTURES / "v17-basic" / "env")) is None
