"""Hexadecimal digits, as kernel and as plain Python, at every size around a step."""

from __future__ import annotations

import random

import numpy as np
import pytest

from je_tools.formats.hexes import STEP, put_hex
from je_tools.formats.kernels import compiled
from je_tools.formats.source import as_plain


@pytest.mark.parametrize("fast", [False, True], ids=["plain", "compiled"])
@pytest.mark.parametrize("size", [0, 1, STEP - 1, STEP, STEP + 1, 3 * STEP, 1000])
def test_digits_are_those_of_python_and_nothing_else_is_touched(size: int, fast: bool) -> None:
    data = np.frombuffer(random.Random(size).randbytes(size + 7), np.uint8)
    out = np.full(2 * size + 9, 255, np.uint8)
    run = compiled(put_hex) if fast else put_hex
    end = run(data if fast else as_plain(data), 7, size, out, 4)
    assert end == 4 + 2 * size
    assert out[4:end].tobytes() == data[7:].tobytes().hex().encode()
    assert set(out[:4].tolist() + out[end:].tolist()) == {255}


def test_all_bytes_have_their_digits() -> None:
    data = np.arange(256, dtype=np.uint8)
    data.flags.writeable = False
    out = np.zeros(512, np.uint8)
    compiled(put_hex)(data, 0, 256, out, 0)
    assert out.tobytes() == bytes(range(256)).hex().encode()
