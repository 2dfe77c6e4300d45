"""Changes to the records of internal databases, by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class WrittenEntry(Struct, frozen=True):
    """An entry that this checkpoint has written.

    Attributes:
        lsn: its LSN.
        size: its size with the header, in bytes.
    """

    lsn: int
    size: int


Fields = Mapping[str, Any]

RecordChanges = dict[bytes, WrittenEntry | None]
"""Changes to the slots of an internal database, by key; None for a slot that is removed."""

NO_LN = {"flags": 0, "flags2": 0, "flags3": 0, "modified_ms": 0}
"""Fields that a checkpoint leaves empty in an LN outside transactions."""
