"""Progress bars: which passes over the log have one, and where none may be."""

from __future__ import annotations

import os
import pty
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from je_tools.commands import _options
from je_tools.commands import dump as command
from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools

HOME = FIXTURES / "v8-cleaned" / "env"
SIZE = sum(path.stat().st_size for path in HOME.glob("*.jdb"))
Bars = list[tuple[str, int, list[int]]]


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> Bars:
    """Each bar that was shown: its label, its length, and how it went on."""
    shown: Bars = []

    @contextmanager
    def bar(size: int, label: str) -> Iterator[Callable[[int], None]]:
        steps: list[int] = []
        shown.append((label, size, steps))
        yield steps.append

    monkeypatch.setattr(command, "progress_bar", bar)
    return shown


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ([], ["dump"]),
        (["--backward"], ["dump"]),
        (["--db", "people"], ["look ahead", "dump"]),
        (["--since", "2020-01-01"], ["look ahead", "dump"]),
        (["--until", "2030-01-01", "--backward"], ["look ahead", "dump"]),
    ],
)
def test_every_pass_has_a_bar_that_goes_to_its_end(
    options: list[str], labels: list[str], bars: Bars
) -> None:
    assert je_tools("dump", HOME, *options).code == 0
    assert [label for label, _, _ in bars] == labels
    for _, size, steps in bars:
        assert size == SIZE
        assert sum(steps) == SIZE
        assert len(steps) >= len(list(HOME.glob("*.jdb")))


def test_no_bar_between_the_lines_on_a_terminal(
    bars: Bars, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "is_terminal", lambda _: True)
    je_tools("dump", HOME, "--limit", "1", "--db", "people")
    je_tools("dump", HOME, "--output", tmp_path / "out")
    assert [(label, size) for label, size, _ in bars] == [
        ("look ahead", SIZE),
        ("dump", 0),
        ("dump", SIZE),
    ]


def test_a_bar_goes_when_all_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only when the command ends, since what is followed does not."""
    reader, writer = pty.openpty()
    shown = bytearray()
    screen = threading.Thread(target=_read_on, args=(reader, shown), daemon=True)
    screen.start()
    with os.fdopen(writer, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with _options.progress_bar(1 << 30, "dump") as advance:
            assert advance is not None
            advance(1 << 29)
            advance(1 << 29)
            print(END, file=terminal, flush=True)
            screen.join()
    os.close(reader)
    before, _, _ = shown.partition(END.encode())
    # The cursor is shown again where the bar has gone.
    assert before.rstrip().endswith((b"\x1b[2K", b"\x1b[?25h\r\x1b[1A\x1b[2K"))


END = "behind the bar"


def _read_on(terminal: int, shown: bytearray) -> None:
    """What a terminal is sent, until END: what is written at once may come out in parts."""
    while END.encode() not in shown:
        shown += os.read(terminal, 1 << 16)
