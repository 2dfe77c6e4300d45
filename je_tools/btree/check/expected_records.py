"""Records that the slots of BINs are expected to name, and what is found in their places.

Source: je-log.md "Nodes"; BtreeVerifier.verifyLSN, verifyDataRecord, JE 25.3.17.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.je.btree.keysort import equal_keys
from je_tools.formats.je.expirations import expiration_ms
from je_tools.formats.je.log.fetch import Entries, Found, fetch_entry
from je_tools.formats.je.types import ENTRY_TYPES, ERASED_NO, Family
from je_tools.formats.je.write.blanking import are_blank_keys
from je_tools.formats.spans import Spans

if TYPE_CHECKING:
    from je_tools.btree.check.cleaner_metadata import CleanerMetadata
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.btree.slots import Slots
    from je_tools.formats.je.log.fingerprints import SlotChecks
    from je_tools.recovery.outcomes import Overlay

ERASED_SINCE = ENTRY_TYPES[ERASED_NO].first_version
"""First log version with entries of type Erased; in older logs entries are erased in kind."""

_LN_FIELDS = frozenset({"db_id", "key", "data", "expiration"})


class FoundRecord(IntEnum):
    """Content found at the LSN of a slot: the record of its key, or something else."""

    GOOD = 0
    ABSENT = 1
    DAMAGED = 2
    ERASED = 3
    OTHER_TYPE = 4
    OTHER_DATABASE = 5
    OTHER_KEY = 6
    DELETION = 7
    BLANK = 8


class ExpectedRecords(Struct, frozen=True):
    """The records expected in a database.

    Attributes:
        family: family of their entries.
        overlay: keys that recovery changes, so that their slots do not matter.
        cleaner: cleaner metadata.
        now_ms: records that expired before this time may be gone.
        checks: compares slots with the fingerprints of a scan, so that only the records of slots
            that differ are read; None to read all records.
    """

    family: Family
    overlay: Overlay
    cleaner: CleanerMetadata
    now_ms: int
    checks: SlotChecks | None = None


def classify_records(
    tree: Tree, entries: Entries, slots: Slots, family: Family
) -> tuple[npt.NDArray[np.uint8], Ints]:
    """Return the `FoundRecord` of each slot, and the record's expiration in ms, -1 if unknown."""
    n = len(slots)
    found = np.full(n, FoundRecord.OTHER_TYPE, np.uint8)
    found[entries.found <= Found.NO_ENTRY] = FoundRecord.ABSENT
    found[entries.found == Found.BAD] = FoundRecord.DAMAGED
    found[entries.found == Found.ERASED] = FoundRecord.ERASED
    expires_ms = np.full(n, -1, np.int64)
    rows = np.flatnonzero(entries.is_family(family))
    if family is not Family.LN:
        found[rows] = _classify_one_by_one(tree, entries, rows, slots)
        return found, expires_ms
    image = tree.image
    for some, decoded in entries.decode(family, rows, wanted=_LN_FIELDS):
        head = decoded.fields
        keys = Spans(image.data, *head.span("key"))
        same = equal_keys(keys, slots.key.select(some))
        _, data_sizes = head.span("data")
        kinds = np.where(data_sizes < 0, FoundRecord.DELETION, FoundRecord.GOOD)
        is_blank = (entries.version[some] < ERASED_SINCE) & are_blank_keys(
            keys, two_part=tree.two_part
        )
        kinds = np.where(same, kinds, np.where(is_blank, FoundRecord.BLANK, FoundRecord.OTHER_KEY))
        kinds = np.where(head.number("db_id") == tree.db_id, kinds, FoundRecord.OTHER_DATABASE)
        found[some] = np.where(decoded.bad, FoundRecord.OTHER_TYPE, kinds)
        if head.has("expiration"):
            logged = np.where(head.is_present("expiration"), head.number("expiration"), 0)
            expires_ms[some] = expiration_ms(logged)
        else:
            expires_ms[some] = 0
    return found, expires_ms


def _classify_one_by_one(
    tree: Tree, entries: Entries, rows: Ints, slots: Slots
) -> npt.NDArray[np.uint8]:
    """Return the `FoundRecord` of entries that are decoded one by one."""
    found = np.full(len(rows), FoundRecord.GOOD, np.uint8)
    for place, row in enumerate(rows.tolist()):
        entry = fetch_entry(tree.image, int(entries.lsn[row]))
        if entry is None:
            found[place] = FoundRecord.OTHER_TYPE
        elif entry.fields.get("db_id") != tree.db_id:
            found[place] = FoundRecord.OTHER_DATABASE
        elif entry.fields.get("key") != slots.key[row]:
            found[place] = FoundRecord.OTHER_KEY
        elif entry.fields.get("data") is None:
            found[place] = FoundRecord.DELETION
    return found
