"""Expected output of `je-tools summary`, added up naively from a dump of the same log."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.corpus import log_files
from tests.je_tools.dumped import Keep, Row
from tests.truth.headers import NAMES, NUMBERS, TRANSACTIONAL_TYPES, USER_TYPES

Sections = dict[str, list[Row]]

USER_NAMES = frozenset(NAMES[no] for no in USER_TYPES)
TRANSACTIONAL_NAMES = frozenset(NAMES[no] for no in TRANSACTIONAL_TYPES)
IN_NAMES = frozenset({"IN", "BIN", "DIN", "DBIN", "BINDelta", "DupBINDelta", "NewBINDelta"})
GROUPS: dict[str, Keep] = {
    "LN": lambda row: "LN" in row["type"],
    "IN": lambda row: row["type"] in IN_NAMES | {"INDelete", "INDupDelete"},
    "TXN": lambda row: row["type"] in {"Commit", "Abort", "Prepare"},
    "CKPT": lambda row: row["type"] in {"CkptStart", "CkptEnd", "DbTree"},
}
NULL = "0xffffffff/0xffffffff"
DEFAULT_FILE_SIZE = 10_000_000
LARGEST_FILE_SINCE = 18


def lsn_of(text: str) -> int:
    """Return an LSN as a number."""
    file_no, offset = text.split("/")
    return int(file_no, 16) << 32 | int(offset, 16)


def size_of(row: Row) -> int:
    """Return the size of an entry with its header, in bytes."""
    size: int = row["header_size"] + row["item_size"]
    return size


def bytes_of(text: str | None) -> int:
    """Return the length in bytes of a hex string."""
    return 0 if text is None else len(text) // 2


def expected(rows: Iterable[Row], home: Path, largest: int) -> Sections:
    """Return every section of a summary with all tables; rows without sizes have no shares."""
    rows = [row for row in rows if row["checksum"] != "bad"]
    whole = sum(map(size_of, rows))
    return {
        **type_sections(rows, whole),
        "file": [file_row(rows, path) for path in log_files(home)],
        "database": database_rows(rows, whole),
        "vlsn": [vlsn_row(rows, path) for path in log_files(home)],
        "checkpoint": checkpoint_rows(rows, home),
        **transaction_sections(rows, largest),
    }


# Types


def line(name: str, sizes: list[int], provisional: int | None, whole: int) -> Row:
    total = sum(sizes)
    return {
        "name": name,
        "count": len(sizes),
        "provisional_count": provisional,
        "total_bytes": total,
        "min_bytes": min(sizes, default=None),
        "max_bytes": max(sizes, default=None),
        "avg_bytes": total // len(sizes) if sizes else None,
        "share_percent": total * 100 / whole if whole else 0.0,
    }


def line_of(name: str, rows: list[Row], whole: int) -> Row:
    """Return a line of entries; `provisional_count` excludes those that await their CkptEnd."""
    provisional = sum(row["provisional"] == "YES" for row in rows)
    return line(name, list(map(size_of, rows)), provisional, whole)


def type_sections(rows: list[Row], whole: int) -> Sections:
    by_type = defaultdict(list)
    for row in rows:
        by_type[row["type"]].append(row)
    groups = {name: [row for row in rows if keep(row)] for name, keep in GROUPS.items()}
    groups["other"] = [row for row in rows if not any(keep(row) for keep in GROUPS.values())]
    records = [row for row in rows if row["type"] in USER_NAMES]
    return {
        "type": [
            line_of(name, by_type[name], whole)
            for name in sorted(by_type, key=lambda name: int(NUMBERS[name]))
        ],
        "group": [line_of(name, held, whole) for name, held in groups.items() if held],
        "size": [
            line(
                f"{name} bytes",
                [bytes_of(row[name]) for row in records if row[name] is not None],
                None,
                whole,
            )
            for name in ("key", "data")
        ],
        "total": [line_of("total", rows, whole)],
    }


# Files and databases


def file_row(rows: list[Row], path: Path) -> Row:
    own = [row for row in rows if row["file_no"] == int(path.stem, 16)]
    held = {
        "ln": [row for row in own if GROUPS["LN"](row)],
        "in": [row for row in own if GROUPS["IN"](row)],
        "other": [row for row in own if not GROUPS["LN"](row) and not GROUPS["IN"](row)],
    }
    return {
        "file_no": int(path.stem, 16),
        "version": own[0]["version"],
        "size": path.stat().st_size,
        "entries": len(own),
        "total_bytes": sum(map(size_of, own)),
        **{f"{name}_count": len(of) for name, of in held.items()},
        **{f"{name}_bytes": sum(map(size_of, of)) for name, of in held.items()},
        "first_lsn": own[0]["lsn"],
        "last_lsn": own[-1]["lsn"],
    }


def vlsn_row(rows: list[Row], path: Path) -> Row:
    own = [row for row in rows if row["file_no"] == int(path.stem, 16) and row["replicated"]]
    return {
        "file_no": int(path.stem, 16),
        "replicated_count": len(own),
        "first_vlsn": own[0]["vlsn"] if own else None,
        "last_vlsn": own[-1]["vlsn"] if own else None,
    }


def database_rows(rows: list[Row], whole: int) -> list[Row]:
    by_id = defaultdict(list)
    for row in rows:
        by_id[row["db_id"]].append(row)
    none = by_id.pop(None, [])
    lines = [database_row(db_id, held, whole) for db_id, held in by_id.items()]
    lines.sort(key=lambda found: (-found["total_bytes"], found["db_id"]))
    return [*lines, *([database_row(None, none, whole)] if none else [])]


def database_row(db_id: int | None, rows: list[Row], whole: int) -> Row:
    records = [row for row in rows if row["type"] in USER_NAMES]
    total = sum(map(size_of, rows))
    held = {name: [row for row in rows if GROUPS[name.upper()](row)] for name in ("ln", "in")}
    return {
        "db_id": db_id,
        "db": rows[0]["db"],
        "entries": len(rows),
        "total_bytes": total,
        "share_percent": total * 100 / whole,
        **{f"{name}_count": len(of) for name, of in held.items()},
        **{f"{name}_bytes": sum(map(size_of, of)) for name, of in held.items()},
        "key_bytes": sum(bytes_of(row["key"]) for row in records),
        "data_bytes": sum(bytes_of(row["data"]) for row in records),
    }


# Checkpoints


def checkpoint_rows(rows: list[Row], home: Path) -> list[Row]:
    """Return one row up to each CkptEnd, and one for the rest of the log."""
    runs: list[list[Row]] = [[]]
    for row in rows:
        runs[-1].append(row)
        if row["type"] == "CkptEnd":
            runs.append([])
    found: list[Row] = []
    replayed = 0
    end_before = "0x0/0x0"
    for run in runs:
        starts = [i for i, row in enumerate(run) if row["type"] == "CkptStart"]
        counts = checkpoint_counts(run)
        found.append(counts | checkpoint_times(run) | {"max_ln_replay": replayed})
        found[-1]["max_ln_replay"] += counts["ln_txn"] + counts["ln"]
        found[-1] |= checkpoint_distances(found[-1], end_before, rows[-1]["lsn"], home)
        end_before = found[-1]["end_lsn"]
        # With several CkptStarts the engine counts from the first, but measures from the last.
        behind = checkpoint_counts(run[starts[0] :] if starts else [])
        replayed = behind["ln_txn"] + behind["ln"]
    return found


def checkpoint_counts(run: list[Row]) -> Row:
    records = [row["type"] for row in run if row["type"] in USER_NAMES]
    types = [row["type"] for row in run]
    in_transaction = sum(name in TRANSACTIONAL_NAMES for name in records)
    return {
        "ln_txn": in_transaction,
        "ln": len(records) - in_transaction,
        "map_ln_txn": types.count("MapLN_TX"),
        "map_ln": types.count("MapLN"),
    }


def checkpoint_times(run: list[Row]) -> Row:
    """Return the data of the last CkptStart and of the CkptEnd."""
    start = next((row for row in reversed(run) if row["type"] == "CkptStart"), None)
    end = run[-1] if run and run[-1]["type"] == "CkptEnd" else None
    said = end or start
    start_ms = start["entry"]["time_ms"] if start else None
    end_ms = end["entry"]["time_ms"] if end else None
    return {
        "start_lsn": start["lsn"] if start else None,
        "end_lsn": end["lsn"] if end else None,
        "complete": "yes" if end else "no",
        "start_ms": start_ms,
        "end_ms": end_ms,
        "duration_ms": None if start_ms is None or end_ms is None else end_ms - start_ms,
        "invoker": said["entry"]["invoker"] if said else None,
    }


def checkpoint_distances(found: Row, end_before: str, last: str, home: Path) -> Row:
    def between(later: str, earlier: str) -> int:
        one, other = sorted((lsn_of(earlier), lsn_of(later)))
        numbers = [int(path.stem, 16) for path in log_files(home)]
        # The first interval starts at file 0; if that is gone, at one file before the first.
        files = index_of(numbers, other >> 32) - index_of(numbers, one >> 32)
        if files < 0:
            files, one, other = -files, other, one
        return files * file_size(home) + (other & 0xFFFFFFFF) - (one & 0xFFFFFFFF)

    end_lsn = found["end_lsn"] or last
    both = found["start_lsn"] is not None and found["end_lsn"] is not None
    return {
        "end_lsn": end_lsn,
        "total_bytes": bytes_before(end_lsn, home) - bytes_before(end_before, home),
        "end_to_end": between(end_lsn, end_before),
        "end_to_start": between(found["start_lsn"] or last, end_before),
        "start_to_end": between(end_lsn, found["start_lsn"]) if both else 0,
    }


def bytes_before(lsn: str, home: Path) -> int:
    """Return the number of bytes before an LSN in the log; 0 if the file is missing."""
    file_no, offset = divmod(lsn_of(lsn), 1 << 32)
    sizes = {int(path.stem, 16): path.stat().st_size for path in log_files(home)}
    if file_no not in sizes:
        return 0
    return offset + sum(size for number, size in sizes.items() if number < file_no)


def index_of(numbers: list[int], number: int) -> int:
    """Return the index as the engine's search does: -1 minus the insertion point if missing."""
    if number in numbers:
        return numbers.index(number)
    return -1 - sum(each < number for each in numbers)


