"""Running commands in this process, and the state of paths before and after."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from je_tools.commands.main import group, run


class Outcome(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: bytes
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the output, parsed as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


def je_tools(*arguments: object) -> Outcome:
    """Run `je-tools`, and return its exit code and the two standard outputs."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    err = io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(group, [str(argument) for argument in arguments])
    out.flush()
    assert isinstance(out.buffer, io.BytesIO)
    return Outcome(code, out.buffer.getvalue(), err.getvalue())


class State(NamedTuple):
    """State of a path: everything that a write would change, except access times."""

    digest: str
    mode: int
    size: int
    modified_ns: int
    changed_ns: int
    inode: int


def states(*homes: Path) -> dict[str, State]:
    """Return the state of some directories, and of every path below them."""
    paths = [path for home in homes for path in (home, *sorted(home.rglob("*")))]
    return {str(path): _state(path) for path in paths}


def _state(path: Path) -> State:
    status = path.lstat()
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return State(
        digest,
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
    )


def forget_arguments() -> None:
    """Hide the arguments of the test run from commands, which write them into the manifest."""
    sys.argv[1:] = []
