"""Cut small hard logs at every end of an entry, and compare the snapshot with the engine.

`python -m tests.engine.cuts SEED LOGS [COORDINATE] [--sample N] [--keep DIR]` writes LOGS logs, and
judges each cut after the first CkptStart of each. With `--sample`, N cuts in all are also written
by `recover --apply` and `checkpoint --apply`, and judged as in `acceptance`. With `--keep`, a log
that shows a difference stays in DIR, and beside it the first cut of each run of differences, with
the engine's records. `... HOME [COORDINATE] ...` judges the cuts of one existing log.
`--step N` judges every N-th cut, and all cuts in windows of an old root as a child, which
`hardlogs.windows` defines.
"""

from __future__ import annotations

import argparse
import functools
import gc
import hashlib
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from je_tools.btree.check.findings import open_trees, tree_findings
from je_tools.checkpoint.apply import apply_checkpoint
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.errors import InputError, RefusedError
from je_tools.findings import Severity
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from tests.engine.acceptance import Judge as Acceptance
from tests.engine.acceptance import WriteRefusedError
from tests.engine.acceptances import Write, write_and_judge
from tests.engine.campaign import Case, Difference, Foretold, Report
from tests.engine.comparison import Found, Records, compare, side_of
from tests.engine.crashes import Crash, read_source, write_crash
from tests.engine.hardlogs import CHILD, Cut, cuts_of, windows, write_hard_logs
from tests.engine.jars import JE_18, engine_jar
from tests.engine.java import find_java
from tests.engine.recovered import Engine, engine_class_path
from tests.engine.snapshots import recovered
from tests.truth.contents import Contents, Refusal
from tests.truth.replay import Replayed, replay

NOW_MS = 1_750_000_000_000
"""Time of reading. No record expires."""

AT_ONCE = 100
"""Number of cuts in one question. If the engine dies of one of them, each is asked alone."""

LOGS_AT_ONCE = 40
THREADS_EVERY = 8
"""Two threads read every n-th cut."""

COLLECT_EVERY = 100
"""Number of cuts between two garbage collections."""

WINDOW_SHARE = 0.5
"""Share of the written cuts that lie in windows."""

NO_WINDOW = "no root changed"
DAMAGE = "damage"
"""Word of EXPLAINED for states that no engine writes."""

T = TypeVar("T")

Sums = dict[str, tuple[int, str]]
"""Number of records of each database, and a digest of the records in their order."""


@dataclass
class Looked:
    """The engine's answer for one cut.

    Attributes:
        sums: counts and digests of the readable databases.
        contents: the records of these databases, if they were asked for.
        failed: the engine's message for each unreadable database.
    """

    sums: Sums = field(default_factory=dict)
    contents: Contents = field(default_factory=dict)
    failed: dict[str, Refusal] = field(default_factory=dict)


Answers = dict[Cut, Looked | Refusal]
Logs = Iterable[tuple[int, Path]]
"""Logs by their seeds."""


@dataclass(frozen=True)
class CutDifference(Difference):
    """A cut at which the snapshot differs from a scan of the engine.

    Attributes:
        searched: side that the engine's searches take, see `whose`; else the reason why it is
            unknown.
    """

    searched: str

    @property
    def is_against_us(self) -> bool:
        """True if it is not foretold, or the searches or the replay side with the engine.

        Searches that side with neither count as well.
        """
        against = self.replayed == "engine" or self.searched in ("engine", "neither")
        return against or not self.warnings


