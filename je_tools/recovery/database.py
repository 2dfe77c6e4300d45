"""Databases as recovery leaves them: descriptors, flags and roots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from je_tools.formats.je.flags import DatabaseFlag
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.internal.names import INTERNAL_PREFIX

ID_DB, NAME_DB = 0, 1
"""Ids of the databases that hold the descriptors and the names of all databases."""

_TWO_PART_SINCE = 8


class Database(Struct, frozen=True):
    """A database of a snapshot.

    Attributes:
        db_id: its id.
        name: its name; None if no name leads to it, as after an unfinished removal. If the entry
            of the name is lost, this is the name in the descriptor.
        record: its descriptor as the log has it, of log version `record_version`.
        root_lsn: LSN of its tree's root after recovery; NULL_LSN without one.
        map_ln_lsn: LSN of its descriptor's entry; NULL_LSN for the two that the DbTree describes.
    """

    db_id: int
    name: str | None
    record: Mapping[str, Any]
    root_lsn: int
    map_ln_lsn: int
    record_version: int

    @property
    def flags(self) -> int:
        """Flag bits, as stored."""
        return int(self.record["db_flags"])

    @property
    def stored_root_lsn(self) -> int:
        """LSN of the root in the descriptor; `NULL_LSN` if there is no tree."""
        return int(self.record["root_lsn"]) if self.record["tree_exists"] & 1 else NULL_LSN

    @property
    def has_duplicates(self) -> bool:
        """True if a key may have several records."""
        return bool(self.flags & DatabaseFlag.DUPLICATES)

    @property
    def old_duplicates(self) -> bool:
        """True if duplicates have the form of log versions before 8."""
        return self.has_duplicates and self.record_version < _TWO_PART_SINCE

    @property
    def is_internal(self) -> bool:
        """True if it is one of the engine's own."""
        return self.db_id in (ID_DB, NAME_DB) or (self.name or "").startswith(INTERNAL_PREFIX)

    @property
    def comparators(self) -> tuple[bytes, ...]:
        """Serialized comparators of the application, for keys and duplicates; usually none."""
        both = (self.record["btree_comparator"], self.record["dup_comparator"])
        return tuple(one for one in both if one)
