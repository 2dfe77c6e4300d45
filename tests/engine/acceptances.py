"""Write many crashed environments, and let the engine judge each.

`python -m tests.engine.acceptances [SEED [WORKLOADS [CRASHES]]] [COORDINATE]` tests
`je-tools recover --apply`; `... sparse` after workloads that change little of a node, `... corpus
[COORDINATE]` on the environments of fixtures/ and of the corpus, `... DIR NOW_MS [COORDINATE]` on
one crashed log that an earlier run kept.
Another command may follow `--`; the directory becomes its last argument. `engine` and `nothing` are
writers known to be accepted and to be rejected.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.corpus import Environment, environments
from tests.engine.acceptance import Judge, Problem, Verdict, WriteRefusedError, log_files, node_of
from tests.engine.campaign import DAY_MS, HOUR_MS, MOST_KEPT, MOST_SHOWN, Case
from tests.engine.crashes import Crash, Source, make_crash, read_source, write_crash
from tests.engine.jars import JE_5, JE_18
from tests.engine.workloads import sessions_of, write_environment

READ_BY = {JE_18: ("v8-", "v15-", "v17-"), JE_5: ("v8-",)}
"""Prefixes of the names of environments that an engine reads."""

REFUSED = (4, 6)
"""Exit codes of a command that left an environment unchanged."""

Write = Callable[[Path], None]
"""Writes an environment, or raises WriteRefusedError and leaves it unchanged."""


@dataclass(frozen=True)
class Refused:
    """A crash point that was not accepted."""

    case: Case
    verdict: Verdict


@dataclass
class Report:
    """Verdicts of the judge; its name gives the seeds."""

    name: str = ""
    cases: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    refused: list[Refused] = field(default_factory=list)
    seconds: Counter[str] = field(default_factory=Counter)

    def add(self, case: Case, verdict: Verdict) -> None:
        """Add one crash point."""
        self.cases += 1
        self.kinds[case.crash.kind] += 1
        self.notes.update(verdict.notes)
        if verdict.problems:
            self.refused.append(Refused(case, verdict))

    def __str__(self) -> str:
        accepted = self.cases - len(self.refused)
        lines = [
            f"{self.name}: {self.cases} crash points, {accepted} accepted, {len(self.refused)} not",
            "  " + ", ".join(f"{kind} {count}" for kind, count in self.kinds.most_common()),
            "  " + ", ".join(f"{name} {spent:.1f} s" for name, spent in self.seconds.items()),
        ]
        lines += [f"  {count:5} {note}" for note, count in self.notes.most_common()]
        rules: dict[str, list[Refused]] = {}
        for each in self.refused:
            broken = " ".join(sorted({problem.rule for problem in each.verdict.problems}))
            rules.setdefault(broken, []).append(each)
        for broken, found in sorted(rules.items(), key=lambda item: -len(item[1])):
            lines.append(f"  {len(found):5} against {broken}")
            for each in found[:MOST_SHOWN]:
                lines.append(f"          {each.case}")
                lines += [f"            {problem!s:.400}" for problem in each.verdict.problems]
        return "\n".join(lines)


def run_acceptances(
    judge: Judge,
    write: Write,
    seeds: Sequence[int],
    crashes: int,
    *,
    small: bool = False,
    sparse: bool = False,
    ttl: bool = True,
    serial: bool = False,
) -> Report:
    """Crash an environment of each seed at `crashes` places, write each crashed log, and judge.

    The first crashed logs that are not accepted stay in the judge's folder, with the written ones
    beside them.

    Args:
        judge: decides what is accepted.
        write: the writer to judge.
        seeds: seeds of the workloads.
        crashes: number of crashes of each.
        small: write little in each workload.
        sparse: change few slots of a node.
        ttl: let records expire.
        serial: write with one thread, so that every run has the same logs.
    """
    report = Report(f"seeds {seeds[0]} to {seeds[-1]}, {crashes} crashes each")
    for seed in seeds:
        home = judge.folder / f"workload-{seed}"
        started = time.perf_counter()
        sessions = sessions_of(seed, ttl=ttl, small=small, sparse=sparse, serial=serial)
        write_environment(judge.java, judge.class_path, home, sessions)
        report.seconds["workload"] += time.perf_counter() - started
        written_ms = time.time_ns() // 1_000_000 + sum(
            session["jumps"] * HOUR_MS for session in sessions
        )
        source = read_source(home)
        for number in range(crashes):
            rng = random.Random(f"crash {seed}/{number}")
            crash = make_crash(source, rng)
            now_ms = written_ms + rng.choice([0, 0, 1, rng.randrange(15)]) * DAY_MS
            _try(report, judge, write, source, Case(seed, number, crash, now_ms))
        shutil.rmtree(home)
    return report


def run_corpus(judge: Judge, write: Write, chosen: Sequence[Environment]) -> Report:
    """Write and judge a copy of each environment; those of replicated nodes as nodes.

    Args:
        judge: decides what is accepted.
        write: the writer to judge.
        chosen: environments of log versions that the engine reads.
    """
    report = Report(f"{len(chosen)} environments")
    for each in chosen:
        crashed, written = (judge.folder / name / each.name for name in ("found", "written"))
        crashed.mkdir(parents=True)
        for path in log_files(each.home):
            shutil.copyfile(path, crashed / path.name)
        now_ms = time.time_ns() // 1_000_000
        node = node_at(crashed)
        verdict = write_and_judge(judge, write, crashed, written, now_ms, report.seconds, node)
        report.add(Case(0, report.cases, Crash("as it is", each.name, {}), now_ms), verdict)
        if not verdict.problems:
            shutil.rmtree(written)
            shutil.rmtree(crashed)
    return report


def node_at(home: Path) -> str | None:
    """Return the node of a group that an environment is, judging by its folder's name, or None."""
    return node_of(home, home.name) if home.name.startswith("node") else None


