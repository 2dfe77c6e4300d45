"""Rows of measurements, and the page made from them."""

from __future__ import annotations

import math
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bench.measure import Times

BEGIN = "<!-- written by hand: kept when the bench writes this page anew -->"
END = "<!-- end of what is written by hand -->"
EMPTY = "Not written yet."


@dataclass(frozen=True)
class Row:
    """One claim: the measurement and its log, both sides, the target, and if it is met."""

    what: str
    log: str
    ours: str
    engine: str
    ratio: str
    target: str
    met: bool

    def line(self) -> str:
        """Return a row of a Markdown table; without a target, `met` is empty unless it failed."""
        cells = [self.what, self.log, self.ours, self.engine, self.ratio, self.target]
        met = ("yes" if self.target else "") if self.met else "**no**"
        return f"| {' | '.join(cells)} | {met} |"

    @staticmethod
    def head() -> str:
        """Return the head of the table of `line`."""
        names = "| what | log | je-tools | engine | ratio | target | met |"
        return f"{names}\n|---|---|---|---|---|---|---|"


def seconds(times: Times) -> str:
    """Return the median with the range of the runs, or the failure."""
    if times.failure:
        return f"failed, {times.failure.replace('|', '/')}"
    low, high = min(times.seconds), max(times.seconds)
    return f"{times.median:.3f} s ({low:.3f}–{high:.3f})"


def slope(seconds_per_byte: float) -> str:
    """Format seconds per added byte in units that a reader can picture."""
    if math.isnan(seconds_per_byte):
        return "failed"
    per_gib = seconds_per_byte * (1 << 30)
    if seconds_per_byte <= 0:
        return f"{per_gib:.3f} s/GiB"
    return f"{per_gib:.3f} s/GiB, {1e-9 / seconds_per_byte:.2f} GB/s"


def memory_size(limit: float) -> str:
    """Format a limit of memory in bytes."""
    return f"{limit / 1e9:g} GB" if limit >= 1e9 else f"{limit / 1e6:g} MB"


def text(
    rows: Sequence[Row],
    bytes_of: Mapping[str, int],
    entries: Mapping[str, int],
    runs: int,
    java: Path,
) -> str:
    """Return the page, with an empty place for text written by hand."""
    sizes = [f"| {name} | {size:,} | {entries.get(name, 0):,} |" for name, size in bytes_of.items()]
    begin = [
        "# Benchmark results",
        "",
        "Written by `make bench` or a similar target. Whole processes, with a warm page "
        f"cache and bytecode compiled in advance. Times are the median of {runs} runs, "
        "followed by the range; the two sides run in turns. A ratio is the engine's time "
        "divided by ours; for the floor, for bytes written and for `erase plan`, ours "
        "divided by the other side's. Peak memory is anonymous memory, from one run.",
    ]
    made = [
        "## Logs",
        "",
        "Made with `com.sleepycat:je:18.3.12`: `records-2m` and `crashed-1m` by "
        "`bench/make/MakeRecords.java`, in files of 100 MB; `replicated-…` by "
        "`bench/make/MakeReplicated.java`; the others by "
        "`bench/make/MakeLog.java`, in files of 10 MB (`1g-onefile`: one file of 1 GiB).",
        "",
        "| log | bytes | entries |",
        "|---|---|---|",
        *sizes,
        "",
    ]
    end = [
        "For a log named `1g to 4g`, the value is the slope between the two. The floor only "
        "reads all bytes and computes their checksum in parallel (`bench/floor.py`); the fastest "
        "of its four methods counts.",
        "",
    ]
    has_slopes = any(" to " in row.log for row in rows)
    return _page(begin, made, rows, java, end if has_slopes else [])


def audit_text(rows: Sequence[Row], runs: int, java: Path) -> str:
    """Return the page of the audit's bench, with an empty place for text written by hand."""
    begin = [
        "# Benchmark results of the audit",
        "",
        "Written by `python -m bench.audits`. Whole processes, with a warm page cache and "
        f"bytecode compiled in advance. Times are the median of {_runs(runs)}, followed by the "
        "range. The engine's side is a loop of DbVerifyLog and DbPrintLog -S, or `je-tools verify` "
        "if the row says so. A ratio of memory is relative to the smallest figure.",
    ]
    return _page(begin, [], rows, java)


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def ignite_text(rows: Sequence[Row], stores: Sequence[str], runs: int, java: Path) -> str:
    """Return the page of the bench of Ignite, with an empty place for text written by hand.

    Args:
        stores: a line for each store, with its sizes.
    """
    begin = [
        "# Benchmark results of Ignite's store",
        "",
        "Written by `make bench-ignites`. Whole processes, with a warm page cache and bytecode "
        f"compiled in advance. Times are the median of {runs} runs, followed by the range; the two "
        "sides run in turns. A ratio is the other side's time divided by ours. Peak memory is "
        "anonymous memory, from one run. Rows without a target are for information.",
        "",
        "The engine's side is `org.apache.ignite:ignite-core:2.18.0`, which "
        "`bench/make/PeerIgnite.java` calls: its iterator for logs without a node, which counts "
        "records by type; the same, which prints each record in a line; and the start of a node on "
        "a copy of the store, until it is active. Making the copy is not part of the time. "
        "IgniteWalConverter, the engine's own printer of logs, is not on Maven Central: it has a "
        "row if `--converter` names a program that runs it. It also prints each record in a line. "
        "The other side of the check of pages is `cat` of all page files.",
    ]
    made = [
        "## Stores",
        "",
        "Made by a node of that version (`bench/make/MakeIgnite.java`), with segments of 32 MiB, "
        "pages of 4 KiB, and an archive of all segments.",
        "",
        *stores,
        "",
    ]
    return _page(begin, made, rows, java)


def _page(
    begin: Sequence[str],
    made: Sequence[str],
    rows: Sequence[Row],
    java: Path,
    end: Sequence[str] = (),
) -> str:
    """Return a page: its beginning, the machine, what was measured, the claims, and its end."""
    return "\n".join(
        [
            *begin,
            "",
            "## Machine",
            "",
            *machine(java),
            "",
            *made,
            "## Claims",
            "",
            Row.head(),
            *(row.line() for row in rows),
            "",
            *end,
            "## What limits each figure",
            "",
            BEGIN,
            EMPTY,
            END,
            "",
        ]
    )


def machine(java: Path) -> list[str]:
    """Return lines about the processor, the memory and the versions of the software."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    jvm = shown.stderr.splitlines()[0] if shown.stderr else "unknown Java"
    libraries = ", ".join(
        f"{name} {version(name)}" for name in ("isal", "numpy", "pyarrow", "arro3-io", "pyspark")
    )
    return [
        f"- {os.cpu_count()} cores, {model}, {memory:.0f} GB of memory, {platform.system()}",
        f"- Python {platform.python_version()}, {libraries}",
        f"- {jvm}",
    ]


def write(path: Path, page: str) -> None:
    """Write the page, and keep the text that was written by hand in its marked place."""
    if path.is_file():
        pattern = re.compile(f"{re.escape(BEGIN)}\n(.*?){re.escape(END)}", re.DOTALL)
        kept = pattern.search(path.read_text(encoding="utf-8"))
        if kept:
            page = pattern.sub(lambda _: kept[0], page)
    path.write_text(page, encoding="utf-8")


def put(path: Path, rows: Sequence[Row]) -> None:
    """Replace the rows of a page that have the same names; it must have them."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for row in rows:
        begin = f"| {row.what} | {row.log} |"
        (at,) = (i for i, line in enumerate(lines) if line.startswith(begin))
        lines[at] = row.line()
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
