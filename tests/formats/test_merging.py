"""Slots of deltas and of their full versions where nothing is known of the order of keys."""

from __future__ import annotations

import random

import numpy as np
import pytest

from je_tools.formats.je.nodes import _merge_by_bytes
from je_tools.formats.kernels import compiled


def one_by_one(full: list[int], delta: list[int], keys: list[int]) -> list[int]:
    """A slot of the delta after the other, each looked for among all."""
    found = list(full)
    place = 0
    for slot in delta:
        same = [at for at, other in enumerate(found) if keys[other] == keys[slot]]
        if same:
            place = same[0]
            found[place] = slot
        else:
            found.insert(place, slot)
        place += 1
    return found


@pytest.mark.parametrize("fast", [False, True])
def test_as_one_by_one(fast: bool) -> None:
    run = compiled(_merge_by_bytes) if fast else _merge_by_bytes
    for seed in range(200):
        chance = random.Random(seed)
        sizes = [chance.choice([0, 1, 4, 9]) for _ in range(chance.randint(1, 4))]
        full_sizes = [chance.choice([0, 1, 4, 9]) for _ in sizes]
        first = np.cumsum([0, *sizes])
        base = np.cumsum([int(first[-1]), *full_sizes])
        keys = [chance.randint(0, 9) for _ in range(int(base[-1]))]
        size = sum(sizes) + sum(full_sizes)
        out, counts = np.zeros(size, np.int64), np.zeros(len(sizes), np.int64)
        spare = (np.zeros(10, np.int64), np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64))
        groups = np.array(keys, np.int64)
        total = run(len(sizes), first, groups, base[:-1], base[1:], *spare, out, counts)
        expected = [
            one_by_one(
                list(range(base[node], base[node + 1])),
                list(range(first[node], first[node + 1])),
                keys,
            )
            for node in range(len(sizes))
        ]
        assert out[:total].tolist() == [slot for slots in expected for slot in slots], seed
        assert counts.tolist() == [len(slots) for slots in expected]
