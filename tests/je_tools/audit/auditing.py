"""Audits in this process without Spark, and the rows that other commands print for a log."""

from __future__ import annotations

import os
import pickle
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
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
from tests.budget import children
from tests.damage.running import je_tools

T = TypeVar("T")
R = TypeVar("R")
Row = dict[str, Any]


class Tables(Mapping[str, list[Row]]):
    """Tables of an audit: rows are made only of tables that a test reads; all are compared.

    Attributes:
        arrow: the same tables in columns.
    """

    def __init__(self, arrow: dict[str, pa.Table]) -> None:
        self.arrow = arrow
        self._rows: dict[str, list[Row]] = {}

    def __getitem__(self, name: str) -> list[Row]:
        if name not in self._rows:
            self._rows[name] = self.arrow[name].to_pylist()
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrow)

    def __len__(self) -> int:
        return len(self.arrow)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tables) and self.arrow == other.arrow

    def __repr__(self) -> str:
        return repr(dict(self))


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
    """Cut environments, and files that are larger, into slices of about this size."""
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
    """Return the tables of finished files; rows of one environment keep their order."""
    tables = {}
    for table_name, schema in SCHEMAS.items():
        # No threads: starting these takes longer than reading a small file.
        parts = [
            pq.ParquetFile(path).read(use_threads=False)
            for name, path in written
            if name == table_name
        ]
        # Strictly: readers that promote no types accept all parts of a table together.
        read = pa.concat_tables([schema.empty_table(), *parts])
        keys = ["env"] if "env" in read.column_names else []
        # These come from several tasks.
        more = _PLACE if table_name == TXNS.name else ()
        tables[table_name] = _in_order(read, [*keys, *more])
    return Tables(tables)


_PLACE = ("begin_lsn", "txn_id", "entry_count")


def _place(txn: Row) -> tuple[int, ...]:
    return tuple(txn[name] for name in _PLACE)


def _in_order(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return a table sorted by some columns; rows that are equal in them keep their order."""
    if keys and len(table) > 1:
        table = table.take(pc.sort_indices(table, [(name, "ascending") for name in keys]))
    return table.combine_chunks()


def tables_in(output: Path) -> Tables:
    """Return the tables of the last run in a folder of audits."""
    run = complete_runs(output)[-1]
    return read_tables(
        [(table.name, str(path)) for table in TABLES for path in run.parts(table.name)]
    )


def without_sources(tables: Tables) -> Tables:
    """Return tables without the column that says where results come from, in a fixed order."""
    return Tables({name: _without_source(table) for name, table in tables.arrow.items()})


def _without_source(table: pa.Table) -> pa.Table:
    kept = table.select([name for name in table.column_names if name != "source"])
    return _in_order(kept, [each.name for each in kept.schema if not pa.types.is_nested(each.type)])


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
    found, waiting = [], [pid]
    while waiting:
        for child in children(waiting.pop()):
            waiting.append(child)
            with suppress(OSError):
                if text.encode() in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(child)
    return found
