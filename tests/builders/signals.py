"""Send a process of `je-tools` a signal at its n-th call of the disk.

`python -m tests.builders.signals` reads one JSON object a line: `at` (from 0 on), `signal` (its
number), `arguments` of je-tools, `said` (file for its standard error). It forks for each, so that
Python starts only once, and answers with a line: the exit code, or minus the signal that ended the
process. If the signal comes at a write, the first half of that is done, in whole sectors: the
system copies page by page.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from je_tools.commands import checkpoint, group_reset, main, recover, undo, vlsn_rollback
from je_tools.writing.disk import SECTOR, Disk
from tests.builders.power_cuts import Recorder

CALLS = [name for name in vars(Recorder) if name in vars(Disk) and not name.startswith("_")]
LOADED = (checkpoint, group_reset, recover, undo, vlsn_rollback)
"""Modules that the commands would otherwise load in each process."""


def _counted(name: str, at: int, number: int, count: list[int]) -> Callable[..., Any]:
    whole = getattr(Disk, name)

    def call(self: Disk, path: Path, *values: Any) -> Any:
        count[0] += 1
        if count[0] == at + 1:
            if name == "write":
                offset, data = values
                stop = (offset + len(data) // 2) // SECTOR * SECTOR
                whole(self, path, offset, data[: max(stop - offset, 0)])
            os.kill(os.getpid(), number)
        return whole(self, path, *values)

    return call


def _run(asked: dict[str, Any]) -> None:
    """Run a command in the forked process; this does not return."""
    out = os.open(asked["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(out, 2)
    # Shells start background processes with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    count = [0]
    for name in CALLS:
        setattr(Disk, name, _counted(name, asked["at"], asked["signal"], count))
    sys.argv = ["je-tools", *asked["arguments"]]
    code: Any = 1
    try:
        main.main()
    except SystemExit as stop:
        code = stop.code
    finally:
        sys.stderr.flush()
        os._exit(code)


class Signalled:
    """Runs commands that get signals; see the module."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=pipe, stdout=pipe, text=True
        )

    def run(self, at: int, number: int, said: Path, *arguments: object) -> tuple[int, str]:
        """Run a command, and return its exit code and standard error.

        Args:
            at: index of the call of the disk at which it gets the signal.
            number: number of the signal.
            said: file for its standard error.
            arguments: arguments of je-tools.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        words = [str(each) for each in arguments]
        asked = {"at": at, "signal": number, "said": str(said), "arguments": words}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline()), said.read_text()

    def end(self) -> None:
        """End the process."""
        self._process.communicate()


@contextmanager
def signalled() -> Iterator[Signalled]:
    """Start a process that runs commands."""
    running = Signalled()
    try:
        yield running
    finally:
        running.end()


def _serve() -> None:
    for line in sys.stdin:
        number = os.fork()
        if not number:
            _run(json.loads(line))
        _, status = os.waitpid(number, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    _serve()
