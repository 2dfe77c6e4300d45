"""Sides of bounds by number, in whatever order they become known."""

from __future__ import annotations

import random

import numpy as np
import pytest

from je_tools.log.time_filter import INSIDE, NO_TIME, OUTSIDE, UNKNOWN, Steps, Window


@pytest.mark.parametrize("seed", range(200))
def test_the_last_side_that_was_given_counts(seed: int) -> None:
    rng = random.Random(seed)
    steps, known = Steps(), {}
    for _ in range(rng.randrange(1, 30)):
        base = rng.randrange(200)
        numbers = sorted(rng.sample(range(base, base + 60), rng.randrange(12)))
        sides = {number: rng.choice([INSIDE, OUTSIDE]) for number in numbers}
        known |= sides
        steps = steps.with_points(
            np.array(numbers, np.int64), np.array(list(sides.values()), np.int8)
        )
        asked = np.array(sorted(known), np.int64)
        assert steps.of(asked).tolist() == [known[number] for number in sorted(known)]
        assert (np.diff(steps.starts) > 0).all()


def test_what_goes_up_in_order_takes_no_room() -> None:
    steps = Steps()
    for start in range(1, 100_000, 1000):
        numbers = np.arange(start, start + 1000, 2, dtype=np.int64)
        steps = steps.with_points(numbers, np.where(numbers < 50_000, OUTSIDE, INSIDE))
    assert len(steps.starts) <= 101
    assert steps.of(np.array([0, 1, 49_999, 50_001], np.int64)).tolist() == [
        UNKNOWN,
        OUTSIDE,
        OUTSIDE,
        INSIDE,
    ]


def test_bounds_are_inclusive() -> None:
    times = np.array([NO_TIME, 9, 10, 20, 21], np.int64)
    assert Window(10, 20).sides(times).tolist() == [UNKNOWN, OUTSIDE, INSIDE, INSIDE, OUTSIDE]
    assert Window(None, 9).sides(times).tolist() == [UNKNOWN, INSIDE, OUTSIDE, OUTSIDE, OUTSIDE]
