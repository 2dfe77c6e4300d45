"""Cycles of the eraser: which files are done, which are left, and when another cycle begins."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from je_tools.checkpoint.apply import apply_checkpoint
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.erase.cycle import choose_cycle, stored_state
from je_tools.erase.done_files import finished_files
from je_tools.erase.options import ErasureOptions
from je_tools.erase.progress import note_progress
from je_tools.erase.reasons import NUMBER_OF, KeepReason
from je_tools.erase.results import ErasureResult
from je_tools.erase.statistics import statistics_of
from je_tools.formats.je.internal.cleaner import EraserState
from je_tools.log.scan import Scanner
from je_tools.operations.eraser_progress import EraserProgress
from je_tools.writing.disk import Disk
from je_tools.writing.lock import EnvironmentLock
from tests.damage.running import je_tools
from tests.je_tools.erase.erasing import copy_of, erase
from tests.je_tools.snapshots import snapshot_of

DAY_MS = 86_400_000
CYCLE = ErasureOptions(period_ms=1000)


def now() -> int:
    return time.time_ns() // 1_000_000


def run_cycle(home: Path, options: ErasureOptions) -> tuple[ErasureResult, EraserState]:
    """Erase in a cycle, and return the result and the record of the cycle."""
    result = erase(home, options)
    assert result.state is not None
    return result, result.state


def record_at(home: Path, now_ms: int, period_ms: int) -> EraserState:
    """Let a run record a cycle of its own at some time."""
    options = ErasureOptions(checkpoint_first=True, period_ms=period_ms)
    state = erase(home, options, now_ms=now_ms).state
    assert state is not None
    return state


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a log of three files in which much can be erased."""
    return copy_of("v17-erase-after", tmp_path / "env")


def test_a_file_that_other_nodes_need_is_left(tmp_path: Path) -> None:
    home = copy_of("v26-rep-committed/node1", tmp_path / "env")
    options = CheckpointOptions(force=True, before_erasure=True, begins_file=True)
    apply_checkpoint(home, Scanner(threads=1), options, now())
    shutil.rmtree(home / ".je-tools-undo")
    time.sleep(1.1)
    result, state = run_cycle(home, CYCLE)
    assert result.plan.files[0].totals.counts[NUMBER_OF[KeepReason.VLSN]] > 0
    assert 0 not in state.completed
    assert 0 in state.pending


@pytest.fixture(scope="module")
def erased(tmp_path_factory: pytest.TempPathFactory) -> ErasureResult:
    """Erase the log of `home`."""
    return erase(copy_of("v17-erase-after", tmp_path_factory.mktemp("erased") / "env"))


@pytest.mark.parametrize(
    ("reason", "is_done"),
    [
        (KeepReason.VLSN, False),
        (KeepReason.RECOVERY, False),
        (KeepReason.COMPARATOR, False),
        (KeepReason.LAST_FILE, False),
        (KeepReason.LIVE, True),
        (KeepReason.ENTRY_TYPE, True),
        (KeepReason.ERASED, True),
    ],
)
def test_a_file_is_done_if_nothing_more_can_be_erased_later(
    reason: KeepReason, is_done: bool, erased: ErasureResult
) -> None:
    first = erased.plan.files[0]
    first.totals.counts[:] = 0
    assert 0 in finished_files(erased)
    first.totals.counts[NUMBER_OF[reason]] = 1
    assert (0 in finished_files(erased)) == is_done


