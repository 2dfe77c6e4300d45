"""Measure the claims of je-tools beside the engine's own tools, and write bench/RESULTS.md.

    python -m bench.run [--quick] [--only WHAT] [--logs DIR] [--runs N] [--je-tools PATH]

Every figure is of a whole process with a warm page cache, and the median of the runs; the two sides
run in turns within one run of this program. The engine makes logs that are missing. --quick uses
small logs and one run, prints, and leaves RESULTS.md unchanged. --only measures one kind of dump,
`scans` (verify and summary), or `prove`, and replaces those rows in RESULTS.md.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import logs, report
from bench.measure import Command, Times, peak_anonymous_bytes, time_in_turns, warm
from bench.proofs import proof_rows
from bench.report import Row
from tests.engine.jars import JE_18, engine_jar
from tests.engine.java import find_java

ENGINE_TOOLS = "com.sleepycat.je.util."
HELP_RUNS = 20
MEASURED_FOR_MEMORY = ("64m", "1g", "1g-onefile", "4g")
FLOORS = [(how, reading) for how in ("isal", "zlib") for reading in ("map", "read")]


@dataclass
class Bench:
    """Parameters of all measurements, and their rows."""

    je_tools: str
    java: Path
    jar: Path
    folder: Path
    output: Path
    runs: int
    rows: list[Row] = field(default_factory=list)
    bytes_of: dict[str, int] = field(default_factory=dict)

    def engine(self, home: Path, *arguments: str, output: Path | None = None) -> Command:
        """Return a command of one of the engine's tools on `home`."""
        tool, *options = arguments
        argv = [str(self.java), "-cp", str(self.jar), ENGINE_TOOLS + tool, *options]
        return Command([*argv, "-h", str(home)], output=output)

    def ours(self, home: Path, *arguments: str, writes: Path | None = None) -> Command:
        """Return one of our commands on `home`; `writes` is its output."""
        verb, *options = arguments
        target = ["--output", str(writes)] if writes else []
        return Command([self.je_tools, verb, str(home), *options, *target], writes=writes)

    def pair(self, what: str, home: Path) -> list[Command]:
        """Return our command and the engine's equivalent, with destinations of the same kind."""
        into = self.output / "ours"
        file = self.output / "engine.xml"
        if what == "verify":
            return [self.ours(home, "verify"), self.engine(home, "DbVerifyLog")]
        if what == "summary":
            return [self.ours(home, "summary"), self.engine(home, "DbPrintLog", "-S")]
        _, form, *more = what.split()
        ours = self.ours(home, "dump", "--format", form, *more, writes=into.with_suffix(f".{form}"))
        return [ours, self.engine(home, "DbPrintLog", output=file)]

    def compare(self, what: str, log: str, at_least: float) -> list[Times]:
        """Time both sides on a log, and add a row that requires their ratio to be `at_least`."""
        return self.beside(what, log, at_least, *self.pair(what, self.folder / log))

    def beside(
        self, what: str, log: str, at_least: float, ours: Command, other: Command
    ) -> list[Times]:
        """Time two commands in turns, and add a row that requires their ratio to be `at_least`."""
        time_in_turns([ours], 1)
        mine, theirs = time_in_turns([ours, other], self.runs)
        ratio = theirs.median / mine.median
        shown = (report.seconds(mine), report.seconds(theirs), f"{ratio:.2f} ×")
        self.add(Row(what, log, *shown, f"≥ {at_least:g} ×", ratio >= at_least))
        return [mine, theirs]

    def memory(self, what: str, log: str, command: Command, limit: float = math.inf) -> None:
        """Add a row with the peak memory of a command, which must be below `limit` bytes."""
        code, peak = peak_anonymous_bytes(command)
        shown = f"failed, exit {code}" if code else f"{peak / 1e6:.0f} MB"
        target = "" if limit == math.inf else f"< {report.memory_size(limit)}"
        is_met = code == 0 and 0 < peak < limit
        row = Row(f"{what}, peak memory", log, shown, "", "", target, is_met)
        self.add(row)

    def add(self, row: Row) -> None:
        """Add a row, and print it while the bench continues."""
        self.rows.append(row)
        print(row.line(), flush=True)


