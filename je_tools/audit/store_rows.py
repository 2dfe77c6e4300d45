"""Rows of a store of Ignite: its state and its findings, in the tables of environments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from je_tools.audit.discover import EnvironmentKind
from je_tools.audit.reasons import why_unread
from je_tools.audit.rows import UNKNOWN_TXNS, environment_row, finding_row, unread_finding
from je_tools.audit.staged_rows import StagedRows
from je_tools.audit.tables import ResultSource
from je_tools.core.escaping import clean_text
from je_tools.findings import CODES, Severity
from je_tools.ignite.examination import (
    StoreFinding,
    examine_store,
    store_verdict,
    worst_outcome,
)
from je_tools.ignite.recovery.rebuilding import rebuilt_files
from je_tools.ignite.store import open_store

if TYPE_CHECKING:
    from je_tools.audit.discover import FoundEnvironment
    from je_tools.ignite.examination import StoreExamination


def store_rows(found: FoundEnvironment, *, predicts: bool) -> StagedRows:
    """Examine a store, and return its rows; if it cannot be read, they say why.

    Args:
        found: the store.
        predicts: True to predict the next start of each node.
    """
    rows = StagedRows()
    try:
        store = open_store(found.paths)
        examination = examine_store(store, 1, predicts=predicts, rebuilt=rebuilt_files)
    except Exception as error:
        reason = str(error.strerror) if isinstance(error, OSError) else why_unread(error)
        rows.extend("findings", [finding_row(unread_finding(found.name, reason), found.name)])
        values = {**_of_store(), "error_count": 1, "size": found.size}
        rows.extend("environments", [environment_row(found.name, values)])
        return rows
    findings = [*examination.findings, *_unread_parts(examination)]
    rows.extend("findings", [_finding_row(each, found.name) for each in findings])
    rows.extend("environments", [environment_row(found.name, _values(examination, found))])
    return rows


def _of_store() -> dict[str, Any]:
    """Return the values that all stores have: counts of transactions are unknown."""
    return {"kind": EnvironmentKind.IGNITE.value, **UNKNOWN_TXNS}


def _values(examination: StoreExamination, found: FoundEnvironment) -> dict[str, Any]:
    nodes = examination.nodes
    outcome = worst_outcome(examination)
    damaged = (each for each in examination.findings if each.severity is Severity.ERROR)
    return {
        **_of_store(),
        "source": ResultSource.READ.value,
        "file_count": sum(each.segment_files + each.page_files for each in nodes),
        "size": found.size,
        "entry_count": sum(each.records for each in nodes),
        "damaged_size": sum(each.length or 0 for each in damaged if not each.is_prediction),
        "error_count": sum(each.errors for each in nodes) + len(examination.unread),
        "warning_count": sum(each.warnings for each in nodes),
        "note_count": sum(each.notes for each in nodes),
        "checkpoint_count": sum(each.finished_count for each in nodes),
        "last_checkpoint_ms": max(
            (each.last_checkpoint_ms for each in nodes if each.last_checkpoint_ms is not None),
            default=None,
        ),
        "unfinished_count": _sum(each.unfinished_count for each in nodes),
        "lost_record_count": _sum(each.lost_record_count for each in nodes),
        "outcome": None if outcome is None else outcome.value,
        "verdict": clean_text(store_verdict(examination)),
    }


def _unread_parts(examination: StoreExamination) -> list[StoreFinding]:
    """Return the findings for parts of nodes that could not be read."""
    code = CODES["unread"]
    return [
        StoreFinding(code.name, code.severity, node, found=reason, hint=code.hint)
        for node, reason in examination.unread
    ]


def _sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum; None if one of them is unknown, or there is none."""
    known = list(counts)
    return None if not known or None in known else sum(each or 0 for each in known)


def _finding_row(found: StoreFinding, env: str) -> tuple[Any, ...]:
    expected, seen, hint, node, file = (
        None if text is None else clean_text(text)
        for text in (found.expected, found.found, found.hint, found.node, found.file)
    )
    return (
        *(env, found.code, found.severity.value, None, found.offset, found.length, None, None),
        *(expected, seen, hint, node, file, found.segment, found.page),
    )
