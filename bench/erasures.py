"""Measure the claims about `erase`, and write bench/ERASURES.md.

    python -m bench.erasures [--quick] [--logs DIR] [--runs N] [--je-tools PATH]

As in `bench.run`: whole processes with a warm page cache, in turns, the median of the runs. There
is no engine's side: its eraser is a thread of a running environment, which waits most of the time.
Each run of `erase run` gets its own copy of the log, already on the disk. Its rate per core comes
from CPU seconds: the rest of the time it waits for the disk.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from bench import logs, report
from bench.measure import Command, Times, cpu_seconds, time_in_turns
from bench.report import Row
from bench.run import Bench, for_each_log, run_bench

RATE_MIN = 300e6
"""Bytes per CPU second that `erase run` must examine."""

BATCH_MAX = 5120
"""Largest number of entries that the engine's eraser overwrites between two fsyncs."""
ERASE_MEMORY = 1e9


def measure(bench: Bench, log: str) -> None:
    """Measure all claims on a log."""
    home = bench.folder / log
    planned = Command([bench.je_tools, "erase", "plan", str(home)])
    recounted = Command([bench.je_tools, "space", "--recount", str(home)])
    time_in_turns([planned], 1)
    mine, theirs = time_in_turns([planned, recounted], bench.runs)
    ratio = mine.median / theirs.median
    shown = (report.seconds(mine), report.seconds(theirs), f"{ratio:.2f} ×")
    bench.add(Row("erase plan, beside space --recount", log, *shown, "≤ 2 ×", ratio <= 2))
    _measure_run(bench, log)
    bench.memory("erase plan", log, planned, ERASE_MEMORY)


def _measure_run(bench: Bench, log: str) -> None:
    """Measure a run that erases, and one on the log that it leaves."""
    home, copy = bench.folder / log, bench.output / f"erased-{log}"
    out = bench.output / "erased.jsonl"
    words = ["erase", "run", str(copy), "--apply", "--threads", "1", "--format", "jsonl"]
    argv = [bench.je_tools, *words]
    first, second = Times(), Times()
    for _ in range(bench.runs):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(home, copy, ignore=shutil.ignore_patterns("je.lck"))
        os.sync()
        for times in (first, second):
            (found,) = time_in_turns([Command(argv, output=out)], 1)
            times.seconds += found.seconds
            times.failure = times.failure or found.failure
            if times is first:
                _check_fsyncs(bench, log, out)
    size = bench.bytes_of[log]
    for what, times in (("erase run", first), ("erase run, nothing to erase", second)):
        rate = size / times.median
        shown = (report.seconds(times), "", f"{rate / 1e6:.0f} MB/s")
        bench.add(Row(what, log, *shown, "≥ 300 MB/s", rate >= RATE_MIN))
    seconds = cpu_seconds(Command(argv, writes=copy, copies=home), bench.runs, (0,))
    rate = size / seconds
    shown = (f"{seconds:.2f} CPU s", "", f"{rate / 1e6:.0f} MB/s")
    bench.add(Row("erase run, per core", log, *shown, "≥ 300 MB/s", rate >= RATE_MIN))


def _check_fsyncs(bench: Bench, log: str, out: Path) -> None:
    """Compare the number of fsyncs with the engine's formula, once."""
    if any(row.what == "erase run, fsyncs" for row in bench.rows):
        return
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    counts = [row["erase_count"] for row in rows if row["section"] == "files"]
    (done,) = (row["fsync_count"] for row in rows if row["section"] == "done")
    formula = sum(1 + 2 * -(-count // BATCH_MAX) for count in counts if count)
    shown = (f"{done:,}", f"{formula:,}", "")
    bench.add(Row("erase run, fsyncs", log, *shown, "as the engine", done == formula))


def main() -> int:
    kinds = {True: [logs.MB_64], False: [logs.GB_1]}
    return run_bench("ERASURES.md", kinds, for_each_log(measure))


if __name__ == "__main__":
    sys.exit(main())
