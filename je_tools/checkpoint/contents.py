"""Contents of a checkpoint: LSNs, changes and counts; and the settings with which it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from je_tools.core.properties import BIN_DELTA, NUMBERS
from je_tools.formats.je.header import NULL_LSN

if TYPE_CHECKING:
    from je_tools.checkpoint.record_changes import RecordChanges
    from je_tools.recovery.database import Database

INVOKER = "je-tools"
"""Invoker in the checkpoints that je-tools writes."""


class CheckpointSettings(Struct, frozen=True):
    """Settings with which a checkpoint is written, chosen from its options and je.properties.

    Attributes:
        file_max: maximum size of a log file, in bytes.
        now_ms: time of the checkpoint, in milliseconds since 1970.
        delta_percent: largest percentage of a BIN's slots that a BIN-delta may hold.
        before_erasure, first_vlsn, rewritten, begins_file: as in `CheckpointOptions`.
    """

    file_max: int
    now_ms: int
    delta_percent: int = NUMBERS[BIN_DELTA].default
    before_erasure: bool = False
    first_vlsn: int | None = None
    rewritten: frozenset[int] = frozenset()
    begins_file: bool = False


class CheckpointContents(Struct):
    """Contents of one checkpoint, written or planned.

    Attributes:
        start_lsn, root_lsn, end_lsn: LSNs of its CkptStart, DbTree and CkptEnd.
        first_active_lsn: LSN from which the next recovery begins to undo.
        map_lns: databases whose descriptor is written, by id, with the root LSN in it.
        created: internal databases that the log lacked, by id.
        removed: ids of databases whose removal it completes.
        records: changes to internal databases, by database name.
        node_counts, node_sizes: nodes written and their bytes, by database, level and entry type.
        entry_counts: entries written and their bytes, by type.
        last_file_no: number of the file in which it ends.
    """

    start_lsn: int = NULL_LSN
    root_lsn: int = NULL_LSN
    end_lsn: int = NULL_LSN
    first_active_lsn: int = NULL_LSN
    map_lns: dict[int, int] = field(default_factory=dict)
    created: Mapping[int, Database] = field(default_factory=dict)
    removed: frozenset[int] = frozenset()
    records: dict[str, RecordChanges] = field(default_factory=dict)
    node_counts: Mapping[tuple[int, int, str], int] = field(default_factory=dict)
    node_sizes: Mapping[tuple[int, int, str], int] = field(default_factory=dict)
    entry_counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    last_file_no: int = 0

    @property
    def size(self) -> int:
        """Size of all entries, in bytes."""
        return sum(size for _, size in self.entry_counts.values())
