"""Reading a range: checksums as zlib's, and the same rows and gaps however bytes are loaded."""

from __future__ import annotations

import random
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from je_tools.formats.files.source import Source
from je_tools.formats.je.entry.steps import of_users, programs
from je_tools.formats.je.log import reader
from je_tools.formats.je.log import walk as w
from je_tools.formats.je.log.entry_rows import WantedEntries
from je_tools.formats.je.log.reader import RangeReader, RangeState, ReadState
from je_tools.formats.je.log.tally import Tally, tally_rows
from tests.builders.logs import random_log
from tests.damage.mutate import CHANGES

VERSION = 17
ROUNDS = 60


def log_of(rng: random.Random, folder: Path, changes: int) -> Source:
    """Write one random file, damage it in up to `changes` places, and open it."""
    (file,) = random_log(rng, 1, rng.choice([1, 5, 40]))
    for _ in range(changes):
        if file.data:
            rng.choice(CHANGES)(rng, file)
    path = folder / "00000000.jdb"
    path.write_bytes(file.data)
    return Source(path)


def read(source: Source, **options: Any) -> tuple[list[tuple[int, ...]], RangeState]:
    """Return the rows of a whole file, one tuple per entry, and the final state of the range."""
    ranged = RangeReader(source, 0, VERSION, 0, source.size, place=ReadState(), **options)
    rows: list[tuple[int, ...]] = []
    for each in ranged:
        columns = [getattr(each, name).tolist() for name in w.COLUMN_NAMES]
        rows += zip(*columns, strict=True)
        for row in (0, len(each) - 1):
            start = int(each.offset[row])
            stop = start + each.size_of(row)
            assert each.entry_bytes(row) == source.read_bytes(start, stop)
    return rows, ranged.state


def told(state: RangeState) -> list[Any]:
    """Return a state as comparable values."""
    damage = list(state.gaps), list(state.chain_breaks), state.bad
    return [state.first, state.first_prev, state.place, *damage, state.blank]


def load_in_some_way(rng: random.Random, patch: pytest.MonkeyPatch) -> int:
    """Move the borders of loads, and return a random size of the window."""
    patch.setattr(reader, "_SLACK", rng.choice([22, 100, 5000]))
    patch.setattr(reader, "_ROWS", rng.choice([2, 7, 1000]))
    patch.setattr(reader, "SURVEY_WINDOW", rng.choice([64, 500, 1 << 20]))
    return rng.choice([64, 300, 1 << 20])


def test_every_sum_is_that_of_zlib(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        source = log_of(random.Random(number), tmp_path, number % 3)
        rules = w.HeaderRules.of(VERSION, source.size)
        ranged = RangeReader(source, 0, VERSION, 0, source.size, place=ReadState())
        for rows in ranged:
            for row, state in enumerate(rows.checksum.tolist()):
                entry = bytearray(rows.entry_bytes(row))
                entry[5] &= rules.summed_flags
                right = zlib.adler32(entry[4:]) == rows.stored_checksum[row]
                expected = w.Checksum.OK if right else w.Checksum.BAD
                is_erased = rows.type[row] == rules.erased_type
                assert state == (w.Checksum.NONE if is_erased else expected), (number, row)


def test_a_file_reads_the_same_in_whatever_way_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(ROUNDS):
        rng = random.Random(number)
        source = log_of(rng, tmp_path, rng.choice([0, 1, 4]))
        rows, state = read(source)
        with monkeypatch.context() as patch:
            window = load_in_some_way(rng, patch)
            assert [read(source, window=window)[0], told(state)] == [
                rows,
                told(read(source, window=window)[1]),
            ], number
            patch.setattr(Source, "file", lambda _: None)
            again, state_again = read(source, window=window)
            assert (again, told(state_again)) == (rows, told(state)), number


class Sums:
    """Totals over the entries of a file, and the rows that the reader yielded."""

    def __init__(self, source: Source, window: int, asked: WantedEntries | None) -> None:
        self.counts = np.zeros(256, np.int64)
        self.tally = Tally()
        self.ends: list[int] = []
        self.rows: list[tuple[int, int, int, int]] = []
        self.quiet = 0
        place = ReadState()
        ranged = RangeReader(
            source, 0, VERSION, 0, source.size, place=place, window=window, asked=asked
        )
        for each in ranged:
            self.counts += each.survey.counts
            self.tally.add(tally_rows(each))
            ends = each.survey.first, each.survey.last
            self.ends += [end for end in ends if end != w.NO_OFFSET]
            columns = each.offset, each.type, each.flags, each.checksum
            self.rows += zip(*(column.tolist() for column in columns), strict=True)
            self.quiet += not len(each)

    def told(self) -> list[Any]:
        """Return the totals that must not depend on the requested rows."""
        lines = self.tally.types.tolist(), self.tally.sizes.tolist()
        return [self.counts.tolist(), *lines, self.ends[:1], self.ends[-1:]]


def test_rows_that_nobody_asks_for_are_surveyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = 0
    for number in range(ROUNDS):
        rng = random.Random(number)
        source = log_of(rng, tmp_path, rng.choice([0, 0, 1, 4]))
        types = np.zeros(256, np.bool_)
        types[rng.sample(range(1, 46), 2)] = True
        flags = rng.choice([0, 0x20])
        asked = WantedEntries(types, flags, is_tallied=True, programs=programs(VERSION, of_users))
        with monkeypatch.context() as patch:
            window = min(load_in_some_way(rng, patch), reader.SURVEY_WINDOW)
            some, every = Sums(source, window, asked), Sums(source, window, None)
        assert some.told() == every.told(), number
        wanted = {
            row for row in every.rows if types[row[1]] or row[2] & flags or row[3] == w.Checksum.BAD
        }
        assert wanted <= set(some.rows) <= set(every.rows), number
        quiet += some.quiet
    assert quiet > ROUNDS // 4
