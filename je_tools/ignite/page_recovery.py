"""What the checkpoints of a node say of its pages: which recovery writes anew, and which exist.

Source: GridCacheDatabaseSharedManager.performBinaryMemoryRestore, CheckpointMarkersStorage,
CheckpointRecoveryFile, Ignite 2.18.0.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.errors import InputError
from je_tools.formats.files.source import Source, SourceError
from je_tools.formats.ignite.records import decode_type
from je_tools.formats.ignite.segments import checksum
from je_tools.formats.ignite.types import NUMBERS
from je_tools.ignite.checkpoints import node_checkpoints
from je_tools.ignite.wal import copies_of, read_segment

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.formats.ignite.markers import Pointer
    from je_tools.formats.ignite.records import CheckpointFacts
    from je_tools.ignite.checkpoints import NodeCheckpoints
    from je_tools.ignite.store import Node

_PLACE_MASK = (1 << 48) - 1
_BASES = (
    "PAGE_RECORD",
    "INIT_NEW_PAGE_RECORD",
    "BTREE_INIT_NEW_ROOT",
    "PAGES_LIST_INIT_NEW_PAGE",
)
"""Records that give a page its whole content: an image, or an empty page of a type."""

_RECOVERY_HEADER = "qiIIBB"
"""Page id, group, size, checksum, flag of encryption, key."""

Place = tuple[int, int]
"""Id of a group; partition and index of a page."""


class PageRecovery(Struct, frozen=True):
    """What the checkpoints of a node say of its pages.

    Attributes:
        status: as `LogNeed.status`, or `none` without a folder of markers.
        mended: pages that recovery writes; empty if it does not, or cannot read the log.
        newest: record of the newest checkpoint; None if it is not in the log.
    """

    status: str
    mended: frozenset[Place]
    newest: CheckpointFacts | None

    @property
    def is_mixed(self) -> bool:
        """True if the pages may be those of two states."""
        return self.status in ("unfinished", "unclear")


def page_recovery(node: Node, threads: int) -> PageRecovery:
    """Return what the checkpoints of a node say of its pages.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    try:
        found = node_checkpoints(node, threads)
    except InputError:
        return PageRecovery("none", frozenset(), None)
    newest = max(found.checkpoints, key=lambda each: each.time_ms, default=None)
    record = newest.record if newest is not None else None
    facts = record.facts if record is not None else None
    mended: set[Place] = set()
    if found.need.status == "unfinished" and newest is not None and record is not None:
        if newest.recovery_files and node.db is not None:
            mended = _of_recovery_files(node.db / "cp", str(newest.checkpoint))
        else:
            mended = _of_log(node, found, record.pointer)
    return PageRecovery(found.need.status, frozenset(mended), facts)


def place_of(group_id: int, partition: int, index: int) -> Place:
    """Return the place of a page."""
    return group_id, partition << 32 | index


def _of_log(node: Node, found: NodeCheckpoints, stop: Pointer) -> set[Place]:
    """Return the pages whose content is in the log that recovery replays up to `stop`.

    None are, if a segment or bytes of it are missing: the node refuses to start.
    """
    need = found.need
    if need.first is None or need.offset is None or need.missing or need.compacted:
        return set()
    places: set[Place] = set()
    for copies in copies_of(node):
        if not need.first <= copies.index <= stop.segment:
            continue
        after = need.offset if copies.index == need.first else 0
        before = stop.offset if copies.index == stop.segment else None
        with read_segment(copies.chosen) as (rows, end):
            for some in rows:
                at = some.columns.offset
                inside = (at >= after) & (before is None or at < before)
                for name in _BASES:
                    chosen = some.select(inside & (some.columns.type_no == NUMBERS[name]))
                    if len(chosen):
                        columns = decode_type(chosen, NUMBERS[name]).columns
                        ids = columns["page_id"] & _PLACE_MASK
                        places.update(zip(columns["group_id"].tolist(), ids.tolist(), strict=True))
        if any(gap.end > after and (before is None or gap.stop.at < before) for gap in end.gaps):
            return set()
    return places


def _of_recovery_files(folder: Path, checkpoint: str) -> set[Place]:
    """Return the pages whose undamaged content is in the files of an unfinished checkpoint."""
    places: set[Place] = set()
    for path in sorted(folder.glob(f"*-{checkpoint}-RECOVERY-*.bin")):
        try:
            with Source(path) as source:
                places.update(_of_recovery_file(source))
        except SourceError:
            continue
    return places


def _of_recovery_file(source: Source) -> set[Place]:
    places: set[Place] = set()
    at = 0
    while header := source.read_bytes(at, at + struct.calcsize(f"<{_RECOVERY_HEADER}")):
        for order in "<>":
            try:
                page_id, group, size, stored, _, _ = struct.unpack(order + _RECOVERY_HEADER, header)
            except struct.error:
                return places
            start = at + len(header)
            if 0 < size <= 1 << 16 and start + size <= source.size:
                if checksum(source.read_bytes(start, start + size)) == stored:
                    places.add((group, page_id & _PLACE_MASK))
                at = start + size
                break
        else:
            return places
    return places
