"""Content of Ignite's pages and records that no engine writes, with right checksums."""

from __future__ import annotations

import random
import struct

from je_tools.formats.ignite.types import TYPE_COUNT
from tests.builders import ignite as build
from tests.builders import ignite_pages as build_pages

SIZE = build_pages.SIZE
NUMBERS = (0, 1, 2, 3, 40, 58, 122, 255, 256, 1023, 1024, 32767, 65535)
PAGE_TYPES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 16, 17, 18, 19, 20, 21, 22, 23, 32, 10_007)
PLACES = (40, 41, 42, 48, 49, 50, 51, 52, 54, 56, 57, 58, 66, 70, 78, 104, 129, 137, 145, 153)
"""Offsets of counts and links in pages of some type."""

STEPS = (8, 10, 12, 16, 20)
"""Bytes of the items of pages."""

SEGMENT_HEADER_SIZE, HEADER_SIZE, CHECKSUM_SIZE = 29, 17, 4


def lie(rng: random.Random, name: str, data: bytes) -> bytes:
    """Return a file of a store with lies in it; files of other kinds stay as they are."""
    if name.endswith(".bin"):
        return _lying_file(rng, data) if rng.random() < 0.3 else _lying_pages(rng, data)
    return _lying_records(rng, data) if name.endswith(".wal") else data


def _link(rng: random.Random, partition: int, index: int, count: int) -> int:
    """Return a link to the page itself, another one, or one that the file does not have."""
    others = [rng.randrange(count + 1) for _ in range(4)]
    page = rng.choice([index, index + 1, count + rng.randrange(3), (1 << 32) - 1, *others])
    partition = rng.choice([partition] * 20 + [partition + 1 & 0xFFFF])
    return build_pages.page_id(partition, page, rng.choice([0, 0, 1, 2, 255]))


def _order(data: bytes) -> str:
    return "<" if data[:1] == b"\xb8" else ">"


def _lying_pages(rng: random.Random, data: bytes) -> bytes:
    """Change links, counts and types in pages, or give a page the content of another one."""
    count, order, out = len(data) // SIZE - 1, _order(data), bytearray(data)
    for _ in range(rng.choice([1, 2, 4, 8]) if count > 0 else 0):
        index = rng.randrange(count)
        start = SIZE * (index + 1)
        (own,) = struct.unpack_from(f"{order}Q", out, start + 8)
        at, kind = start + rng.choice(PLACES), rng.randrange(5)
        if kind == 0:
            struct.pack_into(f"{order}H", out, start, rng.choice(PAGE_TYPES))
        elif kind == 1:
            struct.pack_into(f"{order}H", out, at, rng.choice(NUMBERS))
        elif kind == 2:
            other = SIZE * (rng.randrange(count) + 1)
            out[start : start + 8] = out[other : other + 8]
            out[start + 40 : start + SIZE] = out[other + 40 : other + SIZE]
        else:
            link = _link(rng, own >> 32 & 0xFFFF, index, count)
            struct.pack_into(f"{order}Q", out, at, link)
    return build_pages.summed(bytes(out))


def _lying_file(rng: random.Random, data: bytes) -> bytes:
    """Return a file of other pages, whose links lead anywhere."""
    order, count = _order(data), rng.choice([3, 8, 30])
    (own,) = struct.unpack_from(f"{order}Q", data.ljust(SIZE + 16, b"\0"), SIZE + 8)
    partition = own >> 32 & 0xFFFF
    is_index = partition == build_pages.INDEX
    pages = [build_pages.file_header(is_index=is_index, order=order)]
    for index in range(count):
        type_no = (11 if is_index else 14) if index == 0 else rng.choice(PAGE_TYPES)
        body = bytearray(SIZE - 40)
        step, some = rng.choice(STEPS), rng.choice([1, 3, 8, 40])
        for at in [2, 8, 10, *range(16, 16 + some * step, step)]:
            if at + 8 <= len(body):
                struct.pack_into(f"{order}Q", body, at, _link(rng, partition, index, count))
        struct.pack_into(
            f"{order}H", body, 16 if type_no == 13 else 0, rng.choice([some, *NUMBERS])
        )
        version = 2 if type_no in (22, 23) else 1
        args = (partition, index, type_no)
        pages.append(build_pages.page(*args, order=order, version=version, body=bytes(body)))
    return b"".join(pages)


def _lying_records(rng: random.Random, data: bytes) -> bytes:
    """Change types and payloads of records of a segment."""
    magic = struct.pack("<Q", 0xB0D045ACE7ED045A)
    order, out = "<" if data[13:21] == magic else ">", bytearray(data)
    spans = list(_records(data, order))
    for at, length in rng.choices(spans, k=rng.choice([1, 2, 5])) if spans else ():
        end = at + length - CHECKSUM_SIZE
        place, kind = rng.randrange(at + HEADER_SIZE, end + 1), rng.randrange(4)
        if kind == 0:
            out[at] = rng.randrange(1, TYPE_COUNT)
        elif kind == 1:
            size = min(rng.choice([1, 2, 8]), end - place)
            out[place : place + size] = rng.randbytes(size)
        elif place + 8 <= end:
            number = rng.choice([*NUMBERS, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 63])
            wide = number > 0xFFFFFFFF or kind == 2
            struct.pack_into(f"{order}{'Q' if wide else 'I'}", out, place, number)
        struct.pack_into(f"{order}I", out, end, build.checksum(bytes(out[at:end])))
    return bytes(out)


def _records(data: bytes, order: str) -> list[tuple[int, int]]:
    """Return offset and length of the records of a segment, up to the first that is none."""
    found, at = [], SEGMENT_HEADER_SIZE
    while at + HEADER_SIZE + CHECKSUM_SIZE <= len(data) and data[at]:
        (length,) = struct.unpack_from(f"{order}I", data, at + 13)
        if length < HEADER_SIZE + CHECKSUM_SIZE or at + length > len(data):
            break
        found.append((at, length))
        at += length
    return found
