"""Limits of `je-tools erase run`: `--until` and `--vlsn-below`."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from je_tools.commands import erase_run
from je_tools.erase import control_files
from je_tools.erase.options import BATCH_MAX
from je_tools.vlsn.recovered_index import read_index
from tests.damage.running import je_tools
from tests.je_tools.erase.erasing import changed_entries, copy_of, log_bytes
from tests.je_tools.snapshots import codes_of, contents_of, snapshot_of
from tests.truth.headers import ERASED, walk_bytes


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a log of three files in which much can be erased."""
    return copy_of("v17-erase-after", tmp_path / "env")


def in_seconds(seconds: float) -> str:
    """Return the time in some seconds, in a form that `--until` accepts."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]


class Clock:
    """A clock that is an hour ahead as soon as the log has changed."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._old = log_bytes(home)

    def time_ns(self) -> int:
        """Return nanoseconds since 1970."""
        is_ahead = log_bytes(self._home) != self._old
        return time.time_ns() + is_ahead * 3_600_000_000_000

    def time(self) -> float:
        """Return seconds since 1970."""
        return self.time_ns() / 1e9


def test_until_a_time_it_stops_at_a_safe_point(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time comes during the first batch; the rest is left for another run."""
    old, records = log_bytes(home), contents_of(snapshot_of(home))
    with monkeypatch.context() as patch:
        patch.setattr(erase_run, "time", Clock(home))
        done = je_tools("erase", "run", home, "--apply", "--until", in_seconds(600))
    assert done.code == 0, done.err
    assert "3 files are left for the next run" in done.err
    erased = changed_entries(old, log_bytes(home))
    assert 0 < len(erased) <= BATCH_MAX
    assert contents_of(snapshot_of(home)) == records
    assert codes_of(snapshot_of(home)) == []
    assert not (home / control_files.FOLDER).exists()
    last = je_tools("erase", "run", home, "--apply", "--until", in_seconds(600))
    assert last.code == 0, last.err
    assert "files are left" not in last.err
    assert len(changed_entries(old, log_bytes(home))) > len(erased)


@pytest.mark.parametrize("text", ["2026-01-01T06:00", "1700000000s", "25:00", "tomorrow"])
def test_no_time_to_come_is_refused(text: str, home: Path) -> None:
    old, names = log_bytes(home), sorted(home.iterdir())
    done = je_tools("erase", "run", home, "--apply", "--until", text)
    assert done.code == 2, done.err
    assert text in done.err
    assert (log_bytes(home), sorted(home.iterdir())) == (old, names)


def test_a_clock_that_has_shown_the_time_shows_it_again(home: Path) -> None:
    """`HH:MM` of the minute that has passed is tomorrow's."""
    past = (datetime.now(UTC) - timedelta(minutes=1)).strftime("%H:%M")
    done = je_tools("erase", "run", home, "--apply", "--until", past)
    assert done.code == 0, done.err
    assert "files are left" not in done.err


def erased_vlsns(home: Path) -> list[int]:
    """Return the VLSNs of erased entries."""
    return [
        entry.vlsn
        for name, data in log_bytes(home).items()
        for entry in walk_bytes(data, int(name[:8], 16))
        if entry.type_no == ERASED and entry.vlsn is not None
    ]


@pytest.mark.parametrize("more", [0, 1, 100])
def test_entries_from_a_vlsn_on_stay(more: int, tmp_path: Path) -> None:
    """The index begins at the last bucket that begins at that VLSN or before."""
    home = copy_of("v26-rep-committed/node1", tmp_path / "env")
    before = read_index(snapshot_of(home))
    _, second, *rest = before.buckets
    assert rest
    below = second.first + more
    assert below < rest[0].first
    for number in (below - more - 1, below):
        words = ("--checkpoint-first", "--force", "--vlsn-below", number)
        done = je_tools("erase", "run", home, "--apply", *words)
        assert done.code == 0, done.err
        erased = erased_vlsns(home)
        expected = second.first if number >= second.first else before.range.first
        assert read_index(snapshot_of(home)).range.first == expected
        assert all(vlsn < expected for vlsn in erased)
        assert bool(erased) is (number >= second.first)
    assert je_tools("erase", "run", home, "--vlsn-below", 0).code == 2
    assert codes_of(snapshot_of(home)) == []
