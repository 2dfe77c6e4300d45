"""Verification of a whole log before its recovery is shown or written.

Recovery reads the end of a log. It does not verify the checksums of the files before, and the
engine does not either, so both succeed on a log whose older records are damaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from je_tools.core.escaping import counted
from je_tools.errors import RefusedError
from je_tools.findings import Severity
from je_tools.verify.judge import verify
from je_tools.verify.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from je_tools.findings import Finding
    from je_tools.recovery.snapshot import Snapshot


def verify_whole_log(snapshot: Snapshot) -> list[Finding]:
    """Verify all files of a log, and return the errors and warnings.

    A missing root and unreadable files are left out: the snapshot has findings for them.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    environment = snapshot.environment
    found = verify(
        environment,
        snapshot.scanner.staged("verify", environment.size),
        Totals(environment.name),
        trees_follow=True,
        root_follows=True,
    )
    findings = [each for each in found if each.severity is not Severity.NOTE]
    snapshot.is_verified = True
    return findings


def check_undamaged(snapshot: Snapshot, findings: Sequence[Finding]) -> None:
    """Check that no error lies in the part of a log that a checkpoint keeps.

    Args:
        snapshot: the log as recovery leaves it.
        findings: result of `verify_whole_log`.

    Raises:
        RefusedError: there is such an error.
    """
    errors = [each for each in findings if each.severity is Severity.ERROR]
    kept = [each for each in errors if not _is_cut_off(snapshot, each)]
    if kept:
        more = f" and {counted(len(kept) - 1, 'more error')}" if len(kept) > 1 else ""
        place = f" at {kept[0].where}" if kept[0].where else ""
        raise RefusedError(
            f"{snapshot.environment.name}: --verify found {kept[0].code}{place}{more}, outside of "
            "what recovery reads; nothing was written. Replace the files by those of a backup of "
            "the same node first. --accept-loss writes anyway, and reports the damage."
        )


def _is_cut_off(snapshot: Snapshot, found: Finding) -> bool:
    """Return True if a finding lies after the end of the log, in bytes that recovery removes."""
    if found.file_no is None:
        return False
    end = snapshot.end
    if found.file_no > end.files[-1].file_no:
        return True
    return found.lsn is not None and found.lsn >= end.next_lsn
