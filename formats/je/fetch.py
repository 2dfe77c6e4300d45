"""Entries at LSNs: headers, sums and payloads of entries anywhere in a log, in columns.

Source: je-log.md "Entries"; LogManager.getLogEntryFromLogSource, JE 7.5.11.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import asdict

from je_tools.formats.adler import adler32
from je_tools.formats.arrays import Ints, Mask, distinct, run_of
from je_tools.formats.image import NOWHERE, Image
from je_tools.formats.je import header as h
from je_tools.formats.je.columns import MAX_ROWS, Decoded, Items, decode_items
from je_tools.formats.je.entries import Entry, EntryError, decode_entry, entry_checksum
from je_tools.formats.je.types import ENTRY_TYPES, ERASED_NO, Family
from je_tools.formats.kernels import compiled, kernel
from je_tools.formats.packed_kernels import load_i32, load_i64, load_u32
from je_tools.formats.prefetch import LINES_MAX, ROWS_AHEAD, ask_for
from je_tools.formats.source import Bytes, as_plain


class Found(IntEnum):
    """What there is at an LSN."""

    NO_FILE = 0
    """The log has no such file, or it ends in front of the LSN."""
    NO_ENTRY = 1
    """No entry that fits into the file."""
    BAD = 2
    """An entry with a wrong checksum."""
    ERASED = 3
    """An entry that the eraser has overwritten."""
    GOOD = 4


_NO_FILE, _NO_ENTRY, _BAD, _ERASED, _GOOD = (int(found) for found in Found)
_MIN, _MAX = h.MIN_HEADER_SIZE, h.MAX_HEADER_SIZE
_ERASED_NO, _ERASED_SINCE = ERASED_NO, ENTRY_TYPES[ERASED_NO].first_version
_VLSN_OLD, _VLSN_NEW = h.vlsn_mask(7), h.vlsn_mask(8)
_SUM_MASK = 0xFF & ~h.INVISIBLE

FAMILY_OF: npt.NDArray[np.uint8] = np.zeros(256, np.uint8)
"""1 + the place of each type's family among all; 0 for a number that is no type."""

_FAMILIES = tuple(Family)
for _entry_type in ENTRY_TYPES.values():
    FAMILY_OF[_entry_type.no] = 1 + _FAMILIES.index(_entry_type.family)


@functools.cache
def _types_of(families: tuple[Family, ...]) -> Mask:
    return np.isin(FAMILY_OF, [1 + _FAMILIES.index(family) for family in families])


@kernel
def look(
    buf: Any,
    n: int,
    at: Any,
    stops: Any,
    versions: Any,
    check: int,
    types: Any,
    flags: Any,
    header_sizes: Any,
    sizes: Any,
    vlsns: Any,
    found: Any,
    room: Any,
    moved: Any,
) -> None:
    """Read the headers of `n` entries, and with `check` sum them.

    Args:
        buf: the bytes.
        n: number of entries.
        at: int64 (n,); where each begins, below 0 for none.
        stops: int64 (n,); where the file of each ends.
        versions: int64 (n,); log version of the file of each.
        check: not 0 to sum them.
        types, flags, header_sizes: uint8 (n,) outputs.
        sizes: int64 (n,) output; bytes of the whole entry.
        vlsns: int64 (n,) output; -1 where none is stored.
        found: uint8 (n,) output, a `Found`; the others mean nothing below BAD.
        room: uint8 output, maybe of no size; good entries are copied there as long as they fit.
        moved: int64 (n,) output, where there is a room: where in it the entry is; else left alone.
    """
    used = 0
    for row in range(n):
        if row + ROWS_AHEAD < n:
            ask_for(buf, at[row + ROWS_AHEAD], LINES_MAX if check else 1)
        start = at[row]
        types[row] = 0
        flags[row] = 0
        header_sizes[row] = _MIN
        sizes[row] = 0
        vlsns[row] = -1
        if start < 0:
            found[row] = _NO_FILE
            continue
        found[row] = _NO_ENTRY
        if start + _MIN > stops[row]:
            continue
        type_no = buf[start + 4] - 0
        flag = buf[start + 5] - 0
        item_size = load_i32(buf, start + 10)
        header_size = _MIN
        if flag & (_VLSN_NEW if versions[row] >= 8 else _VLSN_OLD):
            header_size = _MAX
        stop = start + header_size + item_size
        if type_no == 0 or item_size < 0 or stop > stops[row]:
            continue
        types[row] = type_no
        flags[row] = flag
        header_sizes[row] = header_size
        sizes[row] = header_size + item_size
        if header_size == _MAX:
            vlsns[row] = load_i64(buf, start + _MIN)
        found[row] = _GOOD
        if type_no == _ERASED_NO and versions[row] >= _ERASED_SINCE:
            found[row] = _ERASED
        elif check != 0:
            mask = _SUM_MASK if versions[row] >= 7 else 255
            if adler32(buf, start + 4, stop, mask) != load_u32(buf, start):
                found[row] = _BAD
        size = stop - start
        if size <= len(room) - used and found[row] == _GOOD:
            for i in range(size):
                room[used + i] = buf[start + i]
            moved[row] = used
            used += size


_OF_ALL = frozenset({"image", "data"})
"""What of `Entries` is not a column."""


