"""Outcomes of recovery: the records of the keys that undo and redo change."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.spans import Spans
from je_tools.recovery.interval_tables import COMMITTED, TRANSACTIONAL

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask


class KeyOutcome(IntEnum):
    """Source of a key's record after recovery."""

    NO_RECORD = 0
    LN = 1
    """It is the record of an LN."""
    ABORT_VERSION = 2
    """It is the record that an undone LN had replaced."""


class Overlay(Struct, frozen=True):
    """The keys of a database whose slots recovery changes, each once.

    Attributes:
        key: in the key order of the database, or in byte order if that is unknown.
        outcome: uint8; a `KeyOutcome`.
        lsn: int64; LSN of the LN that is redone, reverted to, or undone.
        undone_count, redone_count: number of slots that undo and redo changed.
    """

    key: Spans
    outcome: npt.NDArray[np.uint8]
    lsn: Ints
    undone_count: int = 0
    redone_count: int = 0

    def __len__(self) -> int:
        return len(self.lsn)


def no_overlay() -> Overlay:
    """Return an overlay that changes nothing."""
    none = np.empty(0, np.int64)
    return Overlay(Spans(np.empty(0, np.uint8), none, none), np.empty(0, np.uint8), none)


def is_open(flags: npt.NDArray[np.uint8]) -> Mask:
    """Return a mask of the LNs written in transactions without a Commit."""
    open_: Mask = flags & (TRANSACTIONAL | COMMITTED) == TRANSACTIONAL
    return open_