def file_size(home: Path) -> int:
    """Return the length that the engine assumes for a file in between."""
    files = log_files(home)
    if int.from_bytes(files[-1].read_bytes()[34:38], "little") >= LARGEST_FILE_SINCE:
        return max(path.stat().st_size for path in files)
    properties = home / "je.properties"
    text = properties.read_text() if properties.is_file() else ""
    said = re.findall(r"^je\.log\.fileMax=(\d+)$", text, re.MULTILINE)
    return int(said[-1]) if said else DEFAULT_FILE_SIZE


# Transactions


@dataclass
class Txn:
    """Entries of one transaction."""

    rows: list[Row] = field(default_factory=list)

    @property
    def end(self) -> Row | None:
        last = self.rows[-1]
        return last if last["type"] in {"Commit", "Abort"} else None

    @property
    def size(self) -> int:
        return sum(map(size_of, self.rows))

    @property
    def first(self) -> int:
        return lsn_of(self.rows[0]["lsn"])

    @property
    def last(self) -> int:
        return lsn_of(self.rows[-1]["lsn"])


def transactions_in(rows: list[Row]) -> list[Txn]:
    """Group entries of one id up to a Commit or Abort, or to the first entry of another."""
    found: list[Txn] = []
    current: dict[int, Txn] = {}
    for row in rows:
        txn_id = row["txn_id"]
        if txn_id is None:
            continue
        entry = row["entry"]
        if entry.get("txn_prev_lsn") == NULL or entry.get("last_lsn") == NULL:
            current.pop(txn_id, None)
        if txn_id not in current:
            current[txn_id] = Txn()
            found.append(current[txn_id])
        current[txn_id].rows.append(row)
        if current[txn_id].end:
            del current[txn_id]
    return found


