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
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.image import Image
from je_tools.formats.je.expirations import DAY_MS, HOUR_MS
from je_tools.formats.je.layout import SLOT_EMBEDDED
from je_tools.formats.je.nodes import Slots
from je_tools.formats.je.reader import Rows
from je_tools.formats.je.steps import Action, Role, of_family, programs
from je_tools.formats.je.walk import Checksum
from je_tools.formats.kernels import compiled, kernel
from je_tools.formats.packed_kernels import read_packed
from je_tools.formats.source import as_plain

RECORDS_MAX = 1 << 24
"""Records of which fingerprints are kept; some 200 MB."""

KEY_SIZE_MAX = 1 << 12
"""Longer keys have none: the chance that two agree grows with their length."""

HOURS_MAX = 1_000_000
"""What expires later, in hours since 1970, has none."""

_PAGE_SHIFT = 12
_IN_PAGE = (1 << _PAGE_SHIFT) - 1
_PAGES_MAX = 1 << 24

_PRIME = (1 << 31) - 1
_PRIME_BITS = 31
# Times a number of 32 bits, and more added, it stays below 63 bits.
_PLACES_MAX = 1 << 30
_NONE = -1
_ID_MAX, _HOURS_MAX, _KEY_SIZE_MAX = 1 << 24, HOURS_MAX, KEY_SIZE_MAX
_HOUR_MS, _DAY_HOURS = HOUR_MS, DAY_MS // HOUR_MS
_FLAGS, _PACKED = int(Action.FLAGS), int(Action.PACKED)
_BYTES, _REST = int(Action.BYTES), int(Action.REST)
_KEY, _DATA = int(Role.KEY), int(Role.DATA)
_DB_ID, _EXPIRATION = int(Role.DB_ID), int(Role.EXPIRATION)
_OK, _EMBEDDED = int(Checksum.OK), SLOT_EMBEDDED

# What is known of a file, one line each.
_NO, _START, _STOP, _RESERVED, _WIDTH = range(5)

# Neighbouring LSNs differ in their low bits, which are those of a remainder.
_SPREAD, _SPREAD_FILES = 40503, 2654435761
_BITS_EACH, _BITS_MIN = 16, 1 << 10

_AT_ONCE = 64


@kernel
def _step(number: int) -> int:
    """A number of 63 bits, of which 32 are left, by the same remainder: two powers are the same."""
    return (number & _PRIME) + (number >> _PRIME_BITS)


@kernel
def _fingerprint(
    buf: Any, start: int, size: int, db_id: int, hours: int, one: int, other: int
) -> int:
    """Of a record whose key is buf[start:start + size]; -1 where it has none."""
    if not -_ID_MAX <= db_id < _ID_MAX or not 0 <= hours <= _HOURS_MAX:
        return _NONE
    if not 0 <= size <= _KEY_SIZE_MAX:
        return _NONE
    high = _step((db_id + _ID_MAX) * one + hours)
    low = _step((db_id + _ID_MAX) * other + hours)
    high = _step(high * one + size)
    low = _step(low * other + size)
    stop = start + size
    at = start
    while at + 3 <= stop:
        word = buf[at] + buf[at + 1] * 256 + buf[at + 2] * 65536
        high = _step(high * one + word)
        low = _step(low * other + word)
        at += 3
    while at < stop:
        word = buf[at] - 0
        high = _step(high * one + word)
        low = _step(low * other + word)
        at += 1
    return (high % _PRIME) << _PRIME_BITS | low % _PRIME


@kernel
def _of_payload(
    buf: Any, at: int, stop: int, step: int, last: int, steps: Any, one: int, other: int
) -> int:
    """The fingerprint of the record in buf[at:stop]; -1 for a deletion and what is none."""
    flags = 0
    db_id = 0
    hours = 0
    key_start = 0
    key_size = -1
    data_size = -1
    while step < last:
        action = steps[step, 0]
        role = steps[step, 1]
        mask = steps[step, 2]
        step += 1
        if mask != 0 and flags & mask == 0:
            continue
        if action == _REST:
            size = stop - at
        elif at >= stop:
            return _NONE
        elif action == _FLAGS:
            flags |= (buf[at] - 0) << role
            at += 1
            continue
        elif action in (_PACKED, _BYTES):
            size = buf[at] - 0
            if size <= 119:
                at += 1
            else:
                size, at = read_packed(buf, at, stop)
                if at < 0:
                    return _NONE
            if action == _PACKED:
                if role == _DB_ID:
                    db_id = size
                elif role == _EXPIRATION and size != 0:
                    # Days, or negative hours; what is wild must not lead out of 64 bits.
                    size = max(min(size, _HOURS_MAX), -_HOURS_MAX - 1)
                    hours = -size if size < 0 else size * _DAY_HOURS
                continue
            if size < -1 or size > stop - at:
                return _NONE
        else:
            # Log versions that have no other numbers are all that matter here.
            return _NONE
        if role == _KEY:
            key_start = at
            key_size = size
        elif role == _DATA:
            data_size = size
        at += max(size, 0)
    if data_size < 0:
        return _NONE
    return _fingerprint(buf, key_start, key_size, db_id, hours, one, other)


