"""Fingerprints of records: what a scan has seen of each, for whoever follows a tree afterwards.

A slot of a sound tree names a good record of its database and key, which has data and expires when
the slot says. To look at each such record again means a wait for memory, or for the disk, at
millions of places in no order. So the scan, which has each entry in the core's cache, leaves a
number of 62 bits of each record whose sum is right, and the same number is made of each slot. Where
the two agree there is nothing to say; any other slot is to be looked at.

The number is a polynomial over database, expiration and key, at two places that are chosen at
random for each run, in remainders of a prime: two different records agree by a chance of less than
one in 2**40, for whoever wrote the log could not know the places.

Source: je-log.md "Nodes"; BtreeVerifier.verifyLSN, verifyDataRecord, JE 25.3.17.
"""

from __future__ import annotations

import secrets

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from je_tools.formats import _native
from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.image import Image
from je_tools.formats.je.nodes import Slots
from je_tools.formats.je.reader import Rows
from je_tools.formats.je.steps import of_family, programs

RECORDS_MAX = 1 << 24
"""Records of which fingerprints are kept; some 200 MB."""

KEY_SIZE_MAX = 1 << 12
"""Longer keys have none: the chance that two agree grows with their length."""

HOURS_MAX = 1_000_000
"""What expires later, in hours since 1970, has none."""

PAGE_SHIFT = 12
_IN_PAGE = (1 << PAGE_SHIFT) - 1
_PAGES_MAX = 1 << 24

_PLACES_MAX = 1 << 30
_BITS_EACH, _BITS_MIN = 16, 1 << 10


class Prints(Struct, frozen=True):
    """Fingerprints of records in a part of a file, ascending by where they begin.

    Attributes:
        page: of the file, in which the first begins.
        counts: int64; how many begin in each page from there on.
        low: uint16; where in its page each begins.
        prints: int64; the fingerprint of each.
    """

    page: int
    counts: Ints
    low: npt.NDArray[np.uint16]
    prints: Ints

    def __len__(self) -> int:
        return len(self.prints)


class Printing(Struct, frozen=True):
    """How fingerprints are made in this run.

    Attributes:
        one, other: where the polynomial is taken.
    """

    one: int
    other: int

    @classmethod
    def at_random(cls) -> Printing:
        """As nobody can foretell."""
        one, other = (_PLACES_MAX // 2 + secrets.randbelow(_PLACES_MAX // 2) for _ in range(2))
        return cls(one, other)

    def of_rows(self, rows: Rows) -> Prints:
        """The fingerprints of the records among some rows."""
        firsts, lasts, steps = programs(rows.version, of_family)
        places, prints = _native.fingerprints_of(
            rows, firsts=firsts, lasts=lasts, steps=steps.ravel(), printing=self
        )
        pages = (places >> PAGE_SHIFT).astype(np.int64)
        first = int(pages[0]) if len(pages) else 0
        low = (places & _IN_PAGE).astype(np.uint16)
        return Prints(first, np.bincount(pages - first), low, prints)


class Places(Struct, frozen=True):
    """Fingerprints by places in an image.

    Attributes:
        first: int32 (pages + 1,); of each page the first record. Nothing is known of pages behind.
        low: uint16 (records,); where in its page each begins.
        prints: int64 (records,).
    """

    first: npt.NDArray[np.int32]
    low: npt.NDArray[np.uint16]
    prints: Ints


class Fingerprints(Struct):
    """Those of the records of a log, as a scan tells them.

    Attributes:
        printing: how they are made.
        most: how many are kept; those that come later are not.
    """

    printing: Printing
    most: int = RECORDS_MAX
    _of_files: dict[int, list[Prints]] = field(default_factory=dict)
    _count: int = 0

    def add(self, file_no: int, prints: Prints) -> None:
        """Take those of a part of a file; those of the parts in front came before."""
        if self._count + len(prints) <= self.most:
            self._of_files.setdefault(file_no, []).append(prints)
            self._count += len(prints)

    def places(self, image: Image) -> Places:
        """The same by places in an image of these files; they are kept no longer otherwise."""
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
                # The image may end in front of what was scanned.
                counts = some.counts[: max(more - some.page, 0)]
                of_page[some.page : some.page + len(counts)] += counts
                first, count = count, count + int(counts.sum())
                low[first:count] = some.low[: count - first]
                prints[first:count] = some.prints[: count - first]
            firsts.append((before + np.cumsum(of_page)).astype(np.int32))
            pages += more
        return Places(np.concatenate(firsts), low[:count], prints[:count])


class Known(Struct, frozen=True):
    """What slots are compared with.

    Attributes:
        image: the log.
        reserved: bool, one a file of the image; slots that name something in it are in doubt.
        page_first, low, prints: see `Places`.
        noted: int64, ascending.
        noted_bits: uint8; a filter of these, whose size is a power of two.
    """

    image: Image
    reserved: Mask
    page_first: npt.NDArray[np.int32]
    low: npt.NDArray[np.uint16]
    prints: Ints
    noted: Ints
    noted_bits: npt.NDArray[np.uint8]


class SlotChecks:
    """Asks of slots whether it is certain that they name records as they should be.

    Args:
        image: the log.
        fingerprints: of its records.
        noted: int64 LSNs, ascending, that no slot may name whose record is there alone.
        reserved: numbers of files to which the same applies.
    """

    def __init__(
        self, image: Image, fingerprints: Fingerprints, noted: Ints, reserved: frozenset[int]
    ) -> None:
        self._printing = fingerprints.printing
        places = fingerprints.places(image)
        count = max(_BITS_EACH * len(noted), _BITS_MIN)
        bits = np.zeros((1 << (count - 1).bit_length()) >> 3, np.uint8)
        _native.note_lsns(noted, bits)
        self._known = Known(
            image=image,
            reserved=np.isin(image.file_nos, list(reserved)),
            page_first=places.first,
            low=places.low,
            prints=places.prints,
            noted=noted,
            noted_bits=bits,
        )

    def doubtful(self, slots: Slots, rows: Ints, db_id: int, *, asks_noted: bool) -> Mask:
        """Of which slots it is not certain.

        Args:
            slots: of BINs.
            rows: int64; which of them.
            db_id: of their database.
            asks_noted: look for what was noted, where the record is not in its slot.

        Returns:
            Bool, one a row. What is False names an entry of which the scan found the sum right, a
            record of the slot's key and of the database, with data, which expires when the slot
            says, and not after HOURS_MAX.
        """
        return _native.doubtful_slots(
            slots,
            rows,
            self._known,
            db_id=db_id,
            printing=self._printing,
            asks_noted=asks_noted,
        )
