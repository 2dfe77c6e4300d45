"""Entry types, log versions and the JE releases that wrote them.

Source: LogEntryType and the classes it names, JE 7.5.11 (versions up to 15) and 25.3.17 (up to
26).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from je_tools.formats.arrays import Mask

LOG_VERSION_MAX = 26
"""Newest log version that this reader knows (JE 25.2 and later)."""

PAYLOAD_VERSION_MIN = 6
"""First log version whose payloads are all decoded.

Older entries have headers and checksums, but only payloads of LN and LN_TX are decoded.
"""


class Family(StrEnum):
    """Entry types whose payloads share one layout, and so one struct column."""

    LN = "ln"
    MAP_LN = "map_ln"
    NAME_LN = "name_ln"
    DEL_DUP_LN = "del_dup_ln"
    DUP_COUNT_LN = "dup_count_ln"
    FILE_SUMMARY_LN = "file_summary_ln"
    NODE = "node"
    OLD_DELTA = "old_delta"
    IN_DELETE = "in_delete"
    IN_DUP_DELETE = "in_dup_delete"
    DB_TREE = "db_tree"
    TXN_END = "txn_end"
    PREPARE = "prepare"
    CKPT_START = "ckpt_start"
    CKPT_END = "ckpt_end"
    TRACE = "trace"
    FILE_HEADER = "file_header"
    ROLLBACK_START = "rollback_start"
    ROLLBACK_END = "rollback_end"
    MATCHPOINT = "matchpoint"
    IMMUTABLE_FILE = "immutable_file"
    RESTORE_REQUIRED = "restore_required"
    ERASED = "erased"


class Group(StrEnum):
    """Names that stand for several entry types in a filter."""

    LN = "LN"
    IN = "IN"
    TXN = "TXN"
    CKPT = "CKPT"
    REP = "REP"


class EntryType(Struct, frozen=True):
    """One entry type: its number on disk, the engine's name, and its meaning."""

    no: int
    name: str
    family: Family
    first_version: int
    last_version: int
    transactional: bool
    user_ln: bool
    groups: frozenset[Group]
    meaning: str


_LN_FAMILIES = {
    Family.LN,
    Family.MAP_LN,
    Family.NAME_LN,
    Family.DEL_DUP_LN,
    Family.DUP_COUNT_LN,
    Family.FILE_SUMMARY_LN,
}
_LAST = LOG_VERSION_MAX
_T, _U, _R = "transactional", "user record", "replication"

