"""Entries that a scan notes for the judge, even if it reads others as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.formats.je.allowed_flags import allowed_flags
from je_tools.formats.je.log.entry_rows import WatchedEntries
from je_tools.verify.foreign_files import SAMPLED_TYPES

if TYPE_CHECKING:
    from je_tools.log.log_files import LogFile


def watched_entries(file: LogFile) -> WatchedEntries:
    """Return the entries of a file that `Judge` needs: some CkptEnds, and those with odd flags."""
    return WatchedEntries(SAMPLED_TYPES, allowed_flags(file.version))
