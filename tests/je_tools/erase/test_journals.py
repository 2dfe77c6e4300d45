"""Journals that an interrupted erasure has left do not stop the next one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from je_tools.checkpoint.apply import apply_checkpoint
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.erase.live_records import delete_records
from je_tools.erase.options import ErasureOptions
from je_tools.erase.plan import plan_erasure
from je_tools.erase.preconditions import ObstacleKind
from je_tools.log.scan import Scanner
from tests.builders.power_cuts import Call, KilledError, Recorder, failures, sampled
from tests.je_tools.erase.erasing import CHECKPOINT_FIRST, copy_of, erase, log_bytes
from tests.je_tools.snapshots import NOW_MS, contents_of, snapshot_of
from tests.truth.contents import Contents

CYCLE = ErasureOptions(checkpoint_first=True, period_ms=1000)


def calls_of(home: Path, options: ErasureOptions) -> list[Call]:
    """Return the calls of an erasure that nothing stops."""
    disk = Recorder()
    erase(home, options, disk=disk)
    return disk.calls


def erase_twice(home: Path, options: ErasureOptions, fail_at: int) -> None:
    """Kill an erasure at a call, and repeat it."""
    with pytest.raises(KilledError):
        erase(home, options, disk=Recorder(fail_at=fail_at))
    erase(home, options)


def assert_whole(home: Path, records: Contents) -> None:
    """Assert that records are as they were, that nothing is left to erase, and no journal."""
    assert contents_of(snapshot_of(home)) == records
    assert not (home / ".je-tools-undo").exists()
    assert plan_erasure(snapshot_of(home), ErasureOptions()).totals.erase_count == 0


def erases(call: Call) -> bool:
    """Return True for the first step of overwriting: the first byte, or a redo journal."""
    is_first = call.name == "write" and call.value[0] == 0 and call.path.name == "00000000.jdb"
    return is_first or ".je-tools-erase" in call.path.parts


@sampled(8)
@pytest.mark.parametrize("name", ["v17-crash-txn", "v8-basic"])
def test_a_checkpoint_that_was_interrupted(name: str, every: int, tmp_path: Path) -> None:
    before = contents_of(snapshot_of(copy_of(name, tmp_path / "before")))
    calls = calls_of(copy_of(name, tmp_path / "whole"), CHECKPOINT_FIRST)
    touched = next(i for i, call in enumerate(calls) if erases(call))
    for fail_at in range(1, touched, every):
        home = copy_of(name, tmp_path / str(fail_at))
        erase_twice(home, CHECKPOINT_FIRST, fail_at)
        assert_whole(home, before)


@sampled(8)
def test_a_record_of_the_cycle_that_was_interrupted(every: int, tmp_path: Path) -> None:
    name = "v17-basic"
    before = contents_of(snapshot_of(copy_of(name, tmp_path / "before")))
    calls = calls_of(copy_of(name, tmp_path / "whole"), CYCLE)
    begun = [i for i, call in enumerate(calls) if ".je-tools-undo" in call.path.parts]
    last_erased = max(
        i
        for i, call in enumerate(calls[: begun[-1]])
        if call.name == "write" and call.path.name == "00000000.jdb"
    )
    for fail_at in range(last_erased + 1, len(calls), every):
        home = copy_of(name, tmp_path / str(fail_at))
        erase_twice(home, CYCLE, fail_at)
        assert contents_of(snapshot_of(home)) == before
        assert not (home / ".je-tools-undo").exists()


@sampled(2)
def test_a_deletion_that_was_interrupted(every: int, tmp_path: Path) -> None:
    name = "v17-basic"
    source = copy_of(name, tmp_path / "before")
    snapshot = snapshot_of(source)
    before = contents_of(snapshot)
    db_id, db = next((no, each) for no, each in snapshot.databases.items() if each.name in before)
    key = before[db.name][0][0]  # type: ignore[index]
    doomed = {db_id: [(key, None)]}
    disk = Recorder()
    delete_records(copy_of(name, tmp_path / "whole"), Scanner(threads=1), doomed, NOW_MS, disk=disk)
    for fail_at in failures(None, every, range(len(disk.calls))):
        home = tmp_path / str(fail_at)
        shutil.copytree(source, home)
        with pytest.raises(KilledError):
            delete_records(home, Scanner(threads=1), doomed, NOW_MS, disk=Recorder(fail_at=fail_at))
        erase(home)
        assert not (home / ".je-tools-undo").exists()
        found = contents_of(snapshot_of(home))
        assert found == before or key not in dict(found[db.name])  # type: ignore[index]


def test_the_plan_names_the_journals_of_others(tmp_path: Path) -> None:
    home = copy_of("v17-crash-txn", tmp_path / "env")
    apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(), NOW_MS)
    old = log_bytes(home)
    found = plan_erasure(snapshot_of(home), CHECKPOINT_FIRST).obstacles
    assert [each.kind for each in found] == [ObstacleKind.UNDO_JOURNAL]
    assert log_bytes(home) == old
