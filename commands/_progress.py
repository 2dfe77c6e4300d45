"""Progress bars on standard error, which appear only if the work is not short."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from je_tools.commands._terminal import is_terminal

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.progress import Progress

DELAY = 2.0
"""Seconds that work takes before its progress is shown."""


class Stages(Struct, frozen=True):
    """Progress callbacks for work in several parts, as a `Scanner` takes them; none by default."""

    progress: Callable[[int], None] | None = None
    stage: Callable[[str, int], None] | None = None


class _Bar:
    """A progress bar on standard error that appears when the work has taken `DELAY` seconds."""

    def __init__(self, label: str, size: int) -> None:
        self._lock = Lock()
        self._part: tuple[str, int] | None = (label, size)
        self._done = 0
        self._shown: Progress | None = None
        self._task: Any = None
        self._timer = Timer(DELAY, self._show)
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
        )

        text = TextColumn("{task.description}")
        columns = (text, BarColumn(), TaskProgressColumn(), DownloadColumn(), TimeElapsedColumn())
        with self._lock:
            if self._part is None:
                return
            self._shown = Progress(*columns, console=Console(stderr=True), transient=True)
            self._begin()
            self._shown.start()

    def _begin(self) -> None:
        """Show the part that is being done now; a bar without a total only moves."""
        if self._shown is not None and self._part is not None:
            if self._task is not None:
                self._shown.remove_task(self._task)
            label, size = self._part
            self._task = self._shown.add_task(label, total=size or None, completed=self._done)

    def advance(self, done: int) -> None:
        """Count bytes as done; a part that is done is shown no longer if nothing follows it."""
        with self._lock:
            self._done += done
            if self._shown is not None:
                self._shown.advance(self._task, done)
                if self._shown.finished:
                    # A log that is followed grows past the end of the bar.
                    self._shown.stop()

    def stage(self, label: str, size: int) -> None:
        """Begin the next part; its size is 0 if it is unknown."""
        with self._lock:
            self._part, self._done = (label, size), 0
            self._begin()
            if self._shown is not None:
                self._shown.start()

    def end(self, *, is_complete: bool) -> None:
        """Remove the bar, after showing it at 100 % if the work is complete."""
        self._timer.cancel()
        with self._lock:
            self._part = None
            if self._shown is not None:
                if is_complete:
                    total = self._shown.tasks[-1].total or 1
                    self._shown.update(self._task, total=total, completed=total, refresh=True)
                self._shown.stop()


@contextmanager
def _bar(label: str, size: int) -> Iterator[_Bar]:
    bar = _Bar(label, size)
    try:
        yield bar
    except BaseException:
        bar.end(is_complete=False)
        raise
    bar.end(is_complete=True)


@contextmanager
def staged_bar(size: int, label: str) -> Iterator[Stages]:
    """Show a bar for each part of the work, if stderr is a terminal and the work is not short.

    Args:
        size: bytes of the log, which the first part reads; 0 if unknown.
        label: name of the first part.
    """
    if not is_terminal(sys.stderr):
        yield Stages()
        return
    with _bar(label, size) as bar:
        yield Stages(bar.advance, bar.stage)


@contextmanager
def progress_bar(size: int, label: str) -> Iterator[Callable[[int], None] | None]:
    """Show a bar over `size` bytes, if stderr is a terminal and the work is not short.

    Yields a callback that takes the number of bytes done since its last call; None without a bar,
    as for 0 bytes.
    """
    if not size or not is_terminal(sys.stderr):
        yield None
        return
    with _bar(label, size) as bar:
        yield bar.advance


def bar_beside(
    output: Path | None, size: int, label: str
) -> AbstractContextManager[Callable[[int], None] | None]:
    """Show a bar as `progress_bar` does, unless it would appear between printed lines.

    Args:
        output: file of the results; None for standard output.
        size: bytes to read.
        label: name of the work.
    """
    is_between = output is None and is_terminal(sys.stdout)
    return progress_bar(0 if is_between else size, label)
