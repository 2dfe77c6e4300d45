"""Databases, and counts of their records, as result tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from je_tools.output.views.sections import Column, Kind, Section, section_of

if TYPE_CHECKING:
    from je_tools.records.databases import DatabaseRow
    from je_tools.recovery.database import Database

DATABASE_COLUMNS = (
    Column("db", "database", Kind.TEXT, wraps=True, cell=lambda row: row.name),
    Column("db_id", "id", Kind.ID),
    Column("state", "state", Kind.TEXT, rank=1),
    Column("flags", "flags", Kind.TEXTS, rank=2, wraps=True),
    Column("records", "records", cell=lambda row: row.shape.records),
    Column("depth", "depth", rank=5, cell=lambda row: row.shape.depth),
    Column("upper_nodes", "upper nodes", rank=6, cell=lambda row: row.shape.upper_nodes),
    Column("bottom_nodes", "bottom nodes", rank=6, cell=lambda row: row.shape.bottom_nodes),
    Column("node_bytes", "node bytes", rank=2, cell=lambda row: row.shape.node_bytes),
    Column("record_bytes", "record bytes", rank=2, cell=lambda row: row.shape.record_bytes),
    Column("comparators", "comparators", Kind.TEXTS, rank=3, wraps=True),
    Column("map_ln_lsn", "descriptor", Kind.LSN, rank=7),
    Column("root_lsn", "root", Kind.LSN, rank=8),
    Column("created_version", "created in version", Kind.ID, rank=9),
)

COUNT_COLUMNS = (
    Column("db", "database", Kind.TEXT, cell=lambda item: item[0].name),
    Column("db_id", "id", Kind.ID, cell=lambda item: item[0].db_id),
    Column("records", "records", cell=lambda item: item[1]),
)


def database_section(rows: Iterable[DatabaseRow]) -> Section:
    """Return a table with a row for each database."""
    return section_of("", "", DATABASE_COLUMNS, rows)


def count_section(counts: Iterable[tuple[Database, int]]) -> Section:
    """Return a table with a row for each database and its number of records."""
    return section_of("", "", COUNT_COLUMNS, counts)
