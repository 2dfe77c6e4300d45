"""Log version of a file with a damaged header, from the rest of the header or from entries.

Layouts differ between log versions in most entries: decoded as another version, an entry ends
inside a field or leaves bytes over.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from je_tools.formats.je.entry.entries import decode_entry
from je_tools.formats.je.header import (
    FILE_HEADER_SIZE,
    MIN_HEADER_SIZE,
    EntryError,
    Header,
    read_header,
    summed_header,
)
from je_tools.formats.je.log.reader import FILE_SIZE_MAX, RangeReader
from je_tools.formats.je.types import FILE_HEADER_NO, LOG_VERSION_MAX, PAYLOAD_VERSION_MIN
from je_tools.formats.packed import load_i32

if TYPE_CHECKING:
    from je_tools.formats.files.source import Source
    from je_tools.formats.je.log.entry_rows import Rows

PLACES, PLACE_SIZE = 16, 1 << 20
"""Largest number of places of a file to sample, and size of each."""

ENOUGH, ENOUGH_OF_A_TYPE = 64, 4
"""Number of entries that vote, in all and per type: rare types are better evidence than many of
one."""

_LARGE = 1 << 20
"""Size of the largest entry that votes: decoding a larger one takes long, and others suffice."""

_VERSION_AT = FILE_HEADER_SIZE - 4
_VERSIONS = range(1, LOG_VERSION_MAX + 1)


def stored_version(header: bytes) -> int | None:
    """Return the version that a damaged file header names, or None.

    Each version is tried, with the right values for the bytes that all file headers share. If the
    checksum is right for one, only these bytes were damaged, and that version is certain. Otherwise
    the stored number is returned if it is a version at all.

    Args:
        header: the first bytes of a file.
    """
    if len(header) < FILE_HEADER_SIZE:
        return None
    stored = read_header(header, LOG_VERSION_MAX)
    item_size = FILE_HEADER_SIZE - MIN_HEADER_SIZE
    # Before log version 8, engines store a version in the byte after the type.
    for flags in dict.fromkeys((stored.flags, 0)):
        head = summed_header(Header(0, FILE_HEADER_NO, flags, 0, item_size, None))
        before = zlib.adler32(head + header[MIN_HEADER_SIZE:_VERSION_AT])
        for version in _VERSIONS:
            if zlib.adler32(version.to_bytes(4, "little"), before) == stored.checksum:
                return version
    found = load_i32(header, _VERSION_AT)
    return found if found in _VERSIONS else None


def fitting_versions(source: Source) -> frozenset[int]:
    """Return the versions as which most entries of a file decode; none if no entry is found.

    Several versions fit if the file has little but entries whose layouts they share.

    Args:
        source: the file; only some places of it are read, from front to back.

    Raises:
        SourceError: the file cannot be read.
    """
    votes: Counter[int] = Counter()
    for entry in _sample(source):
        votes.update(
            version for version in _VERSIONS[PAYLOAD_VERSION_MIN - 1 :] if _fits(entry, version)
        )
    most = max(votes.values(), default=0)
    return frozenset(version for version, count in votes.items() if count == most)


def _fits(entry: bytes, version: int) -> bool:
    try:
        decode_entry(entry, version)
    except EntryError:
        return False
    return True


def _sample(source: Source) -> Iterator[bytes]:
    """Yield entries with a right checksum, some of each type."""
    of_type: Counter[int] = Counter()
    for start in _places(min(source.size, FILE_SIZE_MAX)):
        stop = start + PLACE_SIZE
        # The version hardly matters here: it only decides on one summed bit of rolled-back entries.
        for rows in RangeReader(source, 0, LOG_VERSION_MAX, start, stop):
            for row in _chosen(rows, of_type):
                yield rows.entry_bytes(row)
        if of_type.total() >= ENOUGH:
            return


def _chosen(rows: Rows, of_type: Counter[int]) -> Iterator[int]:
    good = rows.good
    for row, type_no in enumerate(rows.type.tolist()):
        is_wanted = good[row] and type_no != FILE_HEADER_NO and rows.size_of(row) <= _LARGE
        if is_wanted and of_type[type_no] < ENOUGH_OF_A_TYPE:
            of_type[type_no] += 1
            yield row


def _places(size: int) -> list[int]:
    """Return the offsets of the places to sample: at the front, and all over the file."""
    step = max(size // PLACES, PLACE_SIZE)
    return [FILE_HEADER_SIZE, *range(PLACE_SIZE, size, step)][:PLACES]
