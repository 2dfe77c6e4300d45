"""Compacted segments: damage in the entry of the ZIP is a problem in words, and no exception."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path

import pytest

from je_tools.formats.ignite import unpacked as module
from je_tools.formats.ignite.unpacked import Unpacked, unpacked_start

_DATA = bytes(range(50)) + bytes(200)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    return _packed(tmp_path, _DATA)


def _packed(folder: Path, data: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write a ZIP as the engine does: checksum and sizes follow the entry."""
    path = folder / "0000000000000000.wal.zip"
    with (
        zipfile.ZipFile(path, "w", method) as archive,
        archive.open("0000000000000000.wal", "w") as member,
    ):
        member.write(data)
    return path


def _described(data: bytes) -> bytes:
    """Return a ZIP whose entry has its checksum and sizes after it, as Java writes it."""
    stream = zlib.compressobj(wbits=-15)
    entry = stream.compress(data) + stream.flush()
    name = b"0000000000000000.wal"
    facts = b"".join(n.to_bytes(4, "little") for n in (zlib.crc32(data), len(entry), len(data)))
    fields = b"\x14\0\x08\0\x08\0" + bytes(4)
    sizes = len(name).to_bytes(2, "little") + bytes(2)
    head = b"PK\3\4" + fields + bytes(12) + sizes + name
    directory = b"PK\1\2\x14\0" + fields + facts + sizes + bytes(14) + name
    start = len(head) + len(entry) + 16
    end = b"PK\5\6" + bytes(4) + b"\1\0\1\0" + len(directory).to_bytes(4, "little")
    tail = end + start.to_bytes(4, "little") + bytes(2)
    return head + entry + b"PK\7\x08" + facts + directory + tail


def _unpacked(path: Path) -> tuple[bytes, str | None, str | None]:
    unpacked = Unpacked(path)
    try:
        data = unpacked.read(0, 1000).tobytes()
        return data, unpacked.problem, unpacked.directory_problem
    finally:
        unpacked.close()


@pytest.mark.parametrize("is_described", [True, False])
def test_each_flipped_bit_of_the_entry_is_harmless_or_a_problem(
    packed: Path, is_described: bool
) -> None:
    if is_described:
        packed.write_bytes(_described(_DATA))
    good = packed.read_bytes()
    assert _unpacked(packed) == (_DATA, None, None)
    entry_size = good.index(b"PK\1\2")
    problems = directory_problems = 0
    for bit in range(len(good) * 8):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        packed.write_bytes(bad)
        data, problem, directory_problem = _unpacked(packed)
        assert data == _DATA or problem, bit
        # The engine does not read the directory.
        assert bit // 8 < entry_size or (data, problem) == (_DATA, None), bit
        problems += problem is not None
        directory_problems += directory_problem is not None
    assert problems > entry_size * 3
    assert directory_problems > len(good) - entry_size


def test_an_entry_that_the_engine_cannot_read_is_a_problem(packed: Path) -> None:
    good = packed.read_bytes()
    for changes in (
        {6: 1},
        {8: zipfile.ZIP_BZIP2},
        {8: zipfile.ZIP_LZMA},
        {8: zipfile.ZIP_STORED, 6: 8},
        {30: 0xFF},
        {3: 5},
    ):
        bad = bytearray(good)
        for offset, value in changes.items():
            bad[offset] = value
        packed.write_bytes(bad)
        data, problem, _ = _unpacked(packed)
        assert (data, unpacked_start(packed, 10)) == (b"", (b"", problem)), changes
        assert problem, changes


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_file_that_ends_early_gives_what_it_has(method: int, tmp_path: Path) -> None:
    path = _packed(tmp_path, _DATA, method)
    good = path.read_bytes()
    entry_size = good.index(b"PK\1\2")
    for size in range(len(good)):
        path.write_bytes(good[:size])
        data, problem, directory_problem = _unpacked(path)
        assert _DATA.startswith(data)
        assert (problem is not None) == (size < entry_size)
        assert directory_problem or problem


def test_a_second_entry_is_a_problem(packed: Path) -> None:
    good = packed.read_bytes()
    packed.write_bytes(good[: good.index(b"PK\1\2")] + good)
    assert _unpacked(packed) == (_DATA, "it has more than one entry", None)


def test_bytes_after_the_entry_are_not_read_as_a_directory(packed: Path) -> None:
    packed.write_bytes(packed.read_bytes() + bytes(1 << 20))
    assert _unpacked(packed)[2] == "1,048,664 bytes follow the entry"


def test_zeros_cost_neither_memory_nor_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, limit = 160 << 20, 100 << 20
    path = _packed(tmp_path, b"head" + bytes(size))
    assert unpacked_start(path, 6) == (b"head\0\0", None)
    monkeypatch.setattr(module, "SEGMENT_SIZE_MAX", limit)
    unpacked = Unpacked(path)
    try:
        assert unpacked.size == limit
        assert unpacked.problem == "it unpacks to more bytes than a segment can have"
        assert unpacked.read(0, 5).tobytes() == b"head\0"
        assert not unpacked.read(limit - 10, limit + 10).any()
        assert len(unpacked.read(limit - 10, limit + 10)) == 10
        assert os.fstat(unpacked._file.fileno()).st_blocks * 512 <= 2 << 20
    finally:
        unpacked.close()
