"""CPU time of the tests by group, printed beside the budget of tests/budget.toml (`--budget`).

The time of a test is that of its process and of all processes below it, those that still run
included: a JVM that a session shares counts for the tests during which it works.
"""

from __future__ import annotations

import os
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.corpus import corpus

FILE = Path(__file__).with_name("budget.toml")
FAR = 2
"""Multiple of a budget above which a group gets a warning, so that slow machines get none."""

START = "start, collection"
"""Name of the time that belongs to no test."""

LOOK_S = 0.3
"""Seconds between two readings of all processes; at each test, they would add to the sum."""

_TICKS = os.sysconf("SC_CLK_TCK")


class Group(NamedTuple):
    """A group of tests by the beginnings of their names; CPU seconds without and with a corpus."""

    name: str
    tests: list[str]
    clone_s: int
    corpus_s: int


def read_groups(path: Path = FILE) -> list[Group]:
    """Return the groups of the file; the last one names no tests, and has all others."""
    declared = tomllib.loads(path.read_text(encoding="utf-8"))
    return [Group(name, **values) for name, values in declared.items()]


def group_of(nodeid: str, groups: list[Group]) -> str:
    """Return the name of the first group to which a test belongs."""
    return next(each.name for each in groups if nodeid.startswith(tuple(each.tests or [""])))


def cpu_s() -> float:
    """Return the CPU seconds of this process, and of the processes below it, ended or not."""
    return sum(os.times()[:4]) + sum(_ticks_of(pid) for pid in children(os.getpid())) / _TICKS


def _ticks_of(pid: int) -> int:
    ticks = 0
    # It may end at any moment, which adds its time to that of its parent.
    with suppress(OSError, ValueError):
        stat = Path(f"/proc/{pid}/stat").read_text()
        ticks = sum(map(int, stat.rpartition(")")[2].split()[11:15]))
        ticks += sum(_ticks_of(child) for child in children(pid))
    return ticks


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and that still run or are not awaited."""
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


class Used(NamedTuple):
    """CPU seconds and number of tests by group."""

    seconds: Counter[str]
    tests: Counter[str]


def report(used: Used, groups: list[Group], *, with_corpus: bool) -> Iterator[str]:
    """Yield the lines of the table, then a line for each group far above its budget."""
    budgets = {each.name: each.corpus_s if with_corpus else each.clone_s for each in groups}
    row = "{:<18}{:>7}{:>9}{:>9}".format
    yield row("group", "tests", "CPU s", "budget s")
    for name in (*budgets, START):
        yield row(name, used.tests[name], f"{used.seconds[name]:.0f}", budgets.get(name, "-"))
    total = sum(budgets.values())
    yield row("all", used.tests.total(), f"{used.seconds.total():.0f}", total)
    for name, budget in {**budgets, "all": total}.items():
        seconds = used.seconds.total() if name == "all" else used.seconds[name]
        if seconds > FAR * budget:
            yield f"WARNING: {name}: {seconds:.0f} CPU s, above {FAR} x its budget of {budget} s"


class Budget:
    """The plugin: it measures in each process that runs tests, and prints in the first."""

    def __init__(self) -> None:
        self.groups = read_groups()
        self.used = Used(Counter(), Counter())
        self.group, self.at = START, 0.0
        self.next_look = 0.0

    def _enter(self, name: str) -> None:
        """Add the time since the last reading to the current group, and enter another one."""
        now = cpu_s()
        # Time of orphaned processes is lost from the sum.
        self.used.seconds[self.group] += max(now - self.at, 0)
        self.group, self.at = name, now
        self.next_look = time.monotonic() + LOOK_S

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        name = group_of(item.nodeid, self.groups)
        if name != self.group or time.monotonic() > self.next_look:
            self._enter(name)
        self.used.tests[name] += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            self._enter(START)
            output["budget"] = (dict(self.used.seconds), dict(self.used.tests))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add what a process of xdist has measured; one that died has no figures."""
        output = getattr(node, "workeroutput", {})
        seconds, tests = output.get("budget", ({}, {}))
        self.used.seconds.update(seconds)
        self.used.tests.update(tests)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("CPU time")
        for line in report(self.used, self.groups, with_corpus=corpus() is not None):
            terminalreporter.write_line(line, yellow=line.startswith("WARNING"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--budget", action="store_true", help="print CPU times and their budget")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--budget"):
        config.pluginmanager.register(Budget())
