"""Flags bytes of entries: the bits of each, declared once with the words that people read.

In a column of numbers narrower than int64 use a member's `value`: numpy widens the column if it is
combined with the member itself.

Source: LogEntryHeader, LNLogEntry, IN.writeToLog, EntryStates, DatabaseImpl, DbTree, CheckpointEnd
and NameLNLogEntry, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Self


class Bits(IntFlag):
    """Bits of one byte. Each member is a bit and its name in words."""

    text: str

    def __new__(cls, value: int, text: str = "") -> Self:
        """Make a member, or a set of them without a name."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.text = text
        return member

    @classmethod
    def texts(cls) -> dict[int, str]:
        """Return the name in words of each bit, in the order of the declaration."""
        return {member.value: member.text for member in cls}


class HeaderFlag(Bits):
    """Flags of an entry's header."""

    PROVISIONAL_YES = 0x80, "provisional"
    """The entry counts only once the node above it is logged."""
    PROVISIONAL_BEFORE_CKPT_END = 0x40, "provisional before CkptEnd"
    """The entry counts only if the checkpoint during which it was logged is complete."""
    REPLICATED = 0x20, "replicated"
    """The entry is part of the replication stream."""
    INVISIBLE = 0x10, "invisible"
    """A rollback has undone the entry; the checksum does not cover this bit."""
    VLSN_PRESENT = 0x08, "VLSN present"
    """The header has a VLSN, as in replicated entries; from log version 8 on."""


class LnFlag(Bits):
    """The first flags byte of an LN."""

    ABORT_KNOWN_DELETED = 0x01, "abort known-deleted"
    """The record did not exist before the transaction."""
    EMBEDDED = 0x02, "embedded in its BIN"
    """The slot of the record holds its data."""
    ABORT_KEY = 0x04, "abort key"
    ABORT_DATA = 0x08, "abort data"
    ABORT_VLSN = 0x10, "abort VLSN"
    ABORT_LSN = 0x20, "abort LSN"
    ABORT_EXPIRATION = 0x40, "abort expiration"
    EXPIRATION = 0x80, "expiration"


class LnFlag2(Bits):
    """The second flags byte of an LN, from log version 16 on."""

    PRIOR_SIZE = 0x01, "prior size"
    PRIOR_FILE = 0x02, "prior file"
    TOMBSTONE = 0x04, "tombstone"
    ABORT_TOMBSTONE = 0x08, "abort tombstone"
    ABORT_MODIFIED = 0x10, "abort modification time"
    BLIND_DELETION = 0x20, "blind deletion"
    """The record was deleted without reading it."""
    BEFORE_IMAGE = 0x40, "before image"
    ABORT_CREATED = 0x80, "abort creation time"


class LnFlag3(Bits):
    """The third flags byte of an LN, from log version 26 on."""

    CREATED_IN_INSERT = 0x01, "creation time"
    """The insertion states a creation time of its own."""


class NodeFlag(Bits):
    """The booleans of a node."""

    ROOT = 0x01, "root"
    HAS_PREFIX = 0x02, "key prefix"
    HAS_SIZES = 0x04, "logged sizes"
    """Slots hold the sizes of the entries that they name."""
    HAS_BLOOM = 0x08, "bloom filter"
    HAS_VLSNS = 0x10, "VLSNs"
    """Slots with embedded data hold VLSNs."""
    IN_HOURS = 0x20, "expirations in hours"
    """Expirations are in hours, not in days."""


class SlotState(Bits):
    """The state of a slot."""

    KNOWN_DELETED = 0x01, "known deleted"
    """The record is deleted."""
    DIRTY = 0x02, "dirty"
    """The slot has changed since the last full version of its node."""
    OLD_TRANSIENT = 0x04, "transient (old)"
    """For the cache only; engines clear it when they log a slot, from log version 9 on."""
    PENDING_DELETED = 0x08, "pending deleted"
    """The record is deleted, by a transaction that may be open."""
    EMBEDDED = 0x10, "embedded"
    """The key of the slot is followed by the data of the record."""
    NO_DATA = 0x20, "no data"
    """The embedded data is empty, so that the key stands alone."""
    TRANSIENT = 0x40, "transient"
    """For the cache only, as OLD_TRANSIENT."""
    TOMBSTONE = 0x80, "tombstone"


LEVEL_MASK = 0xFFFF
"""Bits of a node's level that count from the bottom, which is 1."""

MAIN_LEVELS, ID_DB_LEVELS = 0x10000, 0x20000
"""Bits added to levels: the second in the tree of database descriptors, the first in all others."""


class DatabaseFlag(Bits):
    """Flags of a database."""

    DUPLICATES = 0x01, "sorted duplicates"
    TEMPORARY = 0x02, "temporary"
    REPLICATED = 0x04, "replicated"
    NOT_REPLICATED = 0x08, "not replicated"
    PREFIXING = 0x10, "key prefixing"
    UTILIZATION_REPAIRED = 0x20, "utilization repaired"
    DUPLICATES_CONVERTED = 0x40, "duplicates converted"


class DbTreeFlag(Bits):
    """Flags of a DbTree, which are those of the environment."""

    REPLICATED = 0x01, "replicated"
    CONVERTED = 0x02, "converted to replicated"
    """The environment was not replicated at first."""
    DUPLICATES_CONVERTED = 0x04, "duplicates converted"
    VLSNS_PRESERVED = 0x08, "VLSNs preserved"
    RESERVED_REPAIRED = 0x10, "reserved files repaired"


class CkptEndFlag(Bits):
    """Flags of a CkptEnd."""

    ROOT_PRESENT = 0x01, "root present"
    """The LSN of the DbTree follows."""
    CLEANED_FILES_GO = 0x02, "cleaned files go"


class NameOperation(IntEnum):
    """Operation of a NameLN on its database. Each member is a number and its name in words."""

    text: str

    NONE = 0, "none"
    CREATE = 1, "create"
    REMOVE = 2, "remove"
    TRUNCATE = 3, "truncate"
    RENAME = 4, "rename"
    CONFIGURE = 5, "update configuration"

    def __new__(cls, value: int, text: str) -> Self:
        """Make a member."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.text = text
        return member
