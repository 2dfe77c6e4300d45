"""Measure the claims about `vlsn`, and write bench/STREAMS.md.

    python -m bench.streams [--quick] [--logs DIR] [--runs N] [--je-tools PATH]

As in `bench.run`: whole processes with a warm page cache, the two sides in turns, the median of the
runs. The second node of a comparison is a copy of the first that lacks the end of its log; the
engine's side of it prints both nodes.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from bench import logs, report
from bench.measure import Command, time_in_turns
from bench.report import Row
from bench.run import Bench, for_each_log, run_bench

VERIFIER = "com.sleepycat.je.rep.utilint.DbStreamVerify"
CUT_BYTES = 100_000
STREAM_MEMORY = 1e9
MADE_BY = "MakeReplicated.java"
GB_1 = logs.LogKind("replicated-1g", 1024, maker=MADE_BY)
GB_4 = logs.LogKind("replicated-4g", 4096, maker=MADE_BY)
MB_64 = logs.LogKind("replicated-64m", 64, maker=MADE_BY)


def measure(bench: Bench, log: str) -> None:
    """Measure all claims on a log."""
    home = bench.folder / log
    late = _copy_without_end(home, bench.output / f"late-{log}")
    printed = bench.engine(home, "DbPrintLog", "-vd")
    bench.beside("vlsn show", log, 10, _ours(bench, "show", home), printed)
    report_made = _ours(bench, "show", home, "--format", "json")
    bench.beside("vlsn show --format json", log, 10, report_made, printed)
    words = (shlex.join(each.argv) for each in (printed, bench.engine(late, "DbPrintLog", "-vd")))
    both = Command(["sh", "-c", " && ".join(words)])
    compared = _ours(bench, "compare", home, str(late), "--exit-zero")
    bench.beside("vlsn compare", log, 10, compared, both)
    java = [str(bench.java), "-cp", str(bench.jar), VERIFIER]
    verified = Command([*java, "-h", str(home), "-verifyStream"])
    checked = _ours(bench, "check", home)
    bench.beside("vlsn check", log, 3, checked, verified)
    bench.add(_beside_summary(bench, log))
    listed = _ours(bench, "show", home, "--stream", "--format", "csv")
    for what, command in (("vlsn check", checked), ("vlsn show --stream", listed)):
        bench.memory(what, log, command, STREAM_MEMORY)


def _beside_summary(bench: Bench, log: str) -> Row:
    """Measure the dry run of `vlsn rebuild` beside `summary`."""
    home = bench.folder / log
    summary = Command([bench.je_tools, "summary", str(home)])
    mine, theirs = time_in_turns([_ours(bench, "rebuild", home), summary], bench.runs)
    ratio = theirs.median / mine.median
    shown = (report.seconds(mine), f"{report.seconds(theirs)} (summary)", f"{ratio:.2f} ×")
    return Row("vlsn rebuild, dry run", log, *shown, "≥ 0.9 ×", ratio >= 0.9)


def _ours(bench: Bench, verb: str, home: Path, *options: str) -> Command:
    return Command([bench.je_tools, "vlsn", verb, str(home), *options])


def _copy_without_end(home: Path, target: Path) -> Path:
    """Return a copy whose last file lacks its end; the other files are links."""
    target.mkdir()
    *earlier, last = sorted(home.glob("*.jdb"))
    for path in earlier:
        (target / path.name).symlink_to(path.resolve())
    (target / last.name).write_bytes(last.read_bytes()[: -min(CUT_BYTES, last.stat().st_size // 2)])
    return target


def main() -> int:
    kinds = {True: [MB_64], False: [GB_1, GB_4]}
    return run_bench("STREAMS.md", kinds, for_each_log(measure))


if __name__ == "__main__":
    sys.exit(main())
