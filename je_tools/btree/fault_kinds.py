"""Kinds of faults in B-trees: nodes and records that are wrong, unreadable or out of place."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class FaultKind(StrEnum):
    """Kinds of faults of nodes and records."""

    MISSING = "missing"
    DAMAGED = "damaged"
    NOT_A_NODE = "not-a-node"
    WRONG_DATABASE = "wrong-database"
    WRONG_LEVEL = "wrong-level"
    WRONG_ROOT_MARK = "wrong-root-mark"
    """A root that is not marked as one, or another node that is."""
    OTHER_RANGE = "other-range"
    """A node whose identifier key is outside the key range of its slot."""
    NO_FULL_VERSION = "no-full-version"
    NOT_A_RECORD = "not-a-record"
    NOT_TWO_PARTS = "not-two-parts"
    """A key of a database with duplicates that does not end with the record's data."""
    SHARED = "shared"
    """A node that another slot names too: a tree has one path to each node."""
    OTHER_KEY = "other-key"
    """A node of duplicates, in the form before log version 8, that belongs to another key."""
    STRAY_SLOTS = "stray-slots"
    """A BIN with keys outside the range that its parent gives it: a crash can leave these."""
    SPLIT_CUT_SHORT = "root-split-cut-short"
    """A root with one slot over a full node: the log ends in the middle of a split."""
    EXPIRATION_UNIT = "expiration-unit"
    """A BIN with expirations in another unit than it states: engines up to 18.3 wrote these."""


FAULT_TEXTS = {
    FaultKind.MISSING: "nothing: the file does not exist, or ends before that",
    FaultKind.DAMAGED: "an entry with a wrong checksum",
    FaultKind.NOT_A_NODE: "an entry that is not a node",
    FaultKind.WRONG_DATABASE: "a node of another database",
    FaultKind.WRONG_LEVEL: "a node of another level",
    FaultKind.NO_FULL_VERSION: "a delta whose full version is not readable",
    FaultKind.SHARED: "a node that another slot of the tree points to as well",
    FaultKind.OTHER_KEY: "a node with the duplicates of another key",
    FaultKind.NOT_A_RECORD: "an entry that is not a record, or is a deletion",
    FaultKind.WRONG_ROOT_MARK: "a root without the mark of a root, or another node with that mark",
    FaultKind.OTHER_RANGE: "a node whose identifier key leads to another place",
    FaultKind.NOT_TWO_PARTS: "a key that does not end with the data",
}
"""Content found in the place of the node or record, for each kind that is damage."""


class Fault(Struct, frozen=True):
    """A node or record that is wrong, or cannot be read, or only in part.

    Attributes:
        kind: kind of the fault.
        db_id: id of the database.
        lsn: LSN at which the node or record should be.
        parent_lsn: LSN of the node whose slot names it; NULL_LSN for a root or if unknown.
        low, high: range of keys that it should hold; None if open.
    """

    kind: FaultKind
    db_id: int
    lsn: int
    parent_lsn: int
    low: bytes | None
    high: bytes | None
