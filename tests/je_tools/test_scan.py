"""Rows that are lent: what is said of a log does not change when they are written over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from je_tools.formats.je.reader import RangeReader, Rows
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
            for array in self._columns.values():
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