@dataclass
class CutReport(Report):
    """The result of a campaign. Its `kinds` count the windows that are open at each cut.

    Attributes:
        runs: ranges of differing cuts.
        alarms: ranges of cuts where the snapshot reports damage and the engine finds the same
            records. The engine wrote these logs, so they are not damaged.
        accepted: number of written cuts that the engine accepts.
        notes: reasons why fewer checks were made of a written cut.
        not_accepted: written cuts that the engine does not accept, with its problems.
    """

    runs: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)
    accepted: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    not_accepted: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[Difference]:
        """Differences that count against the snapshot."""
        return [each for each in self._cut_differences if each.is_against_us]

    @property
    def _cut_differences(self) -> list[CutDifference]:
        return [each for each in self.differences if isinstance(each, CutDifference)]

    def __str__(self) -> str:
        phases = [name for name in ("snapshot", "engine") if self.seconds[name]]
        rates = [f"{name} {self.cases / self.seconds[name]:.0f} cuts a second" for name in phases]
        told = f"  {len(self.differences)} cuts differ, {len(self.wrong)} of them against us"
        lines = [
            super().__str__(),
            told,
            "  " + ", ".join(rates),
            *(f"  {run}" for run in self.runs),
        ]
        lines += [f"  damage told alone: {alarm}" for alarm in self.alarms]
        if self.accepted or self.not_accepted:
            lines.append(f"  written: {self.accepted} accepted, {len(self.not_accepted)} not")
            lines += [f"  {count:5} {note}" for note, count in self.notes.most_common()]
            lines += [f"    {each:.600}" for each in self.not_accepted]
        return "\n".join(lines)


class Judge:
    """One version of the engine. It writes logs, reads cuts, and checks written checkpoints.

    Attributes:
        folder: directory of the logs and their cuts.
    """

    def __init__(self, coordinate: str, folder: Path) -> None:
        self.coordinate = coordinate
        self.folder = folder
        self.java = find_java()
        self.class_path = engine_class_path(self.java, engine_jar(coordinate))
        self._cuts = Engine(self.java, self.class_path, program="Cuts")

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        self._cuts.__exit__()
        if "acceptance" in vars(self):
            self.acceptance.__exit__(None, None, None)

    @functools.cached_property
    def acceptance(self) -> Acceptance:
        """The judge of written checkpoints. It starts only when it is needed."""
        return Acceptance(self.java, self.class_path, self.folder / "acceptance")

    def write(self, seeds: Sequence[int], report: Report) -> Iterator[tuple[int, Path]]:
        """Yield the log of each seed. It is removed when the next is asked for."""
        for start in range(0, len(seeds), LOGS_AT_ONCE):
            some = seeds[start : start + LOGS_AT_ONCE]
            started = time.perf_counter()
            homes = write_hard_logs(self.java, self.class_path, self.folder, some)
            report.seconds["write"] += time.perf_counter() - started
            for seed, home in zip(some, homes, strict=True):
                yield seed, home
                shutil.rmtree(home)

    def search(self, home: Path, cut: Cut, candidates: Contents) -> Looked | Refusal:
        """Search for some records at a cut, and return those that the engine finds."""
        place = self.folder / "candidates"
        lines = []
        for name, records in candidates.items():
            lines += [f"{key.hex()}\t{data.hex()}\n" for key, data in records]
            lines.append(f"#db\t{name}\n")
        place.write_text("".join(lines), encoding="utf-8")
        return self.look(home, [cut], "search", place)[cut]

    def look(self, home: Path, cuts: Sequence[Cut], mode: str = "sums", *words: object) -> Answers:
        """Return the engine's answer for each cut of a log.

        If it hangs or dies, each cut is asked alone, and again. If it still fails, that is the
        answer.

        Args:
            home: the log.
            cuts: the places where it ends.
            mode: a mode of Cuts.java.
            words: further words of this mode.
        """
        lines = self._ask(home, cuts, mode, *words)
        if isinstance(lines, Refusal) and len(cuts) == 1:
            lines = self._ask(home, cuts, mode, *words)
        if not isinstance(lines, Refusal):
            return parse_answers(lines)
        if len(cuts) == 1:
            return {cuts[0]: lines}
        alone = [self.look(home, [each], mode, *words) for each in cuts]
        return {cut: told for each in alone for cut, told in each.items()}

    def _ask(
        self, home: Path, cuts: Sequence[Cut], mode: str, *words: object
    ) -> list[str] | Refusal:
        scratch = self.folder / "scratch"
        scratch.mkdir()
        asked = ",".join(f"{cut.file_no}:{cut.offset}" for cut in cuts)
        lines = self._cuts.tell(home, scratch, mode, asked, *words)
        shutil.rmtree(scratch)
        return lines


