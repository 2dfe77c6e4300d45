"""Checkpoint markers: files whose name is a checkpoint, and whose content points into the log.

Source: CheckpointMarkersStorage, CheckpointEntryType, Ignite 2.18.0.
"""

from __future__ import annotations

import re
import struct
from enum import StrEnum
from uuid import UUID

from msgspec import Struct

MARKER_SIZE = 16
"""Bytes of a marker."""

_NAME = re.compile(r"([0-9]+)-(.*)-(START|END)\.bin", re.DOTALL)
_ID = re.compile(r"(?=.{9,36}\Z)([0-9a-fA-F]+)" + r"-([0-9a-fA-F]+)" * 4)
_TIME_MAX = (1 << 63) - 1


class MarkerKind(StrEnum):
    """Moment of a checkpoint that a marker stands for."""

    START = "START"
    END = "END"


class MarkerName(Struct, frozen=True):
    """The name of a marker.

    Attributes:
        time_ms: time when the checkpoint began, at most 2^63 - 1.
        checkpoint: id; None if the name has no valid one, or its time does not fit in 63 bits. The
            engine fails to parse such a name, and does not start.
        kind: begin or end.
    """

    time_ms: int
    checkpoint: UUID | None
    kind: MarkerKind


class Pointer(Struct, frozen=True, order=True):
    """Place of a record in the log; all zero if the log was off."""

    segment: int
    offset: int
    length: int

    @property
    def is_null(self) -> bool:
        """True if it points nowhere, which the engine writes if the log was off."""
        return self == Pointer(0, 0, 0)


def read_marker_name(name: str) -> MarkerName | None:
    """Return the parts of a marker's name; None if it is not that of a marker."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    checkpoint = _checkpoint_of(found[2])
    time_ms = int(found[1])
    if time_ms > _TIME_MAX:
        time_ms, checkpoint = _TIME_MAX, None
    return MarkerName(time_ms, checkpoint, MarkerKind(found[3]))


def _checkpoint_of(text: str) -> UUID | None:
    """Return an id as Java reads it: if a part has too many digits, only the last ones count."""
    found = _ID.fullmatch(text)
    if found is None:
        return None
    sizes = (8, 4, 4, 4, 12)
    parts = [
        each[-size:].rjust(size, "0") for each, size in zip(found.groups(), sizes, strict=True)
    ]
    return UUID("".join(parts))


def read_marker(data: bytes, *, is_big: bool) -> Pointer | None:
    """Return the content of a marker; None if it is too short or points to no place of a log."""
    if len(data) < MARKER_SIZE:
        return None
    pointer = Pointer(*struct.unpack_from(">qii" if is_big else "<qii", data))
    return pointer if min(pointer.segment, pointer.offset, pointer.length) >= 0 else None


def encode_marker(pointer: Pointer, *, is_big: bool) -> bytes:
    """Return the content of a marker that points to a record."""
    order = ">" if is_big else "<"
    return struct.pack(f"{order}qii", pointer.segment, pointer.offset, pointer.length)
