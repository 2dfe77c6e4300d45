"""Measure `je-tools audit` beside other ways to the same answers, and write bench/AUDIT.md.

    python -m bench.audits [--quick] [--logs DIR] [--output DIR] [--runs N]

The fleet is 500 environments: copies of those of fixtures/, each many times. The engine's tools run
over every tenth of them in a loop, like a cron job: DbVerifyLog, then DbPrintLog -S, one
environment after the other; the time of the loop is scaled. --quick uses 50 environments and small
logs, and only prints.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import logs, report
from bench.measure import (
    Command,
    Times,
    peak_of_one,
    time_in_turns,
    tree_cpu_seconds,
    warm,
)
from bench.report import Row
from tests.corpus import FIXTURES, environments_in
from tests.engine.jars import JE_18, engine_jar
from tests.engine.java import find_java

SAMPLED = 10
"""The loop runs over every n-th environment."""

ENGINE_TOOLS = "com.sleepycat.je.util."

LOCAL = ("--engine", "local")

SETTLED = 1_780_000_000
"""Modification time of all copies, in seconds since 1970."""

IN_ONE_PROCESS = """\
import sys
from pathlib import Path
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.verify.judge import verify
from je_tools.verify.totals import Totals
for home in sorted(Path(sys.argv[1]).iterdir()):
    environment = open_environment([home])
    for found in verify(environment, Scanner(wide=True), Totals(str(home))):
        print(found.code)
"""
"""Program that verifies all environments of a folder."""


@dataclass
class AuditBench:
    """Parameters of all measurements, and their rows."""

    java: Path
    jar: Path
    work: Path
    runs: int
    rows: list[Row]

    @property
    def tool(self) -> str:
        """Path of `je-tools`."""
        return str(Path(sys.executable).with_name("je-tools"))

    def audit(self, roots: Path, *options: str, again: bool = False) -> Command:
        """Return the command of an audit as a user runs it.

        Args:
            roots: directory to audit.
            options: further options.
            again: True to continue in the folder of earlier runs.
        """
        out = self.work / ("again" if again else "audit")
        argv = [self.tool, "audit", "run", str(roots), "--output", str(out)]
        return Command([*argv, "--fail-on", "never", *options], writes=None if again else out)

    def add(self, row: Row) -> None:
        """Add a row, and print it while the bench continues."""
        self.rows.append(row)
        print(row.line(), flush=True)

    def compare(self, what: str, log: str, ours: Times, other: Times, most: float) -> None:
        """Add a row for two commands, of which ours may take at most `most` times the other."""
        ratio = ours.median / other.median
        seconds = (report.seconds(ours), report.seconds(other))
        self.add(Row(what, log, *seconds, f"{ratio:.2f} ×", f"≤ {most:g} ×", ratio <= most))


def make_fleet(folder: Path, count: int) -> list[Path]:
    """Make `count` environments, whose files are copies of those of fixtures/."""
    known = environments_in(FIXTURES)
    homes = []
    for number in range(count):
        home = folder / f"env{number:04}"
        home.mkdir(parents=True)
        for file in known[number % len(known)].home.glob("*.jdb"):
            shutil.copy2(file, home / file.name)
            # A file that has just changed may change again and keep its modification time.
            os.utime(home / file.name, (SETTLED, SETTLED))
        homes.append(home)
    return homes


def measure_fleet(bench: AuditBench, count: int) -> None:
    """Measure the audit of many small environments beside loops over them."""
    fleet = bench.work / "fleet"
    homes = make_fleet(fleet, count)
    name = f"{count} environments"
    each = bench.work / "each.sh"
    each.write_text(f"for home in {fleet}/*; do {bench.tool} verify $home; done; true\n")
    program = bench.work / "verify_all.py"
    program.write_text(IN_ONE_PROCESS)
    commands = [
        bench.audit(fleet),
        bench.audit(fleet, *LOCAL),
        Command(["sh", str(each)]),
        Command([sys.executable, str(program), str(fleet)]),
    ]
    spark, local, verify_each, in_one = time_in_turns(commands, bench.runs)
    loop = engine_loop(bench, homes[::SAMPLED]) * count / len(homes[::SAMPLED])
    ratio = loop / spark.median
    shown = f"{loop:.0f} s (of {len(homes[::SAMPLED])}, scaled)"
    met = ratio >= 10
    bench.add(Row("audit", name, report.seconds(spark), shown, f"{ratio:.1f} ×", "≥ 10 ×", met))
    bench.compare("audit, beside `verify` of each", name, spark, verify_each, 0.5)
    bench.compare("audit --engine local, beside verify in one process", name, local, in_one, 1.3)
    measure_unchanged(bench, fleet, name, spark, local)


def engine_loop(bench: AuditBench, homes: Sequence[Path]) -> float:
    """Return the seconds that the engine's tools take for some environments."""
    start = time.perf_counter()
    for home in homes:
        for tool in (["DbVerifyLog"], ["DbPrintLog", "-S"]):
            argv = [str(bench.java), "-cp", str(bench.jar), ENGINE_TOOLS + tool[0], *tool[1:]]
            subprocess.run([*argv, "-h", str(home)], capture_output=True, check=False)
    return time.perf_counter() - start


