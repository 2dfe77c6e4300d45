"""The folder of a redo journal, which shows that entries are being overwritten in kind.

The journal gets its name once it is durable, and is removed once the overwritten file is durable.
So if it exists, an entry of the log may be overwritten only in part.
"""

from __future__ import annotations

from pathlib import Path

from je_tools.core.escaping import quoted
from je_tools.errors import RefusedError
from je_tools.formats.files.remote_path import lexists

FOLDER = ".je-tools-erase"
"""Name of the folder, in the home of an environment; the engine ignores it."""

FILE_NAME = "redo"
BEGUN = "redo.new"
"""Name of a journal that is being written: no byte of the log is changed yet."""


def is_unfinished(home: Path) -> bool:
    """Return True if entries of an environment may be overwritten only in part."""
    return lexists(home / FOLDER / FILE_NAME)


def unfinished_text(home: Path) -> str:
    """Return what an unfinished erasure means and what to do, in words."""
    return (
        "an erasure was interrupted while it overwrote entries in kind, so checksums may be wrong "
        f"in one file; `je-tools erase resume {quoted(str(home))} --apply` completes it"
    )


def check_no_redo(home: Path) -> None:
    """Refuse to write to a log some of whose entries may be overwritten only in part.

    Raises:
        RefusedError: there is a redo journal.
    """
    if is_unfinished(home):
        raise RefusedError(f"{home}: {unfinished_text(home)}")
