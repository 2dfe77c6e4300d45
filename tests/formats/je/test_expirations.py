"""Expirations: days or hours, told apart by the number, and wild values, which never expire."""

from __future__ import annotations

import numpy as np

from je_tools.formats.je.expirations import DAY_MS, HOUR_MS, expiration_ms

WILD = [1 << 31, -(1 << 31), 1 << 40, 1 << 60, -(1 << 60), (1 << 63) - 1, -(1 << 63)]


def test_days_hours_and_none() -> None:
    values = [0, 20_800, 499_200, -499_200, 100_000, 100_001, (1 << 31) - 1]
    expected = [
        0,
        20_800 * DAY_MS,
        499_200 * HOUR_MS,
        499_200 * HOUR_MS,
        100_000 * DAY_MS,
        100_001 * HOUR_MS,
        ((1 << 31) - 1) * HOUR_MS,
    ]
    assert expiration_ms(np.array(values, np.int64)).tolist() == expected


def test_numbers_that_no_engine_counts_to_are_never() -> None:
    assert not expiration_ms(np.array(WILD, np.int64)).any()
