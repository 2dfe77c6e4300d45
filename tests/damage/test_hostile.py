"""Files made to stall or to bloat a reader: time is linear in their size, memory is bounded."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.builders.logs import write_log
from tests.damage.hostile import PATTERNS, hostile_file
from tests.damage.measured import measured
from tests.damage.reading import read_log
from tests.damage.running import je_tools

INTACT = {"ones", "placed_candidates", "small_candidates", "wild_sizes", "zeros"}
"""Patterns without an entry; everything after the last good one is a torn tail."""

DAMAGED = PATTERNS.keys() - INTACT

CODES = {
    "bad_sums": {"damaged-entry", "torn-tail"},
    "broken_chain": {"prev-offset-mismatch"},
    "claims_before_good": {"damaged-entry"},
    "claims_of_all_sizes": {"damaged-entry"},
    "erased_chains": {"prev-offset-mismatch", "torn-tail"},
    "gaps": {"damaged-entry"},
    "ones": {"torn-tail"},
    "placed_candidates": {"torn-tail"},
    "small_candidates": {"torn-tail"},
    "unknown_types": {"unknown-type"},
    "wild_sizes": {"torn-tail"},
    "zeros": {"zero-tail"},
}
MORE = "more-damage"
"""Code of one more finding for files with more damaged places than are listed."""

SIZE = 300_000
SECONDS = 11.0
"""CPU seconds allowed for SIZE on a slow and busy machine; an idle one takes half of one. Time that
grows as the square of the size is past it if 1 MB takes two minutes."""

MEMORY = 400 << 20
SMALL, LARGE = 16_000_000, 64_000_000
GROWTH = 6.0
"""Largest ratio of times for four times the bytes: 4 is linear, 16 square; machines are busy."""

LARGE_SECONDS = 200.0
"""CPU seconds allowed for LARGE; the slowest takes a fortieth of it on an idle machine."""


def write_hostile(folder: Path, pattern: str, size: int) -> Path:
    return write_log(folder / "env", [hostile_file(pattern, size)])


@pytest.mark.parametrize("pattern", sorted(PATTERNS))
def test_every_byte_is_judged_in_microseconds(pattern: str, tmp_path: Path) -> None:
    # The first command of a process imports its modules.
    je_tools("verify", write_hostile(tmp_path / "small", pattern, 10_000))
    home = write_hostile(tmp_path, pattern, SIZE)
    started = time.process_time()
    verified = je_tools("verify", home, "--format", "jsonl")
    assert time.process_time() - started < SECONDS
    assert verified.code == (3 if pattern in DAMAGED else 0), verified.err
    assert {row["code"] for row in verified.rows} - {MORE} == CODES[pattern]


@pytest.mark.parametrize("pattern", sorted(PATTERNS))
def test_no_byte_is_lost(pattern: str, tmp_path: Path) -> None:
    home = write_hostile(tmp_path, pattern, 30_000)
    read = read_log(home)
    for seen in read:
        seen.assert_covers_every_byte()
    dumped = je_tools("dump", home, "--format", "jsonl")
    assert dumped.code == (3 if pattern in DAMAGED else 0)
    good = [(row["offset"], row["checksum"]) for row in dumped.rows if row["checksum"] != "bad"]
    assert [offset for offset, _ in good] == [start for start, _ in read[0].good]


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("pattern", sorted(PATTERNS))
def test_time_grows_as_the_size_and_memory_does_not(pattern: str, tmp_path: Path) -> None:
    took = []
    for size in (SMALL, LARGE):
        home = write_hostile(tmp_path / str(size), pattern, size)
        found = measured("verify", home, "--format", "jsonl")
        assert found.code == (3 if pattern in DAMAGED else 0)
        assert found.anonymous < MEMORY
        took.append(found.seconds)
    assert took[1] < LARGE_SECONDS
    # The fixed cost of a process distorts the ratio of short times.
    assert took[1] < GROWTH * max(took[0], 1.0)