_TABLE: tuple[tuple[int, str, Family, int, int, tuple[str, ...], str], ...] = (
    (1, "LN_TX", Family.LN, 1, 7, (_T, _U, _R), "a record written in a transaction"),
    (2, "LN", Family.LN, 1, 7, (_U, _R), "a record written outside transactions"),
    (3, "MapLN_TX", Family.MAP_LN, 1, _LAST, (_T,), "a database's descriptor, in a transaction"),
    (4, "MapLN", Family.MAP_LN, 1, _LAST, (), "a database's descriptor: root, flags, comparators"),
    (5, "NameLN_TX", Family.NAME_LN, 1, _LAST, (_T, _R), "a database's name, in a transaction"),
    (6, "NameLN", Family.NAME_LN, 1, _LAST, (_R,), "a database's name"),
    (
        7,
        "DelDupLN_TX",
        Family.DEL_DUP_LN,
        1,
        7,
        (_T, _U, _R),
        "a duplicate deleted in a transaction",
    ),
    (8, "DelDupLN", Family.DEL_DUP_LN, 1, 7, (_U, _R), "a duplicate deleted"),
    (9, "DupCountLN_TX", Family.DUP_COUNT_LN, 1, 7, (_T,), "number of duplicates, in a txn"),
    (10, "DupCountLN", Family.DUP_COUNT_LN, 1, 7, (), "number of duplicates of a key"),
    (11, "FileSummaryLN", Family.FILE_SUMMARY_LN, 1, _LAST, (), "utilization of one log file"),
    (12, "IN", Family.NODE, 1, _LAST, (), "an upper B-tree node"),
    (13, "BIN", Family.NODE, 1, _LAST, (), "a bottom B-tree node, in full"),
    (14, "DIN", Family.NODE, 1, 7, (), "an upper node of a duplicate tree"),
    (15, "DBIN", Family.NODE, 1, 7, (), "a bottom node of a duplicate tree"),
    (16, "DbTree", Family.DB_TREE, 1, _LAST, (), "the root of all databases"),
    (17, "Commit", Family.TXN_END, 1, _LAST, (_T, _R), "a transaction's commit"),
    (18, "Abort", Family.TXN_END, 1, _LAST, (_T, _R), "a transaction's abort"),
    (19, "CkptStart", Family.CKPT_START, 1, _LAST, (), "a checkpoint begins"),
    (20, "CkptEnd", Family.CKPT_END, 1, _LAST, (), "a checkpoint is complete"),
    (21, "INDelete", Family.IN_DELETE, 1, 7, (), "a B-tree node was removed"),
    (22, "BINDelta", Family.OLD_DELTA, 1, 8, (), "changed slots of a BIN, in the form up to v8"),
    (23, "DupBINDelta", Family.OLD_DELTA, 1, 7, (), "changed slots of a DBIN"),
    (24, "Trace", Family.TRACE, 1, _LAST, (), "a message of the engine"),
    (25, "FileHeader", Family.FILE_HEADER, 1, _LAST, (), "the first entry of a file"),
    (26, "INDupDelete", Family.IN_DUP_DELETE, 1, 7, (), "a duplicate tree was removed"),
    (27, "Prepare", Family.PREPARE, 1, 14, (_T,), "an XA transaction is prepared"),
    (28, "RollbackStart", Family.ROLLBACK_START, 7, _LAST, (), "a replica begins to roll back"),
    (29, "RollbackEnd", Family.ROLLBACK_END, 7, _LAST, (), "a replica has rolled back"),
    (30, "Matchpoint", Family.MATCHPOINT, 7, _LAST, (_R,), "a point where nodes can agree"),
    (31, "DEL_LN_TX", Family.LN, 8, _LAST, (_T, _U, _R), "a record deleted in a transaction"),
    (32, "DEL_LN", Family.LN, 8, _LAST, (_U, _R), "a record deleted outside transactions"),
    (33, "INS_LN_TX", Family.LN, 8, _LAST, (_T, _U, _R), "a record inserted in a transaction"),
    (34, "INS_LN", Family.LN, 8, _LAST, (_U, _R), "a record inserted outside transactions"),
    (35, "UPD_LN_TX", Family.LN, 8, _LAST, (_T, _U, _R), "a record updated in a transaction"),
    (36, "UPD_LN", Family.LN, 8, _LAST, (_U, _R), "a record updated, or moved by the cleaner"),
    (37, "NewBINDelta", Family.NODE, 9, _LAST, (), "changed slots of a BIN"),
    (38, "ImmutableFile", Family.IMMUTABLE_FILE, 11, _LAST, (), "nothing is appended to this file"),
    (
        39,
        "RestoreRequired",
        Family.RESTORE_REQUIRED,
        14,
        _LAST,
        (),
        "the engine must not open this log",
    ),
    (40, "ReservedFileLN", Family.LN, 15, _LAST, (), "a cleaned file kept for replication"),
    (41, "ExtinctScanLN", Family.LN, 16, _LAST, (), "a scan over removed records"),
    (
        42,
        "ExtinctScanLN_TX",
        Family.LN,
        16,
        _LAST,
        (_T, _R),
        "a scan over removed records, in a txn",
    ),
    (43, "Erased", Family.ERASED, 17, _LAST, (), "an entry overwritten by the eraser"),
    (
        44,
        "UPD_LN_TX_WITH_BEFORE_IMAGE",
        Family.LN,
        25,
        _LAST,
        (_T, _U, _R),
        "an update with before-image",
    ),
    (
        45,
        "DEL_LN_TX_WITH_BEFORE_IMAGE",
        Family.LN,
        25,
        _LAST,
        (_T, _U, _R),
        "a deletion with before-image",
    ),
)


