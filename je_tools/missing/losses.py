"""Losses from missing files of a log: databases, ranges of keys, and single keys.

With a file, nodes of B-trees are lost, whose keys are then known only as ranges, and records, whose
keys are still in slots of other files. Lost keys are kept if `salvage` would get records with them
out of the other files.

Source: je-log.md "Where a log ends, and what damage costs".
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.internal.names import INTERNAL_PREFIX
from je_tools.formats.spans import Spans
from je_tools.log.names import FIXED_NAMES

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.formats.arrays import Ints, Mask


_NO_KEYS = Spans(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64))


class LossReason(StrEnum):
    """Reasons why entries of a file are lost."""

    NAMED = "taken as missing"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    TOO_SHORT = "too short"
    """It exists, and ends before an entry that should be in it."""
    DAMAGED = "damaged"
    """It exists, and holds no whole entry at a place that should have one."""
    ERASED = "erased"
    """It exists, and an eraser has overwritten an entry that should be in it."""
    FOREIGN = "of another log"
    """It exists and is undamaged, but belongs to another log."""
    OTHER = "other entries"
    """It exists, and an entry in it is not the one that the trees expect."""


class FileLoss(Struct, frozen=True):
    """A file of a report on losses.

    Attributes:
        file_no: number of the file.
        state: reason for the loss.
        place_count: number of different lost LSNs in it.
        reason: error of the operating system, for a file that cannot be opened.
    """

    file_no: int
    state: LossReason
    place_count: int
    reason: str | None = None


class LostRange(Struct, frozen=True):
    """A range of keys whose node is lost.

    Attributes:
        low, high: bounds of the keys: `low` is in the range, `high` is not; None for no bound.
        level: level of the node, 1 for a bottom node.
        lsn: LSN that is lost: that of the node, or of the full version that it needs.
        key_count: number of keys in it; None if unknown.
        kept_count: number of its keys of which the rest of the log has a record.
    """

    low: bytes | None
    high: bytes | None
    level: int
    lsn: int
    key_count: int | None = None
    kept_count: int = 0

    @property
    def is_everything(self) -> bool:
        """True if it holds every key."""
        return self.low is None and self.high is None

    def contains(self, key: bytes) -> bool:
        """Return True if a key is in it, in byte order."""
        return (self.low is None or self.low <= key) and (self.high is None or key < self.high)


class DatabaseLoss(Struct):
    """Loss of one database.

    Attributes:
        name: name of the database, or text such as `id:7` if none is known.
        db_id: id of the database.
        descriptor_lsn: LSN of the lost descriptor, with which the whole database is lost; None if
            the descriptor exists.
        name_lost: True if its name is lost.
        ranges: lost ranges, in key order.
        keys: keys of lost records whose slots exist, in the order of the tree.
        key_lsns: int64 (n,); LSNs of these records.
        kept: bool (n,); the rest of the log has another version of the record.
        whole_count: number of records of a database lost as a whole; None if unknown.
        whole_kept_count: number of records of such a database in the rest of the log.
    """

    name: str
    db_id: int
    descriptor_lsn: int | None = None
    name_lost: bool = False
    ranges: list[LostRange] = field(default_factory=list)
    keys: Spans = _NO_KEYS
    key_lsns: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    kept: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    whole_count: int | None = None
    whole_kept_count: int = 0

    def __bool__(self) -> bool:
        parts = (self.is_whole, self.name_lost, self.ranges, len(self.keys))
        return any(map(bool, parts))

    @property
    def is_internal(self) -> bool:
        """True if the database is one of the engine's own."""
        return self.db_id in FIXED_NAMES or self.name.startswith(INTERNAL_PREFIX)

    @property
    def is_whole(self) -> bool:
        """True if the whole database is lost."""
        return self.descriptor_lsn is not None

    @property
    def key_count(self) -> int | None:
        """Number of lost keys, as far as they can be counted; None if none can."""
        if self.is_whole:
            return self.whole_count
        counts = [one.key_count for one in self.ranges if one.key_count is not None]
        return len(self.keys) + sum(counts) if counts or not self.ranges or len(self.keys) else None

    @property
    def kept_count(self) -> int:
        """Number of lost keys of which the rest of the log has a record."""
        in_ranges = sum(one.kept_count for one in self.ranges)
        return self.whole_kept_count + int(self.kept.sum()) + in_ranges

    @property
    def lsns(self) -> list[int]:
        """All lost LSNs."""
        own = [] if self.descriptor_lsn is None else [self.descriptor_lsn]
        found = [*own, *(each.lsn for each in self.ranges), *self.key_lsns.tolist()]
        return [lsn for lsn in found if lsn != NULL_LSN]


class LossReport(Struct, frozen=True):
    """Losses from missing files.

    Attributes:
        files: files with losses, files that were named, and files that cannot be opened.
        losses: losses of the databases that lose something.
        findings: findings on the log as it is.
        refused: reason why there is no tree to examine; None if there is one.
    """

    files: tuple[FileLoss, ...]
    losses: tuple[DatabaseLoss, ...]
    findings: tuple[Finding, ...] = ()
    refused: str | None = None


class LossOptions(Struct, frozen=True):
    """Options of a search for losses.

    Attributes:
        now_ms: time in ms since 1970; records that have expired by then are not missed.
        without: numbers of files to treat as missing. The state of the log is still found with
            those of them that exist.
        to_lsn: treat the entry at this LSN as the end of the log.
        directory: returns the directory for temporary files, if a large log needs any; None for
            the system's.
    """

    now_ms: int
    without: frozenset[int] = frozenset()
    to_lsn: int | None = None
    directory: Callable[[], Path] | None = None
