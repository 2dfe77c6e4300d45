"""Entries at LSNs: headers, checksums and payloads of entries anywhere in a log, as columns.

Source: je-log.md "Entries"; LogManager.getLogEntryFromLogSource, JE 7.5.11.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import asdict

from je_tools.formats import _native
from je_tools.formats.arrays import Ints, Mask, distinct, run_of
from je_tools.formats.je.entry.columns import MAX_ROWS, Decoded, EntryPayloads, decode_items
from je_tools.formats.je.entry.entries import Entry, decode_entry
from je_tools.formats.je.header import MAX_HEADER_SIZE, EntryError
from je_tools.formats.je.log.walk import HeaderRules
from je_tools.formats.je.types import ENTRY_TYPES, LOG_VERSION_MAX, Family

if TYPE_CHECKING:
    from je_tools.formats.files.image import Image
    from je_tools.formats.files.source import Bytes


class Found(IntEnum):
    """Result of looking up an LSN."""

    NO_FILE = 0
    """The log has no such file, or the file ends before the LSN."""
    NO_ENTRY = 1
    """No entry that fits in the file."""
    BAD = 2
    """An entry with a wrong checksum."""
    ERASED = 3
    """An entry that the eraser overwrote."""
    GOOD = 4


_GOOD = int(Found.GOOD)
"""A plain number: numpy converts a member of an enum at each comparison."""

_RULES = tuple(HeaderRules.of(version, 0) for version in range(LOG_VERSION_MAX + 1))
"""Rules for reading headers, by log version."""

FAMILY_OF: npt.NDArray[np.uint8] = np.zeros(256, np.uint8)
"""1 + the index of each type's family in `Family`; 0 for a number that is no type."""

_FAMILIES = tuple(Family)
for _entry_type in ENTRY_TYPES.values():
    FAMILY_OF[_entry_type.no] = 1 + _FAMILIES.index(_entry_type.family)


@functools.cache
def _types_of(families: tuple[Family, ...]) -> Mask:
    return np.isin(FAMILY_OF, [1 + _FAMILIES.index(family) for family in families])


_OF_ALL = frozenset({"image", "data"})
"""Fields of `Entries` that are not columns."""


class Entries(Struct, frozen=True):
    """Entries anywhere in a log; element i of each array belongs to the i-th requested LSN.

    Attributes:
        image: the log.
        lsn, position: int64; the position is an offset in `data`, or NOWHERE.
        version: int64; log version of the file.
        type, flags, header_size: uint8.
        size: int64; size of the whole entry.
        vlsn: int64; -1 if none is stored.
        found: uint8, a `Found`; if it is below BAD, the columns of the header are meaningless.
        data: uint8; the bytes of the image, or copies of the good entries.
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

    def select(self, rows: Ints) -> Entries:
        """Select entries, in the order of `rows`."""
        columns = asdict(self)
        return Entries(**{n: c if n in _OF_ALL else c[rows] for n, c in columns.items()})

    def put(self, rows: Ints, others: Entries) -> Entries:
        """Return a copy with `rows` replaced by `others`, whose positions are in the same bytes."""
        columns = asdict(self)
        for name in columns.keys() - _OF_ALL:
            columns[name] = columns[name].copy()
            columns[name][rows] = getattr(others, name)
        return Entries(**columns)

    @property
    def good(self) -> Mask:
        """Mask of the entries that exist and have a right checksum, if it was verified."""
        right: Mask = self.found == _GOOD
        return right

    def is_family(self, *families: Family) -> Mask:
        """Return a mask of the good entries of these families."""
        return _types_of(families)[self.type] & self.good

    def decode(
        self,
        family: Family,
        rows: Ints,
        *,
        wanted: frozenset[str] | None = None,
        of_slots: frozenset[str] | None = None,
    ) -> Iterator[tuple[Ints, Decoded]]:
        """Decode the payloads of entries of one family, grouped by log version.

        Args:
            family: family of these entries.
            rows: int64, ascending; entries to decode.
            wanted: fields to decode; None for all.
            of_slots: columns of slots to keep; None for all.

        Yields:
            Some of `rows`, at most MAX_ROWS and ascending within a version, and their fields.
        """
        versions = self.version[rows]
        for version in distinct(versions):
            some = rows[versions == version]
            for first in range(0, len(some), MAX_ROWS):
                chosen = some[first : first + MAX_ROWS]
                run = run_of(chosen)
                start, size = self.position[run], self.size[run]
                items = EntryPayloads(
                    self.data,
                    version,
                    self.type[run],
                    start + self.header_size[run],
                    start + size,
                )
                yield (
                    chosen,
                    decode_items(items, family, wanted=wanted, of_slots=of_slots),
                )


def fetch(image: Image, lsns: Ints, *, check: bool = True, room_size: int = 0) -> Entries:
    """Return the entries at LSNs.

    Args:
        image: the log.
        lsns: int64 (n,), in any order; an LSN may occur more than once.
        check: verify checksums; otherwise a damaged entry whose header fits is GOOD.
        room_size: bytes of memory for copies. If all good entries fit, they are copied one after
            the other, because each access to a scattered entry makes the processor look up its
            page. Otherwise they stay in the image.
    """
    if image.before_fetch is not None:
        image.before_fetch()
    if image.is_remote:
        _load(image, lsns)
    columns, room = _native.fetch_entries(
        image, lsns, rules=_RULES, check=check, room_size=room_size
    )
    return Entries(image=image, lsn=lsns, data=image.data if room is None else room, **columns)


def _load(image: Image, lsns: Ints) -> None:
    """Load remote entries: their headers, which say how large they are, then all of them."""
    positions = image.places(lsns)[0]
    image.load(positions, np.full(len(positions), MAX_HEADER_SIZE))
    headers, _ = _native.fetch_entries(image, lsns, rules=_RULES, check=False, room_size=0)
    fits = headers["found"] >= Found.BAD
    image.load(headers["position"][fits], headers["size"][fits])


def fetch_entry(image: Image, lsn: int) -> Entry | None:
    """Return one whole entry, or None unless it is good and decodes."""
    some = fetch(image, np.array([lsn], np.int64))
    if not some.good[0]:
        return None
    start, size = int(some.position[0]), int(some.size[0])
    try:
        return decode_entry(image.data[start : start + size].tobytes(), int(some.version[0]))
    except EntryError:
        return None
