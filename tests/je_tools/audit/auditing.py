"""Audits in this process without Spark, and the rows that other commands print for a log."""

from __future__ import annotations

import os
import pickle
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import Struct

from je_tools.audit.discover import Fleet, find_fleet
from je_tools.audit.fleet import FleetSummary, RunInfo, read_summary
from je_tools.audit.judged_log import FindStakes
from je_tools.audit.known_files import KnownFiles
from je_tools.audit.output_folder import RunFolder, complete_runs
from je_tools.audit.report import METRICS_NAME, PAGE_NAME, SUMMARY_NAME
from je_tools.audit.run import EngineInfo
from je_tools.audit.staged_members import SCHEMAS
from je_tools.audit.stages import run_stages
from je_tools.audit.tables import TABLES, TXNS
from je_tools.audit.task_data import Written
from je_tools.audit.tasks import AuditTasks
from je_tools.core import shares
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.summary.run import SummaryOptions, summarize
from tests.damage.running import je_tools

T = TypeVar("T")
R = TypeVar("R")
Row = dict[str, Any]
Tables = dict[str, list[Row]]

HOSTILE = [
    b"line\nbreak\r",
    b"not utf-8 \xff\x80",
    b"'quotes\" `and` $(others)",
    b"=HYPERLINK(1)",
    b"<script>alert(1)</script>",
    b"a,b;c\tE=1",
    "\u202egnp.exe\u2028".encode(),
    b"n" * 255,
    b"-rf *",
    b" ",
]
"""Hostile directory names, as bytes."""

ALL = 10**9
"""More transactions than any log of the tests has."""


WHOLE = shares.TASK_SIZES
"""Sizes of tasks with which no environment of the tests is cut."""


class OneProcess(Struct, frozen=True):
    """An engine in this process: all travels pickled, and results come in another order."""

    cores: int = 2

    def run(self, work: Callable[[T], R], tasks: Sequence[T]) -> Iterable[R]:
        shuffled = random.Random(1).sample(tasks, len(tasks))
        return [_sent(_sent(work)(_sent(task))) for task in shuffled]


def _sent(what: T) -> T:
    copy: T = pickle.loads(pickle.dumps(what))
    return copy


def cut(monkeypatch: pytest.MonkeyPatch, size: int | tuple[int, int]) -> None:
    """Cut environments into slices of about this size, and files that are larger."""
    monkeypatch.setattr(shares, "TASK_SIZES", size if isinstance(size, tuple) else (size, size))


def audit_here(
    roots: Sequence[Path], folder: Path, stakes_of: FindStakes | None = None, **known: bool
) -> Tables:
    """Return the tables of environments below the roots; see `audit_fleet`."""
    return audit_fleet(find_fleet(roots), folder, stakes_of, **known)


def audit_fleet(
    fleet: Fleet, folder: Path, stakes_of: FindStakes | None = None, **known: bool
) -> Tables:
    """Return the tables of a fleet; `folder` holds what is known from one audit to the next.

    Args:
        fleet: what is audited.
        folder: folder for all files.
        stakes_of: finds the stakes of environments; None to leave them out.
        known: attributes of `KnownFiles`.
    """
    staging = folder / f"staging-{len(list(folder.glob('*')))}"
    for each in (staging, folder / "known"):
        each.mkdir(parents=True, exist_ok=True)
    return read_tables(
        written_for(fleet, staging, KnownFiles(folder / "known", **known), stakes_of)
    )


def written_for(
    fleet: Fleet, staging: Path, known: KnownFiles, stakes_of: FindStakes | None
) -> Written:
    """Return the files that the stages of an audit write."""
    return run_stages(OneProcess(), fleet, AuditTasks(staging, known, stakes_of))


def read_tables(written: Written) -> Tables:
    """Return the rows of finished files, by table: those of one environment as they were judged."""
    tables = {}
    for table_name, schema in SCHEMAS.items():
        parts = [pq.ParquetFile(path).read() for name, path in written if name == table_name]
        # Strictly: readers that promote no types accept all parts of a table together.
        read = pa.concat_tables([schema.empty_table(), *parts])
        tables[table_name] = sorted(read.to_pylist(), key=lambda row: str(row.get("env")))
    # These come from several tasks.
    tables[TXNS.name].sort(key=lambda row: (row["env"], *_place(row)))
    return tables


def _place(txn: Row) -> tuple[int, ...]:
    return (txn["begin_lsn"], txn["txn_id"], txn["entry_count"])


def tables_in(output: Path) -> Tables:
    """Return the tables of the last run in a folder of audits."""
    run = complete_runs(output)[-1]
    return read_tables(
        [(table.name, str(path)) for table in TABLES for path in run.parts(table.name)]
    )