def parse_answers(lines: Iterable[str]) -> Answers:
    """Parse an answer of Cuts.java."""
    found: Answers = {}
    cut, looked = Cut(0, 0), Looked()
    records: Records = []
    for line in lines:
        head, *rest = line.removesuffix("\n").split("\t")
        if head == "#cut":
            cut = Cut(int(rest[0]), int(rest[1]))
            looked = found[cut] = Looked()
            records = []
        elif head == "#refused":
            found[cut] = Refusal(rest[0], rest[1], "\t".join(rest[2:]))
        elif head == "#failed":
            looked.failed[rest[0]] = Refusal("read", rest[1], "\t".join(rest[2:]))
            records = []
        elif head == "#db":
            looked.sums[rest[0]] = int(rest[1]), rest[2]
            looked.contents[rest[0]] = records
            records = []
        else:
            records.append((bytes.fromhex(head), bytes.fromhex(rest[0])))
    return found


def sums_of(contents: Contents) -> Sums:
    """Return counts and digests as Cuts.java does."""
    return {name: (len(records), _digest(records)) for name, records in contents.items()}


def _digest(records: Sequence[tuple[bytes, bytes]]) -> str:
    digest = hashlib.sha256()
    for key, data in records:
        digest.update(b"".join((len(key).to_bytes(4), key, len(data).to_bytes(4), data)))
    return digest.hexdigest()


def run_cuts(
    judge: Judge,
    logs: Logs,
    report: CutReport,
    *,
    sample: float = 0,
    step: int = 1,
    keep: Path | None = None,
) -> None:
    """Cut each log at every end of an entry after its first CkptStart, and compare.

    Args:
        judge: the engine, which is right.
        logs: logs to cut.
        report: the results are added to it.
        sample: mean number of cuts of a log that are also written.
        step: judge every `step`-th cut, and all cuts in windows of an old root as a child.
        keep: directory for logs with differences.
    """
    due = 0.0
    for seed, home in logs:
        trial = _Trial(judge, report, seed, home)
        trial.run(step)
        if keep and trial.differing:
            trial.keep(keep)
        due += sample
        trial.accept(int(due))
        due -= int(due)


