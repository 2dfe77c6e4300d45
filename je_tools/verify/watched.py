"""Entries that a scan has to note for the judge, whether or not they are read as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.formats.je.allowed_flags import allowed_flags
from je_tools.formats.je.log.entry_rows import WatchedEntries
from je_tools.verify.foreign_files import SAMPLED_TYPES

if TYPE_CHECKING:
    from je_tools.log.log_files import LogFile


def watched_entries(file: LogFile) -> WatchedEntries:
    """Return the entries of a file that the judge wants to know of."""
    return WatchedEntries(SAMPLED_TYPES, allowed_flags(file.version))
