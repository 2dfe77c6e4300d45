"""Invariants of every input of the fuzz run, however it was damaged."""

from __future__ import annotations

import itertools
import json
import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from je_tools.core.masking import Masking
from je_tools.errors import InputError, JeToolsError
from je_tools.findings import CODES
from je_tools.formats.je.btree.slots import split_embedded
from je_tools.formats.je.entry.columns import COLUMN_FAMILIES, Columns, Decoded, decode
from je_tools.formats.je.entry.entries import Entry, decode_entry, encode_entry
from je_tools.formats.je.header import EntryError
from je_tools.formats.je.log import reader
from je_tools.formats.je.log.entry_rows import Rows
from je_tools.formats.je.log.tally import tally_rows
from je_tools.formats.je.log.walk import COLUMN_NAMES
from je_tools.formats.je.types import ENTRY_TYPES, Family
from je_tools.log import scan_options
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.output.views.recovery_tables import recovery_report
from je_tools.recovery.findings import snapshot_findings
from je_tools.recovery.opening import take_snapshot
from je_tools.recovery.plan import plan_recovery
from je_tools.verify.judge import verify
from je_tools.verify.totals import Totals
from tests.damage.erasing import judge_erasure
from tests.damage.reading import read_log
from tests.damage.running import Outcome, je_tools
from tests.je_tools.segmented import assert_segments_are_right
from tests.je_tools.snapshots import NOW_MS, records_of

COMMANDS_SHARE, ALL_COMMANDS_SHARE, VERDICT_SHARE = 0.04, 0.01, 0.15
THREADS = (1, 3)
"""Numbers of threads, on which results must not depend."""

OUTCOMES = (0, 3, 4)
LOST = {
    "bad-file-header",
    "damaged-entry",
    "damaged-gap",
    "torn-tail",
    "truncated-file",
    "zero-tail",
}
"""Codes of findings whose bytes are in no good entry."""


def numbers_of(family: Family, version: int) -> list[int]:
    """Return the types of a family that this log version has: columns know only their fields."""
    return [
        no
        for no, each in ENTRY_TYPES.items()
        if each.family is family and each.first_version <= version <= each.last_version
    ]


def judge(home: Path, rng: random.Random) -> None:
    """Read a log in every way; any exception is a bug.

    Args:
        home: a directory of files with any content.
        rng: draws how the log is read, and which inputs go through whole commands.
    """
    share = rng.random()
    size = sum(path.stat().st_size for path in home.iterdir())
    with read_in_some_way(rng, size), one_thread_up_to(-1):
        try:
            environment = open_environment([home])
        except InputError:
            assert je_tools("verify", home).code == 4
            return
        draw = rng.random()
        assert_equal(*(observed(environment, draw, threads) for threads in THREADS))
        assert_segments_are_right(environment, Scanner(threads=1))
        for each in read_log(home, threads=1):
            each.assert_covers_every_byte()
        assert_equal(*(recovered(environment, threads) for threads in THREADS))
        if share < VERDICT_SHARE:
            assert_equal(*(verdict(environment, threads) for threads in THREADS))
            judge_erasure(home, rng)
    if share < COMMANDS_SHARE:
        judge_commands(home, rng, everything=share < ALL_COMMANDS_SHARE)


@contextmanager
def read_in_some_way(rng: random.Random, size: int) -> Iterator[None]:
    """Set sizes of ranges, windows and arrays so that borders fall anywhere in `size` bytes."""
    before = reader.RANGE_SIZE, reader.SURVEY_WINDOW, reader._SLACK, reader._ROWS
    # Each range may walk a long chain of erased entries, so there must not be thousands.
    ranges = [each for each in (64, 300, 1000, 4096) if each * 100 > size]
    reader.RANGE_SIZE = rng.choice([*ranges, 2 << 20, 2 << 20])
    reader._SLACK = rng.choice([22, 100, 5000, 65536])
    reader._ROWS = rng.choice([2, 7, 1 << 15, 1 << 15])
    reader.SURVEY_WINDOW = rng.choice([64, 1000, 1 << 20])
    try:
        yield
    finally:
        reader.RANGE_SIZE, reader.SURVEY_WINDOW, reader._SLACK, reader._ROWS = before


def assert_equal(alone: list[Any], together: list[Any]) -> None:
    """Assert that one thread and several give the same, or report the first difference."""
    if alone == together:
        return
    for one, other in zip(alone, together, strict=False):
        assert one == other, f"one thread and several differ: {one!r:.500} and {other!r:.500}"
    raise AssertionError(f"one thread has said {len(alone)} things, several {len(together)}")


