"""Measurements of whole processes: wall-clock time, and peak anonymous memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

SAMPLE_SECONDS = 0.01

_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""Variable with which each run would compile the modules of a source tree again. An installed
program is compiled once."""


_OF_NO_FILE = ("Pss_Anon:", "Pss_Shmem:")
"""Lines of smaps_rollup: anonymous and shared memory, shared pages divided among processes."""


@dataclass(frozen=True)
class Command:
    """A process to measure. Stdout goes to `output`, else to /dev/null.

    `writes` is a file or directory that the process creates; it is removed before each run. With
    `copies` it is a copy of that directory instead, which the process changes.
    """

    argv: Sequence[str]
    output: Path | None = None
    writes: Path | None = None
    copies: Path | None = None


@dataclass
class Times:
    """Wall-clock seconds of each run, and the failure, if there was one."""

    seconds: list[float] = field(default_factory=list)
    failure: str = ""

    @property
    def median(self) -> float:
        """The median in seconds; NaN if a run failed."""
        if self.failure or not self.seconds:
            return float("nan")
        return statistics.median(self.seconds)


def time_in_turns(commands: Sequence[Command], runs: int) -> list[Times]:
    """Run the commands in turns, `runs` times each, so that a slow minute hits all of them."""
    results = [Times() for _ in commands]
    for _ in range(runs):
        for command, result in zip(commands, results, strict=True):
            if not result.failure:
                _run_once(command, result)
    return results


def _run_once(command: Command, result: Times) -> None:
    with _prepared(command) as (stdout, stderr):
        start = time.perf_counter()
        done = subprocess.run(
            command.argv, stdout=stdout, stderr=stderr, check=False, env=_environ()
        )
        result.seconds.append(time.perf_counter() - start)
        if done.returncode:
            stderr.seek(0)
            shown = stderr.read().decode(errors="replace").strip().splitlines()
            result.failure = f"exit {done.returncode}: {shown[-1] if shown else ''}"


def _environ() -> dict[str, str]:
    """Return this process's environment, with Python's bytecode kept from the first run on."""
    return {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}


@contextlib.contextmanager
def _prepared(command: Command) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open files for stdout and stderr, and remove the output of an earlier run."""
    if command.writes:
        if command.writes.is_dir():
            shutil.rmtree(command.writes)
        command.writes.unlink(missing_ok=True)
        if command.copies:
            shutil.copytree(command.copies, command.writes)
            os.sync()
    with (
        Path(command.output or "/dev/null").open("wb") as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        yield stdout, stderr


def cpu_seconds(command: Command, runs: int, codes: Sequence[int]) -> float:
    """Return the median of the CPU seconds of a process; NaN if it ends with another exit code."""
    found = []
    for _ in range(runs):
        with _prepared(command) as (stdout, stderr):
            process = subprocess.Popen(command.argv, stdout=stdout, stderr=stderr, env=_environ())
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in codes:
            return float("nan")
        found.append(usage.ru_utime + usage.ru_stime)
    return statistics.median(found)


def tree_cpu_seconds(command: Command, runs: int) -> float:
    """Return the median of the CPU seconds of a process and all that it starts; NaN if it fails."""
    # Processes whose parents have ended become children of this one, which waits for them.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    found = []
    for _ in range(runs):
        before = _cpu_of_children()
        with _prepared(command) as (stdout, stderr):
            done = subprocess.run(
                command.argv, stdout=stdout, stderr=stderr, check=False, env=_environ()
            )
        if done.returncode:
            return float("nan")
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()
        found.append(_cpu_of_children() - before)
    return statistics.median(found)


_PR_SET_CHILD_SUBREAPER = 36
"""Source: prctl(2)."""


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def peak_anonymous_bytes(command: Command) -> tuple[int, int]:
    """Return the exit code, and the peak anonymous memory of the process and its children.

    The memory is sampled, and counts a shared page once. Pages of mapped log files are not
    anonymous: the system reclaims them when it needs memory.
    """
    return _sampled(command, lambda pid: sum(_anonymous_bytes(each) for each in _tree(pid)))


def peak_of_one(command: Command) -> int:
    """Return the peak anonymous memory of the process itself, without its children."""
    return _sampled(command, _anonymous_bytes)[1]


def _sampled(command: Command, size_of: Callable[[int], int]) -> tuple[int, int]:
    """Return the exit code, and the largest size while the process runs, by its id."""
    peak = 0
    with _prepared(command) as (stdout, stderr):
        process = subprocess.Popen(command.argv, stdout=stdout, stderr=stderr, env=_environ())
        while process.poll() is None:
            peak = max(peak, size_of(process.pid))
            time.sleep(SAMPLE_SECONDS)
    return process.returncode, peak


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found = children.read_text().split()
        except OSError:  # the thread has ended
            continue
        for child in found:
            yield from _tree(int(child))


def _anonymous_bytes(pid: int) -> int:
    try:
        shown = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # the process has ended
        return 0
    sizes = (line.split() for line in shown.splitlines())
    return sum(int(words[1]) * 1024 for words in sizes if words[0] in _OF_NO_FILE)


def warm(folder: Path, pattern: str = "*.jdb") -> int:
    """Read every file once, so that it is in the page cache; return the bytes read."""
    total = 0
    for path in sorted(filter(Path.is_file, folder.glob(pattern))):
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                total += len(chunk)
    return total
