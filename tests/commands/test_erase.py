"""`je-tools erase` on the command line: locks, signals, cycles, reports, protected files."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from je_tools.erase import control_files
from je_tools.erase.cycle import stored_state
from je_tools.writing.disk import Disk
from je_tools.writing.lock import EnvironmentLock
from tests.builders.forked import Forked
from tests.damage.running import je_tools
from tests.je_tools.erase.erasing import changed_entries, copy_of, log_bytes
from tests.je_tools.snapshots import codes_of, snapshot_of

ERASED = "v17-erase-after"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a log of three files in which much can be erased."""
    return copy_of(ERASED, tmp_path / "env")


def test_a_locked_environment_is_refused(home: Path) -> None:
    old = log_bytes(home)
    with EnvironmentLock(home):
        for verb in ("run", "resume"):
            done = je_tools("erase", verb, home, "--apply")
            assert done.code == 6, done.err
            assert "has the environment open for writing; stop that first" in done.err
    assert log_bytes(home) == old


def test_a_dry_run_writes_nothing(home: Path) -> None:
    old, names = log_bytes(home), sorted(home.iterdir())
    for words in (["plan"], ["run"], ["run", "--checkpoint-first"], ["resume"], ["status"]):
        assert je_tools("erase", words[0], home, *words[1:]).code == 0
    assert log_bytes(home) == old
    assert sorted(home.iterdir()) == names


def test_a_damaged_log_is_told_by_the_exit_code(home: Path) -> None:
    path = home / "00000000.jdb"
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    for verb in ("plan", "run"):
        done = je_tools("erase", verb, home)
        assert done.code == 3
        assert "nothing can be erased now" in done.err


def test_a_hint_names_all_options(home: Path) -> None:
    options = ("--checkpoint-first", "--period", "30d", "--until", "06:00")
    done = je_tools("erase", "run", home, *options[:1], *options[3:])
    assert "--checkpoint-first --until 06:00 --apply` erases it" in done.err
    wrong = je_tools("erase", "run", home, "--until", "06:00:00")
    assert wrong.code == 2
    assert "--until 06:00:00: a time is written" in wrong.err
    assert "or 06:00 for the next 06:00" in wrong.err


def test_the_report_has_each_range_that_changed(home: Path, tmp_path: Path) -> None:
    old, path = log_bytes(home), tmp_path / "report.jsonl"
    done = je_tools("erase", "run", home, "--apply", "--report", path)
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    changed = {name: bytearray(len(data)) for name, data in old.items()}
    for line in lines:
        for start, size in line.get("ranges", ()):
            changed[line["file"]][start : start + size] = bytes(size * [1])
    for name, data in log_bytes(home).items():
        before, after, said = (
            np.frombuffer(each, np.uint8) for each in (old[name], data, changed[name])
        )
        assert ((before == after) | (said > 0)).all()
    assert sum(line["record"] == "fsync" for line in lines) == 11


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_at_a_safe_point(number: int, home: Path, forked: Forked) -> None:
    running = forked.start("je-tools", "erase", "run", home, "--apply", "--max-rate", "400K")
    old = log_bytes(home)
    until = time.monotonic() + 60
    while log_bytes(home) == old and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(running.pid, number)
    ended = running.wait()
    assert ended.returncode == 128 + number, ended.stderr
    assert b"files are left for the next run" in ended.stderr
    assert codes_of(snapshot_of(home)) == []
    assert changed_entries(old, log_bytes(home))
    assert not (home / control_files.FOLDER).exists()
    assert je_tools("erase", "run", home, "--apply").code == 0


def test_a_cycle_goes_on_where_it_was_left(home: Path) -> None:
    """The record is the engine's: of the files that are old enough, those done and those left."""
    assert je_tools("erase", "abort", home, "00000001.jdb").code == 0
    first = je_tools("erase", "run", home, "--apply", "--period", "1h", "--max-rate", "1G")
    assert first.code == 0, first.err
    state = stored_state(snapshot_of(home))
    assert state is not None
    assert (state.completed, state.pending) == ((0,), (1,))
    assert state.end_ms - state.start_ms == 3_600_000
    assert je_tools("erase", "abort", home, "--release").code == 0
    assert not (home / control_files.FOLDER).exists()
    second = je_tools("erase", "run", home, "--apply", "--period", "30d", "--max-rate", "1G")
    assert second.code == 0, second.err
    after = stored_state(snapshot_of(home))
    assert after is not None
    assert (after.start_ms, after.completed, after.pending) == (state.start_ms, (0, 1), ())
    status = json.loads(je_tools("erase", "status", home, "--format", "json").out)
    assert status["eraserFilesErased"] == 2
    assert status["eraserCycleStart"] == state.start_ms
    assert not (home / ".je-tools-undo").exists()


def test_a_backup_waits_until_its_file_is_left(home: Path) -> None:
    disk = Disk()
    running = control_files.ErasureControl(home, disk)
    file = snapshot_of(home).environment.files[1]
    assert not running.is_protected(file)
    with EnvironmentLock(home):
        late = je_tools("erase", "abort", home, file.path.name, "--timeout", "0.2")
        assert late.code == 6
        assert "still works on 00000001.jdb" in late.err
        timer = threading.Timer(0.3, lambda: running.is_protected(file))
        timer.start()
        done = je_tools("erase", "abort", home, file.path.name)
        timer.join()
    assert done.code == 0, done.err
    assert running.is_protected(file)
