"""Progress bars: passes over the log that have one, and cases without a bar."""

from __future__ import annotations

import os
import pty
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from je_tools.commands import (
    _progress,
    dump,
    erase,
    group,
    ignite,
    ignite_pages,
    ignite_wal,
    journal,
    vlsn,
)
from je_tools.commands.main import COMMANDS
from tests.builders.ignite import segment, write_store
from tests.builders.ignite_pages import write_page_store
from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools

HOME = FIXTURES / "v8-cleaned" / "env"
REPLICATED = FIXTURES / "v17-rep-uncommitted-before"
SIZE = sum(path.stat().st_size for path in HOME.glob("*.jdb"))
Bars = list[tuple[str, int, list[int]]]


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> Bars:
    """Return each bar that is shown: its label, its length, and its steps."""
    shown: Bars = []

    @contextmanager
    def bar(size: int, label: str) -> Iterator[Callable[[int], None]]:
        steps: list[int] = []
        shown.append((label, size, steps))
        yield steps.append

    for module in (dump, _progress):
        monkeypatch.setattr(module, "progress_bar", bar)
    return shown


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ([], ["dump"]),
        (["--backward"], ["dump"]),
        (["--db", "people"], ["prepare", "dump"]),
        (["--since", "2020-01-01"], ["prepare", "dump"]),
        (["--until", "2030-01-01", "--backward"], ["prepare", "dump"]),
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
    monkeypatch.setattr(_progress, "is_terminal", lambda _: True)
    je_tools("dump", HOME, "--limit", "1", "--db", "people")
    je_tools("dump", HOME, "--output", tmp_path / "out")
    assert [(label, size) for label, size, _ in bars] == [
        ("prepare", SIZE),
        ("dump", 0),
        ("dump", SIZE),
    ]


class Clock:
    """A clock on which the time until a bar appears passes when a test says so."""

    def __init__(self, seconds: float, function: Callable[[], None]) -> None:
        self.seconds, self._function = seconds, function
        self.daemon = False
        self.is_cancelled = False

    def start(self) -> None:
        """Begin to wait."""
        CLOCKS.append(self)

    def cancel(self) -> None:
        """Wait no longer."""
        self.is_cancelled = True

    def ring(self) -> None:
        """Let the time pass."""
        assert self.seconds == 2
        self._function()


CLOCKS: list[Clock] = []


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> list[Clock]:
    """Return the clocks that have been started, with no time passing."""
    CLOCKS.clear()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(_progress, "Timer", Clock)
    return CLOCKS


def test_a_bar_goes_when_all_is_done(monkeypatch: pytest.MonkeyPatch, clocks: list[Clock]) -> None:
    """It does not stay until the command ends, since `--follow` has no end."""
    with (
        shown_on_terminal(monkeypatch) as shown,
        _progress.progress_bar(1 << 30, "dump") as advance,
    ):
        assert advance is not None
        clocks[0].ring()
        advance(1 << 29)
        advance(1 << 29)
        shown.end()
    # Clearing the bar may also show the cursor again.
    assert shown.text.rstrip().endswith((b"\x1b[2K", b"\x1b[?25h\r\x1b[1A\x1b[2K"))


class Shown:
    """Output sent to a terminal, up to the end marker."""

    def __init__(self, terminal: int) -> None:
        self._data = bytearray()
        self._terminal = terminal
        self._screen = threading.Thread(target=self._read_on, daemon=True)
        self._screen.start()

    def _read_on(self) -> None:
        # The data of one write may arrive in parts.
        while END.encode() not in self._data:
            self._data += os.read(self._terminal, 1 << 16)

    def end(self) -> None:
        """Send the end marker, and wait for it."""
        if self._screen.is_alive():
            print(END, file=sys.stderr, flush=True)
            self._screen.join()

    @property
    def text(self) -> bytes:
        """Return the whole output."""
        return bytes(self._data.partition(END.encode())[0])