def measure_unchanged(bench: AuditBench, root: Path, name: str, spark: Times, local: Times) -> None:
    """Measure runs over logs that have not changed since the run before."""
    for what, options, first in (("audit", (), spark), ("audit --engine local", LOCAL, local)):
        again = bench.audit(root, *options, again=True)
        time_in_turns([again], 1)
        (unchanged,) = time_in_turns([again], bench.runs)
        shutil.rmtree(bench.work / "again")
        bench.compare(f"{what}, nothing changed, beside the first run", name, unchanged, first, 0.2)


def measure_fixed_cost(bench: AuditBench, home: Path) -> None:
    """Measure the CPU time of an audit of a log so small that reading it takes none."""
    for what, options, most in (("audit", (), 12.0), ("audit --engine local", LOCAL, 3.0)):
        seconds = tree_cpu_seconds(bench.audit(home, *options), bench.runs)
        shown = f"{seconds:.1f} s of CPU time"
        row = Row(f"{what}, fixed cost", home.name, shown, "", "", f"≤ {most:g} s", seconds <= most)
        bench.add(row)


def measure_cold(bench: AuditBench, home: Path) -> None:
    """Measure an executor's Python process from its start until it has read its first entry."""
    program = Path(__file__).with_name("first_entry.py")
    command = Command([sys.executable, str(program), str(home)])
    time_in_turns([command], 1)
    (times,) = time_in_turns([command], bench.runs)
    what = "audit, cold executor until its first entry"
    bench.add(Row(what, home.name, report.seconds(times), "", "", "< 1 s", times.median < 1))


def measure_large(bench: AuditBench, home: Path, start: float) -> None:
    """Measure the audit of one large log, and our own scan of it.

    Args:
        bench: the bench.
        home: the log.
        start: seconds that an audit of a small log takes.
    """
    scan = Command([bench.tool, "verify", str(home)])
    summary = Command([bench.tool, "summary", str(home), "--txns"])
    commands = [bench.audit(home), bench.audit(home, *LOCAL), scan, summary]
    spark, local, verify, summed = time_in_turns(commands, bench.runs)
    for other, name in ((verify, "verify"), (summed, "summary --txns")):
        allowed = 1.5 * other.median + start
        seconds = (report.seconds(spark), report.seconds(other))
        target = f"≤ {allowed:.1f} s (1.5 × + {start:.1f} s)"
        verdict = f"{spark.median:.1f} s"
        met = spark.median <= allowed
        bench.add(Row(f"audit, beside {name}", home.name, *seconds, verdict, target, met))
        bench.compare(f"audit --engine local, beside {name}", home.name, local, other, 1.3)
    measure_unchanged(bench, home, home.name, spark, local)


