"""Files of pages of Ignite's page store, made byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from tests.builders.ignite import checksum

SIGNATURE = 0xF19AC4FE60C530B8
SIZE = 1024
INDEX = 65535
CONFIGURATION = b"\xac\xed\0\5p"
"""A null, as Java serializes it."""


def file_header(*, is_index: bool = False, order: str = "<", size: int = SIZE) -> bytes:
    """Return the page at the start of a file."""
    return struct.pack(f"{order}QiBi", SIGNATURE, 2, 1 + is_index, size).ljust(size, b"\0")


def page(
    partition: int,
    index: int,
    type_no: int = 1,
    *,
    order: str = "<",
    version: int = 1,
    body: bytes | None = None,
) -> bytes:
    """Return a page with its checksum, with a body or filled with bytes of its index."""
    start = struct.pack(f"{order}HH", type_no, version)
    rest = struct.pack(f"{order}Q", page_id(partition, index)) + bytes(24)
    fill = bytes([index + 1]) if body is None else b"\0"
    rest = (rest + (body or b"")).ljust(SIZE - 8, fill)
    return start + struct.pack(f"{order}I", checksum(start + bytes(4) + rest)) + rest


def page_id(partition: int, index: int, item: int = 0) -> int:
    """Return the id of a page, or the link of an item."""
    flag = 2 if partition == INDEX else 1
    return item << 56 | flag << 48 | partition << 32 | index


def meta_body(partition: int, tree: int = 0, rows: int = 0, order: str = "<") -> bytes:
    """Return the body of the first page of a file."""
    root = page_id(partition, tree) if tree else 0
    return struct.pack(f"{order}8xQ48xQ", root, 0 if partition == INDEX else rows)


def roots_body(partition: int, levels: Sequence[int], order: str = "<") -> bytes:
    """Return the body of the page that names the levels of a tree."""
    ids = [page_id(partition, each) for each in levels]
    return struct.pack(f"{order}B{len(ids)}Q", len(ids), *ids)


def leaf_body(items: Sequence[bytes], forward: int = 0, order: str = "<") -> bytes:
    """Return the body of a page of a tree, with items or with children and items."""
    return struct.pack(f"{order}HQQ", len(items), forward, 0) + b"".join(items)


def leaf_item(partition: int, index: int, item: int, key_hash: int, order: str = "<") -> bytes:
    """Return an item of a leaf of rows."""
    return struct.pack(f"{order}Qi", page_id(partition, index, item), key_hash)


def data_body(rows: Sequence[bytes], order: str = "<") -> bytes:
    """Return the body of a data page."""
    entries = [struct.pack(f"{order}H", len(row)) + row for row in rows]
    places, at = [], SIZE
    for entry in entries:
        at -= len(entry)
        places.append(at)
    free = at - 54 - 2 * len(rows)
    start = struct.pack(f"{order}QHBBH", 0, free, len(rows), 0, at)
    start += struct.pack(f"{order}{len(rows)}H", *places)
    return start.ljust(at - 40, b"\0") + b"".join(reversed(entries))


def row(number: int, value: str, order: str = "<") -> bytes:
    """Return the row of an integer and a text."""
    key = struct.pack("<Bi", 3, number)
    text = struct.pack("<Bi", 9, len(value)) + value.encode()
    sizes = [struct.pack(f"{order}iB", len(each), 1) + each for each in (key, text)]
    version = struct.pack(f"{order}Biiq", 1, 406698471, 1, 1795218469159 + number)
    return b"".join(sizes) + version + struct.pack(f"{order}q", 0)


def page_file(partition: int, types: Sequence[int], order: str = "<") -> bytes:
    """Return a file with a page of each type: a tree of rows, of which a data page has one."""
    data = [n for n, type_no in enumerate(types) if type_no == 1]
    keys = [partition + 2 * n for n in range(len(data))]
    items = [leaf_item(partition, n, 0, key, order) for n, key in zip(data, keys, strict=True)]
    roots = [n for n, type_no in enumerate(types) if type_no == 2]
    leaves = [n for n, type_no in enumerate(types) if type_no == 6]
    bodies = {
        1: lambda n: data_body([row(keys[data.index(n)], f"value {n}", order)], order),
        2: lambda _: roots_body(partition, leaves, order),
        6: lambda _: leaf_body(items, order=order),
        11: lambda _: meta_body(partition, *roots, order=order),
        14: lambda _: meta_body(partition, *roots, rows=len(data), order=order),
        15: lambda _: b"",
        21: lambda _: data_body([], order),
    }
    pages = [
        page(partition, n, type_no, order=order, body=bodies[type_no](n))
        for n, type_no in enumerate(types)
    ]
    return file_header(is_index=partition == INDEX, order=order) + b"".join(pages)


def write_page_store(root: Path, order: str = "<") -> Path:
    """Write a node without a log: a cache with two partitions and an index, and a metastorage."""
    cache = root / "db" / "node1" / "cache-first"
    files = {
        cache / "part-0.bin": page_file(0, [14, 15, 2, 6, 1, 1], order),
        cache / "part-1.bin": page_file(1, [14, 15, 2, 6, 1], order),
        cache / "index.bin": page_file(INDEX, [11, 15, 2], order),
        cache.parent / "metastorage" / "part-1.bin": page_file(1, [14, 15, 21], order),
        cache / "cache_data.dat": CONFIGURATION,
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


def summed(data: bytes) -> bytes:
    """Return a file whose pages have right checksums, so that damage is in their content."""
    out = bytearray(data)
    for at in range(SIZE, len(data) - SIZE + 1, SIZE):
        order = "<" if data[:1] == b"\xb8" else ">"
        out[at + 4 : at + 8] = bytes(4)
        struct.pack_into(f"{order}I", out, at + 4, checksum(bytes(out[at : at + SIZE])))
    return bytes(out)


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
