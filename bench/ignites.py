"""Measure the claims about `ignite`, and write bench/IGNITE.md.

    python -m bench.ignites [--quick] [--logs DIR] [--runs N] [--je-tools PATH]
                            [--converter PROGRAM]

As in `bench.run`: whole processes with a warm page cache, the two sides in turns, the median of the
runs. A node writes stores that are missing. Nodes that are measured start on copies, and the time
to copy does not count. IgniteWalConverter is not on Maven Central: it has a row if a program is
given that runs it on a work directory and the name of a node's folder.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench import logs, report
from bench.measure import Command, time_in_turns, warm
from bench.report import Row
from bench.run import Bench, opened, options
from tests.engine.ignite import OPTIONS, ignite_class_path
from tests.engine.jars import IGNITE, engine_jar

PROGRAMS = [logs.MAKERS / f"{name}.java" for name in ("IgniteNode", "MakeIgnite", "PeerIgnite")]
NODE = "node1"


@dataclass(frozen=True)
class StoreKind:
    """A store to make: its name, and arguments of the maker after the directory."""

    name: str
    arguments: tuple[str, ...]


LOG = StoreKind("ignite-log", ("log", "230000"))
PAGES = StoreKind("ignite-pages", ("pages", "460000", "1500000"))
SMALL_LOG = StoreKind("ignite-log-small", ("log", "10000"))
SMALL_PAGES = StoreKind("ignite-pages-small", ("pages", "10000", "20000"))


@dataclass(frozen=True)
class IgniteBench:
    """The measurements of stores.

    `engine` is a JVM command with the engine's class path and options, `converter` a program that
    runs IgniteWalConverter; None if there is none.
    """

    bench: Bench
    engine: tuple[str, ...]
    converter: str | None = None

    def store(self, kind: StoreKind) -> Path:
        """Return the work directory of a kind, in the page cache; make it if it is missing."""
        maker = [*self.engine, "MakeIgnite"]
        work = logs.ensure_made(self.bench.folder.resolve() / kind.name, maker, kind.arguments)
        warm(work, "**/*")
        return work

    def peer(self, what: str, work: Path) -> list[str]:
        """Return the argv of what the engine does: `count`, `print` or `start`."""
        return [*self.engine, "PeerIgnite", what, str(work)]

    def ours(self, verb: str, work: Path, writes: Path | None = None) -> Command:
        """Return one of our commands on a store; `writes` is its output."""
        target = ["--output", str(writes)] if writes else []
        words = [*verb.split(), str(work), *target]
        return Command([self.bench.je_tools, "ignite", *words], writes=writes)

    def measure_log(self, work: Path) -> None:
        """Measure the commands on a log, beside the engine's iterator and a node."""
        bench, log, out = self.bench, work.name, self.bench.output.resolve()
        counted = Command(self.peer("count", work))
        verify, summary = (self.ours(f"wal {verb}", work) for verb in ("verify", "summary"))
        bench.beside("wal verify", log, 4, verify, counted)
        bench.beside("wal summary", log, 4, summary, counted)
        dump = self.ours("wal dump --format parquet", work, out / "records.parquet")
        printed = Command(self.peer("print", work), output=out / "engine.txt")
        bench.beside("wal dump parquet", log, 4, dump, printed)
        if self.converter:
            argv = [self.converter, str(work), NODE]
            converted = Command(argv, output=out / "converter.txt")
            bench.beside("wal dump parquet, IgniteWalConverter", log, 4, dump, converted)
        copy = out / "started"
        started = Command(self.peer("start", copy), writes=copy, copies=work)
        recover = self.ours("recover", work)
        bench.beside("recover, dry run", log, 3, recover, started)
        counts = {"wal verify": verify, "wal summary": summary, "wal dump parquet": dump}
        for what, command in {**counts, "recover, dry run": recover}.items():
            bench.memory(what, log, command)
        mine, theirs = self.record_counts(work)
        shown = (f"{mine:,}", f"{theirs:,}", "")
        bench.add(Row("wal summary, records", log, *shown, "as the engine", mine == theirs))

    def measure_pages(self, work: Path) -> None:
        """Measure the check of pages beside reading them, and the export of records."""
        bench, log = self.bench, work.name
        single = self.ours("pages verify --no-trees", work)
        read = Command(["cat", *map(str, page_files(work))])
        bench.beside("pages verify --no-trees", log, 0.5, single, read)
        table = bench.output / "rows.parquet"
        others = {
            "pages verify": self.ours("pages verify", work),
            "export parquet": self.ours("export --format parquet", work, table),
        }
        for what, command in others.items():
            time_in_turns([command], 1)
            (times,) = time_in_turns([command], bench.runs)
            shown = (report.seconds(times), "", "")
            bench.add(Row(what, log, *shown, "", not times.failure))
        for what, command in {"pages verify --no-trees": single, **others}.items():
            bench.memory(what, log, command)

    def record_counts(self, work: Path) -> tuple[int, int]:
        """Return the number of records of a log: what we count, and what the engine counts."""
        mine = sum(row["records"] for row in self.types(work))
        argv = self.peer("count", work)
        shown = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
        return mine, sum(map(int, re.findall(r"=(\d+)", shown)))

    def types(self, work: Path) -> list[dict[str, int]]:
        """Return the rows of `wal summary`, one for each type of record."""
        argv = [*self.ours("wal summary --format jsonl", work).argv]
        shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        rows = [json.loads(line) for line in shown.splitlines()]
        return [row for row in rows if row["section"] == "types"]

    def sizes(self, work: Path) -> str:
        """Return a line of the table of stores: bytes and records of the log, bytes of pages."""
        types = self.types(work)
        log, records = (sum(row[name] for row in types) for name in ("size", "records"))
        pages = sum(path.stat().st_size for path in page_files(work))
        return f"| {work.name} | {log:,} | {records:,} | {pages:,} |"


def page_files(work: Path) -> list[Path]:
    """Return the files of pages of the node; those in `cp` are markers of checkpoints."""
    found = (work / "db" / NODE).glob("*/*.bin")
    return sorted(path for path in found if path.parent.name != "cp")


def main() -> int:
    chosen = options()
    with opened(chosen, engine_jar(IGNITE)) as bench:
        class_path = ignite_class_path(bench.java, PROGRAMS)
        # The iterator makes folders where it is run.
        words = (f"-Duser.dir={bench.output.resolve()}", "-cp", class_path)
        measured = IgniteBench(bench, (str(bench.java), *OPTIONS, *words), chosen.converter)
        log, pages = (SMALL_LOG, SMALL_PAGES) if chosen.quick else (LOG, PAGES)
        works = [measured.store(log), measured.store(pages)]
        print(Row.head(), flush=True)
        measured.measure_log(works[0])
        measured.measure_pages(works[1])
        if not chosen.quick:
            head = ["| store | bytes of log | records | bytes of pages |", "|---|---|---|---|"]
            stores = [*head, *map(measured.sizes, works)]
            text = report.ignite_text(bench.rows, stores, bench.runs, bench.java)
            report.write(Path(__file__).with_name("IGNITE.md"), text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
