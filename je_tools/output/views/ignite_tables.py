"""Tables on Ignite's stores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from je_tools.output.views.sections import Column, Kind, Section, section_of

if TYPE_CHECKING:
    from je_tools.ignite.wal.summary import WalSummary
    from je_tools.ignite.wal.wal_findings import WalFinding

NODE = Column("node", "node", Kind.TEXT, rank=5)
"""Column of every table: the name of the node."""


def _severity(found: Any) -> str:
    return str(found.severity.value)


FINDING_COLUMNS = (
    Column("severity", "severity", Kind.TEXT, rank=1, cell=_severity),
    Column("code", "finding", Kind.TEXT),
    NODE,
    Column("file", "file", Kind.TEXT),
    Column("segment", "segment", Kind.ID, rank=2),
    Column("offset", "offset", Kind.COUNT, rank=2),
    Column("length", "bytes", Kind.COUNT, rank=3),
    Column("resume_offset", "goes on at", Kind.COUNT, rank=4),
    Column("expected", "expected", Kind.TEXT, rank=6, wraps=True),
    Column("found", "found", Kind.TEXT, wraps=True),
    Column("hint", "hint", Kind.TEXT, rank=3, wraps=True),
)
"""Columns of findings on a write-ahead log."""


def finding_sections(findings: Iterable[WalFinding], form: str) -> list[Section]:
    """Return findings as a table; none for people if there are no findings."""
    section = section_of("", "", FINDING_COLUMNS, findings)
    return [section] if section.rows or form != "table" else []


def type_section(summary: WalSummary) -> Section:
    """Return records and bytes by node and type."""
    columns = (
        NODE,
        Column("type_name", "type", Kind.TEXT),
        Column("purpose", "purpose", Kind.TEXT, rank=4),
        Column("records", "records"),
        Column("size", "bytes"),
        Column("mean", "mean", rank=3),
    )
    return section_of("types", "Records by type", columns, summary.types)


def segment_section(summary: WalSummary) -> Section:
    """Return records and bytes by segment."""
    columns = (
        NODE,
        Column("segment", "segment", Kind.ID),
        Column("file", "file", Kind.TEXT, rank=3),
        Column("records", "records"),
        Column("size", "bytes"),
        Column("end", "end", rank=2),
        Column("gaps", "gaps", rank=1),
    )
    return section_of("segments", "Segments", columns, summary.segments)


def cache_section(summary: WalSummary) -> Section:
    """Return entries by cache."""
    columns = (
        NODE,
        Column("cache_id", "cache", Kind.ID),
        Column("entries", "entries"),
        Column("created", "created"),
        Column("updated", "updated"),
        Column("deleted", "deleted"),
    )
    return section_of("caches", "Entries by cache", columns, summary.caches)