def outcome_of(txn: Txn, rollbacks: list[Row], first_active: int) -> str:
    if txn.end:
        return "committed" if txn.end["type"] == "Commit" else "aborted"
    if all(row["invisible"] for row in txn.rows):
        return "rolled back"
    for row in rollbacks:
        behind = lsn_of(row["entry"]["matchpoint_lsn"]) < txn.first
        named = txn.rows[0]["txn_id"] in row["entry"]["active_txns"]
        if behind and named and txn.last < lsn_of(row["lsn"]):
            return "rolled back"
    if any(row["type"] == "Prepare" for row in txn.rows):
        return "prepared"
    return "undone" if txn.first < first_active else "unfinished"


def transaction_sections(rows: list[Row], largest: int) -> Sections:
    found = transactions_in(rows)
    rollbacks = [row for row in rows if row["type"] == "RollbackStart"]
    ends = [row["entry"]["first_active_lsn"] for row in rows if row["type"] == "CkptEnd"]
    first_active = lsn_of(ends[-1]) if ends else 0
    names = {row["db_id"]: row["db"] for row in rows}
    lines = [transaction_row(txn, outcome_of(txn, rollbacks, first_active), names) for txn in found]
    lines.sort(key=lambda row: lsn_of(row["first_lsn"]))
    without_end = [row for row in lines if row["outcome"] not in {"committed", "aborted"}]
    counts = {"committed": 0, "aborted": 0}
    for row in [*lines]:
        if row not in without_end:
            counts[row["outcome"]] += 1
    for row in without_end:
        counts[row["outcome"]] = counts.get(row["outcome"], 0) + 1
    lines.sort(key=lambda row: -row["total_bytes"])
    return {
        "transactions": [{"outcome": name, "count": n} for name, n in counts.items()],
        "without-end": without_end,
        "largest": lines[:largest],
    }


def transaction_row(txn: Txn, outcome: str, names: dict[int, str | None]) -> Row:
    ids = sorted({row["db_id"] for row in txn.rows if row["db_id"] is not None})
    return {
        "txn_id": txn.rows[0]["txn_id"],
        "outcome": outcome,
        "first_lsn": txn.rows[0]["lsn"],
        "last_lsn": txn.rows[-1]["lsn"],
        "entries": len(txn.rows),
        "total_bytes": txn.size,
        "invisible_count": sum(row["invisible"] for row in txn.rows),
        "databases": [str(db_id) if names[db_id] is None else names[db_id] for db_id in ids],
        "end_ms": txn.end["entry"]["time_ms"] if txn.end else None,
    }
