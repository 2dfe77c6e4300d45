"""Changes at the end of a log, planned or made, as tables and as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from je_tools.formats.je.header import NULL_LSN
from je_tools.log.field_texts import null_or_lsn
from je_tools.output.views.sections import Column, Kind, Section, fact_section, section_of, unless

if TYPE_CHECKING:
    from je_tools.append.operation import AppendResult, PlannedChange
    from je_tools.core.masking import Masking

_SUMMARY = (
    Column("operation", "operation", Kind.TEXT),
    Column("applied", "applied", Kind.FLAG),
    Column("first_lsn", "from", Kind.LSN),
    Column("last_lsn", "to", Kind.LSN),
    Column("size", "bytes"),
    Column("flipped_count", "headers changed"),
    Column("last_file_no", "last file", Kind.FILE),
    Column("journal_no", "undo", Kind.ID),
)


def append_sections(
    result: AppendResult, masking: Masking, *, applied: bool, as_facts: bool
) -> list[Section]:
    """Return what is appended, and each change.

    Args:
        result: the changes.
        masking: masking of keys.
        applied: True if they are made.
        as_facts: True to show the sums as a list of facts, for people.
    """
    changes = section_of("changes", "Changes", _changes(masking), result.changes)
    if as_facts:
        return [fact_section("append", _facts(result)), changes]
    ends = [unless(lsn, NULL_LSN) for lsn in (result.first_lsn, result.last_lsn)]
    row = [result.operation, applied, *ends, result.size, len(result.flipped)]
    row += [result.last_file_no, result.journal_no]
    return [Section("append", "", _SUMMARY, [row]), changes]


def _facts(result: AppendResult) -> Iterator[tuple[str, str]]:
    yield "operation", result.operation
    if result.is_empty:
        yield "nothing to write", "the log is as it should be"
        return
    yield "from", null_or_lsn(result.first_lsn) or "-"
    yield "to", null_or_lsn(result.last_lsn) or "-"
    yield "bytes", f"{result.size:,}"
    if result.flipped:
        yield "headers changed", f"{len(result.flipped):,}"


def _changes(masking: Masking) -> tuple[Column, ...]:
    """Return the columns of changes, with keys as a masking shows them."""

    def key_of(change: PlannedChange) -> str | None:
        return None if change.key is None else masking.text_of(change.key)

    return (
        Column("change", "change", Kind.TEXT),
        Column("lsn", "at", Kind.LSN),
        Column("vlsn", "VLSN", Kind.ID, rank=1),
        Column("db_id", "id", Kind.ID, rank=4),
        Column("db", "database", Kind.TEXT, rank=3),
        Column("key", "key", Kind.KEY, rank=5, cell=key_of),
        Column("old", "old", Kind.TEXT, wraps=True),
        Column("new", "new", Kind.TEXT, wraps=True),
        Column("why", "why", Kind.TEXT, wraps=True),
    )
