"""One log as the shared script reads it: lists whose fields have the names in `log.js`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from je_tools.findings import Severity
from je_tools.formats.je.header import lsn_text
from je_tools.pages.shown import NAME_MAX, exact, shown

SEVERITIES = (Severity.ERROR.value, Severity.WARNING.value, Severity.NOTE.value, "ok")
"""Severities of an environment, the worst first."""

_NUMBERS = (
    "error_count",
    "warning_count",
    "note_count",
    "file_count",
    "size",
    "entry_count",
    "damaged_size",
    "first_file_no",
    "last_file_no",
    "first_created_ms",
    "last_created_ms",
    "first_vlsn",
    "last_vlsn",
    "checkpoint_count",
    "last_checkpoint_ms",
)


def env_fields(
    name: str,
    values: Mapping[str, Any],
    last_txn_ms: int | None,
    versions: Sequence[int],
    codes: Iterable[tuple[str, str, int]],
) -> list[Any]:
    """Return an environment with the fields of `ENV`.

    Args:
        name: its name as it is shown.
        values: its row of the table `environments`; `severity` is one of SEVERITIES.
        last_txn_ms: time of its last Commit or Abort.
        versions: log versions of its files, ascending.
        codes: code, severity and number of its findings.
    """
    return [
        name,
        SEVERITIES.index(values["severity"]),
        *(exact(values[number]) for number in _NUMBERS),
        exact(last_txn_ms),
        versions,
        [[shown(code), severity, count] for code, severity, count in codes],
    ]


def finding_fields(row: Mapping[str, Any], command: str) -> list[Any]:
    """Return a row of the table `findings` with the fields of `FOUND`.

    Args:
        row: the finding; LSNs are numbers. A finding of a log need not
            have the columns of stores.
        command: the command that shows more of it.
    """
    lsn, resume = row["lsn"], row["resume_lsn"]
    texts = (row[name] for name in ("expected", "found", "hint"))
    return [
        shown(row["code"] or ""),
        row["severity"] if row["severity"] in SEVERITIES else SEVERITIES[-2],
        row["file_no"],
        exact(row["offset"]),
        exact(row["length"]),
        None if lsn is None else lsn_text(lsn),
        None if resume is None else lsn_text(resume),
        *(None if text is None else shown(text) for text in texts),
        shown(command, limit=None),
        place_in_store(row),
    ]


def place_in_store(row: Mapping[str, Any]) -> str | None:
    """Return the place of a finding in a store of Ignite; None if it is of a log."""
    if row.get("node") is None:
        return None
    page, segment, offset = row["page"], row["segment"], row["offset"]
    parts = (
        shown(row["file"] or row["node"], NAME_MAX),
        None if page is None else f"page {page:,}",
        None if segment is None else f"segment {segment:,}",
        None if offset is None else f"offset {offset:,}",
    )
    return ", ".join(part for part in parts if part)
