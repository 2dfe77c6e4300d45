"""Dumps by worker processes: the same lines, and workers that end with their parent."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from je_tools.dump import entries as dump
from je_tools.log.name_search import NameSearch
from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools

HOME = FIXTURES / "v26-dbops" / "env"
PATIENCE_S = 600


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use worker processes even for a small log."""
    monkeypatch.setattr(dump, "PROCESSES_FROM", 1)
    monkeypatch.setattr("je_tools.log.scan_options.ONE_THREAD_MAX", 1)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("form", ["table", "jsonl", "csv"])
def test_the_lines_are_the_same(form: str) -> None:
    alone = je_tools("dump", HOME, "--format", form, "--threads", "1")
    together = je_tools("dump", HOME, "--format", form, "--threads", "3")
    assert together == alone
    assert alone.out.count(b"\n") > 1000


@pytest.mark.usefixtures("eager")
def test_damage_is_told_once(tmp_path: Path) -> None:
    home = tmp_path / "env"
    shutil.copytree(HOME, home)
    victim = max(home.glob("*.jdb"), key=lambda path: path.stat().st_size)
    data = bytearray(victim.read_bytes())
    data[20_000:20_100] = bytes(100)
    victim.write_bytes(data)
    alone = je_tools("dump", home, "--format", "csv", "--threads", "1")
    together = je_tools("dump", home, "--format", "csv", "--threads", "3")
    assert together == alone
    assert alone.code == 3


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_file_that_vanishes_stops_the_dump(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "env"
    shutil.copytree(HOME, home)
    before = NameSearch.read_last

    def then_vanish(search: NameSearch) -> None:
        before(search)
        for path in home.glob("*.jdb"):
            path.unlink()

    monkeypatch.setattr(NameSearch, "read_last", then_vanish)
    done = je_tools("dump", home, "--format", form, "--threads", "2")
    assert done.code == 5
    assert "vanished" in done.err or "removed" in done.err


def by_workers(folder: Path) -> list[str | Path]:
    """Return a command that runs je-tools with worker processes even for a small log."""
    script = folder / "by_workers.py"
    script.write_text(
        "import sys\n"
        "from je_tools.dump import entries as dump\n"
        "from je_tools.log import scan_options\n"
        "dump.PROCESSES_FROM = scan_options.ONE_THREAD_MAX = 1\n"
        "if __name__ == '__main__':\n"
        "    from je_tools.commands.main import main\n"
        "    main()\n"
    )
    return [sys.executable, script]


def test_workers_load_nothing_from_where_they_are_started(tmp_path: Path) -> None:
    """A folder of evidence may hold files that somebody gave the names of our modules."""
    folder = tmp_path / "evidence"
    folder.mkdir()
    trap = f"import pathlib; pathlib.Path({str(folder / 'sprung')!r}).touch()\n"
    for name in ("signal", "random", "secrets", "numpy", "pyarrow", "je_tools", "tempfile"):
        (folder / f"{name}.py").write_text(trap)
    argv = [*by_workers(tmp_path), "dump", HOME, "--format", "csv", "--threads", "2"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert not (folder / "sprung").exists()
    assert done.stdout == je_tools("dump", HOME, "--format", "csv").out


@pytest.fixture
def slow_dump(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a dump whose workers block, since nobody reads their output."""
    home = tmp_path / "env"
    home.mkdir()
    source = max(HOME.glob("*.jdb"), key=lambda path: path.stat().st_size)
    for number in range(40):
        shutil.copy(source, home / f"{number:08x}.jdb")
    process = subprocess.Popen(
        [*by_workers(tmp_path), "dump", home, "--format", "csv", "--threads", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    yield process
    process.kill()
    process.communicate()


def _session(leader: int) -> dict[int, int]:
    """Return the live processes of a session and their parents."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(") ")[2].split()
        except (OSError, NotADirectoryError):
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found[int(entry.name)] = int(fields[1])
    return found


def _wait_until(what: str, leader: int, wanted: range) -> dict[int, int]:
    end = time.monotonic() + PATIENCE_S
    while len(found := _session(leader)) not in wanted:
        assert time.monotonic() < end, f"{what}: {found}"
        time.sleep(0.05)
    return found


def test_workers_end_with_a_parent_that_was_killed(slow_dump: subprocess.Popen[bytes]) -> None:
    leader = slow_dump.pid
    _wait_until("started", leader, range(4, 100))
    os.kill(leader, signal.SIGKILL)
    assert slow_dump.stdout is not None
    slow_dump.stdout.close()
    _wait_until("ended", leader, range(1))


def test_ctrl_c_ends_all_of_them(slow_dump: subprocess.Popen[bytes]) -> None:
    leader = slow_dump.pid
    _wait_until("started", leader, range(4, 100))
    os.killpg(leader, signal.SIGINT)
    _, told = slow_dump.communicate(timeout=PATIENCE_S)
    assert (slow_dump.returncode, told.strip()) == (130, b"interrupted")
    _wait_until("ended", leader, range(1))


def test_a_worker_that_is_killed_stops_the_dump(slow_dump: subprocess.Popen[bytes]) -> None:
    leader = slow_dump.pid
    found = _wait_until("started", leader, range(4, 100))
    # The workers are forked by a server that the leader started.
    worker = next(
        pid for pid, parent in found.items() if pid != leader and parent in found.keys() - {leader}
    )
    os.kill(worker, signal.SIGKILL)
    _, told = slow_dump.communicate(timeout=PATIENCE_S)
    assert slow_dump.returncode == 5, told
    assert b"a worker process was killed" in told
    _wait_until("ended", leader, range(1))


def test_terminated_it_leaves_nothing_behind(tmp_path: Path) -> None:
    """`timeout` and service managers end a program like this."""
    out = tmp_path / "out"
    out.mkdir()
    code = (
        "import sys, time\n"
        # Must come before other modules bind it as a default.
        "from je_tools.log import entry_table as entries\n"
        "entries.build_table = lambda *_, **__: time.sleep(3600)\n"
        "from je_tools.commands.main import main\n"
        "main()\n"
    )
    argv = [sys.executable, "-c", code, "dump", HOME, "--output", out / "rows"]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE)
    end = time.monotonic() + PATIENCE_S
    while not list(out.iterdir()):
        assert time.monotonic() < end
        time.sleep(0.05)
    process.terminate()
    _, told = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, told) == (143, b"")
    assert list(out.iterdir()) == []


