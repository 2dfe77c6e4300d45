"""Tables of an audit as a fleet's logs could produce them, from a seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from je_tools.audit.fleet import FleetSummary, RunInfo
from je_tools.audit.output_folder import RunFolder
from je_tools.audit.report import publish_reports, write_reports
from je_tools.audit.tables import GROUPS, NODES, SPACE, TABLES
from je_tools.findings import CODES

Row = dict[str, Any]

START_MS = 1_790_000_000_000
RUN = "20260921T141320Z"
ABOUT = RunInfo(
    run=RUN,
    roots=("fleet/backups",),
    started_ms=START_MS,
    duration_ms=61_250,
    version="0.1.0",
    engine="spark",
    spark_version="4.1.0",
    master="local[*]",
    tables="audit-of-tonight",
)

HOSTILE = (
    "<script>document.title='HIT'</script>",
    "</script><script>document.title='HIT'</script>",
    "<img src=x onerror=\"document.title='HIT'\">",
    "<!--<script>",
    "' onmouseover='document.title=1",
    '" onfocus="document.title=1" autofocus="',
    "javascript:document.title='HIT'",
    "{{ 7 * 191 }}{% raw %}",
    '=HYPERLINK("http://evil.example")',
    "@import url(http://evil.example)",
    "line\nbreak\r\ttab\x00null\x1b[31mred",
    "left \u202egnp.exe\u202c \u2066isolate\u2069 \u200bwide",
    "not utf-8 \udcff\udc80",
    "spelled \\xff\\x80",
    "\u2028\u2029 \ufeff",
    "z̷̢̛a̸l̶g̵o" * 20,
    "long " + "x" * 5_000,
    "w" * 300,
    "# HELP je_tools_audit_environments x\nje_tools_audit_environments 7",
    "שלום עולם",
    "",
)
"""Texts that names of files and databases can have."""

OLD_NAMES = ("JE 7.5", "JE 18.3", "JE 25.3")
TYPES = (("INS_LN_TX", 26), ("UPD_LN_TX", 28), ("BIN", 7), ("IN", 6), ("Commit", 9))
TYPES += (("MapLN", 3), ("FileSummaryLN", 5), ("CkptEnd", 15), ("NewBINDelta", 32), ("Trace", 13))


@dataclass
class Fleet:
    """A fleet of one run, with its rows by table."""

    directory: Path
    rows: dict[str, list[Row]] = field(default_factory=lambda: {one.name: [] for one in TABLES})

    @property
    def run(self) -> RunFolder:
        """The run."""
        return RunFolder(self.directory, RUN)

    @property
    def environments(self) -> list[Row]:
        return self.rows["environments"]


def write_fleet(
    directory: Path,
    env_count: int,
    *,
    seed: int = 1,
    files: Callable[[random.Random], int] = lambda chance: chance.randint(1, 24),
    hostile: bool = False,
    stakes: bool = False,
) -> Fleet:
    """Write the tables of `env_count` environments; with `hostile`, texts are from HOSTILE."""
    chance = random.Random(seed)
    fleet = Fleet(directory)
    for number in range(env_count):
        name = f"fleet/backups/node{number % 40 + 1}/env-{number:04d}"
        if hostile:
            name = f"fleet/{number}/{HOSTILE[number % len(HOSTILE)]}"
        _Environment(fleet, chance, name, files(chance), hostile=hostile).add()
    if stakes:
        _add_stakes(fleet, random.Random(seed))
    write_tables(fleet)
    return fleet


def report(directory: Path, about: RunInfo = ABOUT) -> FleetSummary:
    """Write the reports of a written fleet into its folder, which replace earlier ones."""
    with TemporaryDirectory(dir=directory) as folder:
        summary = write_reports(RunFolder(directory, RUN), about, Path(folder))
        publish_reports(Path(folder), directory)
    return summary


def _add_stakes(fleet: Fleet, chance: random.Random) -> None:
    """Add what is at stake to all environments, and put them into groups of three nodes."""
    fleet.rows |= {table.name: [] for table in (SPACE, NODES, GROUPS)}
    for number, row in enumerate(fleet.environments):
        is_bad = row["severity"] == "error"
        outcome = chance.choice(("refuses", "fails", "loses")) if is_bad else "opens"
        lost = chance.randint(1, 500) if outcome == "loses" else 0
        used = chance.randint(0, 100)
        row |= {
            "outcome": outcome,
            "verdict": "The engine would refuse to open it" if is_bad else "The engine opens it",
            "lost_commit_count": lost,
            "lost_key_count": 3 * lost,
            "last_commit_ms": START_MS - chance.randint(0, 10_000_000),
            "used_percent": used,
            "used_size": row["size"] * used // 100,
        }
        _add_node(fleet, chance, row, number)


def _add_node(fleet: Fleet, chance: random.Random, row: Row, number: int) -> None:
    group = {"group_name": f"group {number // 3}", "group_id": f"uuid-{number // 3:04d}"}
    row |= group
    place = number % 3
    lag = 0 if place == 0 else chance.choice((0, 0, 7, 90_000))
    fleet.rows["nodes"].append(
        {
            **group,
            "env": row["env"],
            "node": f"fe{place + 1}",
            "outcome": ("leads", "follows" if lag else "agrees", "cuts-log")[place],
            "group_lag_vlsn": lag,
            "last_vlsn": 1_000_000 - lag,
            "commit_ms": row["last_commit_ms"],
            "commit_count": 3 if place == 2 else 0,
        }
    )
    if place == 0:
        fleet.rows["groups"].append(
            {
                **group,
                "member_count": 3,
                "node_count": 3,
                "copy_count": 0,
                "missing_count": 0,
                "leader": row["env"],
                "last_vlsn": 1_000_000,
                "group_lag_vlsn": 0,
                "diverged_count": 0,
                "rollback_commit_count": 0,
                "lost_end_count": 0,
            }
        )
    known = fleet.rows["groups"][-1]
    known["group_lag_vlsn"] = max(known["group_lag_vlsn"], lag)
    known["diverged_count"] += place == 2
    known["rollback_commit_count"] += 3 * (place == 2)


def write_tables(fleet: Fleet) -> None:
    """Write each table as two files, as several executors do."""
    for table in TABLES:
        if table.name not in fleet.rows:
            continue
        folder = fleet.directory / table.name / f"run={RUN}"
        folder.mkdir(parents=True)
        rows = [
            {name: _clean(value) for name, value in row.items()} for row in fleet.rows[table.name]
        ]
        half = (len(rows) + 1) // 2
        for part, some in enumerate((rows[:half], rows[half:])):
            pq.write_table(
                pa.Table.from_pylist(some, table.schema), folder / f"part-{part:05d}.parquet"
            )


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return value


class _Environment:
    """The rows of one environment."""

    def __init__(
        self, fleet: Fleet, chance: random.Random, env: str, file_count: int, *, hostile: bool
    ) -> None:
        self.rows, self.chance, self.env, self.hostile = fleet.rows, chance, env, hostile
        self.replicated = chance.random() < 0.6
        self.first_no = chance.choice((0, 0, chance.randint(1, 40_000)))
        self.numbers = [self.first_no + i for i in range(file_count)]
        if file_count > 6 and chance.random() < 0.3:
            self.numbers = [no + 5 * (no > self.numbers[3]) for no in self.numbers]
        newest = chance.choice((8, 11, 14, 15, 17, 17, 26))
        old = chance.choice((newest, newest, 14 if newest > 14 else newest))
        step = chance.randint(0, file_count)
        self.versions = [old if i < step else newest for i in range(file_count)]
        self.sizes = [chance.randint(7_000_000, 10_000_000) for _ in self.numbers]
        self.sizes[-1] = chance.randint(50_000, 9_000_000)
        self.created = START_MS - 86_400_000 * chance.randint(1, 90)
        self.vlsn = chance.randint(1, 3_000_000)
        self.kind = chance.choices(("ok", "note", "warning", "error"), (72, 12, 8, 8))[0]

    def add(self) -> None:
        found = list(self.findings())
        self.rows["findings"] += found
        first_vlsn = self.vlsn if self.replicated else None
        for i in range(len(self.numbers)):
            self.add_file(i, found)
        self.add_txns()
        self.add_txn_stats()
        self.add_checkpoints()
        self.add_environment(found, first_vlsn)

    def text(self, plain: str) -> str:
        return self.chance.choice(HOSTILE) if self.hostile else plain

    def findings(self) -> Iterator[Row]:
        codes = [code for code in CODES.values() if code.severity.value == self.kind]
        count = self.chance.choice((1, 1, 2, 3, 9)) if codes else 0
        for _ in range(count):
            code = self.chance.choice(codes)
            i = self.chance.randrange(len(self.numbers))
            offset = self.chance.randrange(self.sizes[i])
            no, whole = self.numbers[i], code.name in ("missing-file", "restore-marker")
            yield {
                "env": self.env,
                "code": code.name,
                "severity": self.kind,
                "file_no": None if whole else no,
                "offset": None if whole else offset,
                "length": None if whole else self.chance.randint(20, 9_000),
                "lsn": None if whole else no << 32 | offset,
                "resume_lsn": None if whole else no << 32 | offset + 9_001,
                "expected": self.text("checksum 0x2a21045f of Commit"),
                "found": self.text("checksum 0x2c300490"),
                "hint": self.text(code.hint),
            }

    def add_file(self, i: int, found: list[Row]) -> None:
        no, size, chance = self.numbers[i], self.sizes[i], self.chance
        damage = sum(one["file_no"] == no and one["severity"] == "error" for one in found)
        count = size // 170
        span = (self.vlsn, self.vlsn + count // 3) if self.replicated else (None, None)
        name = f"{no:08x}.jdb"
        self.rows["files"].append(
            {
                "env": self.env,
                "file_no": no,
                "size": size,
                "source": chance.choice(("read", "grown", "known")),
                "entry_count": count,
                "name": f"{self.text('data001')}/{name}" if self.hostile else name,
                "log_version": self.versions[i],
                "created_ms": self.created + i * 4_000_000,
                "damage_count": damage,
                "first_lsn": no << 32,
                "last_lsn": no << 32 | size - 40,
                "first_vlsn": span[0],
                "last_vlsn": span[1],
                "old_delta_count": 0,
                "written_by": chance.choice(OLD_NAMES),
                "opened_from": "7.5",
                "not_opened_by": None,
            }
        )
        if self.replicated:
            self.rows["vlsn_ranges"].append(
                {
                    "env": self.env,
                    "file_no": no,
                    "lsn": no << 32 | 38,
                    "first_vlsn": span[0],
                    "last_vlsn": span[1],
                    "count": count // 3 + 1,
                }
            )
            self.vlsn += count // 3 + 1
        left = size
        for name, type_no in TYPES:
            total = left * 2 // 5
            left -= total
            self.rows["entry_stats"].append(
                {
                    "env": self.env,
                    "file_no": no,
                    "type": name,
                    "type_no": type_no,
                    "count": total // 150,
                    "provisional_count": 0,
                    "total_size": total,
                    "min_size": 40,
                    "max_size": 900,
                }
            )

    def add_txns(self) -> None:
        outcomes = ("committed", "committed", "committed", "aborted", "unfinished")
        for number in range(self.chance.randint(3, 12)):
            outcome = self.chance.choice(outcomes)
            begin = self.numbers[0] << 32 | 100 + number * 500
            ended = outcome != "unfinished"
            self.rows["txns"].append(
                {
                    "env": self.env,
                    "txn_id": number + 1,
                    "begin_lsn": begin,
                    "end_lsn": begin + 400,
                    "outcome": outcome,
                    "entry_count": 4,
                    "size": 400,
                    "databases": [3, 4],
                    "end_ms": self.created + number * 1_000 if ended else None,
                }
            )

    def add_txn_stats(self) -> None:
        txns = self.own("txns")
        for outcome in sorted({one["outcome"] for one in txns}):
            mine = [one for one in txns if one["outcome"] == outcome]
            self.rows["txn_stats"].append(
                {
                    "env": self.env,
                    "outcome": outcome,
                    "count": len(mine),
                    "entry_count": sum(one["entry_count"] for one in mine),
                    "total_size": sum(one["size"] for one in mine),
                    "last_end_ms": max(
                        (one["end_ms"] for one in mine if one["end_ms"]), default=None
                    ),
                }
            )

    def add_checkpoints(self) -> None:
        for i, no in enumerate(self.numbers):
            if self.chance.random() < 0.6:
                end_ms = self.created + i * 4_000_000 + 60_000
                self.rows["checkpoints"].append(
                    {
                        "env": self.env,
                        "end_lsn": no << 32 | 9_000,
                        "complete": True,
                        "start_lsn": no << 32 | 5_000,
                        "start_ms": end_ms - 900,
                        "end_ms": end_ms,
                        "invoker": "daemon",
                        "ln_count": 900,
                        "max_ln_replay": 900,
                        "end_to_end": 9_000_000,
                    }
                )

    def add_environment(self, found: list[Row], first_vlsn: int | None) -> None:
        severities = Counter(one["severity"] for one in found)
        outcomes = Counter(one["outcome"] for one in self.own("txns"))
        checkpoints = self.own("checkpoints")
        files = self.own("files")
        self.rows["environments"].append(
            {
                "env": self.env,
                "severity": self.kind if found else "ok",
                "file_count": len(files),
                "size": sum(self.sizes),
                "entry_count": sum(one["entry_count"] for one in files),
                "damaged_size": sum(one["length"] or 0 for one in found if self.kind == "error"),
                "error_count": severities["error"],
                "warning_count": severities["warning"],
                "note_count": severities["note"],
                "first_file_no": self.numbers[0],
                "last_file_no": self.numbers[-1],
                "versions": sorted(set(self.versions)),
                "first_created_ms": self.created,
                "last_created_ms": self.created + 4_000_000 * (len(files) - 1),
                "first_vlsn": first_vlsn,
                "last_vlsn": self.vlsn - 1 if self.replicated else None,
                "committed_count": outcomes["committed"],
                "aborted_count": outcomes["aborted"],
                "unfinished_count": outcomes["unfinished"],
                "checkpoint_count": len(checkpoints),
                "last_checkpoint_lsn": checkpoints[-1]["end_lsn"] if checkpoints else None,
                "last_checkpoint_ms": checkpoints[-1]["end_ms"] if checkpoints else None,
            }
        )

    def own(self, table: str) -> list[Row]:
        rows = []
        for row in reversed(self.rows[table]):
            if row["env"] != self.env:
                break
            rows.append(row)
        return rows[::-1]