class _Trial:
    """The cuts of one log."""

    def __init__(self, judge: Judge, report: CutReport, seed: int, home: Path) -> None:
        self.judge, self.report, self.seed, self.home = judge, report, seed, home
        self.source = read_source(home)
        self.windows = windows(self.source)
        self.cuts = cuts_of(self.source)
        self.differing: list[tuple[int, CutDifference]] = []

    def run(self, step: int) -> None:
        """Ask both sides for each cut, and compare."""
        self.cuts = [
            cut
            for number, cut in enumerate(self.cuts)
            if number % step == 0 or CHILD in self.windows[cut]
        ]
        # One thread waits for the engine, while the same cuts are read here.
        with ThreadPoolExecutor(1) as pool:
            answers = [
                pool.submit(self._look, self.cuts[start : start + AT_ONCE])
                for start in range(0, len(self.cuts), AT_ONCE)
            ]
            told = self._tell()
            engine = self._answered(answers)
        alarms: list[tuple[int, Cut]] = []
        for number, cut in enumerate(self.cuts):
            self.report.cases += 1
            self.report.kinds[self._window(cut)] += 1
            answer = engine[cut]
            sums, words = told[cut]
            if not _is_equal(sums, answer):
                self.differing.append((number, self._difference(number, cut)))
                continue
            if DAMAGE in words:
                alarms.append((number, cut))
            if isinstance(answer, Refusal):
                self.report.refused += 1
            else:
                self.report.records += sum(count for count, _ in answer.sums.values())
        self.report.differences += [each for _, each in self.differing]
        self.report.runs += [self._told_run(run) for run in _runs(self.differing, _way)]
        self.report.alarms += [
            f"seed {self.seed}, {run[0][1]} to {run[-1][1]}, {len(run)} cuts"
            for run in _runs(alarms, lambda _: None)
        ]

    def _look(self, cuts: Sequence[Cut]) -> tuple[Answers, float]:
        started = time.perf_counter()
        return self.judge.look(self.home, cuts), time.perf_counter() - started

    def _answered(self, answers: Sequence[Future[tuple[Answers, float]]]) -> Answers:
        found: Answers = {}
        for answer in answers:
            told, spent = answer.result()
            found |= told
            self.report.seconds["engine"] += spent
        return found

    def _tell(self) -> dict[Cut, tuple[Sums | Refusal, set[str]]]:
        """Return the snapshot's sums and warnings for each cut."""
        found: dict[Cut, tuple[Sums | Refusal, set[str]]] = {}
        place = self.judge.folder / f"cut-{self.seed}"
        write_crash(self.source, Crash("", "", {}), place)
        with self._timed("snapshot"), _uncollected():
            # From the end to the beginning, so that each cut makes the files shorter.
            for number in reversed(range(len(self.cuts))):
                cut = self.cuts[number]
                for file_no in range(cut.file_no + 1, self.source.last + 1):
                    (place / f"{file_no:08x}.jdb").unlink(missing_ok=True)
                os.truncate(place / f"{cut.file_no:08x}.jdb", cut.offset)
                told = self._recovered(place, number)
                contents, words = told.contents, {each.word for each in told.warnings}
                sums = contents if isinstance(contents, Refusal) else sums_of(contents)
                found[cut] = sums, words
                if number % COLLECT_EVERY == 0:
                    gc.collect()
        shutil.rmtree(place)
        return found

    @staticmethod
    def _recovered(home: Path, number: int) -> Foretold:
        """Return the snapshot of a cut. A cut is always read by the same number of threads."""
        return recovered(home, NOW_MS, threads=1 + (number % THREADS_EVERY == 0))

    def _difference(self, number: int, cut: Cut) -> CutDifference:
        """Describe the difference at a cut."""
        engine = self.judge.look(self.home, [cut], "records")[cut]
        with self._written(cut, "differs") as home:
            foretold = self._recovered(home, number)
            with self._timed("replay"):
                replayed = replay(home, NOW_MS)
        found, told, answer = _compare(foretold.contents, engine)
        return CutDifference(
            Case(self.seed, number, Crash(self._window(cut), str(cut), {}), NOW_MS),
            found,
            frozenset(each for each in foretold.warnings if each.explains(found)),
            _side_of(replayed, found, told, answer),
            self._searched(cut, found.database, told, answer, replayed),
        )

    def _searched(
        self, cut: Cut, name: str | None, told: Answer, engine: Answer, replayed: Replayed
    ) -> str:
        """Return the side that the engine's searches in the differing database take."""
        if isinstance(told, Refusal) or name is None:
            return "not asked"
        scanned = [] if isinstance(engine, Refusal) else engine[name]
        looked = self.judge.search(self.home, cut, {name: sorted({*told[name], *scanned})})
        if isinstance(looked, Refusal) or looked.failed:
            return "fails too"
        logged = [] if isinstance(replayed.contents, Refusal) else replayed.contents.get(name, [])
        return whose(told[name], scanned, looked.contents.get(name, []), logged)

    def _told_run(self, run: Sequence[tuple[int, CutDifference]]) -> str:
        first, last = self.cuts[run[0][0]], self.cuts[run[-1][0]]
        group, database, replayed, searched, words = _way(run[0][1])
        told = f"foretold: {words}" if words else "not foretold"
        return (
            f"seed {self.seed}, {first} to {last}, {len(run)} cuts: {group} in {database!r},"
            f" replay: {replayed}, searches: {searched}, {told}"
        )

    def keep(self, folder: Path) -> None:
        """Keep the log, and the first cut of each run of differences with the engine's records."""
        whole = folder / str(self.seed)
        write_crash(self.source, Crash("", "", {}), whole)
        for run in _runs(self.differing, _way):
            cut = self.cuts[run[0][0]]
            kept = folder / f"{self.seed}-{cut.file_no:x}-{cut.offset:x}"
            if kept.exists():
                continue
            write_crash(self.source, self._crash(cut), kept)
            engine = self.judge.look(self.home, [cut], "records")[cut]
            (kept / "records.tsv").write_text(_lines(engine), encoding="utf-8")

    def accept(self, count: int) -> None:
        """Write checkpoints at some cuts, half of them in windows, and judge them."""
        rng = random.Random(f"sample {self.seed}")
        inside = [cut for cut in self.cuts if self.windows[cut]]
        first = rng.sample(inside, min(len(inside), round(count * WINDOW_SHARE)))
        others = [cut for cut in self.cuts if cut not in first]
        for number, cut in enumerate(first + rng.sample(others, count - len(first))):
            with self._written(cut, "crashed") as crashed:
                written = crashed.with_name(crashed.name + "-written")
                write = _writing(is_recover=number % 2 == 0)
                verdict = write_and_judge(self.judge.acceptance, write, crashed, written, NOW_MS)
                # A crash can leave a name without a descriptor: in the crashed log, a warning.
                worse = _tree_codes(written, {Severity.ERROR}) - _tree_codes(crashed)
                shutil.rmtree(written)
            self.report.notes.update(verdict.notes)
            if verdict.problems or worse:
                problems = "; ".join([*map(str, verdict.problems), *sorted(worse)])
                self.report.not_accepted.append(f"seed {self.seed} {cut}: {problems}")
            else:
                self.report.accepted += 1

    def _window(self, cut: Cut) -> str:
        return " and ".join(sorted(self.windows[cut])) or NO_WINDOW

    def _crash(self, cut: Cut) -> Crash:
        gone = frozenset(no for no in self.source.files if no > cut.file_no)
        return Crash("", "", {cut.file_no: self.source.files[cut.file_no][: cut.offset]}, gone)

    @contextmanager
    def _written(self, cut: Cut, name: str) -> Iterator[Path]:
        """Make a directory with the log up to a cut, for the context. Its name is not reused."""
        place = self.judge.folder / f"{name}-{self.seed}-{cut.file_no}-{cut.offset}"
        write_crash(self.source, self._crash(cut), place)
        yield place
        shutil.rmtree(place)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.report.seconds[phase] += time.perf_counter() - started


