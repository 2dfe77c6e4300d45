"""Rows of the tables: findings, files, checkpoint intervals, and environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from je_tools.audit.discover import EnvironmentKind
from je_tools.audit.tables import ENVIRONMENTS, ResultSource
from je_tools.core.escaping import clean_text
from je_tools.findings import CODES, Finding, Severity

if TYPE_CHECKING:
    from je_tools.files.listing import FileRow
    from je_tools.log.checkpoint_intervals import Interval

_ALL = (1 << 64) - 1


def finding_row(found: Finding, env: str) -> tuple[Any, ...]:
    """Return a finding as a row of its table."""
    return (
        env,
        found.code,
        found.severity.value,
        found.file_no,
        found.offset,
        found.length,
        signed(found.lsn),
        signed(found.resume_lsn),
        *(text if text is None else clean_text(text) for text in (found.expected, found.found)),
        found.hint,
        *(None,) * len(STORE_COLUMNS),
    )


STORE_COLUMNS = ("node", "file", "segment", "page")
"""Columns of findings that only stores of Ignite have, the last ones of the table."""


def unread_finding(env: str, reason: str, file_no: int | None = None) -> Finding:
    """Return the finding for something that could not be read."""
    code = CODES["unread"]
    return Finding(code.name, code.severity, env, file_no, found=reason, hint=code.hint)


TXN_COUNTS = ("committed_count", "aborted_count", "unfinished_count")
"""Columns of environments that are null if nothing is known of transactions."""

UNKNOWN_TXNS: Mapping[str, None] = dict.fromkeys(TXN_COUNTS)
"""Their values if nothing could be read."""


def environment_row(env: str, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the row of an environment.

    Args:
        env: its name.
        values: values of the table by column; missing ones become zero, or null.
    """
    counts = {f"{severity.value}_count": 0 for severity in Severity} | dict(values)
    defaults = {
        "env": env,
        "severity": worst_severity(counts),
        "size": 0,
        "damaged_size": 0,
        "kind": EnvironmentKind.JE.value,
    }
    known = defaults | counts
    return tuple(known.get(c.name, _absent_value(c.name)) for c in ENVIRONMENTS.columns)


def worst_severity(counts: Mapping[str, int]) -> str:
    """Return the worst severity of some findings, counted in the columns of environments."""
    worst = (each.value for each in reversed(Severity) if counts[f"{each.value}_count"])
    return next(worst, "ok")


_PERHAPS_UNKNOWN = (
    "lost_commit_count",
    "lost_key_count",
    "missing_key_count",
    "lost_record_count",
)
"""Counts of what recovery cuts off: nothing is known of them without a recovery."""


def _absent_value(column: str) -> int | None:
    return 0 if column.endswith("_count") and column not in _PERHAPS_UNKNOWN else None


def signed(lsn: int | None) -> int | None:
    """Return the int64 that has the bits of an LSN."""
    return lsn if lsn is None or lsn < 1 << 63 else lsn - (1 << 64)


def sum_files(rows: Sequence[FileRow]) -> dict[str, Any]:
    """Sum up the files of an environment."""
    rows = sorted(rows, key=lambda row: row.file.file_no)
    return {
        "file_count": len(rows),
        "size": sum(row.file.size for row in rows),
        "entry_count": sum(row.entry_count for row in rows),
        "first_file_no": rows[0].file.file_no,
        "last_file_no": rows[-1].file.file_no,
        "versions": sorted({row.version for row in rows if row.version is not None}),
        "first_created_ms": rows[0].created_ms,
        "last_created_ms": rows[-1].created_ms,
        "first_vlsn": min(
            (row.first_vlsn for row in rows if row.first_vlsn is not None), default=None
        ),
        "last_vlsn": max(
            (row.last_vlsn for row in rows if row.last_vlsn is not None), default=None
        ),
    }


def sum_checkpoints(complete: Sequence[Interval]) -> dict[str, Any]:
    """Sum up the complete checkpoints of an environment."""
    if not complete:
        return {}
    return {
        "checkpoint_count": len(complete),
        "last_checkpoint_lsn": signed(complete[-1].end_lsn & _ALL),
        "last_checkpoint_ms": complete[-1].end_ms,
    }


def file_row(row: FileRow, env: str, source: ResultSource | None) -> tuple[Any, ...]:
    """Return a file as a row of its table; `source` is None if it could not be read."""
    return (
        *(env, row.file.file_no, clean_text(row.name), row.file.size, source, row.version),
        row.created_ms,
        *(row.entry_count, row.damage_count, signed(row.first_lsn), signed(row.last_lsn)),
        *(row.first_vlsn, row.last_vlsn, row.old_delta_count),
        *(row.written_by, row.opened_from, row.not_opened_by),
    )


def interval_row(interval: Interval, env: str) -> tuple[Any, ...]:
    """Return a checkpoint interval as a row of its table."""
    counts = (interval.ln_txn, interval.ln, interval.map_ln_txn, interval.map_ln)
    return (
        *(env, signed(interval.end_lsn & _ALL), interval.complete),
        None if interval.start_lsn is None else signed(interval.start_lsn & _ALL),
        *(interval.start_ms, interval.end_ms),
        None if interval.invoker is None else clean_text(interval.invoker),
        *(sum(counts), interval.max_ln_replay, interval.end_to_end),
    )
