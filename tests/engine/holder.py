"""The engine as another process that has an environment open."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.engine.recovered import QUICK_START


class Holder:
    """A JVM that has one environment after the other open: its start takes longer than an open.

    Attributes:
        pid: its process.
    """

    def __init__(self, java: Path, class_path: str) -> None:
        pipe = subprocess.PIPE
        command = [java, *QUICK_START, "-cp", class_path, "Holds"]
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.pid = self._process.pid

    def __enter__(self) -> Holder:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    @contextmanager
    def opened(self, home: Path, mode: str) -> Iterator[str]:
        """Hold an environment open, mode `rw` or `ro`; yield "open", or the engine's exception."""
        answer = self._ask(f"{home}\t{mode}")
        try:
            yield answer
        finally:
            closed = self._ask("close")
        assert closed == "closed"

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()
