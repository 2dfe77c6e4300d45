"""The log version of a file whose header does not tell it: by the rest of the header, by entries.

Layouts differ between log versions in ways that show in most entries: under another version than
its own an entry ends inside a field or leaves bytes over.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator

from je_tools.formats.je.entries import EntryError, decode_entry
from je_tools.formats.je.header import FILE_HEADER_SIZE, MIN_HEADER_SIZE
from je_tools.formats.je.reader import FILE_SIZE_MAX, RangeReader, Rows
from je_tools.formats.je.types import FILE_HEADER_NO, LOG_VERSION_MAX, PAYLOAD_VERSION_MIN
from je_tools.formats.packed import load_i32, load_u32
from je_tools.formats.source import Source

PLACES, PLACE_SIZE = 16, 1 << 20
"""How many places of a file are looked at, at most, and bytes of each."""

ENOUGH, ENOUGH_OF_A_TYPE = 64, 4
"""Entries that have a vote, and of one type: rare types tell more than many of one."""

_LARGE = 1 << 20
"""Bytes of an entry that has no vote: it would take long, and others are there."""

_VERSION_AT = FILE_HEADER_SIZE - 4
_VERSIONS = range(1, LOG_VERSION_MAX + 1)


def stored_version(header: bytes) -> int | None:
    """The version that a damaged file header names; None where it names none.

    What is the same in every file header counts as whole. If that and one version make the
    checksum right, the header was damaged only there, and that version is certain; else the
    number that stands there is taken if it is a version at all.

    Args:
        header: the first bytes of a file.
    """
    if len(header) < FILE_HEADER_SIZE:
        return None
    item_size = FILE_HEADER_SIZE - MIN_HEADER_SIZE
    # Engines of before log version 8 leave a version in the byte behind the type.
    for flags in dict.fromkeys((header[5], 0)):
        head = bytes([FILE_HEADER_NO, flags, 0, 0, 0, 0]) + item_size.to_bytes(4, "little")
        before = zlib.adler32(head + header[MIN_HEADER_SIZE:_VERSION_AT])
        for version in _VERSIONS:
            if zlib.adler32(version.to_bytes(4, "little"), before) == load_u32(header, 0):
                return version
    found = load_i32(header, _VERSION_AT)
    return found if found in _VERSIONS else None


def fitting_versions(source: Source) -> frozenset[int]:
    """The versions of which most entries of a file make sense; none where no entry is found.

    Several fit where the file holds little but entries whose layouts they share.

    Args:
        source: the file. Some places of it are looked at, the first ones first.

    Raises:
        SourceError: it cannot be read.
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
    """Entries with a right checksum, some of each type."""
    of_type: Counter[int] = Counter()
    for start in _places(min(source.size, FILE_SIZE_MAX)):
        stop = start + PLACE_SIZE
        # Up to what is summed no version matters: what differs is one bit of rolled back entries.
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
    """Where to look: at the front, and all over the file."""
    step = max(size // PLACES, PLACE_SIZE)
    return [FILE_HEADER_SIZE, *range(PLACE_SIZE, size, step)][:PLACES]
