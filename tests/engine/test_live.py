"""`dump` beside the real engine, in separate processes, while it writes and flips files."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.builders.forked import Forked
from tests.engine.recovered import QUICK_START

ROUNDS, PAUSE_MS = 250, 12
DEADLINE = 600
DUMPS = 3
"""Number of dumps that must find the log at different lengths."""
TOOL = [sys.executable, "-c", "from je_tools.commands.main import main; main()"]

pytestmark = pytest.mark.engine


@contextmanager
def writing(java: Path, class_path: str, home: Path) -> Iterator[subprocess.Popen[str]]:
    """Run an engine that has begun to write."""
    home.mkdir()
    command = [java, *QUICK_START, "-cp", class_path, "Writer", home, str(ROUNDS), str(PAUSE_MS)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        try:
            yield writer
        finally:
            writer.kill()


def dumped(forked: Forked, home: Path) -> list[bytes]:
    """Return the lines of a dump that ends by itself, without an error."""
    done = forked.run("je-tools", "dump", home, "--format", "jsonl")
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.splitlines()


def without_names(lines: list[bytes]) -> list[dict[str, Any]]:
    """Parse rows without the names of databases, which may come later in the log."""
    return [json.loads(line) | {"db": None} for line in lines]


def assert_reads_only(pid: int, home: Path) -> None:
    """Check that its files of the log are open read-only, exclude the lock, and are not locked."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = link.readlink()
            info = (link.parent.parent / "fdinfo" / link.name).read_text()
        except FileNotFoundError:
            continue
        if target.is_relative_to(home):
            assert target.suffix == ".jdb"
            flags = next(line for line in info.splitlines() if line.startswith("flags:"))
            assert int(flags.split()[1], 8) & os.O_ACCMODE == os.O_RDONLY
    locks = Path("/proc/locks").read_text().splitlines()
    assert not [line for line in locks if line.split()[4] == str(pid)]


def wait_for_lines(path: Path, count: int) -> list[bytes]:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        lines = path.read_bytes().splitlines()
        if len(lines) >= count:
            return lines
        time.sleep(0.1)
    raise AssertionError(f"{len(lines)} of {count} lines after {DEADLINE} s")


def digests(home: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in home.iterdir()}


def test_a_log_that_the_engine_is_writing(
    java: Path, class_path: str, forked: Forked, tmp_path: Path
) -> None:
    home, out, limited = tmp_path / "env", tmp_path / "out.jsonl", tmp_path / "limited.jsonl"
    with writing(java, class_path, home) as writer:
        command = [*TOOL, "dump", home, "--follow", "--format", "jsonl"]
        with out.open("wb") as sink, limited.open("wb") as limited_sink:
            follower = subprocess.Popen(command, stdout=sink, stderr=subprocess.PIPE)
            some = subprocess.Popen([*command, "--limit", "3000"], stdout=limited_sink)
        snapshots: list[list[bytes]] = []
        while len({len(snapshot) for snapshot in snapshots}) < DUMPS:
            assert writer.poll() is None
            assert_reads_only(follower.pid, home)
            snapshots.append(dumped(forked, home))
        assert writer.communicate() == ("done\n", None)
        assert writer.returncode == 0
    before = digests(home)
    whole = dumped(forked, home)
    files = sorted(home.glob("*.jdb"))
    assert len(files) > 3
    lines = wait_for_lines(out, len(whole))
    follower.send_signal(signal.SIGINT)
    assert follower.communicate(timeout=DEADLINE)[1].strip() == b"interrupted"
    assert follower.returncode == 130
    assert some.wait(timeout=DEADLINE) == 0
    expected = without_names(whole)
    assert without_names(lines) == expected
    assert without_names(limited.read_bytes().splitlines()) == expected[:3000]
    # Each dump beside the writer shows the log as far as it was written at that time.
    for snapshot in snapshots:
        assert without_names(snapshot) == expected[: len(snapshot)]
    assert digests(home) == before
    assert {path.suffix for path in home.iterdir()} <= {".jdb", ".lck", ".csv", ".info", ".0"}
