"""Tables on Ignite's stores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from je_tools.output.views.sections import Column, Kind, Section, section_of, without_empty_columns

if TYPE_CHECKING:
    from je_tools.ignite.node_findings import NodeFinding
    from je_tools.ignite.wal.summary import WalSummary

NODE = Column("node", "node", Kind.TEXT, rank=5)
"""Column of every table: the name of the node."""


def store_section(
    name: str, title: str, columns: tuple[Column, ...], items: Iterable[object]
) -> Section:
    """Return a table that folds, and whose column of nodes stays if there are several nodes."""
    section = section_of(name, title, columns, items, folds=True)
    place = next((i for i, column in enumerate(columns) if column.name == NODE.name), None)
    if place is None or len({str(row[place]) for row in section.rows}) < 2:
        return section
    kept = replace(columns[place], rank=0)
    return replace(section, columns=(*columns[:place], kept, *columns[place + 1 :]))


def _severity(found: Any) -> str:
    return str(found.severity.value)


FINDING_COLUMNS = (
    Column("severity", "severity", Kind.TEXT, cell=_severity),
    Column("code", "finding", Kind.TEXT),
    NODE,
    Column("file", "file", Kind.PATH),
    Column("segment", "segment", Kind.ID),
    Column("offset", "offset", Kind.COUNT),
    Column("length", "bytes", Kind.COUNT, rank=3),
    Column("resume_offset", "resumes at", Kind.COUNT, rank=4),
    Column("expected", "expected", Kind.TEXT, rank=6, wraps=True),
    Column("found", "found", Kind.TEXT, wraps=True),
    Column("hint", "hint", Kind.TEXT, wraps=True),
)
"""Columns of findings on a write-ahead log."""


def finding_sections(findings: Iterable[NodeFinding], form: str) -> list[Section]:
    """Return findings as a table; for people, one without empty columns, or none."""
    section = store_section("", "", FINDING_COLUMNS, findings)
    if form != "table":
        return [section]
    return [without_empty_columns(section)] if section.rows else []


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
    return store_section("types", "Records by type", columns, summary.types)


def segment_section(summary: WalSummary) -> Section:
    """Return records and bytes by segment."""
    columns = (
        NODE,
        Column("segment", "segment", Kind.ID),
        Column("file", "file", Kind.PATH, rank=3),
        Column("records", "records"),
        Column("size", "bytes"),
        Column("end", "end", rank=2),
        Column("gaps", "gaps", rank=1),
    )
    return store_section("segments", "Segments", columns, summary.segments)


def cache_section(summary: WalSummary) -> Section:
    """Return entries by cache."""
    columns = (
        NODE,
        Column("cache_id", "id", Kind.ID),
        Column("cache", "cache", Kind.TEXT),
        Column("entries", "entries"),
        Column("created", "created"),
        Column("updated", "updated"),
        Column("deleted", "deleted"),
    )
    return store_section("caches", "Entries by cache", columns, summary.caches)
