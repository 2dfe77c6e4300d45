"""Reasons to erase an entry, and reasons to leave one as it is."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class _Reason(StrEnum):
    """Reason with a meaning in words."""

    text: str

    def __new__(cls, value: str, text: str) -> Self:
        """Make a member: its name in output, and its meaning in words."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.text = text
        return member


class EraseReason(_Reason):
    """Reason to overwrite an entry."""

    REMOVED_DATABASE = "removed-database", "its database does not exist any more"
    DELETED = "deleted", "it deletes a record, and the tree has the deletion"
    EMBEDDED = "embedded", "the record is embedded in its BIN"
    EXPIRED = "expired", "an old version of a record, expired by now"
    OBSOLETE = "obsolete", "an old version of a record"
    OLD_IN = "old-in", "an old version of an upper node"
    OLD_BIN = "old-bin", "an old version of a BIN"
    OLD_DELTA = "old-delta", "an old BIN-delta"
    UNFINISHED = "unfinished", "an eraser was stopped before it had overwritten the bytes"


class KeepReason(_Reason):
    """Reason to leave an entry, or a whole file, as it is."""

    ENTRY_TYPE = "entry-type", "no eraser overwrites entries of this type"
    LIVE = "live", "a tree needs it"
    RECOVERY = "recovery-interval", "recovery may need it: it is not older than the last checkpoint"
    VLSN = "vlsn-index", "the node may have to send it to others"
    COMPARATOR = "comparator", "only the application can put the changed records in order"
    HARD_LINK = "hard-link", "the file has another name, as in a backup made of hard links"
    SYMBOLIC_LINK = "symbolic-link", "the file is a symbolic link"
    PROTECTED = "protected", "the file is protected by `erase abort`"
    YOUNG = "too-young", "the file is younger than the period"
    DONE = "done", "the file is done in this cycle"
    OLD_VERSION = "old-version", "no engine has judged erased files of so old a log version"
    UNKNOWN = "unknown-form", "its contents have a form that is not known, so they stay"
    LAST_FILE = "last-file", "a write that is cut short would end the log there"
    ERASED = "erased", "it is erased already"


REASONS: tuple[EraseReason | KeepReason, ...] = (*KeepReason, *EraseReason)
"""All reasons; a column of reasons holds indexes into it."""

NUMBER_OF = {reason: number for number, reason in enumerate(REASONS)}

FIRST_ERASE = NUMBER_OF[EraseReason.REMOVED_DATABASE]
"""Reasons from this number on are reasons to erase."""
