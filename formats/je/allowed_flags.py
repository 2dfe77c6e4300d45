"""Flags that an entry's header may have, by the entry's type.

| flag | types |
|---|---|
| provisional | nodes and BIN-deltas; up to v7 records too |
| replicated, VLSN present | types that can be part of the replication stream |
| invisible | records that a rollback undid, which only other entries can confirm |

The checksum covers all of them except the invisible flag.

Source: LogEntryType, LogEntryHeader, Provisional, JE 7.5.11 and 25.3.17, and what these, 5.0.73 and
18.3.12 write.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.types import (
    ENTRY_TYPES,
    ERASED_NO,
    FILE_HEADER_NO,
    TRACE_NO,
    Family,
    Group,
)

if TYPE_CHECKING:
    import numpy.typing as npt

_PROVISIONAL = HeaderFlag.PROVISIONAL_YES | HeaderFlag.PROVISIONAL_BEFORE_CKPT_END
_STREAM = HeaderFlag.REPLICATED | HeaderFlag.VLSN_PRESENT
_ALL = 0xFF
_FLAGS_SINCE = 7
"""First log version in which the low bits are flags, and not a version."""

_PROVISIONAL_RECORDS_UNTIL = 7


@functools.cache
def allowed_flags(version: int) -> npt.NDArray[np.uint8]:
    """Return the flags that an entry of each type may have in a file of a log version, (256,).

    The invisible flag is allowed only for erased entries, which keep the flags that they had.
    Types that do not exist, file headers, which are checked as such, and log versions before 7
    allow all flags.
    """
    allowed = np.full(256, _ALL, np.uint8)
    if version < _FLAGS_SINCE:
        return allowed
    for no, entry_type in ENTRY_TYPES.items():
        flags = HeaderFlag(0)
        is_old_record = Group.LN in entry_type.groups and version <= _PROVISIONAL_RECORDS_UNTIL
        if entry_type.family in (Family.NODE, Family.OLD_DELTA) or is_old_record:
            flags |= _PROVISIONAL
        is_rollback = entry_type.family in (Family.ROLLBACK_START, Family.ROLLBACK_END)
        if (Group.REP in entry_type.groups and not is_rollback) or no == TRACE_NO:
            flags |= _STREAM
        allowed[no] = flags
    allowed[FILE_HEADER_NO] = _ALL
    allowed[ERASED_NO] = _PROVISIONAL | _STREAM | HeaderFlag.INVISIBLE
    return allowed
