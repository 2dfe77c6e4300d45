"""Checkpoint records in the log of a node, by their pointers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
from msgspec import Struct

from je_tools.core.ordered import map_in_order
from je_tools.errors import InputError
from je_tools.formats.ignite.markers import Pointer
from je_tools.formats.ignite.records import CheckpointFacts, decode_checkpoint
from je_tools.formats.ignite.types import NUMBERS
from je_tools.ignite.wal.segment_reading import SegmentCopies, read_segment

if TYPE_CHECKING:
    from je_tools.log.scan_options import Progress

_CHECKPOINT_NO = NUMBERS["CHECKPOINT_RECORD"]


class CheckpointRecord(Struct, frozen=True):
    """A checkpoint's record in the log: its pointer, and its content."""

    pointer: Pointer
    facts: CheckpointFacts

    @property
    def checkpoint(self) -> UUID:
        """The id."""
        return self.facts.checkpoint


def read_records(
    segments: Iterable[SegmentCopies], threads: int, progress: Progress | None = None
) -> list[CheckpointRecord]:
    """Return the checkpoint records of segments, in the order of the log.

    All copies of a segment are read: one may have a record that is damaged in another.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    found: list[CheckpointRecord] = []
    chosen = list(segments)
    for copies, some in zip(chosen, map_in_order(_read, chosen, threads), strict=True):
        found += some
        if progress is not None:
            progress(sum(segment.size for segment in copies.files))
    return found


def _read(copies: SegmentCopies) -> list[CheckpointRecord]:
    found: dict[int, CheckpointRecord] = {}
    for segment in copies.files:
        try:
            with read_segment(segment) as (rows, _):
                for some in rows:
                    chosen = some.select(np.flatnonzero(some.columns.type_no == _CHECKPOINT_NO))
                    for row in range(len(chosen)):
                        columns, is_big = chosen.columns, chosen.header.is_big
                        facts = decode_checkpoint(chosen.payload(row), is_big=is_big)
                        offset, length = int(columns.offset[row]), int(columns.length[row])
                        if facts is not None:
                            pointer = Pointer(copies.index, offset, length)
                            found.setdefault(offset, CheckpointRecord(pointer, facts))
        except InputError:
            # `wal verify` reports the file; another copy may have the record.
            continue
    return [found[offset] for offset in sorted(found)]