@contextmanager
def _uncollected() -> Iterator[None]:
    """Turn automatic garbage collection off, which takes an eighth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _is_equal(told: Sums | Refusal, engine: Looked | Refusal) -> bool:
    if isinstance(engine, Refusal):
        return isinstance(told, Refusal) and compare(told, engine) is None
    return not engine.failed and told == engine.sums


Answer = Contents | Refusal


def _compare(told: Answer, engine: Looked | Refusal) -> tuple[Found, Answer, Answer]:
    """Return the first difference, and the two answers that contain it.

    Differences in readable databases come before unreadable databases.
    """
    unlike = Found("digests alone", "not met when asked again")
    if isinstance(told, Refusal) or isinstance(engine, Refusal):
        answer = engine if isinstance(engine, Refusal) else engine.contents
        return compare(told, answer) or unlike, told, answer
    rest = {name: each for name, each in told.items() if name not in engine.failed}
    found = compare(rest, engine.contents)
    if found is not None or not engine.failed:
        return found or unlike, rest, engine.contents
    name, failure = next(iter(engine.failed.items()))
    only = {name: told[name]} if name in told else {}
    found = compare(only, failure)
    return Found(*found[:2], name) if found else unlike, only, failure


def whose(ours: Records, scanned: Records, searched: Records, logged: Records) -> str:
    """Return the side that the engine's searches take.

    The engine's redo may split a node with keys outside its range. Its searches then miss good
    records. Missed records count for the snapshot if the newest entries of the log hold them.

    Args:
        ours: records of the snapshot.
        scanned: records of the engine's scan.
        searched: records of both that the searches find.
        logged: records by the replay of the whole log, even if it is not sure.
    """
    there, lost = set(searched), set(ours) - set(searched)
    if there <= set(ours) and len(set(ours)) == len(ours):
        if not lost:
            return "snapshot"
        if lost <= set(logged):
            return "snapshot, without some that redo has put out of reach"
    return "engine" if there == set(scanned) else "neither"


def _side_of(replayed: Replayed, found: Found, told: Answer, engine: Answer) -> str:
    """Return the side of the replay. For an unreadable database, compare only that one."""
    name = found.database
    if isinstance(engine, Refusal) and name is not None and isinstance(replayed.contents, dict):
        if name in replayed.unsure:
            return f"not sure, {replayed.unsure[name]}"
        only = {each: records for each, records in replayed.contents.items() if each == name}
        replayed = replace(replayed, contents=only, unsure={})
    return side_of(replayed, told, engine)


def _runs(
    numbered: Iterable[tuple[int, T]], way: Callable[[T], object]
) -> Iterator[list[tuple[int, T]]]:
    """Yield groups of consecutive numbers whose values are alike."""
    run: list[tuple[int, T]] = []
    for number, each in numbered:
        if run and (run[-1][0] != number - 1 or way(run[-1][1]) != way(each)):
            yield run
            run = []
        run.append((number, each))
    if run:
        yield run


def _way(difference: CutDifference) -> tuple[str, str | None, str, str, str]:
    words = ", ".join(sorted({each.word for each in difference.warnings}))
    found = difference.found
    return found.group, found.database, difference.replayed, difference.searched, words


def _lines(engine: Looked | Refusal) -> str:
    """Return records as lines, with one line for each unreadable database."""
    if isinstance(engine, Refusal):
        return f"#refused\t{engine.stage}\t{engine.reason}\t{engine.message}\n"
    lines = []
    for name, records in engine.contents.items():
        lines.append(f"#db\t{name}\n")
        lines += [f"{key.hex()}\t{data.hex()}\n" for key, data in records]
    lines += [f"#failed\t{name}\t{why.message}\n" for name, why in engine.failed.items()]
    return "".join(lines)


def _tree_codes(home: Path, severities: Collection[Severity] = tuple(Severity)) -> set[str]:
    """Return the codes of findings that `verify --tree` reports in trees."""
    environment, scanner = open_environment([home]), Scanner(threads=1)
    opened = functools.partial(open_trees, environment, scanner, NOW_MS)
    try:
        found = tree_findings(environment, scanner, opened)
        return {each.code for each in found if each.severity in severities}
    except InputError:
        # The log has no root.
        return set()


def _writing(*, is_recover: bool) -> Write:
    """Return a writer that does the work of `recover --apply` or of `checkpoint --apply`."""

    def write(home: Path) -> None:
        orders = CheckpointOptions(cuts=True, force=True) if is_recover else CheckpointOptions()
        try:
            apply_checkpoint(home, Scanner(threads=1), orders, time.time_ns() // 1_000_000)
        except (RefusedError, InputError) as error:
            raise WriteRefusedError(str(error)) from error

    return write


@contextmanager
def fast_folder() -> Iterator[Path]:
    """Make a directory, in memory if possible, since an engine syncs each log that it opens."""
    shared = Path("/dev/shm")
    place = shared if os.access(shared, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="je-tools-cuts-", dir=place) as folder:
        yield Path(folder)


def main(arguments: Sequence[str]) -> int:
    """Judge the chosen logs, and print the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.engine.cuts")
    parser.add_argument("what", nargs="+", metavar="SEED LOGS | HOME | COORDINATE")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    chosen = parser.parse_args(arguments)
    homes = [each for each in chosen.what if Path(each).is_dir()]
    named = [each for each in chosen.what if each.count(":") == 2 and each not in homes]
    coordinate = named[0] if named else JE_18
    numbers = [int(each) for each in chosen.what if each not in (*homes, *named)]
    with fast_folder() as folder, Judge(coordinate, folder) as judge:
        if homes:
            report = CutReport(homes[0])
            logs: Logs = [(0, Path(homes[0]))]
            count = 1
        else:
            seed, count = numbers
            report = CutReport(f"seeds {seed} to {seed + count - 1}")
            logs = judge.write(range(seed, seed + count), report)
        sample = chosen.sample / count
        run_cuts(judge, logs, report, sample=sample, step=chosen.step, keep=chosen.keep)
    print(f"{coordinate}, {report}")
    return int(bool(report.wrong or report.alarms or report.not_accepted))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