def observed(environment: Any, draw: float, threads: int) -> list[Any]:
    """Return everything that is read of a log, as comparable values.

    `draw` selects the entries that are examined more closely.
    """

    def work(rows: Rows) -> list[Any]:
        return rows_observed(rows, draw)

    said: list[Any] = []
    for part in Scanner(threads=threads).scan(environment, work):
        for result in part.results:
            said += result
        said += [list(part.gaps), list(part.chain_breaks), part.end]
    return said


def rows_observed(rows: Rows, draw: float) -> list[Any]:
    """Return everything that rows decode to, comparing single entries with the columns."""
    said: list[Any] = [getattr(rows, name).tobytes() for name in COLUMN_NAMES]
    chosen = int(draw * len(rows))
    tally = tally_rows(rows)
    said += [tally.types.tobytes(), tally.sizes.tobytes()]
    entries = [decoded_or_none(rows, i) for i in range(len(rows))]
    for family in COLUMN_FAMILIES:
        every = [no for no, each in ENTRY_TYPES.items() if each.family is family]
        index = np.flatnonzero(np.isin(rows.type, every))
        if not len(index):
            continue
        said += columns_observed(decode(rows.select(index), family))
        index = np.flatnonzero(np.isin(rows.type, numbers_of(family, rows.version)))
        if not len(index):
            continue
        decoded = decode(rows.select(index), family)
        hold_against(decoded, [entries[i] for i in index], int(draw * len(index)))
        if chosen in index:
            alone = decode(standing_alone(rows, chosen), family)
            said += columns_observed(alone)
    return said


def standing_alone(rows: Rows, row: int) -> Rows:
    """Return one entry in a buffer that ends with it, so that reading on is out of bounds."""
    data = np.frombuffer(rows.entry_bytes(row), np.uint8)
    return replace(rows.select(np.array([row])), data=data, base=int(rows.offset[row]))


def columns_observed(decoded: Decoded) -> list[Any]:
    said: list[Any] = [decoded.bad.tobytes(), decoded.slot_first.tobytes()]
    for columns in (decoded.fields, decoded.slots):
        if columns is not None:
            said += [columns.program.names, columns.values.tobytes(), columns.sizes.tobytes()]
            said.append(columns.present.tobytes())
    if decoded.slots is not None:
        said += [part.tobytes() for part in split_embedded(decoded.slots)]
    return said


def decoded_or_none(rows: Rows, row: int) -> Entry | None:
    """Return a single entry, asserting that it round-trips, or None if it does not decode."""
    try:
        entry = decode_entry(rows.entry_bytes(row), rows.version)
    except EntryError:
        return None
    again = decode_entry(encode_entry(entry), rows.version)
    assert again.fields == entry.fields
    return entry


def hold_against(decoded: Decoded, entries: list[Entry | None], chosen: int) -> None:
    """Assert that columns are bad if single entries are, and equal in a chosen row."""
    assert decoded.bad.tolist() == [each is None for each in entries]
    entry = entries[chosen]
    if entry is None:
        return
    fields = dict(entry.fields)
    slots = fields.pop("slots", [])
    assert row_of(decoded.fields, chosen) == fields
    first, stop = decoded.slot_first[chosen : chosen + 2].tolist()
    assert stop - first == len(slots)
    if slots and decoded.slots is not None:
        kept = {name: value for name, value in slots[-1].items() if name != "compact_lsn"}
        found = row_of(decoded.slots, stop - 1)
        assert kept.items() <= found.items()


def row_of(columns: Columns, row: int) -> dict[str, Any]:
    """Return the fields that one row of columns holds."""
    fields: dict[str, Any] = {}
    for column, name in enumerate(columns.program.names):
        if not columns.present[row] >> column & 1:
            continue
        value = int(columns.values[column, row])
        if columns.is_bytes(name):
            size = int(columns.sizes[columns.program.sized[column], row])
            fields[name] = None if size < 0 else columns.data[value : value + size].tobytes()
        else:
            fields[name] = value
    return fields


def verdict(environment: Any, threads: int) -> list[Any]:
    """Return the findings of a log and its totals."""
    totals = Totals("")
    found = verify(environment, Scanner(threads=threads), totals)
    return [*[each.row() for each in found], totals.row()]


def recovered(environment: Any, threads: int) -> list[Any]:
    """Return the snapshot and the recovery plan of a log, or the error that prevents them."""
    try:
        snapshot = take_snapshot(environment, Scanner(threads=threads), now_ms=NOW_MS)
        plan = plan_recovery(snapshot)
    except JeToolsError as error:
        return [str(error)]
    said: list[Any] = [recovery_report(plan, Masking()).document()]
    for database in snapshot.databases.values():
        said += [database.db_id, database.name, records_of(snapshot, database)]
    return [*said, *[finding.row() for finding in snapshot_findings(snapshot)]]


# Whole commands


