"""Crashes environments at many places and holds what a snapshot says against the engine.

`python -m tests.engine.campaign [SEED [WORKLOADS [CRASHES]]]` holds the replay of the whole log,
which uses no tree, against the engine.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.engine.crashes import Crash, Source, make_crash, read_source, write_crash
from tests.engine.jars import JE_5, JE_18, engine_jar
from tests.engine.java import find_java
from tests.engine.recovered import RECORDS, STRESS, Engine, compile_java
from tests.engine.workloads import sessions_of, write_environment
from tests.truth.contents import Contents, Refusal
from tests.truth.replay import Replayed, replay

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
LONGEST_DIFFERENCES = 30
MOST_PENDING = 4


@dataclass(frozen=True)
class Foretold:
    """A snapshot that knows beforehand on what the engine will go wrong.

    Attributes:
        warnings: codes of findings that say so.
    """

    contents: Contents | Refusal
    warnings: frozenset[str]


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
        return f"workload {self.seed} crash {self.number}: {self.crash.kind} ({self.crash.detail})"


@dataclass(frozen=True)
class Difference:
    """Where a snapshot and the engine do not say the same.

    Attributes:
        group: what kind of difference it is.
        text: the first of what differs.
        warnings: what the snapshot foretold.
        replayed: whose side the replay of the whole log takes: `snapshot`, `engine`, `neither`, or
            why it does not know.
    """

    case: Case
    group: str
    text: str
    warnings: frozenset[str]
    replayed: str


@dataclass
class Report:
    """What a campaign found."""

    cases: int = 0
    refused: int = 0
    records: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_PHASES, 0.0))

    @property
    def engine_alone(self) -> list[Difference]:
        """Differences in which the replay of the whole log is of the snapshot's opinion."""
        return [each for each in self.differences if each.replayed == "snapshot"]

    @property
    def unexplained(self) -> list[Difference]:
        """All the others."""
        return [each for each in self.differences if each.replayed != "snapshot"]

    def add(self, other: Report) -> None:
        """Take in what another part of the campaign found."""
        self.cases += other.cases
        self.refused += other.refused
        self.records += other.records
        self.kinds += other.kinds
        self.differences += other.differences
        for phase, seconds in other.seconds.items():
            self.seconds[phase] += seconds

    def __str__(self) -> str:
        equal = self.cases - len(self.differences)
        lines = [
            f"{self.cases} crash points, {equal} equal ({self.records} records;"
            f" {self.refused} refused by both), {len(self.engine_alone)} where the replay of the"
            f" whole log is against the engine, {len(self.unexplained)} others",
            "  " + ", ".join(f"{kind} {count}" for kind, count in self.kinds.most_common()),
            "  " + ", ".join(f"{name} {spent:.1f} s" for name, spent in self.seconds.items()),
        ]
        groups = Counter(
            (each.group, f"replay: {each.replayed}", *sorted(each.warnings))
            for each in self.differences
        )
        lines += [f"  {count:5} {' · '.join(group)}" for group, count in groups.most_common()]
        for each in self.differences[:LONGEST_DIFFERENCES]:
            lines.append(f"  {each.case}: {each.group}: {each.text}")
        return "\n".join(lines)


_PHASES = ("write", "crash", "snapshot", "engine", "replay")


@dataclass
class Judge:
    """An engine, its programs compiled, and a folder to work in."""

    java: Path
    class_path: str
    folder: Path
    ttl: bool = True

    @classmethod
    def of(cls, coordinate: str, folder: Path) -> Judge:
        """The engine of these coordinates, working in an empty folder."""
        java, jar = find_java(), engine_jar(coordinate)
        classes = folder / "classes"
        classes.mkdir(parents=True)
        class_path = compile_java(java, jar, classes, [RECORDS, STRESS])
        return cls(java, class_path, folder, ttl=coordinate != JE_5)


