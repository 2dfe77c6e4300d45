"""Crash environments at many places, and compare a snapshot with the engine.

`python -m tests.engine.campaign [SEED [WORKLOADS [CRASHES]]] [COORDINATE]` compares the replay of
the whole log, which uses no tree, with the engine; `... DIR NOW_MS [COORDINATE]` does so for one
log that an earlier campaign kept.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.engine.comparison import Found, compare, side_of
from tests.engine.crashes import Crash, Source, make_crash, read_source, write_crash
from tests.engine.jars import JE_5, JE_18, engine_jar
from tests.engine.java import find_java
from tests.engine.recovered import Engine, engine_class_path
from tests.engine.workloads import sessions_of, write_environment
from tests.truth.contents import Contents, Refusal
from tests.truth.replay import replay

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MOST_PENDING, MOST_KEPT, MOST_SHOWN = 4, 30, 3
PHASES = ("write", "crash", "snapshot", "engine", "replay")


_RECORDS = ("fewer", "more", "other data", "other records", "order")
EXPLAINED = {
    "stray-slots": (*_RECORDS, "engine alone: read"),
    "other-range": (*_RECORDS, "engine alone: read"),
    "expiration-unit": ("fewer", "more", "other records"),
    "root-split-cut-short": ("engine alone: open",),
    "locked out": ("engine alone: open",),
    "missing-file": ("engine alone: open", "engine alone: read"),
    "damage": (*_RECORDS, "engine alone", "databases"),
}
"""Prefixes of the kinds of difference that follow from each warning about the engine."""


class Warned(NamedTuple):
    """A word of EXPLAINED, and the database that it concerns; None for all of them."""

    word: str
    database: str | None

    def explains(self, found: Found) -> bool:
        """Return whether a difference follows from this warning."""
        is_there = None in (self.database, found.database) or self.database == found.database
        return is_there and found.group.startswith(EXPLAINED[self.word])

    def __str__(self) -> str:
        return f"{self.word} in {self.database}"


@dataclass(frozen=True)
class Foretold:
    """A snapshot with warnings of errors that the engine will make."""

    contents: Contents | Refusal
    warnings: frozenset[Warned]


Answer = Contents | Refusal | Foretold
Snapshot = Callable[[Path, int], Answer]
"""Function to judge: returns the records of a directory at a time in ms; changes nothing."""


@dataclass(frozen=True)
class Case:
    """A crash point.

    Attributes:
        seed: seed of the workload.
        number: index of the crash in the workload.
        now_ms: time at which records expire.
    """

    seed: int
    number: int
    crash: Crash
    now_ms: int

    def __str__(self) -> str:
        what = f"workload {self.seed} crash {self.number} at {self.now_ms}"
        return f"{what}: {self.crash.kind} ({self.crash.detail})"


@dataclass(frozen=True)
class Difference:
    """A crash point at which a snapshot and the engine differ.

    Attributes:
        found: the first difference.
        warnings: warnings of the snapshot that explain it.
        replayed: the side that the replay of the whole log takes: `snapshot`, `engine`, `neither`,
            or the reason why it does not know.
    """

    case: Case
    found: Found
    warnings: frozenset[Warned]
    replayed: str

    @property
    def is_engine_alone(self) -> bool:
        """True if the engine gave no answer, or one that the replay contradicts as we do."""
        return self.replayed == "snapshot" or self.found.group.startswith("engine alone")


@dataclass
class Report:
    """Results of a campaign; its name gives the seeds."""

    name: str = ""
    cases: int = 0
    refused: int = 0
    records: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))

    @property
    def engine_alone(self) -> list[Difference]:
        """Differences in which the engine gives no answer or the replay contradicts it."""
        return [each for each in self.differences if each.is_engine_alone]

    @property
    def unforetold(self) -> list[Difference]:
        """Differences of `engine_alone` of which the snapshot gave no warning."""
        return [each for each in self.engine_alone if not each.warnings]

    @property
    def unexplained(self) -> list[Difference]:
        """All other differences: the snapshot may be wrong."""
        return [each for each in self.differences if not each.is_engine_alone]

    def __str__(self) -> str:
        equal = self.cases - len(self.differences)
        lines = [
            f"{self.name}: {self.cases} crash points, {equal} equal ({self.records} records;"
            f" {self.refused} refused by both), {len(self.engine_alone)} where the engine is alone,"
            f" {len(self.unforetold)} of them not foretold, {len(self.unexplained)} others",
            "  " + ", ".join(f"{kind} {count}" for kind, count in self.kinds.most_common()),
            "  " + ", ".join(f"{name} {spent:.1f} s" for name, spent in self.seconds.items()),
        ]
        groups: dict[str, list[Difference]] = {}
        for each in self.differences:
            words = [each.found.group, f"replay: {each.replayed}"]
            words += sorted({warned.word for warned in each.warnings})
            groups.setdefault(" · ".join(words), []).append(each)
        for group, found in sorted(groups.items(), key=lambda item: -len(item[1])):
            lines.append(f"  {len(found):5} {group}")
            lines += [f"          {each.case}: {each.found.text}" for each in found[:MOST_SHOWN]]
        return "\n".join(lines)


@dataclass
class Judge:
    """An engine that answers, a class path with its programs, and a folder to work in."""

    java: Path
    class_path: str
    folder: Path
    engine: Engine
    ttl: bool = True

    @classmethod
    @contextmanager
    def of(cls, coordinate: str, folder: Path) -> Iterator[Judge]:
        """Compile the programs for an engine, and start it; yield a judge that uses a folder."""
        java, jar = find_java(), engine_jar(coordinate)
        class_path = engine_class_path(java, jar)
        with Engine(java, class_path) as engine:
            yield cls(java, class_path, folder, engine, ttl=coordinate != JE_5)


def run_campaign(
    judge: Judge, snapshot: Snapshot, seeds: Sequence[int], crashes: int, *, small: bool = False
) -> Report:
    """Crash an environment of each seed at `crashes` places, and compare.

    Threads interleave differently in each run, so that a seed does not determine the bytes of a
    log: the crashed logs of the first differences stay in the judge's folder.

    Args:
        judge: the engine that answers, and its folder.
        snapshot: the function to compare with it.
        seeds: seeds of the workloads.
        crashes: number of crashes of each.
        small: write little in each workload.
    """
    report = Report(f"seeds {seeds[0]} to {seeds[-1]}, {crashes} crashes each")
    for seed in seeds:
        home = judge.folder / f"workload-{seed}"
        started = time.perf_counter()
        sessions = sessions_of(seed, ttl=judge.ttl, small=small)
        write_environment(judge.java, judge.class_path, home, sessions)
        report.seconds["write"] += time.perf_counter() - started
        written_ms = time.time_ns() // 1_000_000 + sum(
            session["jumps"] * HOUR_MS for session in sessions
        )
        source = read_source(home)
        _Trial(report, source, snapshot, judge.engine).run(seed, crashes, written_ms)
        shutil.rmtree(home)
    return report


@dataclass
class _Asked:
    """A crash point whose snapshot is known and whose answer of the engine is pending."""

    case: Case
    home: Path
    told: Answer
    answer: Future[Contents | Refusal]


@dataclass
class _Trial:
    """The crash points of one environment."""

    report: Report
    source: Source
    snapshot: Snapshot
    engine: Engine

    def run(self, seed: int, crashes: int, written_ms: int) -> None:
        """Make each crash point, ask the snapshot and the engine, and compare."""
        pending: list[_Asked] = []
        # One thread waits for the engine while the next crash points are made and read here.
        with ThreadPoolExecutor(1) as pool:
            for number in range(crashes):
                rng = random.Random(f"crash {seed}/{number}")
                crash = make_crash(self.source, rng)
                days = rng.choice([0, 0, 1, rng.randrange(15)])
                case = Case(seed, number, crash, written_ms + days * DAY_MS)
                home = self._write(case, "")
                with self._timed("snapshot"):
                    told = self.snapshot(home, case.now_ms)
                answer = pool.submit(self.engine.ask, home, case.now_ms)
                pending.append(_Asked(case, home, told, answer))
                if len(pending) > MOST_PENDING:
                    self._settle(pending.pop(0))
            for asked in pending:
                self._settle(asked)

    def _write(self, case: Case, suffix: str) -> Path:
        with self._timed("crash"):
            home = self.source.home.with_name(f"crash-{case.seed}-{case.number}{suffix}")
            write_crash(self.source, case.crash, home)
        return home

    def _settle(self, asked: _Asked) -> None:
        with self._timed("engine"):
            engine = asked.answer.result()
        shutil.rmtree(asked.home)
        told = asked.told
        warnings: frozenset[Warned] = frozenset()
        if isinstance(told, Foretold):
            warnings = told.warnings
            told = told.contents
        report = self.report
        report.cases += 1
        report.kinds[asked.case.crash.kind] += 1
        found = compare(told, engine)
        if found is None:
            report.refused += isinstance(engine, Refusal)
            if not isinstance(engine, Refusal):
                report.records += sum(map(len, engine.values()))
            return
        # The engine has changed its directory: make the crash again, to be kept and inspected.
        home = self._write(asked.case, "-differs")
        with self._timed("replay"):
            replayed = side_of(replay(home, asked.case.now_ms), told, engine)
        if len(report.differences) >= MOST_KEPT:
            shutil.rmtree(home)
        explaining = frozenset(each for each in warnings if each.explains(found))
        report.differences.append(Difference(asked.case, found, explaining, replayed))

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.report.seconds[phase] += time.perf_counter() - started


def whole_log(home: Path, now_ms: int) -> Contents | Refusal:
    """Replay the whole log, as a snapshot."""
    return replay(home, now_ms).contents


def judge_again(judge: Judge, snapshot: Snapshot, home: Path, now_ms: int) -> str:
    """Compare a snapshot, the engine and the replay of the whole log on one crashed log."""
    told = snapshot(home, now_ms)
    warnings = ", ".join(map(str, told.warnings)) if isinstance(told, Foretold) else ""
    contents = told.contents if isinstance(told, Foretold) else told
    copied = judge.folder / "again"
    shutil.copytree(home, copied)
    answer = judge.engine.ask(copied, now_ms)
    shutil.rmtree(copied)
    found = compare(contents, answer)
    side = side_of(replay(home, now_ms), contents, answer)
    return f"{': '.join(found[:2]) if found else 'equal'} · replay: {side} · {warnings}"


def main(arguments: list[str], snapshot: Snapshot) -> int:
    """Compare a snapshot with the engine, and print the report; the folder of the logs is kept."""
    coordinate = next((each for each in arguments if ":" in each), JE_18)
    folder = Path(tempfile.mkdtemp(prefix="je-tools-campaign-"))
    with Judge.of(coordinate, folder) as judge:
        if arguments and Path(arguments[0]).is_dir():
            print(judge_again(judge, snapshot, Path(arguments[0]), int(arguments[1])))
            return 0
        numbers = [int(each) for each in arguments if ":" not in each]
        seed, workloads, crashes = [*numbers, *(1, 10, 20)[len(numbers) :]]
        report = run_campaign(judge, snapshot, range(seed, seed + workloads), crashes)
    print(f"{coordinate}, {folder}, {report}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], whole_log))