def judge_commands(home: Path, rng: random.Random, *, everything: bool) -> None:
    """Check that commands exit with documented codes, and together account for every byte."""
    with one_thread_up_to(-1 if rng.random() < 0.7 else 1 << 40):
        verified = run("verify", home, "--format", "jsonl")
        dumped = run("dump", home, "--format", "jsonl")
        if verified.code == 4:
            assert dumped.code == 4
            return
        found = strict_rows(verified)
        is_error = any(row["severity"] == "error" for row in found)
        assert {row["code"] for row in found} <= CODES.keys()
        assert verified.code == (3 if is_error else 0), verified.err
        assert dumped.code == verified.code, dumped.err
        rows = strict_rows(dumped)
        sizes = {file.file_no: file.size for file in open_environment([home]).files}
        assert_accounted_for(sizes, rows, found)
        if everything:
            judge_others(home, rng, rows)


def judge_others(home: Path, rng: random.Random, rows: list[dict[str, Any]]) -> None:
    """Run the other commands, formats and options."""
    out = home.parent / "out.parquet"
    assert not out.exists()
    run("dump", home, "--format", "parquet", "--output", out)
    out.unlink(missing_ok=True)
    judge_salvage(home, rng)
    run("dump", home, "--format", "csv")
    run("dump", home, "--backward")
    unchecked = run("dump", home, "--ignore-checksum", "--format", "jsonl", "--data", "hash")
    strict_rows(unchecked)
    run("dump", home, "--type", "LN", "--grep", "carol", "--since", "2020-01-01")
    options = ("--by-file", "--by-db", "--vlsn", "--checkpoints", "--txns")
    strict_rows(run("summary", home, "--format", "jsonl", *options))
    run("summary", home, *options)
    strict_rows(run("files", home, "--format", "jsonl"))
    run("files", home)
    run("verify", home)
    run("recover", home)
    strict_rows(run("recover", home, "--format", "jsonl"))
    lsns = [row["lsn"] for row in rng.sample(rows, min(3, len(rows)))]
    for lsn in [*lsns, f"0x0/{rng.randrange(9000):#x}"]:
        strict_rows(run("explain", lsn, "--env", home, "--format", "jsonl"))
        run("explain", lsn, "--env", home, "--all")


def judge_salvage(home: Path, rng: random.Random) -> None:
    """Check that a salvage writes a whole output, or nothing."""
    out = home.parent / "rescued"
    mode = rng.choice(["committed", "everything"])
    form = rng.choice(["dump", "jsonl", "csv", "parquet"])
    done = run("salvage", home, "--output", out, "--mode", mode, "--format", form, "--internal")
    assert out.exists() == (done.code in (0, 3)), done.err
    if out.exists():
        lines = (out / "report.jsonl").read_bytes().splitlines()
        rows = [json.loads(line, parse_constant=not_json) for line in lines]
        files = {row["file"] for row in rows if row["kind"] == "database"}
        assert files <= {path.name for path in out.iterdir()}
        shutil.rmtree(out)


def run(*arguments: object) -> Outcome:
    """Run a command, asserting that its exit code is documented."""
    outcome = je_tools(*arguments)
    assert outcome.code in OUTCOMES, (arguments, outcome.code, outcome.err)
    return outcome


def strict_rows(outcome: Outcome) -> list[dict[str, Any]]:
    """Return the rows of JSON lines, refusing NaN and infinities."""
    lines = outcome.out.decode("utf-8").split("\n")
    assert lines.pop() == ""
    return [json.loads(line, parse_constant=not_json) for line in lines]


def not_json(name: str) -> None:
    raise AssertionError(f"{name} in JSON")


def assert_accounted_for(
    sizes: Mapping[int, int], rows: list[dict[str, Any]], found: list[dict[str, Any]]
) -> None:
    """Assert that each byte is in one entry that `dump` lists, or in a finding of `verify`."""
    for file_no, size in sizes.items():
        listed = sorted(
            (row["offset"], row["offset"] + row["header_size"] + row["item_size"])
            for row in rows
            if row["file_no"] == file_no
        )
        for (_, stop), (start, _) in itertools.pairwise(listed):
            assert stop <= start, f"entries of file {file_no} overlap at {start}"
        lost = [
            (row["offset"], row["offset"] + row["length"])
            for row in found
            if row["file_no"] == file_no and row["code"] in LOST and row["length"]
        ]
        at = 0
        for start, stop in sorted(listed + lost):
            assert start <= at, f"bytes {at} to {start} of file {file_no} are nowhere"
            at = max(at, stop)
        assert at == size, f"bytes behind {at} of file {file_no} are nowhere"


@contextmanager
def one_thread_up_to(size: int) -> Iterator[None]:
    """Read only logs above this size with several threads."""
    before = scan_options.ONE_THREAD_MAX
    scan_options.ONE_THREAD_MAX = size
    try:
        yield
    finally:
        scan_options.ONE_THREAD_MAX = before