class Entries(Struct, frozen=True):
    """Entries anywhere in a log; element i of each array is the i-th that was asked for.

    Attributes:
        image: the log.
        lsn, position: int64; NOWHERE where there is no such place.
        version: int64; log version of the file.
        type, flags, header_size: uint8.
        size: int64; of the whole entry.
        vlsn: int64; -1 where none is stored.
        found: uint8, a `Found`: the columns of what is below BAD mean nothing.
        data: uint8; the bytes that positions are in: those of the image, or copies.
    """

    image: Image
    lsn: Ints
    position: Ints
    version: Ints
    type: npt.NDArray[np.uint8]
    flags: npt.NDArray[np.uint8]
    header_size: npt.NDArray[np.uint8]
    size: Ints
    vlsn: Ints
    found: npt.NDArray[np.uint8]
    data: Bytes

    def __len__(self) -> int:
        return len(self.lsn)

    def take(self, rows: Ints) -> Entries:
        """Some of them, in the order of `rows`."""
        columns = asdict(self)
        return Entries(**{n: c if n in _OF_ALL else c[rows] for n, c in columns.items()})

    def put(self, rows: Ints, others: Entries) -> Entries:
        """The same with others, with positions in the same bytes, in the place of some."""
        columns = asdict(self)
        for name in columns.keys() - _OF_ALL:
            columns[name] = columns[name].copy()
            columns[name][rows] = getattr(others, name)
        return Entries(**columns)

    @property
    def good(self) -> Mask:
        """Where there is an entry, and its checksum is right as far as it was looked at."""
        right: Mask = self.found == Found.GOOD
        return right

    def is_family(self, *families: Family) -> Mask:
        """Which are good and of a type of one of these families."""
        return _types_of(families)[self.type] & self.good

    def decode(
        self,
        family: Family,
        rows: Ints,
        *,
        fast: bool,
        wanted: frozenset[str] | None = None,
        of_slots: frozenset[str] | None = None,
    ) -> Iterator[tuple[Ints, Decoded]]:
        """Decode the payloads of entries of one family, grouped by log version.

        Args:
            family: of all of them.
            rows: int64, ascending; which entries.
            fast: use compiled kernels.
            wanted: fields to decode; None for all.
            of_slots: columns of slots to keep; None for all.

        Yields:
            Some of `rows`, at most MAX_ROWS and ascending within a version, and what they hold.
        """
        versions = self.version[rows]
        for version in distinct(versions):
            some = rows[versions == version]
            for first in range(0, len(some), MAX_ROWS):
                chosen = some[first : first + MAX_ROWS]
                run = run_of(chosen)
                start, size = self.position[run], self.size[run]
                items = Items(
                    self.data,
                    version,
                    self.type[run],
                    start + self.header_size[run],
                    start + size,
                )
                yield (
                    chosen,
                    decode_items(items, family, fast=fast, wanted=wanted, of_slots=of_slots),
                )


def fetch(
    image: Image, lsns: Ints, *, fast: bool, check: bool = True, room_size: int = 0
) -> Entries:
    """The entries at LSNs.

    Args:
        image: the log.
        lsns: int64 (n,), in any order; the same may come more than once.
        fast: use compiled kernels.
        check: sum them; else a damaged one whose header fits is GOOD.
        room_size: bytes to which the good ones may come. Where they do and kernels are compiled
            they are copied behind each other, since for each look at an entry of its own the
            processor has to find its page. Else they stay where they are.
    """
    n = len(lsns)
    positions, files = image.places(lsns)
    there = positions != NOWHERE
    stops = np.where(there, image.stops[files] if len(image.stops) else 0, 0)
    versions = np.where(there, image.versions[files] if len(image.stops) else 0, 0)
    types, flags, headers, found = (np.empty(n, np.uint8) for _ in range(4))
    sizes, vlsns = np.empty(n, np.int64), np.empty(n, np.int64)
    run = compiled(look) if fast else look
    data = image.data if fast else as_plain(image.data)
    room = np.empty(room_size if fast else 0, np.uint8)
    moved = np.full(n if fast else 0, NOWHERE, np.int64)
    run(
        data,
        n,
        positions,
        stops,
        versions,
        int(check and fast),
        types,
        flags,
        headers,
        sizes,
        vlsns,
        found,
        room,
        moved,
    )
    if check and not fast:
        _check_plain(image.data, positions, sizes, versions, found)
    where = image.data
    if len(room) and (moved[found == Found.GOOD] != NOWHERE).all():
        room.flags.writeable = False
        where, positions = room, moved
    return Entries(
        image, lsns, positions, versions, types, flags, headers, sizes, vlsns, found, where
    )


def _check_plain(
    data: Bytes, positions: Ints, sizes: Ints, versions: Ints, found: npt.NDArray[np.uint8]
) -> None:
    """Sums by zlib, which plain Python is fastest with."""
    view = data.data
    for row in np.flatnonzero(found == Found.GOOD).tolist():
        start = int(positions[row])
        entry = view[start : start + int(sizes[row])]
        if entry_checksum(entry, int(versions[row])) != int.from_bytes(entry[:4], "little"):
            found[row] = Found.BAD


def fetch_entry(image: Image, lsn: int) -> Entry | None:
    """One whole entry; None where there is none that is good and decodes."""
    some = fetch(image, np.array([lsn], np.int64), fast=False)
    if not some.good[0]:
        return None
    start, size = int(some.position[0]), int(some.size[0])
    try:
        return decode_entry(image.data[start : start + size].tobytes(), int(some.version[0]))
    except EntryError:
        return None
