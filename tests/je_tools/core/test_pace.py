"""`--max-rate`: reading waits for its turn, by a clock that only the test moves."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from je_tools.core.pace import Pace, stored_bytes_read
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.opening import take_snapshot
from je_tools.verify.judge import verify
from je_tools.verify.totals import Totals
from je_tools.writing import copying
from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools

HOME = FIXTURES / "v17-basic" / "env"


class Clock:
    """A clock, and the bytes that the system has read from storage; sleeping takes no time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.stored: int | None = 0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def pace(self, rate: int) -> Pace:
        return Pace(rate, clock=lambda: self.now, sleep=self.sleep, stored=lambda: self.stored)


def test_a_range_waits_until_those_before_it_are_paid_for() -> None:
    clock = Clock()
    pace = clock.pace(100)
    for _ in range(3):
        pace.wait(50)
    assert clock.slept == [0.5, 0.5]
    clock.now += 60
    pace.wait(200)
    assert clock.slept == [0.5, 0.5], "nothing is owed"
    pace.wait(1)
    assert clock.slept == [0.5, 0.5, 2], "the minute of rest gives no burst"


def test_threads_share_the_limit() -> None:
    delays: list[float] = []
    pace = Pace(1000, clock=lambda: 0.0, sleep=delays.append, stored=lambda: None)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(pace.wait, [10] * 100))
    assert sorted(delays) == pytest.approx([i / 100 for i in range(1, 100)])


def test_pages_of_maps_are_paid_for_afterwards() -> None:
    clock = Clock()
    pace = clock.pace(100)
    pace.settle()
    assert clock.slept == []
    clock.stored = 300
    pace.settle()
    assert clock.slept == [3]
    # A scan announces what it reads, so that it is counted once.
    pace.wait(200)
    clock.stored = 550
    pace.settle()
    assert clock.slept == [3, 2.5]
    clock.stored = None
    pace.settle()
    assert clock.slept == [3, 2.5]


def test_the_system_counts_what_is_read() -> None:
    assert (stored_bytes_read() or 0) >= 0


def test_a_process_has_its_share() -> None:
    assert pickle.loads(pickle.dumps(Pace(1 << 20).shared_by(4))).rate == 1 << 18
    assert Pace(1).shared_by(4).rate == 1


@pytest.mark.parametrize(("threads", "wide"), [(1, False), (1, True), (3, True)])
def test_a_scan_reads_at_the_rate(
    threads: int, wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("je_tools.log.scan_options.ONE_THREAD_MAX", 1)
    monkeypatch.setattr("je_tools.core.pace._RANGE_MIN", 1 << 10)
    clock = Clock()
    pace = clock.pace(1 << 16)
    sizes: list[int] = []
    wait = pace.wait
    monkeypatch.setattr(pace, "wait", lambda size: (sizes.append(size), wait(size)))
    environment = open_environment([HOME])
    totals = Totals("")
    scanner = Scanner(threads=threads, wide=wide, pace=pace)
    assert list(verify(environment, scanner, totals)) == []
    assert totals.entries == 1695
    assert sum(sizes) >= environment.size
    assert max(sizes) <= 1 << 14
    assert sum(clock.slept) >= (environment.size - (1 << 14)) / (1 << 16) or threads > 1


def test_trees_are_read_at_the_rate() -> None:
    clock = Clock()
    pace = clock.pace(1 << 20)
    snapshot = take_snapshot(open_environment([HOME]), Scanner(threads=1, pace=pace), now_ms=0)
    before = len(clock.slept)
    clock.stored = 1 << 22
    names = [each for each in snapshot.databases.values() if each.name == "people"]
    assert sum(len(batch) for batch in snapshot.records(names[0]))
    assert max(clock.slept[before:]) >= 3


def test_a_copy_is_made_at_the_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "_FICLONE", 0)
    clock = Clock()
    environment = open_environment([HOME])
    with copying.copied(environment, tmp_path / "copy", None, clock.pace(1 << 16)) as folder:
        assert sum(path.stat().st_size for path in folder.iterdir()) == environment.size
    assert sum(clock.slept) >= (environment.size - (1 << 16)) / (1 << 16)
    assert max(clock.slept) <= 1


@pytest.mark.parametrize(
    "words",
    [
        ["verify", "--tree"],
        ["summary"],
        ["files"],
        ["dump", "--format", "csv"],
        ["count"],
        ["recover"],
        ["checkpoint"],
        ["missing"],
    ],
    ids=" ".join,
)
def test_results_are_the_same(words: list[str]) -> None:
    plain, limited = (je_tools(*words, HOME, *more) for more in ([], ["--max-rate", "8G"]))
    assert (limited.code, limited.out, limited.err) == (plain.code, plain.out, plain.err)


def test_salvage_reads_at_the_rate(tmp_path: Path) -> None:
    done = je_tools("salvage", HOME, "--output", tmp_path / "out", "--max-rate", "8G")
    assert done.code == 0, done.err


@pytest.mark.parametrize("text", ["", "fast", "M", "0", "-5M", "nan", "inf", "512", "5T", "1e999"])
def test_what_is_no_rate(text: str) -> None:
    done = je_tools("verify", HOME, "--max-rate", text)
    assert done.code == 2
    assert "expected bytes per second" in done.err


@pytest.mark.parametrize("text", ["500000000", "50M", "1.5g", "8192K"])
def test_what_is_a_rate(text: str) -> None:
    assert je_tools("verify", HOME, "--max-rate", text).code == 0
