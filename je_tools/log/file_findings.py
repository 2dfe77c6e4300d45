"""Findings about the files of a log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from je_tools.findings import CODES, Finding, Severity
from je_tools.formats.je.header import FILE_HEADER_SIZE, NULL_LSN

if TYPE_CHECKING:
    from je_tools.log.environment import Environment


def finding(
    environment: Environment, code: str, severity: Severity | None = None, **columns: Any
) -> Finding:
    """Return a finding; severity and hint default to those of its code."""
    known = CODES[code]
    columns.setdefault("hint", known.hint)
    env = environment.name_in_findings(columns.get("file_no"))
    return Finding(code, severity or known.severity, env, **columns)


def finding_at(
    environment: Environment,
    code: str,
    lsn: int = NULL_LSN,
    severity: Severity | None = None,
    **columns: Any,
) -> Finding:
    """Return a finding whose place is an LSN; without a place for NULL_LSN."""
    if lsn != NULL_LSN:
        columns |= {"file_no": lsn >> 32 & 0xFFFFFFFF, "offset": lsn & 0xFFFFFFFF}
    return finding(environment, code, severity, **columns)


def misnamed_finding(environment: Environment, file_no: int, header_no: int) -> Finding:
    """Return the finding of a file whose good header has another number than its name.

    Args:
        environment: the log, with files numbered by their names.
        file_no: number in the name.
        header_no: number in the header.
    """
    return finding(
        environment,
        "wrong-file-number",
        file_no=file_no,
        offset=0,
        length=FILE_HEADER_SIZE,
        expected=f"{file_no:#x}, as in its name",
        found=f"{header_no:#x}",
    )


def unreadable_findings(environment: Environment) -> Iterator[Finding]:
    """Yield a finding for each file that the operating system does not open."""
    for file in environment.unreadable:
        yield finding(environment, "unreadable-file", file_no=file.file_no, found=file.reason)
