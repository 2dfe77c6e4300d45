"""The rows of `list_files` as a table of results."""

from __future__ import annotations

from collections.abc import Sequence

from je_tools.files import FileRow
from je_tools.sinks.sections import Cell, Column, Kind, Section

FILE_COLUMNS = (
    Column("file_no", "file", Kind.FILE),
    Column("name", "name", Kind.TEXT, rank=9),
    Column("log_version", "version", Kind.ID),
    Column("created_ms", "created (UTC)", Kind.TIME, rank=6),
    Column("size", "bytes"),
    Column("entry_count", "entries"),
    Column("damage_count", "damaged", rank=1),
    Column("first_lsn", "first LSN", Kind.LSN, rank=8),
    Column("last_lsn", "last LSN", Kind.LSN, rank=7),
    Column("first_vlsn", "first VLSN", Kind.ID, rank=5),
    Column("last_vlsn", "last VLSN", Kind.ID, rank=4),
    Column("written_by", "written by JE", Kind.TEXT, rank=3),
    Column("opened_from", "opened from JE", Kind.TEXT, rank=2),
    Column("not_opened_by", "not by JE", Kind.TEXT, rank=2),
    Column("findings", "findings", Kind.TEXTS, rank=3),
)


def file_section(rows: Sequence[FileRow]) -> Section:
    """One row a file."""
    return Section("", "", FILE_COLUMNS, [_cells(row) for row in rows])


def _cells(row: FileRow) -> list[Cell]:
    codes = list(dict.fromkeys(found.code for found in row.findings))
    return [
        row.file.file_no,
        row.name,
        row.version,
        row.file.header.created_ms if row.file.header.good else None,
        row.file.size,
        row.entry_count,
        row.damage_count,
        row.first_lsn,
        row.last_lsn,
        row.first_vlsn,
        row.last_vlsn,
        row.written_by,
        row.opened_from,
        row.not_opened_by,
        codes,
    ]
