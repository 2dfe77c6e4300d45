"""k damaged entries in m files: `verify` reports exactly those, and `dump` lists all others.

The commands run whole, to test what an operator reads. Every round draws how the log is read:
ranges of any size, 1 or 4 threads.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from je_tools.formats.je.log import reader
from je_tools.log import scan_options
from tests.builders.logs import ERASED, Placed, placed_in, random_log
from tests.corpus import FIXTURES, log_files
from tests.damage.expected import Damaged, said
from tests.damage.running import je_tools, states

Log = list[tuple[int, bytes, list[Placed]]]
"""Number, bytes and entries of each file."""

IN_FILE = {
    "bad-file-header",
    "damaged-entry",
    "damaged-gap",
    "erased-not-zero",
    "prev-offset-mismatch",
    "torn-tail",
    "truncated-file",
    "unknown-type",
    "zero-tail",
}
"""Codes of damaged bytes; the other codes report what a log lacks because of them."""


def change_entry(rng: random.Random, data: bytearray, place: Placed) -> None:
    """Change some bytes of one entry, in the header or the payload."""
    kind = rng.choice(["header", "header", "byte", "bits", "zeros", "noise", "block", "swap"])
    start, stop = place
    if kind == "header":
        data[rng.randrange(start, min(stop, start + 22))] ^= rng.randrange(1, 256)
    elif kind == "byte":
        data[rng.randrange(start, stop)] = rng.randrange(256)
    elif kind == "bits":
        for _ in range(rng.randrange(1, 9)):
            data[rng.randrange(start, stop)] ^= 1 << rng.randrange(8)
    elif kind == "zeros":
        data[start:stop] = bytes(stop - start)
    elif kind == "noise":
        data[start:stop] = rng.randbytes(stop - start)
    elif kind == "block":
        at = rng.randrange(start, stop)
        size = min(rng.randrange(1, 64), stop - at)
        data[at : at + size] = rng.choice([bytes(size), b"\xff" * size, rng.randbytes(size)])
    else:
        half = (stop - start) // 2
        data[start : start + half], data[stop - half : stop] = (
            data[stop - half : stop],
            data[start : start + half],
        )


def damage_log(rng: random.Random, log: Log) -> list[bytearray]:
    """Damage k entries in m files, neighbours and last ones among them."""
    chosen = set(rng.sample(range(len(log)), rng.randrange(1, len(log) + 1)))
    changed = []
    for i, (_, before, placed) in enumerate(log):
        data = bytearray(before)
        for _ in range(rng.choice([1, 1, 2, 3, 5, 8]) if i in chosen else 0):
            first = rng.randrange(1, len(placed))
            for place in placed[first : first + rng.choice([1, 1, 1, 2, 4])]:
                change_entry(rng, data, place)
        # No checksum detects a change to the erased type; such flips have a test of their own.
        for place in placed[1:]:
            if data[place.start + 4] == ERASED and before[place.start + 4] != ERASED:
                data[place.start + 4] = 255
        changed.append(data)
    return changed


def read_in_some_way(rng: random.Random, monkeypatch: pytest.MonkeyPatch, size: int) -> list[str]:
    """Draw the size of ranges, and return an option with the number of threads."""
    monkeypatch.setattr(scan_options, "ONE_THREAD_MAX", rng.choice([-1, 1 << 40]))
    # Every range has a fixed cost, and ranges shorter than entries read them again and again.
    sizes = [each for each in (64, 300, 1000, 4096, 65536) if each * 1000 > size]
    monkeypatch.setattr(reader, "RANGE_SIZE", rng.choice(sizes))
    monkeypatch.setattr(reader, "_SLACK", rng.choice([22, 100, 5000, 65536]))
    return ["--threads", str(rng.choice([1, 4]))]


def dumped_rows(
    paths: Sequence[Path], *options: str
) -> tuple[int, dict[tuple[int, int], dict[str, Any]]]:
    """Return the exit code of `dump`, and its rows by file number and offset, in order.

    Names of databases are left out: they are in entries that may be damaged.
    """
    dumped = je_tools("dump", *paths, "--format", "jsonl", *options)
    rows = {(row["file_no"], row["offset"]): row for row in dumped.rows}
    assert len(rows) == len(dumped.out.splitlines())
    return dumped.code, {at: row | {"db": None} for at, row in rows.items()}


def check_round(
    paths: Sequence[Path],
    logs: dict[int, Damaged],
    rows_before: dict[tuple[int, int], dict[str, Any]],
    options: list[str],
) -> set[str]:
    """Compare the output of `verify` and `dump` with the known damage of a log.

    Returns:
        Codes of the other findings.
    """
    untouched = states(paths[0].parent)
    expected = {no: log.findings() for no, log in logs.items()}
    is_error = any(each.severity == "error" for found in expected.values() for each in found)
    verified = je_tools("verify", *paths, "--format", "jsonl", *options)
    in_file = [row for row in verified.rows if row["code"] in IN_FILE]
    got = {no: [said(row) for row in in_file if row["file_no"] == no] for no in logs}
    assert got == expected
    others = [row for row in verified.rows if row["code"] not in IN_FILE]
    odd = {(row["file_no"], row["offset"]) for row in others if row["code"] == "impossible-flags"}
    is_error = is_error or any(row["severity"] == "error" for row in others)
    assert verified.code == (3 if is_error else 0), verified.err

    code, rows = dumped_rows(paths, *options)
    good = {at: row for at, row in rows.items() if row["checksum"] != "bad" and at[1]}
    # No checksum covers an erased entry, damaged or not.
    unseen = {(no, place.start) for no in logs for place in logs[no].taken_for_erased()}
    good = {at: row for at, row in good.items() if at not in unseen}
    assert list(good) == [(no, place.start) for no in logs for place in logs[no].intact()]
    for (no, start), row in good.items():
        kept = {"invisible": logs[no].is_invisible(start)}
        assert row == rows_before[no, start] | kept
    # A rollback may have marked replicated entries; an erased one keeps its flags.
    marked = {at for at, row in good.items() if row["invisible"] and row["type"] != "Erased"}
    assert {at for at in marked if not good[at]["replicated"]} <= odd <= marked
    assert code == verified.code
    assert states(paths[0].parent) == untouched
    return {row["code"] for row in others} - {"impossible-flags"}


def damaged_round(
    seed: str,
    log: Log,
    version: int,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_whole: bool,
) -> set[str]:
    """Write a log, dump it, damage it, and check the findings; return the other codes.

    A log that is not whole has no root, so its files are named one by one.
    """
    rng = random.Random(seed)
    home.mkdir()
    for no, before, _ in log:
        (home / f"{no:08x}.jdb").write_bytes(before)
    paths = [home] if is_whole else log_files(home)
    code, rows_before = dumped_rows(paths)
    assert code == 0
    damaged = damage_log(rng, log)
    for (no, _, _), after in zip(log, damaged, strict=True):
        (home / f"{no:08x}.jdb").write_bytes(after)
    last = log[-1][0]
    logs = {
        no: Damaged(before, bytes(after), placed, version, is_last=no == last)
        for (no, before, placed), after in zip(log, damaged, strict=True)
    }
    options = read_in_some_way(rng, monkeypatch, sum(len(before) for _, before, _ in log))
    return check_round(paths, logs, rows_before, options)


def made_round(seed: int, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    version = rng.choice([8, 12, 17, 26])
    entries = rng.randrange(5, 60)
    files = random_log(rng, files=rng.randrange(1, 5), entries=entries, version=version)
    log = [(file.no, bytes(file.data), file.placed) for file in files]
    named = f"{seed}/{version}"
    assert damaged_round(named, log, version, home, monkeypatch, is_whole=False) == set()


MORE_SEEDS = [pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(100, 150)]


@pytest.mark.parametrize("seed", [*range(100), 2663, 3254, 3942, *MORE_SEEDS])
def test_exactly_the_damaged_entries_are_reported(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_round(seed, tmp_path / "env", monkeypatch)


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(20))
def test_exactly_the_damaged_entries_are_reported_in_many_rounds(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(1000 + 200 * block, 1000 + 200 * (block + 1)):
        made_round(seed, tmp_path / str(seed), monkeypatch)


def fixture_log(home: Path) -> tuple[Log, int]:
    """Return the files of an engine-written log, and their log version."""
    log: Log = []
    version = 0
    for path in log_files(home):
        data = path.read_bytes()
        version = int.from_bytes(data[34:38], "little")
        log.append((int(path.stem, 16), data, placed_in(data, version)))
    return log, version


ENGINE_LOGS = sorted({str(path.parent.relative_to(FIXTURES)) for path in FIXTURES.rglob("*.jdb")})
SOME_LOGS = ("v8-cleaned/env", "v17-erase-after/env", "v26-basic/env", "v6-halt/env")


def engine_round(seed: str, name: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, version = fixture_log(FIXTURES / name)
    others = damaged_round(seed, log, version, home, monkeypatch, is_whole=True)
    is_rootless = "has no root of the databases" in je_tools("recover", home).err
    assert ("recovery-refused" in others) == is_rootless
    # Lost entries may have had VLSNs, or have shown that a missing file is not needed.
    # Later engines refuse the log of version 6, and old deltas in one of version 8, damaged or not.
    refused = {"old-form-to-replay", "old-delta-in-v8", "recovery-refused"}
    assert others <= {"missing-file", "vlsn-gap"} | refused


@pytest.mark.parametrize("name", SOME_LOGS)
def test_exactly_the_damaged_entries_of_an_engines_log_are_reported(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine_round(name, name, tmp_path / "env", monkeypatch)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ENGINE_LOGS)
def test_damaged_logs_of_engines_in_many_rounds(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(25):
        engine_round(f"{name}/{seed}", name, tmp_path / str(seed), monkeypatch)
