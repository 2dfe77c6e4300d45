"""Both forms of the kernel that reads on behind damage say the same, wherever its buffer ends."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from je_tools.formats.je import walk as w
from je_tools.formats.je.resync import SUMS_KEPT, Cursor, read_damaged
from je_tools.formats.kernels import compiled
from tests.builders.logs import random_log
from tests.damage.hostile import PATTERNS, hostile_file
from tests.damage.mutate import CHANGES

ROUNDS = 150
HOSTILE_SIZE = 9000


def damaged_bytes(rng: random.Random) -> bytes:
    """One damaged file, of some kilobytes."""
    if rng.random() < 0.5:
        file = hostile_file(rng.choice(sorted(PATTERNS)), rng.choice([500, HOSTILE_SIZE]))
    else:
        (file,) = random_log(rng, 1, rng.choice([5, 30]))
    for _ in range(rng.choice([0, 1, 10])):
        if file.data:
            rng.choice(CHANGES)(rng, file)
    return bytes(file.data)


def cursor(rng: random.Random, data: bytes, base: int, stop: int) -> Any:
    """Where reading stands: at any place, in a gap or not."""
    s = np.zeros(len(Cursor), np.int64)
    at = rng.choice([rng.randrange(base, stop), rng.randrange(len(data))])
    lost = rng.choice([w.NO_OFFSET, max(at - 1, 0), rng.randrange(at + 1)])
    last = rng.choice([w.NO_OFFSET, 0, rng.randrange(at + 1)])
    shift = rng.choice([0, 0, 0, 9, -9])
    if rng.random() < 0.7:
        # Behind the file header, as a reader that has met no damage before.
        at, lost, last, shift = 38, w.NO_OFFSET, 0, 0
    expected = w.NO_OFFSET if last == w.NO_OFFSET or rng.random() < 0.5 else last - shift
    budget = rng.choice([0, 5000, 1 << 20])
    s[Cursor.AT : Cursor.ROWS] = at, lost, expected, last, shift, budget
    limit = rng.choice([len(data), rng.randrange(len(data) + 1)])
    numbers = base, limit, len(data), 0x28, 0xEF, w.erased_no(17)
    s[Cursor.BASE :] = *numbers, rng.random() < 0.2, rng.random() < 0.8, rng.choice([22, 65536])
    return s


def outputs(rng: random.Random, size: int) -> list[Any]:
    """Arrays of sizes that are full soon, or never."""
    rows, gaps, breaks = (rng.choice([1, 5, 2000]) for _ in range(3))
    sums = np.full((SUMS_KEPT, 2), w.NO_OFFSET, np.int64)
    failed = np.zeros(size // 8 + 1, np.uint8)
    places = [np.zeros((gaps, 3), np.int64), np.zeros((breaks, 4), np.int64)]
    return [sums, failed, *places, *(np.zeros(rows, w.ROW_DTYPE[name]) for name in w.COLUMN_NAMES)]


@pytest.mark.parametrize("seed", range(5))
def test_plain_and_compiled_agree(seed: int) -> None:
    taken = 0
    for number in range(ROUNDS):
        rng = random.Random(f"{seed}/{number}")
        data = damaged_bytes(rng)
        if len(data) < 40:
            continue
        base = rng.choice([0, 0, 0, rng.randrange(len(data) - 20)])
        stop = rng.choice([len(data), rng.randrange(base + 1, len(data) + 1)])
        buf = np.frombuffer(data[base:stop], np.uint8)
        s = cursor(rng, data, base, stop)
        arrays = outputs(rng, len(buf))
        other_s, other_arrays = s.copy(), [each.copy() for each in arrays]
        read_damaged(buf.data, s, *arrays)
        compiled(read_damaged)(buf, other_s, *other_arrays)
        assert s.tolist() == other_s.tolist(), number
        for one, other in zip(arrays, other_arrays, strict=True):
            assert one.tolist() == other.tolist(), number
        taken += int(s[Cursor.ROWS] + s[Cursor.GAPS] + s[Cursor.BREAKS])
    assert taken > ROUNDS