def measure_times(bench: Bench, sizes: Sequence[str], targets: Sequence[float]) -> None:
    """Measure `verify` and `summary` at every size; the slope is between the last two."""
    small, large = sizes[-2], sizes[-1]
    slopes = {}
    added = bench.bytes_of[large] - bench.bytes_of[small]
    for what in SCANS:
        found = {
            log: bench.compare(what, log, target)
            for log, target in zip(sizes, targets, strict=True)
        }
        ours, engine = (
            (found[large][side].median - found[small][side].median) / added for side in (0, 1)
        )
        slopes[what] = ours
        ratio = engine / ours
        bench.add(
            Row(
                f"{what}, per added byte",
                f"{small} to {large}",
                report.slope(ours),
                report.slope(engine),
                f"{ratio:.2f} ×",
                "≥ 4 ×",
                ratio >= 4,
            )
        )
    measure_floor(bench, small, large, slopes["verify"])


def measure_floor(bench: Bench, small: str, large: str, verify: float) -> None:
    """Compare `verify`'s slope with that of the fastest way to read and sum the bytes."""
    program = str(Path(__file__).with_name("floor.py"))
    added = bench.bytes_of[large] - bench.bytes_of[small]
    best, name = math.inf, "none"
    for how, reading in FLOORS:
        commands = [
            Command([sys.executable, program, str(bench.folder / log), how, reading])
            for log in (small, large)
        ]
        time_in_turns(commands[:1], 1)
        first, second = time_in_turns(commands, bench.runs)
        found = (second.median - first.median) / added
        if 0 < found < best:
            best, name = found, f"{how}, {reading}"
    ratio = verify / best
    bench.add(
        Row(
            "verify, beside reading and summing",
            f"{small} to {large}",
            report.slope(verify),
            f"{report.slope(best)} ({name})",
            f"{ratio:.2f} ×",
            "≤ 1.5 ×",
            ratio <= 1.5,
        )
    )


SCANS = ("verify", "summary")

DUMPS = {"dump parquet --parts": 8, "dump parquet": 8, "dump jsonl": 6}
"""Kinds of dumps, and the required ratio of the time of the engine's print to that of the dump."""


def measure_dumps(bench: Bench, log: str, kinds: Iterable[str] = DUMPS) -> None:
    """Measure all entries as Parquet and as JSON lines, beside the engine's print of them."""
    for what in kinds:
        bench.compare(what, log, DUMPS[what])


def measure_memory(
    bench: Bench, names: Sequence[str], kinds: Iterable[str] = (*SCANS, *DUMPS)
) -> None:
    """Measure peak anonymous memory of our commands."""
    for log in names:
        for what in kinds:
            bench.memory(what, log, bench.pair(what, bench.folder / log)[0], 400e6)


def measure_proof(bench: Bench, log: str) -> None:
    """Measure `erase prove` in bytes per CPU second."""
    for row in proof_rows(bench.je_tools, bench.folder / log, bench.bytes_of[log], bench.runs):
        bench.add(row)


def measure_help(bench: Bench) -> None:
    """Measure `--help`, which must not load modules that only a scan needs."""
    command = Command([bench.je_tools, "--help"])
    time_in_turns([command], 1)
    (times,) = time_in_turns([command], HELP_RUNS)
    shown = f"{times.median * 1000:.0f} ms"
    bench.add(Row("--help", "", shown, "", "", "< 150 ms", times.median < 0.150))


def count_entries(bench: Bench, log: str) -> int:
    """Return the number of entries that the engine counts in a log; 0 if it gives none."""
    argv = bench.engine(bench.folder / log, "DbPrintLog", "-S").argv
    shown = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    found = re.search(r"Total number of entries: ([\d,]+)", shown)
    return int(found[1].replace(",", "")) if found else 0


def options() -> argparse.Namespace:
    beside = Path(sys.executable).with_name("je-tools")
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small logs, one run, prints only")
    parser.add_argument(
        "--only", choices=("scans", "prove", *DUMPS), help="these rows alone, into RESULTS.md"
    )
    parser.add_argument("--logs", type=Path, default=logs.default_folder(), metavar="DIR")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--je-tools", default=str(beside), metavar="PATH")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where dumps are written")
    parser.add_argument(
        "--converter",
        metavar="PROGRAM",
        help="of bench.ignites: runs IgniteWalConverter on a work directory and a node's folder",
    )
    chosen = parser.parse_args()
    if shutil.which(chosen.je_tools) is None:
        parser.error(f"no je-tools at {chosen.je_tools}: give --je-tools PATH")
    return chosen


