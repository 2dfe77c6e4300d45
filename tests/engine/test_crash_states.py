"""States that crashes leave and workloads seldom come by: transactions that go on, databases that do not."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

import pytest

from je_tools.checkpoint.apply import Orders, apply_checkpoint
from je_tools.scan import Scanner
from tests.engine.acceptance import Judge, Verdict
from tests.engine.recovered import QUICK_START

LONGEST_SECONDS = 300

pytestmark = pytest.mark.engine


def leave(judge: Judge, home: Path, state: str, argument: object) -> None:
    """Let the engine leave an environment in a state of Crashes.java."""
    home.mkdir()
    command = [judge.java, *QUICK_START, "-cp", judge.class_path, "Crashes", home, state]
    done = subprocess.run(
        [*command, str(argument)],
        check=False,
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
    )
    assert not done.returncode, done.stderr


def written(judge: Judge, crashed: Path, folder: Path, *, node: str | None = None) -> Verdict:
    """The judgement of what `checkpoint --apply` makes of a copy."""
    now_ms = time.time_ns() // 1_000_000
    home = folder / "written"
    home.mkdir()
    for path in crashed.glob("*.jdb"):
        (home / path.name).write_bytes(path.read_bytes())
    apply_checkpoint(home, Scanner(threads=1, fast=False), Orders(), now_ms)
    return judge.verdict(crashed, home, now_ms, node=node)


def free_port() -> int:
    with socket.create_server(("localhost", 0)) as server:
        return int(server.getsockname()[1])


def test_a_transaction_of_the_group_goes_on(judge: Judge, tmp_path: Path) -> None:
    """The engine takes it up again, and ends it: what it deleted, changed and inserted goes back."""
    node = f"group/n1/localhost:{free_port()}"
    leave(judge, tmp_path / "crashed", "unfinished", node)
    verdict = written(judge, tmp_path / "crashed", tmp_path, node=node)
    print(*verdict.notes)
    assert not verdict.problems