def run_campaign(judge: Judge, snapshot: Snapshot, seeds: range, crashes: int) -> Report:
    """Crash an environment of each seed at so many places, and compare.

    Args:
        judge: the engine that is right.
        snapshot: what is compared with it.
        seeds: of the workloads.
        crashes: of each.
    """
    report = Report()
    with Engine(judge.java, judge.class_path) as engine:
        for seed in seeds:
            home = judge.folder / f"workload-{seed}"
            started = time.perf_counter()
            sessions = sessions_of(seed, ttl=judge.ttl)
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
        told, warnings = asked.told, frozenset[str]()
        if isinstance(told, Foretold):
            told, warnings = told.contents, told.warnings
        report = self.report
        report.cases += 1
        report.kinds[asked.case.crash.kind] += 1
        found = compare(told, engine)
        if found is None:
            report.refused += isinstance(engine, Refusal)
            if not isinstance(engine, Refusal):
                report.records += sum(map(len, engine.values()))
            return
        # The engine has changed its directory, so it is made once more.
        home = self._write(asked.case, "-again")
        with self._timed("replay"):
            replayed = side_of(replay(home, asked.case.now_ms), told, engine)
        shutil.rmtree(home)
        report.differences.append(Difference(asked.case, *found, warnings, replayed))

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.report.seconds[phase] += time.perf_counter() - started


def compare(told: Contents | Refusal, engine: Contents | Refusal) -> tuple[str, str] | None:
    """The kind of the first difference, and where it is; None where there is none."""
    if isinstance(engine, Refusal):
        if isinstance(told, Refusal) and engine.stage == "open":
            return None
        return f"engine alone: {engine.stage} {engine.reason}", engine.message
    if isinstance(told, Refusal):
        return f"snapshot alone: {told.stage} {told.reason}", told.message
    if told.keys() != engine.keys():
        return "databases", f"snapshot alone {told.keys() - engine.keys()}, engine alone " + (
            f"{engine.keys() - told.keys()}"
        )
    for name, records in engine.items():
        if told[name] != records:
            return _compare_records(name, told[name], records)
    return None


def _compare_records(
    name: str, told: list[tuple[bytes, bytes]], engine: list[tuple[bytes, bytes]]
) -> tuple[str, str]:
    ours, theirs = Counter(told), Counter(engine)
    more, less = ours - theirs, theirs - ours
    where = f"{name!r}: {len(told)} and {len(engine)} records"
    if not more and not less:
        at = next(i for i, pair in enumerate(zip(told, engine, strict=True)) if pair[0] != pair[1])
        return "order", f"{where}, at {at}: {told[at]} and {engine[at]}"
    where += f", snapshot alone {list(more)[:2]!r:.300}, engine alone {list(less)[:2]!r:.300}"
    if {key for key, _ in more} == {key for key, _ in less}:
        return "other data", where
    if more and less:
        return "other records", where
    more_or_less = "more records" if more else "fewer records"
    twice = "" if any(count == 1 for count in (theirs if less else ours).values()) else " (twice)"
    return f"{more_or_less} than the engine{twice}", where


def side_of(replayed: Replayed, told: Contents | Refusal, engine: Contents | Refusal) -> str:
    """Whose side the replay of the whole log takes, or why it takes none."""
    if replayed.doubts:
        return f"not asked, {replayed.doubts[0].split(' at ')[0]}"
    unsure = sorted(set(replayed.unsure.values()))
    told, engine, own = (_without(each, replayed) for each in (told, engine, replayed.contents))
    if unsure and compare(told, engine) is None:
        return f"not sure, {unsure[0]}"
    if compare(told, own) is None:
        return "snapshot"
    return "engine" if compare(own, engine) is None else "neither"


def _without(contents: Contents | Refusal, replayed: Replayed) -> Contents | Refusal:
    if isinstance(contents, Refusal):
        return contents
    return {name: each for name, each in contents.items() if name not in replayed.unsure}


def whole_log(home: Path, now_ms: int) -> Answer:
    """The replay of the whole log, as a snapshot."""
    return replay(home, now_ms).contents


def main(arguments: list[str]) -> int:
    """Hold the replay of the whole log against the engine."""
    numbers = [int(each) for each in arguments if ":" not in each]
    coordinate = next((each for each in arguments if ":" in each), JE_18)
    seed, workloads, crashes = [*numbers, *(1, 10, 20)[len(numbers) :]]
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge.of(coordinate, Path(folder) / "judge")
        report = run_campaign(judge, whole_log, range(seed, seed + workloads), crashes)
    print(f"seed {seed}, {workloads} workloads, {coordinate}: {report}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