def without_sources(tables: Tables) -> Tables:
    """Return tables without the column that says where results come from, in a fixed order."""
    return {
        name: sorted(
            ({key: value for key, value in row.items() if key != "source"} for row in rows),
            key=lambda row: str(tuple(row.values())),
        )
        for name, rows in tables.items()
    }


def sources(tables: Tables) -> list[str | None]:
    """Return where the results of each file come from."""
    return [row["source"] for row in tables["files"]]


def summarized(run: RunFolder, ran: EngineInfo, folder: Path) -> FleetSummary:
    """Finish a run with empty reports."""
    for name in (SUMMARY_NAME, PAGE_NAME, METRICS_NAME):
        (folder / name).touch()
    about = RunInfo(run.run, (), 1, 2, "0", ran.engine, ran.spark_version, ran.master, "out")
    return read_summary(run, about)


def age(folder: Path, seconds: float = 60) -> None:
    """Set recent times of change below a folder back: what has just changed is never known."""
    now = time.time()
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink() and now - path.stat().st_mtime < RECENT_SECONDS:
            os.utime(path, (now - seconds, now - seconds))


RECENT_SECONDS = 30


def of_env(rows: Iterable[Row], env: str) -> list[Row]:
    """Return the rows of one environment, without its name."""
    mine = [row for row in rows if row["env"] == env]
    return [{name: value for name, value in row.items() if name != "env"} for row in mine]


STORE_COLUMNS = ("node", "file", "segment", "page")
"""Columns of findings that only those on stores of Ignite have."""


def findings_said(*paths: Path) -> list[Row]:
    """Return the findings of `verify`, as rows of the table."""
    rows = je_tools("verify", *paths, "--format", "jsonl").rows
    found = [{**row, **_lsns(row, "lsn", "resume_lsn")} for row in rows]
    of_stores = dict.fromkeys(STORE_COLUMNS)
    return [
        {name: value for name, value in row.items() if name != "env"} | of_stores for row in found
    ]


def files_said(*paths: Path) -> list[Row]:
    """Return the rows of `files`."""
    said = je_tools("files", *paths, "--format", "jsonl").rows
    rows = [row for row in said if row.get("section") != "findings"]
    return [{**row, **_lsns(row, "first_lsn", "last_lsn")} for row in rows]


def summary_said(*paths: Path) -> dict[str, list[Row]]:
    """Return the rows of `summary`, by section."""
    wanted = ("--by-file", "--vlsn", "--checkpoints", "--txns", "--format", "jsonl")
    sections: dict[str, list[Row]] = defaultdict(list)
    for row in je_tools("summary", *paths, *wanted).rows:
        sections[row.pop("section")].append(row)
    for row in sections["checkpoint"]:
        row.update(_lsns(row, "start_lsn", "end_lsn"))
        row["complete"] = row["complete"] == "yes"
        row["ln_count"] = sum(row[name] for name in ("ln_txn", "ln", "map_ln_txn", "map_ln"))
    return sections


def txns_said(*paths: Path) -> list[Row]:
    """Return every transaction that `Transactions` joins, as rows of the table, in log order."""
    opened = open_environment(paths)
    summary = summarize(opened, Scanner(threads=1, wide=True), SummaryOptions(largest=ALL))
    assert summary.transactions is not None
    rows = [
        {
            "txn_id": each.txn_id,
            "begin_lsn": signed(each.first_lsn),
            "end_lsn": signed(each.last_lsn),
            "outcome": each.outcome.value,
            "entry_count": each.entries,
            "size": each.size,
            "databases": sorted(each.databases),
            "end_ms": each.end_ms,
        }
        for each in summary.transactions.largest()
    ]
    return sorted(rows, key=_place)


def _lsns(row: Row, *names: str) -> Row:
    return {name: lsn_said(row[name]) for name in names}


def lsn_said(text: str | None) -> int | None:
    """Return the LSN in a text as the tables hold it."""
    if text is None:
        return None
    file_no, offset = (int(part, 16) for part in text.split("/"))
    return signed(file_no << 32 | offset)


def signed(lsn: int) -> int:
    """Return an LSN as a signed 64-bit integer."""
    return lsn - (1 << 64) if lsn >= 1 << 63 else lsn


def below(pid: int, text: str) -> list[int]:
    """Return the descendants of a process whose command line contains the text."""
    parents: dict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(fields[1])].append(int(folder.name))
    found, waiting = [], [pid]
    while waiting:
        for child in parents[waiting.pop()]:
            waiting.append(child)
            try:
                line = Path(f"/proc/{child}/cmdline").read_bytes()
            except OSError:
                continue
            if text.encode() in line:
                found.append(child)
    return found