def _groups(no: int, family: Family, marks: tuple[str, ...]) -> frozenset[Group]:
    groups = set()
    if family in _LN_FAMILIES:
        groups.add(Group.LN)
    if family in (Family.NODE, Family.OLD_DELTA, Family.IN_DELETE, Family.IN_DUP_DELETE):
        groups.add(Group.IN)
    if family in (Family.TXN_END, Family.PREPARE):
        groups.add(Group.TXN)
    if family in (Family.CKPT_START, Family.CKPT_END, Family.DB_TREE):
        groups.add(Group.CKPT)
    if _R in marks or family in (Family.ROLLBACK_START, Family.ROLLBACK_END):
        groups.add(Group.REP)
    return frozenset(groups)


ENTRY_TYPES: dict[int, EntryType] = {
    no: EntryType(
        no=no,
        name=name,
        family=family,
        first_version=first,
        last_version=last,
        transactional=_T in marks,
        user_ln=_U in marks,
        groups=_groups(no, family, marks),
        meaning=meaning,
    )
    for no, name, family, first, last, marks, meaning in _TABLE
}
"""Every entry type by its number on disk."""

BY_NAME: dict[str, EntryType] = {entry_type.name: entry_type for entry_type in ENTRY_TYPES.values()}
"""Every entry type by the engine's name."""

FILE_SUMMARY_NO = 11
OLD_BIN_DELTA_NO = 22
COMMIT_NO, ABORT_NO = 17, 18
PREPARE_NO = 27
CKPT_START_NO, CKPT_END_NO = 19, 20
TRACE_NO = 24
FILE_HEADER_NO = 25
ROLLBACK_START_NO, ROLLBACK_END_NO = 28, 29
RESTORE_REQUIRED_NO = 39
ERASED_NO = 43

TYPE_NO_MAX = max(ENTRY_TYPES)
"""Largest type number in any log version."""

RELEASES: dict[int, str] = {
    1: "1.2",
    2: "1.5",
    3: "1.7",
    4: "2.0",
    5: "3.1",
    6: "3.3",
    7: "4.0",
    8: "5.0",
    9: "6.0",
    10: "6.2",
    11: "6.3",
    12: "7.0",
    13: "7.1",
    14: "7.3",
    15: "7.5",
    16: "18.1",
    17: "18.2",
    18: "19.3",
    19: "19.5",
    20: "20.1",
    21: "20.2",
    22: "21.3",
    23: "23.1",
    24: "24.2",
    25: "25.1",
    26: "25.2",
}
"""The first JE release that wrote each log version."""

MODERN_READ_MIN = 8
"""JE releases from MODERN_RELEASE on refuse a log version below this."""

MODERN_RELEASE = "20.1"
"""First release that does not know the entry types that ended with log version 8."""


def mask_of(numbers: Iterable[int]) -> Mask:
    """Return a mask of these type numbers, bool (256,)."""
    mask = np.zeros(256, np.bool_)
    mask[list(numbers)] = True
    return mask


IS_LN = mask_of(each.no for each in ENTRY_TYPES.values() if Group.LN in each.groups)
"""Types whose entries are LNs: versions of records, also of internal databases."""

IS_NODE = mask_of(
    each.no for each in ENTRY_TYPES.values() if each.family in (Family.NODE, Family.OLD_DELTA)
)
"""Types whose entries are nodes of B-trees, in full or as deltas."""


def type_name(no: int) -> str:
    """Return the engine's name of an entry type; `Unknown(no)` for an unknown number."""
    known = ENTRY_TYPES.get(no)
    return known.name if known else f"Unknown({no})"
