"""The engine's command line tools, and programs that use it, in one JVM."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.engine.recovered import QUICK_START


class Tools:
    """A JVM that runs tools one after the other: its start takes longer than most of them."""

    def __init__(self, java: Path, class_path: str) -> None:
        pipe = subprocess.PIPE
        command = [java, *QUICK_START, "-cp", class_path, "Tools"]
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def __enter__(self) -> Tools:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    @contextmanager
    def clock(self, now_ms: int) -> Iterator[None]:
        """Fix the time at which records expire."""
        self.run("Clock", now_ms)
        try:
            yield
        finally:
            self.run("Clock", 0)

    def run(self, tool: str, *arguments: object) -> bytes:
        """Return the output of a tool; AssertionError has the exception that it threw."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.NamedTemporaryFile() as printed:
            words = [printed.name, tool, *map(str, arguments)]
            self._process.stdin.write("\t".join(words) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
            assert answer == "done\n", (words, answer)
            return printed.read()