@contextlib.contextmanager
def opened(chosen: argparse.Namespace, jar: Path) -> Iterator[Bench]:
    """Yield a bench of the engine in `jar`, with a folder for outputs that it removes."""
    je_tools = shutil.which(chosen.je_tools) or chosen.je_tools
    runs = 1 if chosen.quick else chosen.runs
    with tempfile.TemporaryDirectory(dir=chosen.output) as output:
        yield Bench(je_tools, find_java(), jar, chosen.logs, Path(output), runs)


def run_bench(
    page: str,
    kinds: Mapping[bool, Sequence[logs.LogKind | logs.RecordsKind]],
    work: Callable[[Bench, argparse.Namespace], None],
) -> int:
    """Make the logs of a bench, measure, and write its page; return the exit code.

    Args:
        page: name of the page beside this module.
        kinds: the logs to make: of a quick bench, and of a whole one.
        work: measures all claims; with `only`, its rows go into the page as it is.
    """
    chosen = options()
    path = Path(__file__).with_name(page)
    with opened(chosen, engine_jar(JE_18)) as bench:
        for kind in kinds[chosen.quick]:
            home = logs.ensure(kind, bench.folder, bench.java, bench.jar)
            bench.bytes_of[kind.name] = warm(home)
        print(Row.head(), flush=True)
        work(bench, chosen)
        if chosen.only:
            report.put(path, bench.rows)
        elif not chosen.quick:
            entries = {name: count_entries(bench, name) for name in bench.bytes_of}
            text = report.text(bench.rows, bench.bytes_of, entries, bench.runs, bench.java)
            report.write(path, text)
    return 0


def for_each_log(
    measure: Callable[[Bench, str], None],
) -> Callable[[Bench, argparse.Namespace], None]:
    """Return work for `run_bench` that measures each of its logs."""

    def work(bench: Bench, _: argparse.Namespace) -> None:
        for log in bench.bytes_of:
            measure(bench, log)

    return work


def main() -> int:
    small = [logs.MB_1, logs.MB_64]
    kinds = {True: small, False: [*small, logs.GB_1, logs.GB_4, logs.GB_1_ONE_FILE]}
    return run_bench("RESULTS.md", kinds, _measure_chosen)


def _measure_chosen(bench: Bench, chosen: argparse.Namespace) -> None:
    """Measure all claims, or those of `--only`."""
    if chosen.only == "scans":
        measure_scans(bench)
        measure_memory(bench, MEASURED_FOR_MEMORY, SCANS)
    elif chosen.only == "prove":
        measure_proof(bench, "1g")
    elif chosen.only:
        measure_one(bench, chosen.only)
    else:
        measure(bench, quick=chosen.quick)


def measure_one(bench: Bench, what: str) -> None:
    """Measure all claims on one kind of dump."""
    if what != "dump parquet --parts":
        bench.compare(what, "1m", 1)
    measure_dumps(bench, "1g", [what])
    measure_memory(bench, MEASURED_FOR_MEMORY, [what])


def measure_scans(bench: Bench) -> None:
    """Measure `verify` and `summary` at all sizes."""
    measure_times(bench, ["1m", "64m", "1g", "4g"], [5, 5, 5, 5])
    for what in SCANS:
        bench.compare(what, "1g-onefile", 2)


def measure(bench: Bench, *, quick: bool) -> None:
    """Measure all claims, the short ones first."""
    measure_help(bench)
    bench.compare("dump parquet", "1m", 1)
    bench.compare("dump jsonl", "1m", 1)
    if quick:
        measure_times(bench, ["1m", "64m"], [1, 1])
        measure_dumps(bench, "64m")
        measure_memory(bench, ["64m"])
        return
    measure_scans(bench)
    measure_dumps(bench, "1g")
    measure_proof(bench, "1g")
    measure_memory(bench, MEASURED_FOR_MEMORY)


if __name__ == "__main__":
    sys.exit(main())
