"""Rows of a scan: lent rows may be overwritten, and range summaries match the rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from je_tools.formats.je.log.entry_rows import Rows
from je_tools.formats.je.log.reader import RangeReader
from je_tools.formats.je.log.walk import COLUMN_NAMES
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from tests.builders.logs import random_log, write_log
from tests.corpus import Environment, one_of_each_kind
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
    """Overwrite lent rows as soon as the work is done; return the number of rows each time."""
    real = RangeReader.__iter__
    written: list[int] = []

    def read(self: RangeReader) -> Iterator[Rows]:
        for rows in real(self):
            yield rows
            if self.lend and len(rows):
                written.append(len(rows))
                for name in COLUMN_NAMES:
                    getattr(rows, name)[:] = 0x5A

    monkeypatch.setattr(RangeReader, "__iter__", read)
    return written


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("environment", one_of_each_kind()[::3])
def test_nothing_is_kept_of_lent_rows(
    command: str, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = outcome(command, environment)
    written = write_over(monkeypatch)
    assert outcome(command, environment) == expected
    # For most logs `verify` reads only the `survey`.
    assert written or command == "verify"


def surveyed(rows: Rows) -> bool:
    """Return True if the reader's survey of the rows equals numpy's."""
    plain, told = replace(rows, surveyed=None).survey, rows.survey
    assert rows.surveyed is not None
    assert told.counts.tolist() == plain.counts.tolist()
    return replace(told, counts=plain.counts) == plain


@pytest.mark.parametrize("seed", range(20))
def test_what_the_reader_has_seen_is_what_is_there(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    files = random_log(rng, files=2, entries=200)
    for file in files:
        for place in rng.sample(file.placed, rng.randrange(4)):
            file.data[rng.randrange(place.start, place.stop)] ^= 0x41
    home = write_log(tmp_path / "env", files)
    scanner = Scanner(threads=1, wide=rng.random() < 0.5)
    parts = scanner.scan(open_environment([home]), surveyed)
    assert all(each for part in parts for each in part.results)
