"""Files of pages of Ignite's page store, made byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from tests.builders.ignite import checksum

SIGNATURE = 0xF19AC4FE60C530B8
SIZE = 1024
INDEX = 65535


def file_header(*, is_index: bool = False, order: str = "<", size: int = SIZE) -> bytes:
    """Return the page at the start of a file."""
    return struct.pack(f"{order}QiBi", SIGNATURE, 2, 1 + is_index, size).ljust(size, b"\0")


def page(
    partition: int, index: int, type_no: int = 1, *, order: str = "<", version: int = 1
) -> bytes:
    """Return a page with its checksum, filled with bytes of its index."""
    flag = 2 if partition == INDEX else 1
    start = struct.pack(f"{order}HH", type_no, version)
    rest = struct.pack(f"{order}Q", flag << 48 | partition << 32 | index)
    rest = (rest + bytes(24)).ljust(SIZE - 8, bytes([index + 1]))
    return start + struct.pack(f"{order}I", checksum(start + bytes(4) + rest)) + rest


def page_file(partition: int, types: Sequence[int], order: str = "<") -> bytes:
    """Return a file with a page of each type."""
    pages = [page(partition, n, type_no, order=order) for n, type_no in enumerate(types)]
    return file_header(is_index=partition == INDEX, order=order) + b"".join(pages)


def write_page_store(root: Path, order: str = "<") -> Path:
    """Write a node without a log: a cache with two partitions and an index, and a metastorage."""
    cache = root / "db" / "node1" / "cache-first"
    files = {
        cache / "part-0.bin": page_file(0, [14, 15, 2, 6, 1, 1], order),
        cache / "part-1.bin": page_file(1, [14, 15, 2, 6, 1], order),
        cache / "index.bin": page_file(INDEX, [11, 15, 2], order),
        cache.parent / "metastorage" / "part-1.bin": page_file(1, [14, 15, 21], order),
    }
    for path, data in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def damage(path: Path, page_no: int, at: int = 100) -> None:
    """Change a byte of a page."""
    data = bytearray(path.read_bytes())
    data[SIZE * (page_no + 1) + at] ^= 1
    path.write_bytes(data)


def write_damaged_page_store(root: Path) -> Path:
    """Write a store with damage in a partition, the index and the metastorage."""
    node = write_page_store(root) / "db" / "node1"
    damage(node / "cache-first" / "part-0.bin", 4)
    damage(node / "cache-first" / "part-0.bin", 5)
    damage(node / "cache-first" / "index.bin", 2)
    metastorage = node / "metastorage" / "part-1.bin"
    data = metastorage.read_bytes()
    metastorage.write_bytes(data[: 2 * SIZE] + bytes(SIZE) + data[3 * SIZE :] + bytes(SIZE))
    return root
