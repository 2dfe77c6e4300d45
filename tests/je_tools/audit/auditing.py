"""Audits in this process without Spark, and the rows that other commands print for a log.

Spark's work between the two steps (grouping pieces by environment) is a dictionary here. Pieces
travel as they do in Spark, pickled, and arrive in any order.
"""

from __future__ import annotations

import pickle
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from je_tools.audit.attempts import leave_what_counts
from je_tools.audit.discover import Fleet, find_fleet
from je_tools.audit.judging import Weigh, judge_all
from je_tools.audit.plan import plan_tasks
from je_tools.audit.tables import STAKE_TABLES, TABLES
from je_tools.audit.work import scan_task
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.summary.run import SummaryOptions, summarize
from tests.damage.running import je_tools

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


def audit_here(
    roots: Sequence[Path], folder: Path, cores: int = 2, weigh: Weigh | None = None
) -> Tables:
    """Return the tables that executors write for environments below the roots, and staged rows."""
    return audit_fleet(find_fleet(roots), folder, cores, weigh)


def audit_fleet(fleet: Fleet, folder: Path, cores: int = 2, weigh: Weigh | None = None) -> Tables:
    folder.mkdir(exist_ok=True)
    grouped: dict[int, list[Any]] = defaultdict(list)
    for task in plan_tasks(fleet, cores):
        for number, scanned in scan_task(pickle.loads(pickle.dumps(task)), folder):
            grouped[number].append(pickle.loads(pickle.dumps(scanned)))
    for values in grouped.values():
        random.Random(1).shuffle(values)
    (written,) = judge_all(grouped.items(), fleet.names, folder, weigh=weigh)
    names = [table.name for table in (*TABLES, *STAKE_TABLES)]
    tables = {
        name: pq.read_table(written[name]).to_pylist() if name in written else []
        for name in (*names, "taken", "facts", "members")
    }
    tables["segments"] = counted_segments(folder, tables["taken"])
    return tables


def counted_segments(folder: Path, taken: list[Row]) -> list[Row]:
    """Return the staged segments of the pieces that count: whole transactions and parts."""
    places = [tuple(row.values())[:3] for row in taken]
    assert len(places) == len(set(places))
    whole_paths = leave_what_counts(folder) if taken else []
    parts = [
        {**row, "is_ended": row["end_type"] != 0}
        for path in sorted((folder / "segments").glob("*.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]
    whole = [
        {**row, "is_ended": True, "cut": None}
        for path in whole_paths
        for row in pq.read_table(path).to_pylist()
    ]
    return parts + whole


def of_env(rows: Iterable[Row], env: str) -> list[Row]:
    """Return the rows of one environment, without its name."""
    mine = [row for row in rows if row["env"] == env]
    return [{name: value for name, value in row.items() if name != "env"} for row in mine]


def findings_said(*paths: Path) -> list[Row]:
    """Return the findings of `verify`, as rows of the table."""
    rows = je_tools("verify", *paths, "--format", "jsonl").rows
    found = [{**row, **_lsns(row, "lsn", "resume_lsn")} for row in rows]
    return [{name: value for name, value in row.items() if name != "env"} for row in found]


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
    return sorted(rows, key=lambda row: (row["begin_lsn"], row["txn_id"], row["entry_count"]))


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