@kernel
def _of_rows(
    buf: Any,
    base: int,
    n: int,
    offsets: Any,
    types: Any,
    header_sizes: Any,
    item_sizes: Any,
    states: Any,
    firsts: Any,
    lasts: Any,
    steps: Any,
    one: int,
    other: int,
    places: Any,
    prints: Any,
) -> int:
    """Fingerprints of the records among `n` rows whose sum is right; how many there are.

    Args:
        buf: bytes of the file from offset `base`; the entries lie in it.
        n: number of rows, whose columns follow; see `walk`.
        firsts, lasts, steps: of each type; see `steps`.
        one, other: where the polynomial is taken.
        places: uint32 (n,) output; where each begins.
        prints: int64 (n,) output.
    """
    count = 0
    for row in range(n):
        type_no = types[row]
        if firsts[type_no] == lasts[type_no] or states[row] != _OK:
            continue
        at = offsets[row] - base + header_sizes[row]
        stop = at + item_sizes[row]
        found = _of_payload(buf, at, stop, firsts[type_no], lasts[type_no], steps, one, other)
        if found >= 0:
            places[count] = offsets[row]
            prints[count] = found
            count += 1
    return count


@kernel
def _bit_of(lsn: int, mask: int) -> int:
    """Which bit of a filter an LSN has; others have it too."""
    return ((lsn & 4294967295) * _SPREAD + (lsn >> 32) * _SPREAD_FILES) & mask


@kernel
def _note(lsns: Any, n: int, mask: int, bits: Any) -> None:
    for row in range(n):
        bit = _bit_of(lsns[row], mask)
        bits[bit >> 3] |= 1 << (bit & 7)


@kernel
def _is_noted(lsn: int, lsns: Any, mask: int, bits: Any) -> int:
    """1 for one of ascending LSNs, else 0; most others are told by the filter."""
    bit = _bit_of(lsn, mask)
    if (bits[bit >> 3] >> (bit & 7)) & 1 == 0:
        return 0
    low = 0
    high = len(lsns)
    while low < high:
        middle = (low + high) >> 1
        if lsns[middle] < lsn:
            low = middle + 1
        else:
            high = middle
    return 1 if low < len(lsns) and lsns[low] == lsn else 0


@kernel
def _line_of(files: Any, file_no: int) -> int:
    """The line of a file, -1 for one that there is not."""
    low = 0
    high = len(files) - 1
    # Mostly none is missing, and then its number tells its line.
    at = file_no - files[0, _NO] if high >= 0 else -1
    if 0 <= at <= high and files[at, _NO] == file_no:
        return at
    while low <= high:
        at = (low + high) >> 1
        if files[at, _NO] == file_no:
            return at
        if files[at, _NO] < file_no:
            low = at + 1
        else:
            high = at - 1
    return -1


@kernel
def _find(
    begin: int,
    end: int,
    rows: Any,
    lsns: Any,
    files: Any,
    page_firsts: Any,
    lows: Any,
    prints: Any,
    places: Any,
    found: Any,
) -> int:
    """The fingerprint of what some slots name, -1 where there is none.

    Each step is taken for all slots before the next one, so that the processor waits for many
    places of memory at a time. What the second one loads is in the cache when the third comes to
    it, and is told so that no compiler leaves it out.
    """
    for i in range(begin, end):
        lsn = lsns[rows[i]]
        line = _line_of(files, lsn >> 32)
        places[i] = -1
        found[i] = 0
        if line >= 0 and files[line, _RESERVED] == 0:
            at = files[line, _START] + (lsn & 4294967295)
            page = at >> _PAGE_SHIFT
            if at < files[line, _STOP] and page + 1 < len(page_firsts):
                places[i] = at
                found[i] = page_firsts[page]
    loaded = 0
    for i in range(begin, end):
        first = found[i]
        if first < len(prints):
            loaded += lows[first] + (prints[first] & 1)
    for i in range(begin, end):
        at = places[i]
        first = found[i]
        found[i] = _NONE
        if at >= 0:
            low = at & _IN_PAGE
            for place in range(first, page_firsts[(at >> _PAGE_SHIFT) + 1]):
                if lows[place] == low:
                    found[i] = prints[place]
                    break
    return loaded


