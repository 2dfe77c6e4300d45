"""Crashes environments at many places and holds what a snapshot says against the engine.

`python -m tests.engine.campaign [SEED [WORKLOADS [CRASHES]]] [COORDINATE]` holds the replay of the
whole log, which uses no tree, against the engine; `... DIR NOW_MS [COORDINATE]` does it for one log
that another campaign has kept.
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
from tests.engine.recovered import RECORDS, STRESS, Engine, compile_java
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
    "damage": (*_RECORDS, "engine alone", "databases"),
}
"""By what is foretold of the engine: how the kinds of difference begin that follow from it."""


class Warned(NamedTuple):
    """A word of EXPLAINED, and the database of which it was said; None for all of them."""

    word: str
    database: str | None

    def explains(self, found: Found) -> bool:
        """Whether a difference follows from it."""
        is_there = None in (self.database, found.database) or self.database == found.database
        return is_there and found.group.startswith(EXPLAINED[self.word])

    def __str__(self) -> str:
        return f"{self.word} in {self.database}"


@dataclass(frozen=True)
class Foretold:
    """A snapshot that knows beforehand on what the engine will go wrong."""

    contents: Contents | Refusal
    warnings: frozenset[Warned]


Answer = Contents | Refusal | Foretold
Snapshot = Callable[[Path, int], Answer]
"""What is judged: the records of a directory at a time in milliseconds; it changes nothing."""


@dataclass(frozen=True)
class Case:
    """A crash point.

    Attributes:
        seed: of the workload.
        number: of the crash in it.
        now_ms: the time by which records expire.
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
    """Where a snapshot and the engine do not say the same.

    Attributes:
        found: the first of what differs.
        warnings: what of all that the snapshot foretold explains it.
        replayed: whose side the replay of the whole log takes: `snapshot`, `engine`, `neither`, or
            why it does not know.
    """

    case: Case
    found: Found
    warnings: frozenset[Warned]
    replayed: str

    @property
    def is_engine_alone(self) -> bool:
        """Whether the engine gave no answer, or one that the replay contradicts as we do."""
        return self.replayed == "snapshot" or self.found.group.startswith("engine alone")


@dataclass
class Report:
    """What a campaign found; it begins with the seeds by which it is told."""

    name: str = ""
    cases: int = 0
    refused: int = 0
    records: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))

    @property
    def engine_alone(self) -> list[Difference]:
        """Where the engine gives no answer, or the replay of the whole log contradicts it."""
        return [each for each in self.differences if each.is_engine_alone]

    @property
    def unforetold(self) -> list[Difference]:
        """Those among them of which the snapshot gave no warning."""
        return [each for each in self.engine_alone if not each.warnings]

    @property
    def unexplained(self) -> list[Difference]:
        """All the others: the snapshot may be wrong."""
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
    """An engine, a class path with its programs, and a folder to work in."""

    java: Path
    class_path: str
    folder: Path
    ttl: bool = True

    @classmethod
    def of(cls, coordinate: str, folder: Path) -> Judge:
        """The engine of these coordinates, working in an empty folder, its programs compiled."""
        java, jar = find_java(), engine_jar(coordinate)
        classes = folder / "classes"
        classes.mkdir(parents=True)
        class_path = compile_java(java, jar, classes, [RECORDS, STRESS])
        return cls(java, class_path, folder, ttl=coordinate != JE_5)


def run_campaign(
    judge: Judge, snapshot: Snapshot, seeds: Sequence[int], crashes: int, *, small: bool = False
) -> Report:
    """Crash an environment of each seed at so many places, and compare.

    Threads meet as they like, so a seed does not tell the bytes of a log: the crashed logs of the
    first differences stay in the judge's folder.

    Args:
        judge: the engine that is right.
        snapshot: what is compared with it.
        seeds: of the workloads.
        crashes: of each.
        small: write little in each.
    """
    report = Report(f"seeds {seeds[0]} to {seeds[-1]}, {crashes} crashes each")
    with Engine(judge.java, judge.class_path) as engine:
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
            _Trial(report, source, snapshot, engine).run(seed, crashes, written_ms)
            shutil.rmtree(home)
    return report


@dataclass
class _Asked:
    """A crash point of which the snapshot is known, and the engine's answer is to come."""

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
        """Make each crash point, ask both, compare."""
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
        # The engine has changed its directory, so it is made once more, and kept to be looked at.
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
    """The replay of the whole log, as a snapshot."""
    return replay(home, now_ms).contents


def judge_again(judge: Judge, snapshot: Snapshot, home: Path, now_ms: int) -> str:
    """What a snapshot, the engine and the replay of the whole log say of one crashed log."""
    told = snapshot(home, now_ms)
    warnings = ", ".join(map(str, told.warnings)) if isinstance(told, Foretold) else ""
    contents = told.contents if isinstance(told, Foretold) else told
    copied = judge.folder / "again"
    shutil.copytree(home, copied)
    with Engine(judge.java, judge.class_path) as engine:
        answer = engine.ask(copied, now_ms)
    shutil.rmtree(copied)
    found = compare(contents, answer)
    side = side_of(replay(home, now_ms), contents, answer)
    return f"{': '.join(found[:2]) if found else 'equal'} · replay: {side} · {warnings}"


def main(arguments: list[str], snapshot: Snapshot) -> int:
    """Hold a snapshot against the engine and print the report; the folder of the logs stays."""
    coordinate = next((each for each in arguments if ":" in each), JE_18)
    folder = Path(tempfile.mkdtemp(prefix="je-tools-campaign-"))
    judge = Judge.of(coordinate, folder)
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
