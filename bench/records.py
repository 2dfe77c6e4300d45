"""Measure the claims about commands on records, and write bench/RECORDS.md.

    python -m bench.records [--quick] [--logs DIR] [--runs N] [--je-tools PATH]

As in `bench.run`: whole processes with a warm page cache, the two sides in turns, the median of the
runs. The engine opens logs read-only, so that they do not change.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from bench import logs
from bench.measure import Command, peak_anonymous_bytes
from bench.report import Row
from bench.run import Bench, run_bench
from tests.engine.recovered import compile_java

PEER = Path(__file__).parent / "make" / "Peer.java"
BYTES_PER_LN = 150
EXPORT_MEMORY = 500e6
WRITTEN = 1.1


def measure(bench: Bench, _chosen: argparse.Namespace) -> None:
    """Measure all claims on records."""
    full, crashed = logs.RECORDS_2M.name, logs.CRASHED_1M.name
    home, out = bench.folder / full, bench.output
    db = ("--db", "records")
    dump = bench.engine(home, "DbDump", "-s", "records", "-f", str(out / "engine.dump"))
    text = out / "ours.dump"
    bench.beside("export dump", full, 12, bench.ours(home, "export", *db, writes=text), dump)
    table = bench.ours(home, "export", *db, "--format", "parquet", writes=out / "ours.parquet")
    bench.beside("export parquet", full, 15, table, dump)
    (out / "salvage").mkdir()
    salvage = bench.engine(home, "DbDump", "-r", "-d", str(out / "salvage"))
    ours = bench.ours(home, "salvage", writes=out / "ours.salvage")
    bench.beside("salvage", full, 8, ours, salvage)
    verify = bench.ours(home, "verify", "--tree")
    bench.beside("verify --tree", full, 4, verify, bench.engine(home, "DbVerify"))
    space = bench.ours(home, "space", "--recount")
    bench.beside("space --recount", full, 5, space, bench.engine(home, "DbSpace", "-r"))
    count = _peer(bench, home, "records")
    bench.beside("count", full, 8, bench.ours(home, "count", *db), count)
    torn = bench.folder / crashed
    bench.beside("recover", crashed, 7, bench.ours(torn, "recover"), _peer(bench, torn))
    _measure_writing(bench, torn)
    bench.memory("export dump", full, bench.ours(home, "export", *db, writes=text), EXPORT_MEMORY)
    bench.memory("export parquet", full, table, EXPORT_MEMORY)
    _memory_of_recovery(bench, torn)
    _memory_of_writing(bench, torn)


def _measure_writing(bench: Bench, crashed: Path) -> None:
    """Compare recovery that is written with the engine opening and closing the same log."""
    mine, theirs = bench.output / "written", bench.output / "opened"
    ours = Command([bench.je_tools, "recover", str(mine), "--apply"], writes=mine, copies=crashed)
    engine = replace(_peer(bench, theirs, "--close"), writes=theirs, copies=crashed)
    bench.beside("recover --apply", crashed.name, 4, ours, engine)
    before = _log_size(crashed)
    sizes = [_log_size(home) - before for home in (mine, theirs)]
    share = sizes[0] / sizes[1]
    shown = (*(f"{size:,} bytes" for size in sizes), f"{share:.2f} ×")
    what = "recover --apply, what is written"
    bench.add(Row(what, crashed.name, *shown, f"≤ {WRITTEN:g} ×", share <= WRITTEN))


def _log_size(home: Path) -> int:
    return sum(path.stat().st_size for path in home.glob("*.jdb"))


def _peer(bench: Bench, home: Path, *arguments: str) -> Command:
    """Return a command for the engine, compiled before so that its time excludes the compiler."""
    path = compile_java(bench.java, bench.jar, [PEER])
    return Command([str(bench.java), "-cp", path, "Peer", str(home), *arguments])


def _memory_of_recovery(bench: Bench, home: Path) -> None:
    """Measure bytes for each LN of the interval, above those of a command on a small log."""
    small = bench.folder / logs.MB_64.name
    code, idle = peak_anonymous_bytes(bench.ours(small, "recover"))
    other, peak = peak_anonymous_bytes(bench.ours(home, "recover"))
    each = (peak - idle) / logs.CRASHED_1M.writes
    shown = f"{each:.0f} bytes an LN" if not code and not other else "failed"
    is_met = not code and not other and each <= BYTES_PER_LN
    target = f"≤ {BYTES_PER_LN} bytes an LN"
    bench.add(Row("recover, peak memory", home.name, shown, "", "", target, is_met))


def _memory_of_writing(bench: Bench, home: Path) -> None:
    """Measure memory like `_memory_of_recovery`; the limit includes the bytes written."""
    small, mine = bench.folder / logs.MB_64.name, bench.output / "written"
    code, idle = peak_anonymous_bytes(bench.ours(small, "recover"))
    argv = [bench.je_tools, "recover", str(mine), "--apply"]
    other, peak = peak_anonymous_bytes(Command(argv, writes=mine, copies=home))
    limit = BYTES_PER_LN * logs.CRASHED_1M.writes + _log_size(mine) - _log_size(home)
    is_met = not code and not other and peak - idle <= limit
    shown = f"{(peak - idle) / 1e6:.0f} MB" if not code and not other else "failed"
    target = f"≤ {limit / 1e6:.0f} MB"
    bench.add(Row("recover --apply, peak memory", home.name, shown, "", "", target, is_met))


def main() -> int:
    kinds = (logs.MB_64, logs.RECORDS_2M, logs.CRASHED_1M)
    return run_bench("RECORDS.md", dict.fromkeys((True, False), kinds), measure)


if __name__ == "__main__":
    sys.exit(main())
