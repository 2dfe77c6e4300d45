"""Inputs of the fuzz run: small good logs, mutated. A seed and a number determine each."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from je_tools.formats.je.entry.entries import decode_spans
from je_tools.formats.je.header import EntryError
from tests.builders.logs import (
    FILE_HEADER,
    INVISIBLE,
    LogFile,
    Placed,
    entry,
    packed,
    placed_in,
    random_log,
)
from tests.builders.planted import VERSIONS, planted_file
from tests.builders.trees import rich
from tests.corpus import FIXTURES
from tests.damage.hostile import PATTERNS, hostile_file
from tests.damage.small import small_log, vectors

HEADER_SIZE, VLSN_SIZE, FILE_HEADER_SIZE = 14, 8, 38
EVERY_VERSION = [1, 5, *VERSIONS]
"""Log versions of the inputs; before version 6 only user records are decoded."""

LONGEST_ITEM = 1500
LONGEST_LOG = 6000
PIECES_OF_FIXTURES = 60

NUMBERS = [0, 1, 2, 3, 7, 14, 22, 38, 119, 120, 127, 128, 255, 256, 4095, 4096, 32767, 65535, 65536]
NUMBERS += [(1 << bits) + step for bits in (24, 31, 32, 40, 48, 62) for step in (-1, 0, 1)]
NUMBERS += [(1 << 63) - 1, (1 << 63) - 120, 1 << 63]
INTERESTING = [*NUMBERS, *(-each for each in NUMBERS)]
"""Limits of the codings, and of values computed from them."""

HEADER_FIELDS = {"checksum": (0, 4), "type": (4, 1), "flags": (5, 1), "prev": (6, 4)}
HEADER_FIELDS |= {"size": (10, 4), "vlsn": (14, 8)}
FILE_HEADER_FIELDS = {"created": (14, 8), "file_no": (22, 4), "last": (26, 8), "version": (34, 4)}


class Item(NamedTuple):
    """A good entry without its place: the arguments of `LogFile.add`."""

    type_no: int
    data: bytes
    flags: int
    vlsn: int | None


@dataclass
class Input:
    """A damaged log: bytes by file name."""

    kind: str
    files: dict[str, bytes]


def make_input(seed: int, number: int) -> Input:
    """Return the input with this number."""
    rng = random.Random(f"{seed}/{number}")
    kind, make = rng.choices(KINDS, WEIGHTS)[0]
    files = make(rng)
    if rng.random() < 0.1:
        change_names(rng, files)
    return Input(kind, files)


# Good logs


@cache
def items(version: int) -> list[Item]:
    """Return entries of all types of a version: built from declarations, or written by engines."""
    planted = planted_file(version, b"Qz7-carol")
    found = [item_at(planted.data, place, version) for place in planted.placed[1:]]
    found += [
        item_at(each.data, Placed(0, len(each.data)), version)
        for each in vectors()
        if each.version == version and each.type_no != FILE_HEADER
    ]
    return [each for each in found if len(each.data) <= LONGEST_ITEM]


def item_at(data: bytes | bytearray, place: Placed, version: int) -> Item:
    """Return the good entry of a log at a place."""
    type_no, flags = data[place.start + 4 : place.start + 6]
    has_vlsn = flags & (0x28 if version >= 8 else 0x20) and type_no != FILE_HEADER
    size = HEADER_SIZE + (VLSN_SIZE if has_vlsn else 0)
    vlsn = struct.unpack_from("<q", data, place.start + HEADER_SIZE)[0] if has_vlsn else None
    return Item(type_no, bytes(data[place.start + size : place.stop]), flags, vlsn)


@cache
def pieces() -> list[tuple[int, list[Item]]]:
    """Return runs of entries from the logs in fixtures/, each with its log version."""
    rng = random.Random("pieces")
    paths = sorted(path for path in FIXTURES.rglob("*.jdb") if path.stat().st_size < 3 << 20)
    found = []
    for path in rng.choices(paths, k=PIECES_OF_FIXTURES):
        data = path.read_bytes()
        version = int.from_bytes(data[34:38], "little")
        try:
            placed = placed_in(data, version)
        except (AssertionError, struct.error):
            continue  # Some are damaged on purpose.
        first = rng.randrange(1, len(placed))
        run = [item_at(data, place, version) for place in placed[first : first + 25]]
        found.append((version, [each for each in run if len(each.data) <= LONGEST_ITEM]))
    return found


def good_log(rng: random.Random) -> list[LogFile]:
    """Return one to three files of a few kilobytes at most."""
    kind = rng.randrange(4)
    version = rng.choice(EVERY_VERSION)
    if kind == 0:
        return small_log(version, rng.choice([1, 2, 3]))
    if kind == 1:
        return random_log(rng, rng.choice([1, 2, 3]), rng.choice([1, 5, 20]), version=version)
    if kind == 2:
        version, run = rng.choice(pieces())
    else:
        known = items(version)
        run = rng.choices(known, k=rng.choice([1, 3, 10, 25]))
    file = LogFile(rng.choice([0, 0, 1, 0x7FFFFFFE]), version)
    add_items(file, run)
    files = [file]
    if rng.random() < 0.3:
        files.append(file.follower())
        add_items(files[-1], run[:3])
    return files


def add_items(file: LogFile, run: list[Item]) -> None:
    """Append entries while the file is small."""
    for each in run:
        if len(file.data) < LONGEST_LOG:
            file.add(each.type_no, each.data, flags=each.flags, vlsn=each.vlsn)


# Kinds of inputs


def changed_bytes(rng: random.Random) -> dict[str, bytes]:
    """Return a log with changed bytes, half of the time with corrected checksums."""
    files = good_log(rng)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        file = rng.choice(files)
        change = rng.choice(CHANGES)
        if file.data:
            change(rng, file)
    mends = rng.random() < 0.5
    return {file.name: mended(file.data, file.version) if mends else file.data for file in files}


def changed_items(rng: random.Random) -> dict[str, bytes]:
    """Return entries with good headers and checksums around changed payloads."""
    version = rng.choice(EVERY_VERSION)
    file = LogFile(0, version)
    for each in rng.choices(items(version), k=rng.choice([1, 1, 2, 5])):
        data = each.data
        for _ in range(rng.choice([1, 1, 2, 4])):
            data = changed_item(rng, each, data, version)
        file.add(each.type_no, data, flags=each.flags, vlsn=each.vlsn)
    return {file.name: bytes(file.data)}


def hostile(rng: random.Random) -> dict[str, bytes]:
    """Return a pattern made to stall a reader, half of the time with one change."""
    size = rng.choice([60, 500, 3000])
    file = hostile_file(rng.choice(sorted(PATTERNS)), size)
    del file.data[FILE_HEADER_SIZE + size :]
    if rng.random() < 0.5:
        rng.choice(CHANGES)(rng, file)
    return {file.name: bytes(file.data)}


def trees(rng: random.Random) -> dict[str, bytes]:
    """Return an environment with trees and some changed fields, mostly with right checksums."""
    files = rich(rng).files
    for _ in range(rng.choice([1, 1, 2, 4])):
        file = rng.choice(files)
        change = rng.choice([*CHANGES, *[replace_field] * 14, *[splice] * 3])
        if file.data:
            change(rng, file)
    mends = rng.random() < 0.85
    return {file.name: mended(file.data, file.version) if mends else file.data for file in files}


def ended(rng: random.Random) -> dict[str, bytes]:
    """Return an environment that can be erased, at most one field changed, with right checksums."""
    version = rng.choice([8, 15, 17, 17])
    files = rich(rng, version=version, is_ended=True).files
    if rng.random() < 0.5:
        replace_field(rng, rng.choice(files))
    return {file.name: mended(file.data, file.version) for file in files}


def noise(rng: random.Random) -> dict[str, bytes]:
    """Return any bytes, after a good file header or without one."""
    size = rng.choice([0, 1, 13, 14, 37, 38, 39, 100, 2000])
    few = rng.choice([bytes(256), bytes(range(256)), b"\0\1\x2b\x18\xff", b"\0\0\0\x7f\x80"])
    data = bytes(rng.choice(few) for _ in range(size))
    return {"00000000.jdb": (bytes(LogFile(0, 17).data) if rng.random() < 0.7 else b"") + data}


KINDS: list[tuple[str, Callable[[random.Random], dict[str, bytes]]]] = [
    ("bytes", changed_bytes),
    ("items", changed_items),
    ("hostile", hostile),
    ("noise", noise),
    ("trees", trees),
    ("ended", ended),
]
WEIGHTS = (38, 25, 5, 5, 17, 10)


# Changes to single items


def changed_item(rng: random.Random, each: Item, data: bytes, version: int) -> bytes:
    """Make one change to a payload, mostly in or around one of its fields."""
    if not data:
        return rng.randbytes(rng.randrange(4))
    kind = rng.randrange(8)
    start, stop = field_of(rng, each, data, version)
    if kind <= 3:
        return data[:start] + spelled(rng) + data[stop:]
    if kind == 4:
        at = rng.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if kind == 5:
        return data[: rng.choice([start, stop, rng.randrange(len(data))])]
    if kind == 6:
        return data[:stop] + rng.choice([data[start:stop], rng.randbytes(3)]) + data[stop:]
    return data[:start] + data[stop:]


def field_of(rng: random.Random, each: Item, data: bytes, version: int) -> tuple[int, int]:
    """Return the bounds of one field of a payload, or of any bytes if it does not decode."""
    try:
        spans, _ = decode_spans(entry(each.type_no, data, 0), version)
    except EntryError:
        spans = []
    if not spans:
        start = rng.randrange(len(data))
        return start, min(start + rng.randrange(9), len(data))
    span = rng.choice(spans)
    return span.start - HEADER_SIZE, span.stop - HEADER_SIZE


def spelled(rng: random.Random) -> bytes:
    """Return an interesting number in one of the codings."""
    number = rng.choice(INTERESTING)
    coding = rng.randrange(5)
    if coding <= 1:
        return packed(number)[:9]
    if coding == 2:
        return struct.pack("<Q", number & (1 << 64) - 1)
    if coding == 3:
        return struct.pack("<I", number & (1 << 32) - 1)
    # A packed number that is longer than necessary, or too long to be valid.
    size = rng.randrange(1, 10)
    return bytes([(119 + size) * rng.choice([1, -1]) & 0xFF]) + rng.choice(
        [bytes(size), b"\xff" * size, rng.randbytes(rng.randrange(size + 1))]
    )


# Changes to the bytes of a file


def _place(rng: random.Random, file: LogFile) -> Placed:
    """Return the place that an entry had before other changes, within the present file."""
    place = rng.choice(file.placed)
    size = len(file.data)
    return Placed(min(place.start, size), min(place.stop, size))


def flip_bits(rng: random.Random, file: LogFile) -> None:
    for _ in range(rng.choice([1, 1, 4])):
        file.data[rng.randrange(len(file.data))] ^= 1 << rng.randrange(8)


def set_bytes(rng: random.Random, file: LogFile) -> None:
    at = rng.randrange(len(file.data))
    size = rng.choice([1, 1, 4, 8, 30])
    byte = rng.choice([0, 1, 43, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    file.data[at : at + size] = bytes([byte]) * min(size, len(file.data) - at)


def set_header_field(rng: random.Random, file: LogFile) -> None:
    start = _place(rng, file).start
    at, size = rng.choice(list(HEADER_FIELDS.values()))
    near = [len(file.data) - start + step for step in (-23, -22, -15, -14, -13, 0)]
    number = rng.choice([rng.choice(INTERESTING), rng.choice(near), rng.randrange(256), start])
    data = (number & (1 << 8 * size) - 1).to_bytes(size, "little")
    file.data[start + at : start + at + size] = data[: max(len(file.data) - start - at, 0)]


def set_file_header(rng: random.Random, file: LogFile) -> None:
    at, size = rng.choice(list(FILE_HEADER_FIELDS.values()))
    number = rng.choice([*range(30), *INTERESTING])
    data = (number & (1 << 8 * size) - 1).to_bytes(size, "little")
    file.data[at : at + size] = data[: max(len(file.data) - at, 0)]


def replace_field(rng: random.Random, file: LogFile) -> None:
    place = _place(rng, file)
    if place.stop - place.start > HEADER_SIZE:
        each = item_at(file.data, place, file.version) if place.stop - place.start > 22 else None
        if each is not None and each.data:
            data = changed_item(rng, each, each.data, file.version)
            file.data[place.stop - len(each.data) : place.stop] = data


def splice(rng: random.Random, file: LogFile) -> None:
    one, other = _place(rng, file), _place(rng, file)
    if rng.random() < 0.5:
        file.data[one.start : one.stop] = file.data[other.start : other.stop]
    else:
        file.data[one.start : one.start] = file.data[other.start : other.stop]


def delete(rng: random.Random, file: LogFile) -> None:
    place = _place(rng, file)
    size = rng.choice([1, 4, 14, place.stop - place.start])
    start = rng.choice([place.start, rng.randrange(len(file.data))])
    del file.data[start : start + size]


def insert(rng: random.Random, file: LogFile) -> None:
    at = rng.choice([_place(rng, file).start, rng.randrange(len(file.data))])
    size = rng.choice([1, 5, 14, 40, 300])
    file.data[at:at] = rng.choice([bytes(size), rng.randbytes(size), b"\1" * size])


def truncate(rng: random.Random, file: LogFile) -> None:
    place = _place(rng, file)
    at = rng.choice([place.start, place.start + rng.randrange(23), rng.randrange(len(file.data))])
    del file.data[at:]


def duplicate(rng: random.Random, file: LogFile) -> None:
    start, stop = sorted(rng.randrange(len(file.data)) for _ in range(2))
    file.data[stop:stop] = file.data[start:stop][:LONGEST_LOG]


def overwrite(rng: random.Random, file: LogFile) -> None:
    place = _place(rng, file)
    size = place.stop - place.start
    file.data[place.start : place.stop] = rng.choice([bytes(size), rng.randbytes(size)])


def append(rng: random.Random, file: LogFile) -> None:
    size = rng.choice([1, 13, 14, 100, 4096])
    file.data += rng.choice([bytes(size), rng.randbytes(size), bytes(file.data[:size])])


CHANGES = [
    flip_bits,
    set_bytes,
    set_header_field,
    set_header_field,
    set_file_header,
    replace_field,
    splice,
    delete,
    insert,
    truncate,
    duplicate,
    overwrite,
    append,
]


def mended(data: bytes | bytearray, version: int) -> bytes:
    """Return the bytes with right checksums, as far as headers lead from entry to entry."""
    made = bytearray(data)
    at = 0
    while at + HEADER_SIZE <= len(made):
        type_no, flags, _, size = struct.unpack_from("<BBIi", made, at + 4)
        has_vlsn = flags & (0x28 if version >= 8 else 0x20) and type_no != FILE_HEADER
        stop = at + HEADER_SIZE + (VLSN_SIZE if has_vlsn else 0) + size
        if size < 0 or stop > len(made):
            break
        mask = 0xFF & ~INVISIBLE if version >= 7 else 0xFF
        summed = bytes([type_no, flags & mask]) + bytes(made[at + 6 : stop])
        struct.pack_into("<I", made, at, zlib.adler32(summed))
        at = stop
    return bytes(made)


def change_names(rng: random.Random, files: dict[str, bytes]) -> None:
    """Remove, empty, rename or duplicate a file, or add the marker."""
    name = rng.choice(sorted(files))
    kind = rng.randrange(5)
    if kind == 0 and len(files) > 1:
        del files[name]
    elif kind == 1:
        files[name] = b""
    elif kind == 2:
        files[rng.choice(["00000005.jdb", "ffffffff.jdb", "0000000A.jdb"])] = files.pop(name)
    elif kind == 3:
        files["7fffffff.jdb"] = files[name]
    else:
        files["00000002.jdb"] = files[name]
