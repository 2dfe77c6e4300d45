"""Interrupt operations that write to logs at every point, and let the engine open the results.

`python -m tests.engine.interruptions [SEED [ENVIRONMENTS [STATES]]] [COORDINATE]` writes that many
crashed environments, and rebuilds states that a power cut can leave in the middle: STATES of each
environment while its log is not yet durable. The engine opens them. The same follows for an undo,
and for a disk that fails at each n-th call. The crashed environments are those of fixtures/ and of
the corpus, which are all written, then fresh ones. Wrong states stay in the directory that the
report names.
"""

from __future__ import annotations

import errno
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from je_tools.checkpoint.apply import apply_checkpoint
from je_tools.checkpoint.options import CheckpointOptions, CheckpointResult
from je_tools.errors import JeToolsError, RefusedError
from je_tools.log.scan import Scanner
from tests.builders.power_cuts import Call, KilledError, PowerCuts, Recorder
from tests.engine.acceptance import Judge, fingerprint
from tests.engine.acceptances import read_by
from tests.engine.comparison import compare
from tests.engine.crashes import make_crash, read_source, write_crash
from tests.engine.jars import JE_5, JE_18
from tests.engine.recovered import Engine
from tests.engine.workloads import sessions_of, write_environment
from tests.je_tools.writing.operations import digests, put_back
from tests.truth.contents import Contents, Refusal

ERRORS = (errno.ENOSPC, errno.EIO, None)
"""Errors of a disk at a call; None ends the process."""

CRASHES = 4
"""Number of crashes of each fresh environment."""

FAILURES = 12
"""Approximate number of calls of one environment at which the disk fails."""

FILE_SIZES = (None, 1_000_000, 60_000, 20_000)
"""Sizes of new files: with small ones, the writer begins several."""

MOST_SHOWN = 20


@dataclass(frozen=True)
class Case:
    """A crashed environment, and the options to write it with.

    Attributes:
        name: description.
        home: its directory, which is not changed.
        orders: options of the checkpoint.
        now_ms: time at which records expire; 0 for the clock.
        takes_away: True if records are removed, so that the engine only has to open the result.
    """

    name: str
    home: Path
    orders: CheckpointOptions
    now_ms: int = 0
    takes_away: bool = False


@dataclass
class Report:
    """Results of interrupted operations.

    Attributes:
        states: number of states that a power cut can leave, by interrupted operation.
        logs: number of different logs among them, each of which the engine opened.
        calls: number of calls to the disk, by name.
        wrong: descriptions of wrong states.
    """

    environments: int = 0
    passed_over: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    logs: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.environments} crashed environments were written"]
        for name, count in self.states.items():
            lines.append(f"  {name}: {count} states, {self.logs[name]} different logs")
        lines.append("  " + ", ".join(f"{count} {name}" for name, count in self.calls.items()))
        lines += [f"  {count} passed over: {why}" for why, count in self.passed_over.items()]
        lines.append(f"  {len(self.wrong)} wrong")
        lines += [f"    {each:.600}" for each in self.wrong[:MOST_SHOWN]]
        return "\n".join(lines)


def apply(home: Path, case: Case, disk: Recorder) -> CheckpointResult:
    """Write an environment with the options of a case."""
    now_ms = case.now_ms or time.time_ns() // 1_000_000
    return apply_checkpoint(home, Scanner(threads=1), case.orders, now_ms, disk=disk)[1]


def log_unsure(calls: Sequence[Call]) -> list[bool]:
    """Return, by number of calls made, True if a change of the log is not yet durable."""
    unsure: set[Path] = set()
    found = [False]
    for call in calls:
        if call.name in ("sync", "sync_folder"):
            unsure.discard(call.path)
        elif call.path.suffix == ".jdb":
            names = call.name in ("create", "rename", "unlink")
            unsure.add(call.path.parent if names else call.path)
        found.append(bool(unsure))
    return found