@kernel
def _doubt(
    n: int,
    rows: Any,
    lsns: Any,
    states: Any,
    keys: Any,
    key_starts: Any,
    key_sizes: Any,
    expires_ms: Any,
    files: Any,
    page_firsts: Any,
    lows: Any,
    prints: Any,
    noted: Any,
    noted_mask: int,
    noted_bits: Any,
    db_id: int,
    one: int,
    other: int,
    places: Any,
    found: Any,
    out: Any,
) -> int:
    """Tell the slots of which it is not certain that they name a record as it should be.

    Args:
        n: number of `rows`.
        rows: int64 (n,); which slots.
        lsns, states, key_starts, key_sizes, expires_ms: int64, of all slots; `keys` the bytes of
            their keys.
        files: int64 (files, _WIDTH), ascending by number.
        page_firsts, lows, prints: see `Places`.
        noted: int64, ascending.
        noted_mask, noted_bits: filter of these, see `_bit_of`; the mask is -1 to ask none.
        db_id: of the database.
        one, other: where the polynomial is taken.
        places, found: int64 (n,); for use in here.
        out: bool (n,) output.
    """
    loaded = 0
    for i in range(n):
        if i % _AT_ONCE == 0:
            end = min(i + _AT_ONCE, n)
            loaded += _find(i, end, rows, lsns, files, page_firsts, lows, prints, places, found)
        out[i] = True
        slot = rows[i]
        hours = expires_ms[slot] // _HOUR_MS
        if found[i] < 0 or hours * _HOUR_MS != expires_ms[slot]:
            continue
        start = key_starts[slot]
        own = _fingerprint(keys, start, key_sizes[slot], db_id, hours, one, other)
        if own != found[i]:
            continue
        asked = noted_mask >= 0 and states[slot] & _EMBEDDED == 0
        if not asked or _is_noted(lsns[slot], noted, noted_mask, noted_bits) == 0:
            out[i] = False
    return loaded


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
        fast: use compiled kernels.
    """

    one: int
    other: int
    fast: bool

    @classmethod
    def at_random(cls, *, fast: bool) -> Printing:
        """As nobody can foretell."""
        one, other = (_PLACES_MAX // 2 + secrets.randbelow(_PLACES_MAX // 2) for _ in range(2))
        return cls(one, other, fast)

    def of_rows(self, rows: Rows) -> Prints:
        """The fingerprints of the records among some rows."""
        n = len(rows)
        places, prints = np.empty(n, np.uint32), np.empty(n, np.int64)
        columns: list[Any] = [
            rows.offset,
            rows.type,
            rows.header_size,
            rows.item_size,
            rows.checksum,
            *programs(rows.version, of_family),
        ]
        if not self.fast:
            columns[:-1] = [column.tolist() for column in columns[:-1]]
        run: Any = compiled(_of_rows) if self.fast else _of_rows
        data = rows.data if self.fast else as_plain(rows.data)
        count = run(data, rows.base, n, *columns, self.one, self.other, places, prints)
        places = places[:count]
        pages = (places >> _PAGE_SHIFT).astype(np.int64)
        first = int(pages[0]) if count else 0
        low = (places & _IN_PAGE).astype(np.uint16)
        return Prints(first, np.bincount(pages - first), low, prints[:count].copy())


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
            more = (end >> _PAGE_SHIFT) - pages
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
        self._places = fingerprints.places(image)
        files = np.zeros((len(image.file_nos), _WIDTH), np.int64)
        files[:, _NO], files[:, _START], files[:, _STOP] = (
            image.file_nos,
            image.starts,
            image.stops,
        )
        files[:, _RESERVED] = np.isin(image.file_nos, list(reserved))
        self._files = files
        count = max(_BITS_EACH * len(noted), _BITS_MIN)
        self._noted = noted
        self._bits = np.zeros((1 << (count - 1).bit_length()) >> 3, np.uint8)
        self._mask = 8 * len(self._bits) - 1
        run = compiled(_note) if self._printing.fast else _note
        run(noted, len(noted), self._mask, self._bits)

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
        n, key, fast = len(rows), slots.key, self._printing.fast
        places, found, out = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.bool_)
        run = compiled(_doubt) if fast else _doubt
        run(
            n,
            rows,
            slots.lsn,
            slots.state,
            key.data if fast else as_plain(key.data),
            key.starts,
            key.sizes,
            slots.expires_ms,
            self._files,
            self._places.first,
            self._places.low,
            self._places.prints,
            self._noted,
            self._mask if asks_noted else -1,
            self._bits,
            db_id,
            self._printing.one,
            self._printing.other,
            places,
            found,
            out,
        )
        return out
