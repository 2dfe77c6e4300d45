"""Walking and summing: zlib's sums, and the same rows wherever the buffer begins and ends."""

from __future__ import annotations

import random
import zlib
from typing import Any

import numpy as np
from msgspec import structs

from je_tools.formats import _native
from je_tools.formats.je import walk as w
from je_tools.formats.source import Bytes
from tests.builders.logs import random_log

VERSION = 17
ROUNDS = 60


def log_bytes(rng: random.Random) -> Bytes:
    """One random file."""
    (file,) = random_log(rng, 1, rng.choice([1, 5, 40]))
    return np.frombuffer(bytes(file.data), np.uint8)


def walked(
    data: Bytes, at: int, stop: int, columns: w.HeaderColumns, expected: int, survey: Any
) -> tuple[int, int, int]:
    """Walk from `at` in bytes [at, stop) of a file."""
    return _native.walk(
        data[at:stop],
        base=at,
        at=at,
        limit=len(data),
        expected_prev=expected,
        shift=0,
        rules=w.HeaderRules.of(VERSION, len(data)),
        columns=columns,
        survey=survey,
    )


def rows_of(columns: w.HeaderColumns) -> list[tuple[int, ...]]:
    """One tuple an entry, without what is known of its sum."""
    numbers = [array.tolist() for array in structs.astuple(columns)[:-1]]
    return list(zip(*numbers, strict=True))


def test_every_sum_is_that_of_zlib() -> None:
    for number in range(ROUNDS):
        rng = random.Random(number)
        data = log_bytes(rng).copy()
        for _ in range(rng.choice([0, 3])):
            # After the header of the file, so that the walk takes one entry at least.
            data[rng.randrange(38, len(data))] ^= 1
        columns = w.HeaderColumns.empty(200)
        survey = np.zeros(w.SURVEY_SIZE, np.int64)
        n, _, _ = walked(data, 0, len(data), columns, w.NO_OFFSET, survey)
        summed = columns.checksum[: n - 1].copy()
        rules = w.HeaderRules.of(VERSION, len(data))
        states = np.zeros(n, np.uint8)
        _native.check_sums(data, base=0, rules=rules, offsets=columns.offset[:n], states=states)
        assert summed.tolist() == states[:-1].tolist()
        for row, state in enumerate(states.tolist()):
            start, size = int(columns.offset[row]), int(columns.item_size[row])
            entry = bytearray(data[start : start + size + int(columns.header_size[row])])
            entry[5] &= rules.summed_flags
            right = zlib.adler32(entry[4:]) == columns.stored_checksum[row]
            expected = w.Checksum.OK if right else w.Checksum.BAD
            is_erased = columns.type[row] == rules.erased_type
            assert state == (w.Checksum.NONE if is_erased else expected), (number, row)
        types = columns.type[: n - 1]
        assert survey[:256].tolist() == np.bincount(types, minlength=256).tolist()
        assert survey[w.SURVEYED_BAD] == (summed == w.Checksum.BAD).sum()
        assert survey[w.SURVEYED_FLAGS] == np.bitwise_or.reduce(columns.flags[: n - 1], initial=0)


def test_a_walk_in_pieces_gives_the_same_rows() -> None:
    for number in range(ROUNDS):
        rng = random.Random(number)
        data = log_bytes(rng)
        columns = w.HeaderColumns.empty(200)
        n, _, _ = walked(data, 0, len(data), columns, w.NO_OFFSET, None)
        whole = rows_of(columns.part(0, n))
        pieces: list[tuple[int, ...]] = []
        at, expected, size = 0, w.NO_OFFSET, 0
        while at < len(data):
            part = w.HeaderColumns.empty(rng.choice([1, 3, 200]))
            size = size + 50 if size else rng.randrange(1, 400)
            n, at, stop = walked(data, at, min(at + size, len(data)), part, expected, None)
            assert stop in (w.Stop.NEED_MORE, w.Stop.ROWS, w.Stop.LIMIT)
            pieces += rows_of(part.part(0, n))
            if n:
                size, expected = 0, int(part.offset[n - 1])
        assert pieces == whole, number