FAULTS = """
import resource, sys, threading
import numpy as np
from je_tools.core.memory import own_this_process, keep_freed_memory_in_one_arena
if sys.argv[1:]:
    own_this_process()
    keep_freed_memory_in_one_arena()
def work():
    for _ in range(50):
        np.empty(3 << 20, np.uint8)[:] = 1
        np.empty(1 << 20, np.uint8)[:] = 1
for _ in range(2):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def test_memory_that_is_used_again_costs_few_faults() -> None:
    def faults(*arguments: str) -> int:
        told = subprocess.run(
            [sys.executable, "-c", FAULTS, *arguments], capture_output=True, check=True
        )
        return int(told.stdout)

    without = faults()
    assert faults("again") < without - 500, without


_ONE_IS_KILLED = """
import os, signal, sys, time
from concurrent.futures.process import BrokenProcessPool
from je_tools.core.worker_processes import open_workers

def killed():
    os.kill(os.getpid(), signal.SIGKILL)

def late():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1)
    return bytes(1 << 20)

def main():
    try:
        with open_workers(2, None) as pool:
            try:
                for each in [pool.submit(work) for work in (late, killed)]:
                    each.result()
            except BrokenProcessPool as error:
                raise RuntimeError("one died") from error
    except RuntimeError:
        return
    sys.exit("no worker died")
"""


def test_a_worker_that_ignored_sigterm_is_not_waited_for(tmp_path: Path) -> None:
    """It would wait for a reader of its result, and the pool would wait for it."""
    (tmp_path / "one_is_killed.py").write_text(_ONE_IS_KILLED)
    process = subprocess.Popen(
        [sys.executable, "-c", "import one_is_killed; one_is_killed.main()"],
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    try:
        assert process.wait(60) == 0
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
