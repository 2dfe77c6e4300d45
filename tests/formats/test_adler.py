"""Adler-32 of spans of every length, at every place in a row, plain and compiled: zlib's."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from je_tools.formats.adler import ROW, ROWS_MAX, adler32
from je_tools.formats.kernels import compiled
from je_tools.formats.source import Bytes, as_plain

STARTS = (0, 1, ROW - 3, ROW - 2, ROW - 1, ROW, 100)
BLOCK = ROW * ROWS_MAX


def filled(kind: str) -> Bytes:
    size = 12 * BLOCK
    random = np.random.default_rng(1).integers(0, 256, size, dtype=np.uint8)
    data: Bytes = {"random": random, "highest": np.full(size, 255, np.uint8)}[kind]
    data.flags.writeable = False
    return data


@pytest.mark.parametrize("kind", ["random", "highest"])
def test_compiled_it_is_that_of_zlib(kind: str) -> None:
    data = filled(kind)
    twin = compiled(adler32)
    for start in STARTS:
        for size in (*range(2, 2 * BLOCK + 2 * ROW), 11 * BLOCK):
            expected = zlib.adler32(data[start : start + size].tobytes())
            assert twin(data, start, start + size, 0xFF) == expected, (start, size)


@pytest.mark.parametrize("kind", ["random", "highest"])
def test_plain_it_is_that_of_zlib(kind: str) -> None:
    data = filled(kind)
    for start in STARTS:
        for size in (2, 3, ROW + 1, ROW + 2, ROW + 3, 300, BLOCK + 1, BLOCK + 2, BLOCK + 3):
            expected = zlib.adler32(data[start : start + size].tobytes())
            assert adler32(as_plain(data), start, start + size, 0xFF) == expected, (start, size)


@pytest.mark.parametrize("mask", [0xFF, 0xEF, 0x0F, 0])
def test_the_second_byte_is_masked(mask: int) -> None:
    data = filled("random")
    masked = data[:500].copy()
    masked[1] &= mask
    expected = zlib.adler32(masked.tobytes())
    assert compiled(adler32)(data, 0, 500, mask) == expected
    assert adler32(as_plain(data), 0, 500, mask) == expected