class Interrupter:
    """Interruptions of the writing of one environment, and checks of what is left.

    Attributes:
        report: the results are added to it.
        calls: calls to the disk of an operation that nothing interrupts.
    """

    def __init__(
        self,
        case: Case,
        engine: Engine,
        folder: Path,
        report: Report,
        others: Sequence[Contents] = (),
    ) -> None:
        """Write a copy, and ask the engine for the records of another.

        Args:
            case: the environment.
            engine: the engine to ask.
            folder: an empty working directory.
            report: the results are added to it.
            others: contents that are right, too.
        """
        self.case = case
        self.report = report
        self._engine = engine
        self._folder = folder
        self._allowed: list[Contents | Refusal] = [self._asked(self._copy(case.home)), *others]
        self._before = digests(case.home)
        self._seen: dict[tuple[object, ...], str | None] = {}
        home = self._copy(case.home)
        self._cuts = PowerCuts(home)
        disk = Recorder()
        self.outcome = apply(home, case, disk)
        self.calls: list[Call] = disk.calls
        self._written = home
        report.environments += 1
        report.calls.update(call.name for call in disk.calls)

    def power_cuts(self, rng: random.Random, count: int) -> None:
        """Check states at each call of the operation, about `count` while the log is unsure."""
        self._cut("writing", self._cuts, self.calls, rng, count)

    def power_cuts_in_undo(self, rng: random.Random, count: int) -> None:
        """Check the same states of the undo of the whole operation."""
        home = self._copy(self._written)
        cuts, disk = PowerCuts(home), Recorder()
        put_back(home, disk)
        self._cut("undo", cuts, disk.calls, rng, count)

    def _cut(
        self, name: str, cuts: PowerCuts, calls: Sequence[Call], rng: random.Random, count: int
    ) -> None:
        unsure = log_unsure(calls)
        share = -(-count // max(sum(unsure), 1))
        counts = [share if each else 1 for each in unsure]
        for at, state in cuts.states(calls, self._fresh(), rng, counts):
            self._look_at(name, at, calls[at - 1].name if at else "nothing", state)
            shutil.rmtree(state, ignore_errors=True)

    def failures(self, chosen: Sequence[int] | None = None) -> None:
        """Fail at each call, or at chosen ones, in each way."""
        for at in range(len(self.calls)) if chosen is None else chosen:
            for error in ERRORS:
                home = self._copy(self.case.home)
                name = "the end" if error is None else errno.errorcode[error]
                try:
                    apply(home, self.case, Recorder(at, error))
                except (RefusedError, KilledError):
                    self._look_at(name, at, self.calls[at].name, home)
                    shutil.rmtree(home, ignore_errors=True)
                else:
                    self._tell(name, at, self.calls[at].name, "nobody was told")

    def _look_at(self, name: str, at: int, what: str, state: Path) -> None:
        """Compare one state with the environment before the operation."""
        self.report.states[name] += 1
        log = tuple(fingerprint(state).items())
        copy = self._copy(state)
        try:
            put_back(copy)
            if digests(copy) != self._before:
                self._tell(name, at, what, "undo leaves other bytes", state)
        except JeToolsError as error:
            self._tell(name, at, what, f"undo: {error}", state)
        shutil.rmtree(copy)
        if log not in self._seen:
            self.report.logs[name] += 1
            kept = self._copy(state)
            self._seen[log] = self._difference(kept)
        difference = self._seen[log]
        if difference is not None:
            self._tell(name, at, what, difference, state)

    def _difference(self, home: Path) -> str | None:
        found = self._asked(home)
        if self.case.takes_away and not (isinstance(found, Refusal) and found.stage == "open"):
            return None
        answers = [compare(allowed, found) for allowed in self._allowed]
        return None if None in answers else ": ".join((answers[0] or ("", ""))[:2])

    def _asked(self, home: Path) -> Contents | Refusal:
        found = self._engine.ask(home, self.case.now_ms)
        shutil.rmtree(home)
        return found

    def _tell(self, name: str, at: int, what: str, text: str, state: Path | None = None) -> None:
        kept = ""
        if state is not None and state.exists() and len(self.report.wrong) < MOST_SHOWN:
            place = self._folder / f"wrong-{len(self.report.wrong)}"
            shutil.copytree(state, place, dirs_exist_ok=True)
            kept = f" ({place})"
        self.report.wrong.append(f"{self.case.name}: {name}, call {at} ({what}): {text}{kept}")

    def _copy(self, home: Path) -> Path:
        return Path(shutil.copytree(home, self._fresh() / home.name))

    def _fresh(self) -> Path:
        # An engine that failed may still have an environment open at the same path.
        return Path(tempfile.mkdtemp(dir=self._folder))


def crashed_corpus(coordinate: str) -> Iterator[Case]:
    """Yield the available crashed environments that an engine reads, with various file sizes."""
    found = [each for each in read_by(coordinate) if "crash" in each.name]
    version = "v8-" if coordinate == JE_5 else "v17-"
    for i, each in enumerate(one for one in found if one.name.startswith(version)):
        size = FILE_SIZES[i % len(FILE_SIZES)]
        yield Case(
            f"{each.name}, files of {size}", each.home, CheckpointOptions(cuts=True, file_max=size)
        )


def crashed_workloads(judge: Judge, seed: int, *, ttl: bool) -> Iterator[Case]:
    """Yield fresh environments without end, each crashed at several places."""
    while True:
        home = judge.folder / f"workload-{seed}"
        write_environment(
            judge.java, judge.class_path, home, sessions_of(seed, ttl=ttl, small=True)
        )
        now_ms = time.time_ns() // 1_000_000
        source = read_source(home)
        for number in range(CRASHES):
            rng = random.Random(f"crash {seed}/{number}")
            crash = make_crash(source, rng)
            crashed = judge.folder / f"crash-{seed}-{number}"
            write_crash(source, crash, crashed)
            size = FILE_SIZES[(seed + number) % len(FILE_SIZES)]
            name = f"{seed}/{number}: {crash.kind}, {crash.detail}, files of {size}"
            yield Case(
                name, crashed, CheckpointOptions(cuts=rng.random() < 0.9, file_max=size), now_ms
            )
            shutil.rmtree(crashed)
        shutil.rmtree(home)
        seed += 1


def interrupt(judge: Judge, case: Case, rng: random.Random, states: int, report: Report) -> bool:
    """Interrupt the writing of one environment everywhere; return True if it was written at all."""
    expected = judge.expected(case.home, case.now_ms)
    if isinstance(expected.contents, Refusal) or expected.problems:
        report.passed_over["the engine refuses it, or nobody knows what is right"] += 1
        return False
    folder = Path(tempfile.mkdtemp(dir=judge.folder))
    others = [each for each in (expected.contents, expected.other) if isinstance(each, dict)]
    try:
        one = Interrupter(case, judge.plain, folder, report, others if expected.foretold else ())
    except JeToolsError as error:
        report.passed_over[f"refused: {str(error).partition(': ')[2]:.60}"] += 1
        return False
    if not one.outcome.changes:
        report.environments -= 1
        report.passed_over["at rest"] += 1
        return False
    before = len(report.wrong)
    print(f"{report.environments}: {case.name}; so far {report.states.total()} states", flush=True)
    one.power_cuts(rng, states)
    one.power_cuts_in_undo(rng, states // 4)
    one.failures(range(rng.randrange(3), len(one.calls), 1 + len(one.calls) // FAILURES))
    if len(report.wrong) == before:
        shutil.rmtree(folder)
    return True


def main(arguments: list[str]) -> int:
    """Interrupt, and print the report."""
    coordinate = next((each for each in arguments if each.count(":") == 2), JE_18)
    numbers = [int(each) for each in arguments if each != coordinate]
    seed, environments, states = [*numbers, *(1, 10, 100)[len(numbers) :]]
    folder = Path(tempfile.mkdtemp(prefix="je-tools-interruptions-"))
    report, rng = Report(), random.Random(seed)
    with Judge.of(coordinate, folder / "judge") as judge:
        for case in crashed_corpus(coordinate):
            interrupt(judge, case, rng, states, report)
        for case in crashed_workloads(judge, seed, ttl=coordinate != JE_5):
            if report.environments >= environments:
                break
            interrupt(judge, case, rng, states, report)
    print(f"{coordinate}, seed {seed}, {folder}: {report}")
    return int(bool(report.wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
