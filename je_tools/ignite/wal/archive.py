"""The archive of a node: its newest segment, and the files that keep the node from starting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.errors import InputError
from je_tools.formats.files.source import Source
from je_tools.ignite.segment_files import open_segment_bytes
from je_tools.ignite.wal.segment_reading import copies_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from je_tools.ignite.segment_files import SegmentFile
    from je_tools.ignite.store import Node
    from je_tools.ignite.wal.segment_reading import SegmentCopies

_ENTRY = b"PK\x03\x04"
"""First bytes of an entry of a ZIP."""


def last_archived(node: Node) -> int:
    """Return the index of the newest segment of the archive; -1 for none.

    The engine reads it from the header. It passes over files that have none, whatever their names.

    Source: FileWriteAheadLogManager.scan, Ignite 2.18.0, and starts of a node on such archives.
    """
    headers = (each.header for each in node.archive)
    return max((header.segment for header in headers if header is not None), default=-1)


def unarchived(node: Node, first: int) -> Iterator[SegmentCopies]:
    """Yield the segments from `first` on that the archive lacks although it has later ones."""
    archived = {each.header.segment for each in node.archive if each.header is not None}
    for copies in copies_of(node):
        if first <= copies.index <= last_archived(node) and copies.index not in archived:
            yield copies


def files_in_the_way(node: Node) -> list[SegmentFile]:
    """Return the files without a header that have the names of segments to be archived.

    At its start, the node archives each complete segment of the ring, and does not start if a file
    has its name. It halts later if a file has the name of the segment that it writes, or of one
    after that; see `is_due`.

    Source: starts of a node of 2.18 on such archives.
    """
    last = last_archived(node)
    return [
        each
        for each in node.archive
        if each.number > last and each.header is None and not each.is_packed
    ]


def is_due(node: Node, file: SegmentFile) -> bool:
    """Return True if a node archives the segment with the name of a file when it starts."""
    ring = _ring(node)
    return file.number in ring and file.number < max(ring)


def may_be_only_copy(node: Node, file: SegmentFile) -> bool:
    """Return True if a file of `files_in_the_way` may have records that no other file has.

    It may, unless it is all zeros, or the ring has the segment with its name.

    Raises:
        StoppedError: it shrank, vanished or was replaced while it was read.
    """
    if file.number in _ring(node):
        return False
    try:
        with open_segment_bytes(file.path, is_packed=False) as source:
            return not (isinstance(source, Source) and source.is_blank(0, source.size))
    except InputError:
        return True


def is_after_ring(node: Node, file: SegmentFile) -> bool:
    """Return True if a file has the name of a segment that comes after those of the ring."""
    ring = _ring(node)
    return bool(ring) and file.number > max(ring)


def moved_wrongly(node: Node) -> list[SegmentFile]:
    """Return the files of a ring that the node cannot move to the archive if the first is gone.

    If it is gone, the node moves the others to the archive when it starts, except the last by
    name. It does not start if the archive has a file of such a name, and halts if it moves the
    segment that it wrote last.

    Source: starts of a node of 2.18 on such rings.
    """
    ring = sorted(node.work, key=lambda each: each.number)
    if not ring or ring[0].number == 0 or not node.archive:
        return []
    names, last = {each.path.name for each in node.archive}, max(_ring(node), default=-1)
    return [
        each
        for each in ring[:-1]
        if each.path.name in names or (each.header is not None and each.header.segment == last)
    ]


def _ring(node: Node) -> set[int]:
    """Return the segments of the ring that can be read."""
    return {each.header.segment for each in node.work if each.header is not None}


def zips_without_entry(node: Node) -> list[SegmentFile]:
    """Return the ZIPs of the archive that do not begin with an entry; no node starts beside these.

    Source: starts of a node of 2.18 on an empty ZIP, and on one of other bytes.
    """
    return [
        each
        for each in node.archive
        if each.is_packed and each.header is None and not _begins_with_entry(each.path)
    ]


def _begins_with_entry(path: Path) -> bool:
    try:
        with open_segment_bytes(path, is_packed=False) as source:
            start = source.read(0, min(len(_ENTRY), source.size)).tobytes()
    except InputError:
        # Another finding says that it cannot be read.
        return True
    return start == _ENTRY