def measure_cores(bench: AuditBench, homes: Sequence[Path], cores: Sequence[int]) -> None:
    """Measure the executors' reading by number of cores, on a small log and on a large one.

    The small one shows the cost before anything is read: workers, and cold code.
    """
    runs = [(count, home) for count in cores for home in homes]
    taken: dict[tuple[int, Path], list[float]] = {run: [] for run in runs}
    for count, home in bench.runs * runs:
        steps = steps_of(bench, home, f"local[{count},4]")
        taken[count, home].append(steps["reading logs"])
    slopes = {}
    for count in cores:
        what = f"audit, reading logs, {count} core{'s' * (count > 1)}"
        both = [Times(taken[count, home]) for home in homes]
        for home, times in zip(homes, both, strict=True):
            bench.add(Row(what, home.name, report.seconds(times), "", "", "", met=True))
        slopes[count] = both[-1].median - both[0].median
        ratio = slopes[cores[0]] / slopes[count]
        wanted = 0.75 * count / cores[0]
        slope = " to ".join(home.name for home in homes)
        shown = f"{slopes[count]:.2f} s"
        target = f"≥ {wanted:.2g} ×"
        bench.add(Row(what, slope, shown, "", f"{ratio:.2f} ×", target, ratio >= wanted))


def measure_start(bench: AuditBench, home: Path) -> None:
    """Measure the steps of a small audit."""
    for name, seconds in steps_of(bench, home, "local[*,4]").items():
        bench.add(Row(f"audit, {name}", home.name, f"{seconds:.2f} s", "", "", "", met=True))


def measure_memory(bench: AuditBench, homes: Sequence[Path]) -> None:
    """Measure peak anonymous memory of the driver's Python process at several sizes."""
    peaks = {home.name: peak_of_one(bench.audit(home)) for home in homes}
    least = min(peaks.values())
    for name, peak in peaks.items():
        met = peak <= 1.25 * least
        shown = f"{peak / 1e6:.0f} MB"
        bench.add(
            Row("audit, driver's memory", name, shown, "", f"{peak / least:.2f} ×", "≤ 1.25 ×", met)
        )


STEPS = """\
import json, sys, time
from contextlib import contextmanager
from pathlib import Path
from je_tools.commands.main import group, run
took = {}
@contextmanager
def step(name):
    start = time.perf_counter()
    yield None
    took[name] = time.perf_counter() - start
from je_tools.commands import audit_run
audit_run.shown_step, audit_run.is_terminal = step, lambda _: True
root, output, master = sys.argv[1:]
words = ["audit", "run", root, "-o", output, "--master", master, "--fail-on", "never"]
run(group, [*words, "--format", "json"])
print()
print(json.dumps(took))
"""
"""Program that measures the steps of an audit."""


def steps_of(bench: AuditBench, home: Path, master: str) -> dict[str, float]:
    """Return the seconds of each step of an audit."""
    output = bench.work / "steps"
    argv = [sys.executable, "-c", STEPS, str(home), str(output), master]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    shutil.rmtree(output)
    steps: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return steps


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small logs, prints only")
    parser.add_argument("--logs", type=Path, default=logs.default_folder(), metavar="DIR")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where audits are written")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of each command")
    chosen = parser.parse_args()
    kinds = [logs.MB_64, logs.GB_1] if chosen.quick else [logs.MB_64, logs.GB_1, logs.GB_4]
    cores = os.cpu_count() or 1
    output = chosen.output or FIXTURES.parent / "build"
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output) as work:
        bench = AuditBench(find_java(), engine_jar(JE_18), Path(work), chosen.runs, [])
        homes = [logs.ensure(kind, chosen.logs, bench.java, bench.jar) for kind in kinds]
        for home in homes:
            warm(home)
        print(Row.head(), flush=True)
        (small,) = time_in_turns([bench.audit(FIXTURES / "v17-basic" / "env")], bench.runs)
        measure_fixed_cost(bench, FIXTURES / "v17-basic" / "env")
        measure_start(bench, homes[0])
        measure_cold(bench, homes[0])
        measure_fleet(bench, 50 if chosen.quick else 500)
        measure_large(bench, homes[-1], small.median)
        measure_cores(
            bench, [homes[0], homes[-1]], sorted({1, 2, cores} & set(range(1, cores + 1)))
        )
        measure_memory(bench, homes)
    if not chosen.quick:
        page = report.audit_text(bench.rows, bench.runs, bench.java)
        report.write(Path(__file__).with_name("AUDIT.md"), page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
