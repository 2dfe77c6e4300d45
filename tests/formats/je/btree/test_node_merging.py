"""Merging slots of deltas and full versions if the order of keys is unknown."""

from __future__ import annotations

import random

import numpy as np

from je_tools.formats import _native
from je_tools.formats.spans import Spans


def one_by_one(full: list[int], delta: list[int], keys: list[int]) -> list[int]:
    """Merge the delta's slots one by one, searching all slots for each."""
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


def test_as_one_by_one() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        sizes = [chance.choice([0, 1, 4, 9]) for _ in range(chance.randint(1, 4))]
        full_sizes = [chance.choice([0, 1, 4, 9]) for _ in sizes]
        first = np.cumsum([0, *sizes])
        base = np.cumsum([int(first[-1]), *full_sizes])
        keys = [chance.randint(0, 9) for _ in range(int(base[-1]))]
        spans = Spans.of([b"%d" % key for key in keys])
        merged, counts = _native.merge_slots(
            spans, first, base[:-1], base[1:], ordered=False, two_part=False
        )
        expected = [
            one_by_one(
                list(range(base[node], base[node + 1])),
                list(range(first[node], first[node + 1])),
                keys,
            )
            for node in range(len(sizes))
        ]
        assert merged.tolist() == [slot for slots in expected for slot in slots], seed
        assert counts.tolist() == [len(slots) for slots in expected]