def write_by_engine(judge: Judge) -> Write:
    """Return the writer that is known to be accepted."""

    def write(home: Path) -> None:
        judge.write_as_engine(home, node_at(home))

    return write


def _try(report: Report, judge: Judge, write: Write, source: Source, case: Case) -> None:
    crashed = judge.folder / f"crash-{case.seed}-{case.number}"
    write_crash(source, case.crash, crashed)
    written = crashed.with_name(crashed.name + "-written")
    verdict = write_and_judge(judge, write, crashed, written, case.now_ms, report.seconds)
    report.add(case, verdict)
    if not verdict.problems or len(report.refused) > MOST_KEPT:
        shutil.rmtree(crashed)
        shutil.rmtree(written)


def write_and_judge(
    judge: Judge,
    write: Write,
    crashed: Path,
    written: Path,
    now_ms: int,
    seconds: Counter[str] | None = None,
    node: str | None = None,
) -> Verdict:
    """Write a copy of a crashed environment, and judge it.

    Args:
        judge: decides what is accepted.
        write: the writer to judge.
        crashed: the environment, which is not changed.
        written: path of the copy, which is kept.
        now_ms: time at which records expire.
        seconds: the time spent is added to it.
        node: node of a group that it is, as `node_of` returns it.
    """
    started = time.perf_counter()
    shutil.copytree(crashed, written)
    refusal = None
    try:
        write(written)
    except WriteRefusedError as error:
        refusal = str(error)
    except RuntimeError as error:
        return Verdict([Problem("writer", str(error))])
    between = time.perf_counter()
    verdict = judge.verdict(crashed, written, now_ms, refused=refusal, node=node)
    if seconds is not None:
        seconds["write"] += between - started
        seconds["judge"] += time.perf_counter() - between
    return verdict


@dataclass(frozen=True)
class Command:
    """A command that writes the environment given as its last argument."""

    words: Sequence[str | Path]

    def __call__(self, home: Path) -> None:
        """Run the command.

        Raises:
            WriteRefusedError: it refuses.
            RuntimeError: it fails.
        """
        done = subprocess.run(
            [*self.words, home], check=False, capture_output=True, text=True, timeout=600
        )
        if done.returncode in REFUSED:
            raise WriteRefusedError(done.stderr.strip())
        if done.returncode not in (0, 3):
            raise RuntimeError(f"{home}: exit code {done.returncode}\n{done.stderr}")


def _leave(home: Path) -> None:
    """Write nothing."""


def ours() -> Command:
    """Return the command that is judged unless another is named."""
    beside = Path(sys.executable).with_name("je-tools")
    return Command([beside, "recover", "--apply", "--force"])


def read_by(coordinate: str) -> list[Environment]:
    """Return the available environments that an engine reads."""
    return [each for each in environments() if each.name.startswith(READ_BY[coordinate])]


def main(arguments: list[str]) -> int:
    """Judge, and print the report; the folder of the logs is kept."""
    ended = arguments.index("--") if "--" in arguments else len(arguments)
    arguments, command = arguments[:ended], arguments[ended + 1 :]
    coordinate = next((each for each in arguments if each.count(":") == 2), JE_18)
    arguments = [each for each in arguments if each != coordinate]
    folder = Path(tempfile.mkdtemp(prefix="je-tools-acceptances-"))
    with Judge.of(coordinate, folder) as judge:
        write: Write = Command(command) if command else ours()
        if command in (["engine"], ["nothing"]):
            write = write_by_engine(judge) if command == ["engine"] else _leave
        if arguments and Path(arguments[0]).is_dir():
            crashed, now_ms = Path(arguments[0]), int(arguments[1])
            verdict = write_and_judge(judge, write, crashed, folder / "written", now_ms)
            print(*verdict.notes, *verdict.problems, sep="\n")
            return int(bool(verdict.problems))
        if arguments == ["corpus"]:
            report = run_corpus(judge, write, read_by(coordinate))
            print(f"{coordinate}, {report}")
            return int(bool(report.refused))
        sparse = "sparse" in arguments
        numbers = [int(each) for each in arguments if each != "sparse"]
        seed, workloads, crashes = [*numbers, *(1, 10, 20)[len(numbers) :]]
        seeds = range(seed, seed + workloads)
        ttl = coordinate != JE_5
        report = run_acceptances(judge, write, seeds, crashes, sparse=sparse, ttl=ttl)
    print(f"{coordinate}, {folder}, {report}")
    return int(bool(report.refused))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
