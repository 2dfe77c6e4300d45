"""Log versions that je-tools writes, and those for which an engine has checked the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.errors import RefusedError

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot

VERSION_MIN = 8
"""Oldest log version that is written: to a copy, unless it is in JUDGED_VERSIONS."""

JUDGED_VERSIONS = (8, 15, 17, 26)
"""Log versions for which an engine that writes them has checked what je-tools writes.

The project's tests ask the engines of 8 and 17. Those of 15 (7.5.11) and 26 (25.3.17) were asked
once: docs/commands/checkpoint.md has the results.
"""


def is_written_in_place(snapshot: Snapshot) -> bool:
    """Return True if logs of this version are written in place, and not only as copies."""
    return snapshot.end.files[-1].version in JUDGED_VERSIONS


def check_version(snapshot: Snapshot) -> None:
    """Refuse to write a log in place whose version has not been tested with the engine."""
    if not is_written_in_place(snapshot):
        *others, last = map(str, JUDGED_VERSIONS)
        versions = f"{', '.join(others)} and {last}"
        raise RefusedError(
            f"{snapshot.environment.name}: je-tools does not write a log of version "
            f"{snapshot.end.files[-1].version} in place, only of versions {versions}. Write "
            "to a copy with --output DIR, and check it with the engine."
        )
