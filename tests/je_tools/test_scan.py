"""Rows of a scan: those that are lent may be written over, and what is told of all of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import astuple, replace

from je_tools.environment import open_environment
from je_tools.formats.je.reader import RangeReader, Rows
from je_tools.scan import Scanner
from tests.builders.logs import random_log, write_log
from tests.corpus import Environment, environments
from tests.damage.running import Outcome, je_tools

COMMANDS = {
    "verify": ("--format", "jsonl"),
    "files": ("--format", "jsonl"),
    "summary": ("--by-file", "--by-db", "--vlsn", "--checkpoints", "--txns", "--format", "jsonl"),
    "dump": ("--type", "CKPT", "--limit", "5", "--format", "jsonl"),
}


def outcome(command: str, environment: Environment) -> Outcome:
    return je_tools(command, *COMMANDS[command], environment.home)


def write_over(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Write over rows that were lent as soon as the work is done; how many, each time."""
    real = RangeReader._flush
    written: list[int] = []

    def flush(self: RangeReader) -> Iterator[Rows]:
        count = self._n
        yield from real(self)
        if self.lend and count:
            written.append(count)
            for array in astuple(self._columns):
                array[:count] = 0x5A

    monkeypatch.setattr(RangeReader, "_flush", flush)
    return written


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("environment", environments()[::3], ids=lambda each: each.name)
def test_nothing_is_kept_of_lent_rows(
    command: str, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = outcome(command, environment)
    written = write_over(monkeypatch)
    assert outcome(command, environment) == expected
    assert written


def surveyed(rows: Rows) -> bool | None:
    """Whether what the walk has seen is what numpy sees; None where the walk does not say."""
    if rows.surveyed is None:
        return None
    plain = replace(rows, surveyed=None).survey
    told = rows.surveyed
    same = (told.bad, told.flags) == (plain.bad, plain.flags)
    return same and told.counts.tolist() == plain.counts.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_what_the_walk_has_seen_is_what_is_there(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    files = random_log(rng, files=2, entries=200)
    for file in files:
        for place in rng.sample(file.placed, rng.randrange(4)):
            file.data[rng.randrange(place.start, place.stop)] ^= 0x41
    home = write_log(tmp_path / "env", files)
    scanner = Scanner(fast=True, threads=1, wide=rng.random() < 0.5)
    parts = scanner.scan(open_environment([home]), surveyed)
    told = [each for part in parts for each in part.results]
    assert False not in told


@pytest.mark.parametrize("environment", environments()[::3], ids=lambda each: each.name)
def test_of_a_log_without_damage_the_walk_sees_all(environment: Environment) -> None:
    opened = open_environment([environment.home])
    told = [each for part in Scanner(fast=True).scan(opened, surveyed) for each in part.results]
    # Where a tail is torn the walk is not the only one to look.
    assert set(told) <= ({True, None} if "torn" in environment.name else {True})
