"""Compacted segments: whatever is damaged in the ZIP is a problem in words, and no exception."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from je_tools.formats.ignite.unpacked import Unpacked

_DATA = bytes(range(50)) + bytes(200)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    path = tmp_path / "0000000000000000.wal.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("0000000000000000.wal", _DATA)
    return path


def _unpacked(path: Path) -> tuple[bytes, str | None]:
    unpacked = Unpacked(path)
    try:
        return unpacked.read(0, 1000).tobytes(), unpacked.problem
    finally:
        unpacked.close()


def test_each_flipped_bit_is_harmless_or_a_problem(packed: Path) -> None:
    good = packed.read_bytes()
    assert _unpacked(packed) == (_DATA, None)
    problems = 0
    for bit in range(len(good) * 8):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        packed.write_bytes(bad)
        data, problem = _unpacked(packed)
        assert data == _DATA or problem, bit
        problems += problem is not None
    assert problems > len(good)


def test_flags_and_names_of_the_directory_can_be_damaged(packed: Path) -> None:
    good = packed.read_bytes()
    entry = good.index(b"PK\x01\x02")
    for changes in (
        {8: 1},
        {9: 8, 46: 0xFF},
        {10: zipfile.ZIP_BZIP2},
        {10: zipfile.ZIP_LZMA},
    ):
        bad = bytearray(good)
        for offset, value in changes.items():
            bad[entry + offset] = value
        packed.write_bytes(bad)
        data, problem = _unpacked(packed)
        assert data == b"", changes
        assert problem, changes
