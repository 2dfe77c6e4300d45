"""Fingerprints of records: computed by a scan, and compared with the slots of trees afterwards.

A slot of a sound tree names a good record of its database and key, which has data and expires when
the slot says. To read each of these records again would mean millions of random accesses to memory
or disk. So the scan, which has each entry in the CPU cache, keeps a 62-bit number for each record
with a right checksum, and the same number is computed from each slot. If both agree, the slot is
sound; every other slot needs a closer check.

The number is a polynomial over database, expiration and key, modulo a prime, evaluated at two
points that are chosen at random for each run. Two different records agree with a probability below
2**-40, since the author of a log cannot know the points.

Source: je-log.md "Nodes"; BtreeVerifier.verifyLSN, verifyDataRecord, JE 25.3.17.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from je_tools.formats import _native
from je_tools.formats.je.entry.steps import of_family, programs

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.files.image import Image
    from je_tools.formats.je.btree.slots import Slots
    from je_tools.formats.je.log.entry_rows import Rows

RECORDS_MAX = 1 << 24
"""Largest number of fingerprints that are kept; about 200 MB."""

KEY_SIZE_MAX = 1 << 12
"""Size of the longest key with a fingerprint: the chance of a collision grows with the length."""

HOURS_MAX = 1_000_000
"""Latest expiration of a record with a fingerprint, in hours since 1970."""

PAGE_SHIFT = 12
_IN_PAGE = (1 << PAGE_SHIFT) - 1
_PAGES_MAX = 1 << 24

_PLACES_MAX = 1 << 30
_BITS_EACH, _BITS_MIN = 16, 1 << 10


class Prints(Struct, frozen=True):
    """Fingerprints of the records in a part of a file, in the order of their offsets.

    Attributes:
        page: page of the file in which the first record begins.
        counts: int64; number of records that begin in each page from there on.
        low: uint16; offset of each record in its page.
        prints: int64; fingerprint of each record.
    """

    page: int
    counts: Ints
    low: npt.NDArray[np.uint16]
    prints: Ints

    def __len__(self) -> int:
        return len(self.prints)


class Printing(Struct, frozen=True):
    """Parameters of the fingerprints of this run.

    Attributes:
        one, other: points at which the polynomial is evaluated.
    """

    one: int
    other: int

    @classmethod
    def at_random(cls) -> Printing:
        """Choose unpredictable points."""
        one, other = (_PLACES_MAX // 2 + secrets.randbelow(_PLACES_MAX // 2) for _ in range(2))
        return cls(one, other)

    def of_rows(self, rows: Rows) -> Prints:
        """Return the fingerprints of the records among some rows."""
        firsts, lasts, steps = programs(rows.version, of_family)
        places, prints = _native.fingerprints_of(
            rows, firsts=firsts, lasts=lasts, steps=steps.ravel(), printing=self
        )
        pages = (places >> PAGE_SHIFT).astype(np.int64)
        first = int(pages[0]) if len(pages) else 0
        low = (places & _IN_PAGE).astype(np.uint16)
        return Prints(first, np.bincount(pages - first), low, prints)


class PlacedPrints(Struct, frozen=True):
    """Fingerprints by position in an image.

    Attributes:
        first: int32 (pages + 1,); first record of each page. Later pages have no fingerprints.
        low: uint16 (records,); offset of each record in its page.
        prints: int64 (records,).
    """

    first: npt.NDArray[np.int32]
    low: npt.NDArray[np.uint16]
    prints: Ints


class Fingerprints(Struct):
    """Fingerprints of the records of a log, collected during a scan.

    Attributes:
        printing: parameters of the fingerprints.
        most: largest number of fingerprints to keep; parts that would exceed it are dropped.
    """

    printing: Printing
    most: int = RECORDS_MAX
    _of_files: dict[int, list[Prints]] = field(default_factory=dict)
    _count: int = 0

    def add(self, file_no: int, prints: Prints) -> None:
        """Add the fingerprints of a part of a file, after those of all parts before it."""
        if self._count + len(prints) <= self.most:
            self._of_files.setdefault(file_no, []).append(prints)
            self._count += len(prints)

    def places(self, image: Image) -> PlacedPrints:
        """Return the fingerprints by position in an image of these files, and forget them here."""
        firsts = [np.zeros(1, np.int32)]
        low, prints = np.empty(self._count, np.uint16), np.empty(self._count, np.int64)
        pages = count = 0
        ends = [*image.starts[1:].tolist(), len(image.data)]
        for file_no, end in zip(image.file_nos.tolist(), ends, strict=True):
            more = (end >> PAGE_SHIFT) - pages
            if not self._of_files or pages + more > _PAGES_MAX:
                break
            before, of_page = count, np.zeros(more, np.int64)
            for some in self._of_files.pop(file_no, []):
                # The image may end before the scanned bytes do.
                counts = some.counts[: max(more - some.page, 0)]
                of_page[some.page : some.page + len(counts)] += counts
                first, count = count, count + int(counts.sum())
                low[first:count] = some.low[: count - first]
                prints[first:count] = some.prints[: count - first]
            firsts.append((before + np.cumsum(of_page)).astype(np.int32))
            pages += more
        return PlacedPrints(np.concatenate(firsts), low[:count], prints[:count])


class KnownData(Struct, frozen=True):
    """Data that slots are compared with.

    Attributes:
        image: the log.
        reserved: bool, one per file of the image; slots that name an entry in it are doubtful.
        page_first, low, prints: see `PlacedPrints`.
        noted: int64; ascending LSNs.
        noted_bits: uint8; a filter of these LSNs, whose size is a power of two.
    """

    image: Image
    reserved: Mask
    page_first: npt.NDArray[np.int32]
    low: npt.NDArray[np.uint16]
    prints: Ints
    noted: Ints
    noted_bits: npt.NDArray[np.uint8]


class SlotChecks:
    """Check of slots against the fingerprints of the records that they name.

    Args:
        image: the log.
        fingerprints: fingerprints of its records.
        noted: int64, ascending; LSNs that a slot should not name unless its record is embedded.
        reserved: numbers of files that no slot should name.
    """

    def __init__(
        self, image: Image, fingerprints: Fingerprints, noted: Ints, reserved: frozenset[int]
    ) -> None:
        self._printing = fingerprints.printing
        places = fingerprints.places(image)
        count = max(_BITS_EACH * len(noted), _BITS_MIN)
        bits = np.zeros((1 << (count - 1).bit_length()) >> 3, np.uint8)
        _native.note_lsns(noted, bits)
        self._known = KnownData(
            image=image,
            reserved=np.isin(image.file_nos, list(reserved)),
            page_first=places.first,
            low=places.low,
            prints=places.prints,
            noted=noted,
            noted_bits=bits,
        )

    def doubtful(self, slots: Slots, rows: Ints, db_id: int, *, asks_noted: bool) -> Mask:
        """Return a mask of the slots that are not certain to be sound.

        Args:
            slots: slots of BINs.
            rows: int64; slots to check.
            db_id: id of their database.
            asks_noted: doubt slots that name a noted LSN, unless their record is embedded.

        Returns: Bool, one per row. If False, the scan found the slot's entry, with a right
            checksum: a record of the slot's key and of the database, with data and with the slot's
            expiration, which is not after HOURS_MAX.
        """
        return _native.doubtful_slots(
            slots,
            rows,
            self._known,
            db_id=db_id,
            printing=self._printing,
            asks_noted=asks_noted,
        )
