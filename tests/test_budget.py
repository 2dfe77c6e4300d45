"""The budget of CPU time: what is measured, and what is printed beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.budget import START, Group, Used, cpu_s, group_of, read_groups, report
from tests.corpus import ROOT

WORK_S = 0.1
BUSY = f"import time\nwhile time.process_time() < {WORK_S}: pass\n"
SOME_TESTS = """
import time
import pytest

@pytest.mark.parametrize("n", range(4))
def test_one(n):
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
"""
TARGET_S = (480, 1200)
"""CPU seconds of all tests without and with the corpus."""


def used_by(work: Callable[[], object]) -> float:
    before = cpu_s()
    work()
    return cpu_s() - before


def test_time_of_a_process_that_has_ended() -> None:
    assert used_by(lambda: subprocess.run([sys.executable, "-c", BUSY], check=True)) >= WORK_S / 2


def test_time_of_processes_that_still_run() -> None:
    below = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BUSY!r}])\n"
    code = f"{below}print(flush=True)\ninput()\n"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as running:
        assert running.stdin
        assert running.stdout
        read = running.stdout.readline
        before = cpu_s()
        read()
        at_work = cpu_s()
        running.communicate(b"\n")
    # The CPU time of a process that runs is counted in ticks of the system's clock.
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    assert at_work - before >= WORK_S / 2
    # Time that was counted stays counted when the process ends.
    assert cpu_s() >= at_work - 8 * tick_s


def test_the_first_group_that_has_a_test_takes_it() -> None:
    groups = [Group("one", ["tests/a/", "tests/b.py"], 1, 1), Group("rest", [], 1, 1)]
    named = ("tests/a/x.py::t", "tests/b.py::t[1]", "tests/c.py::tests/a/")
    assert [group_of(nodeid, groups) for nodeid in named] == ["one", "one", "rest"]


def test_groups_name_tests_that_exist_and_keep_to_the_target() -> None:
    groups = read_groups()
    assert groups[-1].tests == []
    for group in groups[:-1]:
        assert group.tests
        assert all((ROOT / name).exists() for name in group.tests)
    assert sum(group.clone_s for group in groups) <= TARGET_S[0]
    assert sum(group.corpus_s for group in groups) <= TARGET_S[1]


def test_the_table() -> None:
    groups = [Group("one", ["tests/a/"], 10, 40), Group("rest", [], 100, 100)]
    used = Used(Counter({"one": 21.2, "rest": 99.0, START: 3.0}), Counter(one=2, rest=5))
    assert list(report(used, groups, with_corpus=False)) == [
        "group               tests    CPU s budget s",
        "one                     2       21       10",
        "rest                    5       99      100",
        "start, collection       0        3        -",
        "all                     7      123      110",
        "WARNING: one: 21 CPU s, above 2 x its budget of 10 s",
    ]
    assert not any("WARNING" in line for line in report(used, groups, with_corpus=True))


def test_it_is_printed_with_the_figures_of_all_processes(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(SOME_TESTS)
    options = ["-p", "tests.budget", "--budget", "-n", "2", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, *options, tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("rest ")]
    assert [row[1] for row in rows] == ["4"], done.stdout + done.stderr
    assert int(rows[0][2]) >= 1