@contextmanager
def shown_on_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shown]:
    """Make standard error a terminal, and yield its output."""
    reader, writer = pty.openpty()
    shown = Shown(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", terminal)
        yield shown
        shown.end()
    os.close(reader)


END = "behind the bar"


class Parts:
    """A staged bar that records each part, with its expected and its actual number of bytes."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[int, int]] = {}
        self.label = ""

    @contextmanager
    def bar(self, size: int, label: str) -> Iterator[_progress.Stages]:
        self.stage(label, size)
        yield _progress.Stages(self.progress, self.stage)

    def stage(self, label: str, size: int) -> None:
        self.label = label
        self.found[label] = size, 0

    def progress(self, done: int) -> None:
        size, before = self.found[self.label]
        self.found[self.label] = size, before + done


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Parts:
    made = Parts()
    for _name in ("checkpoint", "recover"):
        monkeypatch.setattr("je_tools.commands._scanning.staged_bar", made.bar)
    return made


def test_each_part_of_a_checkpoint_is_told_of(parts: Parts, tmp_path: Path) -> None:
    home = FIXTURES / "v17-crash-txn" / "env"
    size = sum(path.stat().st_size for path in home.glob("*.jdb"))
    copy = tmp_path / "copy"
    assert je_tools("checkpoint", home, "--apply", "--output", copy).code == 0
    assert parts.found["copy"] == (size, size)
    read, held = parts.found["read the files"]
    assert read == held
    assert read >= size
    grown = sum(path.stat().st_size for path in copy.glob("*.jdb"))
    assert parts.found["checkpoint"] == (0, grown - size)


def test_what_is_looked_at_before_a_cut_is_told_of(parts: Parts, tmp_path: Path) -> None:
    node = FIXTURES / "v17-rep-uncommitted-before" / "node1"
    home = Path(shutil.copytree(node, tmp_path / "env"))
    size = (home / "00000000.jdb").stat().st_size
    assert je_tools("recover", home, "--to-lsn", "0x0/0x1f437", "--apply").code == 6
    assert parts.found["check the rest"][1] > 10_000
    assert parts.found["read the loss"] == (size, size)


@pytest.mark.parametrize("size", [0, 5 << 20, 1 << 40])
@pytest.mark.parametrize("is_long", [True, False])
def test_a_staged_bar(
    is_long: bool, size: int, monkeypatch: pytest.MonkeyPatch, clocks: list[Clock]
) -> None:
    """The bar, with each part, is shown if the work is not short, whatever the size of the log."""
    with shown_on_terminal(monkeypatch) as shown:
        with _progress.staged_bar(size, "first part") as stages:
            assert stages.stage is not None
            assert stages.progress is not None
            stages.progress(100)
            if is_long:
                clocks[0].ring()
            stages.stage("second part", 0)
            stages.progress(100)
        shown.end()
    assert clocks[0].is_cancelled
    assert (b"second part" in shown.text) == is_long
    assert (b"100%" in shown.text) == is_long


def test_a_bar_that_appears_late_knows_what_is_done(
    monkeypatch: pytest.MonkeyPatch, clocks: list[Clock]
) -> None:
    with shown_on_terminal(monkeypatch) as shown:
        with _progress.progress_bar(1000, "part") as advance:
            assert advance is not None
            advance(500)
            clocks[0].ring()
            shown_then = shown
        shown.end()
    assert shown_then.text.find(b" 50%") < shown.text.find(b"100%")
    assert b" 50%" in shown.text


def test_no_bar_of_work_that_failed_is_full(
    monkeypatch: pytest.MonkeyPatch, clocks: list[Clock]
) -> None:
    def fail() -> None:
        with _progress.progress_bar(1000, "part") as advance:
            clocks[0].ring()
            assert advance is not None
            advance(10)
            raise KeyError

    with shown_on_terminal(monkeypatch) as shown:
        with pytest.raises(KeyError):
            fail()
        shown.end()
    assert b"part" in shown.text
    assert b"100%" not in shown.text


def test_a_clock_that_rings_at_the_end_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, clocks: list[Clock]
) -> None:
    with shown_on_terminal(monkeypatch) as shown:
        with _progress.progress_bar(1000, "part"):
            pass
        clocks[0].ring()
        shown.end()
    assert shown.text == b""


WITH_LOG = {
    "get": ("user00000001", "--db", "people"),
    "export": ("--db", "people", "--output", "OUT"),
    "diff": (str(HOME),),
    "salvage": ("--output", "OUT"),
    "dump": ("--output", "OUT"),
    "erase prove": ("--key", "nobody"),
    "erase subject": ("--key", "nobody"),
    "ignite export": ("--exit-zero",),
    "ignite recover": ("--exit-zero",),
    "journal show": ("--exit-zero",),
    "journal truncate": ("--above", "850", "--exit-zero"),
    "vlsn compare": (str(REPLICATED / "node2"), "--exit-zero"),
    "vlsn rollback": ("--to", "1224"),
    "group reset": ("--group-name", "alone", "--node-name", "node1", "--node-host-port", "a:5011"),
}
OTHER_LOGS = {
    "journal": FIXTURES / "starrocks-fe-hole" / "node1",
    "vlsn": REPLICATED / "node1",
    "group": FIXTURES / "v26-rep-committed" / "node1",
}
GROUPS = {
    "journal": journal,
    "vlsn": vlsn,
    "group": group,
    "erase": erase,
    "ignite": ignite,
    "ignite pages": ignite_pages,
    "ignite wal": ignite_wal,
}
QUICK = {
    *("lock", "undo", "audit", "erase abort"),
    *("ignite", "ignite info", "ignite pages", "ignite undo", "ignite wal"),
}
"""Commands that read no log; `undo --apply` has a bar, and the audit those of its tasks."""

VERBS = sorted(set(COMMANDS) - QUICK - {*GROUPS})
VERBS += [f"{name} {verb}" for name, module in GROUPS.items() for verb in module.VERBS]
VERBS = sorted(set(VERBS) - QUICK)


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_has_a_bar(
    verb: str, monkeypatch: pytest.MonkeyPatch, clocks: list[Clock], tmp_path: Path
) -> None:
    more = [str(tmp_path / "out") if word == "OUT" else word for word in WITH_LOG.get(verb, ())]
    is_ignite = verb.startswith("ignite")
    other = write_store(tmp_path / "work", [segment(0, [])[0]], []) if is_ignite else HOME
    if verb.startswith("ignite pages"):
        write_page_store(tmp_path / "work")
    home = str(OTHER_LOGS.get(verb.split()[0], other))
    if verb == "ignite diff":
        more = [shutil.copytree(home, tmp_path / "copy"), "--exit-zero"]
    words = ["0x3/0x0", "--env", home] if verb == "explain" else [home, *more]
    real = _progress.is_terminal
    monkeypatch.setattr(_progress, "is_terminal", lambda each: each is sys.stderr or real(each))
    assert je_tools(*verb.split(), *words).code == 0
    assert clocks
    assert all(clock.is_cancelled for clock in clocks)
