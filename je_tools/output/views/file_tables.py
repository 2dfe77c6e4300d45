"""Rows of `list_files` as a result table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from je_tools.output.views.sections import Cell, Column, Kind, Section, section_of

if TYPE_CHECKING:
    from je_tools.files.listing import FileRow


def _codes(row: FileRow) -> Cell:
    return list(dict.fromkeys(found.code for found in row.findings))


FILE_COLUMNS = (
    Column("file_no", "file", Kind.FILE, cell=lambda row: row.file.file_no),
    Column("name", "name", Kind.TEXT, rank=9),
    Column("log_version", "version", Kind.ID, cell=lambda row: row.version),
    Column("created_ms", "created (UTC)", Kind.TIME, rank=6),
    Column("size", "bytes", cell=lambda row: row.file.size),
    Column("entry_count", "entries"),
    Column("damage_count", "damaged", rank=1),
    Column("first_lsn", "first LSN", Kind.LSN, rank=8),
    Column("last_lsn", "last LSN", Kind.LSN, rank=7),
    Column("first_vlsn", "first VLSN", Kind.ID, rank=5),
    Column("last_vlsn", "last VLSN", Kind.ID, rank=4),
    Column("written_by", "written by JE", Kind.TEXT, rank=3, wraps=True),
    Column("opened_from", "opened from JE", Kind.TEXT, rank=2),
    Column("not_opened_by", "not by JE", Kind.TEXT, rank=2, wraps=True),
    Column("findings", "findings", Kind.TEXTS, rank=3, cell=_codes, wraps=True),
)


def file_section(rows: Sequence[FileRow]) -> Section:
    """Return a table with a row for each file."""
    return section_of("", "", FILE_COLUMNS, rows)