def test_a_file_that_vanished_is_neither_done_nor_left(home: Path) -> None:
    result, _ = run_cycle(home, replace(CYCLE, period_ms=DAY_MS // 24))
    cycle = result.plan.cycle
    assert cycle is not None
    result.plan = replace(
        result.plan,
        cycle=replace(cycle, state=replace(cycle.state, pending=(0, 1, 77), completed=(5,))),
    )
    with EnvironmentLock(home) as lock:
        state = note_progress(lock, home, Scanner(threads=1), result, now(), Disk())
    assert state is not None
    assert (state.completed, state.pending) == ((0, 1, 5), ())
    assert statistics_of(result, state).eraser_files_already_deleted == 1


def test_the_lock_is_held_once_over_the_run_and_its_record(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two holds an engine could open the log, and begin a cycle of its own."""
    events: list[str] = []

    def note(owner: type, name: str) -> None:
        real = getattr(owner, name)

        def noted(*args: object) -> object:
            events.append(name)
            return real(*args)

        monkeypatch.setattr(owner, name, noted)

    note(EnvironmentLock, "__enter__")
    note(EnvironmentLock, "__exit__")
    note(EraserProgress, "write")
    options = ("--period", "1h", "--max-rate", "1G", "--checkpoint-first")
    done = je_tools("erase", "run", home, *options, "--apply")
    assert done.code == 0, done.err
    # The record is planned, and then written.
    assert events == ["__enter__", "write", "write", "__exit__"]
    assert stored_state(snapshot_of(home)) is not None


def test_a_clock_that_was_ahead_does_not_stop_erasing(home: Path) -> None:
    period_ms = 30 * DAY_MS
    ahead = record_at(home, now() + 3650 * DAY_MS, period_ms)
    status = je_tools("erase", "status", home).out.decode()
    assert "a clock was ahead" in " ".join(status.split())
    snapshot = snapshot_of(home, now_ms=now())
    cycle = choose_cycle(snapshot, period_ms)
    assert not cycle.is_resumed
    assert cycle.given_up == ahead
    assert cycle.state.start_ms == snapshot.now_ms
    for words in (["plan"], ["run", "--apply"]):
        done = je_tools("erase", words[0], home, *words[1:], "--period", "30d", "--max-rate", "1G")
        assert "begins in the future" in done.err
    again = stored_state(snapshot_of(home))
    assert again is not None
    assert again.start_ms <= now()
    done = je_tools("erase", "plan", home, "--period", "30d")
    assert "begins in the future" not in done.err


@pytest.mark.parametrize(
    ("recorded", "asked", "age", "goes_on"),
    [
        (30, 30, 0, True),
        (1, 30, -2, False),
        (30, 30, 29, True),
        (30, 30, 30, False),
        (1, 30, 0, True),
        (90, 30, 70, True),
        (90, 30, 0, False),
        (30_000, 30, 0, False),
    ],
)
def test_a_cycle_goes_on_unless_it_ends_later_than_a_period(
    recorded: int, asked: int, age: int, goes_on: bool, home: Path
) -> None:
    """Each length and age is in days; an age below 0 is that of a cycle to come."""
    now_ms = now()
    state = record_at(home, now_ms, recorded * DAY_MS)
    cycle = choose_cycle(snapshot_of(home, now_ms=now_ms + age * DAY_MS), asked * DAY_MS)
    assert cycle.is_resumed == goes_on
    assert cycle.given_up == (None if goes_on or age >= recorded else state)


def test_files_that_were_too_young_are_said(home: Path) -> None:
    record_at(home, now(), 3650 * DAY_MS)
    done = je_tools("erase", "status", home).out.decode()
    assert "files left     " in done
    line = next(line for line in done.splitlines() if line.startswith("files outside"))
    assert "00000000, 00000001, 00000002" in line
    cycle = json.loads(je_tools("erase", "status", home, "--format", "json").out)["cycle"]
    assert cycle["outside"] == sorted(int(path.stem, 16) for path in home.glob("*.jdb"))


def test_a_cycle_without_work_takes_no_time(home: Path) -> None:
    for path in home.glob("*.jdb"):
        os.link(path, home.parent / path.name)
    done = je_tools("erase", "plan", home, "--period", "1s")
    assert "throttled" not in done.out.decode()
    (row,) = (
        row
        for row in je_tools("erase", "plan", home, "--period", "1s", "--format", "jsonl").rows
        if row["section"] == "plan"
    )
    assert row["throttled_ms"] is None
    assert row["erase_count"] == 0
