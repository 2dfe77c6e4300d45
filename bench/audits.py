"""Measures `je-tools audit` beside a shell loop of the engine's tools, and writes bench/AUDIT.md.

    python -m bench.audits [--quick] [--logs DIR] [--output DIR]

The fleet is 500 environments, links to those of fixtures/ over and over. The loop runs over every
tenth of them, like a cron job: DbVerifyLog, then DbPrintLog -S, one environment after the other;
its time is scaled. --quick uses 50 environments and small logs, and only prints.
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
from bench.measure import Command, Times, peak_of_one, time_in_turns, warm
from bench.report import Row
from tests.corpus import FIXTURES, environments_in
from tests.engine.jars import JE_18, engine_jar
from tests.engine.java import find_java

SAMPLED = 10
"""The loop runs over every n-th environment."""

RUNS = 3
"""Number of runs of each measurement."""

ENGINE_TOOLS = "com.sleepycat.je.util."


@dataclass
class AuditBench:
    """Parameters of all measurements, and their rows."""

    java: Path
    jar: Path
    work: Path
    rows: list[Row]

    def audit(self, roots: Path, *options: str) -> Command:
        """Return the command of an audit as a user runs it."""
        beside = Path(sys.executable).with_name("je-tools")
        out = self.work / "audit"
        fixed = ["--output", str(out), "--fail-on", "never"]
        return Command([str(beside), "audit", "run", str(roots), *fixed, *options], writes=out)

    def add(self, row: Row) -> None:
        """Add a row, and print it while the bench continues."""
        self.rows.append(row)
        print(row.line(), flush=True)


def make_fleet(folder: Path, count: int) -> list[Path]:
    """Make `count` environments, whose files are links to those of fixtures/."""
    known = environments_in(FIXTURES)
    homes = []
    for number in range(count):
        home = folder / f"env{number:04}"
        home.mkdir(parents=True)
        for file in known[number % len(known)].home.glob("*.jdb"):
            os.link(file, home / file.name)
        homes.append(home)
    return homes


def measure_fleet(bench: AuditBench, count: int) -> None:
    """Measure the audit of many small environments, and the loop."""
    fleet = bench.work / "fleet"
    homes = make_fleet(fleet, count)
    (ours,) = time_in_turns([bench.audit(fleet)], RUNS)
    sampled = homes[::SAMPLED]
    start = time.perf_counter()
    for home in sampled:
        for tool in (["DbVerifyLog"], ["DbPrintLog", "-S"]):
            argv = [str(bench.java), "-cp", str(bench.jar), ENGINE_TOOLS + tool[0], *tool[1:]]
            subprocess.run([*argv, "-h", str(home)], capture_output=True, check=False)
    loop = (time.perf_counter() - start) * count / len(sampled)
    ratio = loop / ours.median
    told = f"{loop:.0f} s (of {len(sampled)}, scaled)"
    name = f"{count} environments"
    bench.add(
        Row("audit", name, report.seconds(ours), told, f"{ratio:.1f} ×", "≥ 10 ×", ratio >= 10)
    )


def measure_large(bench: AuditBench, home: Path) -> None:
    """Measure the audit of one large log, and our own scan of it."""
    verify = Command([bench.audit(home).argv[0], "verify", str(home)])
    ours, scan = time_in_turns([bench.audit(home), verify], RUNS)
    allowed = 1.5 * scan.median + 20
    target = f"≤ {allowed:.1f} s (1.5 × + 20 s)"
    met = ours.median <= allowed
    verdict = f"{ours.median - scan.median:+.1f} s"
    seconds = [report.seconds(times) for times in (ours, scan)]
    bench.add(Row("audit, beside verify", home.name, *seconds, verdict, target, met))


def measure_cores(bench: AuditBench, homes: Sequence[Path], cores: Sequence[int]) -> None:
    """Measure the executors' reading by number of cores, on a small log and on a large one.

    The small one shows the cost before anything is read: workers, and cold code.
    """
    runs = [(count, home) for count in cores for home in homes]
    taken: dict[tuple[int, Path], list[float]] = {run: [] for run in runs}
    for count, home in RUNS * runs:
        steps = steps_of(bench, home, f"local[{count},4]")
        taken[count, home].append(steps["reading logs"])
    slopes = {}
    for count in cores:
        what = f"audit, reading logs, {count} cores"
        both = [Times(taken[count, home]) for home in homes]
        for home, times in zip(homes, both, strict=True):
            bench.add(Row(what, home.name, report.seconds(times), "", "", "", met=True))
        slopes[count] = both[-1].median - both[0].median
        ratio = slopes[cores[0]] / slopes[count]
        wanted = 0.75 * count / cores[0]
        slope = " to ".join(home.name for home in homes)
        told = f"{slopes[count]:.2f} s"
        target = f"≥ {wanted:.2g} ×"
        bench.add(Row(what, slope, told, "", f"{ratio:.2f} ×", target, ratio >= wanted))


def measure_start(bench: AuditBench, home: Path) -> None:
    """Measure the steps of a small audit."""
    for name, seconds in steps_of(bench, home, "local[*,4]").items():
        bench.add(Row(f"audit, {name}", home.name, f"{seconds:.2f} s", "", "", "", met=True))


def measure_memory(bench: AuditBench, homes: Sequence[Path]) -> None:
    """Measure peak anonymous memory of the driver's Python process at several sizes."""
    peaks = {}
    for home in homes:
        peaks[home.name] = peak_of_one(bench.audit(home))
    least = min(peaks.values())
    for name, peak in peaks.items():
        met = peak <= 1.25 * least
        told = f"{peak / 1e6:.0f} MB"
        bench.add(
            Row("audit, driver's memory", name, told, "", f"{peak / least:.2f} ×", "≤ 1.25 ×", met)
        )


STEPS = """\
import json, sys, time
from contextlib import contextmanager
from pathlib import Path
from je_tools.audit.run import Job, run_audit
took = {}
@contextmanager
def step(name):
    start = time.perf_counter()
    yield None
    took[name] = time.perf_counter() - start
root, output, master = sys.argv[1:]
run_audit(Job((Path(root),), Path(output), master), lambda folder, ran: None, step)
print(json.dumps(took))
"""


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
    chosen = parser.parse_args()
    kinds = [logs.MB_1, logs.MB_64] if chosen.quick else [logs.MB_64, logs.GB_1, logs.GB_4]
    cores = os.cpu_count() or 1
    # Hard links to fixtures/ need its file system.
    output = chosen.output or FIXTURES.parent / "build"
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output) as work:
        bench = AuditBench(find_java(), engine_jar(JE_18), Path(work), [])
        homes = [logs.ensure(kind, chosen.logs, bench.java, bench.jar) for kind in kinds]
        for home in homes:
            warm(home)
        print(Row.head(), flush=True)
        time_in_turns([bench.audit(homes[0])], 1)
        measure_start(bench, homes[0])
        measure_fleet(bench, 50 if chosen.quick else 500)
        measure_large(bench, homes[-1])
        measure_cores(
            bench, [homes[0], homes[-1]], sorted({1, 2, cores} & set(range(1, cores + 1)))
        )
        measure_memory(bench, homes)
    if not chosen.quick:
        page = report.audit_text(bench.rows, bench.java)
        report.write(Path(__file__).with_name("AUDIT.md"), page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
