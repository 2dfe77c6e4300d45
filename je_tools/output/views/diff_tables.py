"""Differences between two environments as result tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from je_tools.diff.records import ChangedRecords, DifferingRange, RecordChange
from je_tools.output.views.key_tables import RECORD_COLUMNS, masked_hex, record_cells, shown_key
from je_tools.output.views.sections import Cell, Column, Kind, Section, section_of

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.diff.environments import DatabaseDifferences
    from je_tools.diff.files import FilePair

_DATABASES = (
    Column("db", "database", Kind.TEXT, cell=lambda each: each.pair.label),
    Column("state", "state", Kind.TEXT),
    Column("only_a_count", "only in A"),
    Column("only_b_count", "only in B"),
    Column("changed_count", "changed"),
)

_BLOCKS = (
    Column("db", "database", Kind.TEXT),
    Column("first_key", "first key", Kind.KEY),
    Column("last_key", "last key", Kind.KEY),
    Column("only_a_count", "only in A"),
    Column("only_b_count", "only in B"),
    Column("changed_count", "changed"),
)

_RECORDS = (
    Column("db", "database", Kind.TEXT),
    Column("change", "change", Kind.TEXT),
    *RECORD_COLUMNS,
)

_REPLICATION = (
    Column("last_vlsn_a", "last VLSN of A", Kind.ID),
    Column("last_vlsn_b", "last VLSN of B", Kind.ID),
)

RECORDS_LISTED = 1000
"""Largest number of records in a table: its columns are as wide as the widest value."""

_FILES = (
    Column("file_no", "file", Kind.FILE),
    Column("state", "state", Kind.TEXT, cell=lambda each: each.state.value),
    Column("size_a", "bytes in A"),
    Column("size_b", "bytes in B"),
    Column("differ_offset", "first difference"),
)


def database_section(tallies: Iterable[DatabaseDifferences]) -> Section:
    """Return a table with a row for each database."""
    return section_of("", "", _DATABASES, tallies)


def record_section(
    changes: Iterable[tuple[str, ChangedRecords]], masking: Masking
) -> tuple[Section, int]:
    """Return a table of the first records that differ, and the number of further ones.

    Args:
        changes: changes with the names of their databases; read to the end.
        masking: masking of keys and data.
    """
    rows: list[list[Cell]] = []
    more = 0
    for name, batch in changes:
        listed = min(len(batch), RECORDS_LISTED - len(rows))
        more += len(batch) - listed
        rows += [
            [name, RecordChange(int(batch.change[row])).label, *record_cells(batch, row, masking)]
            for row in range(listed)
        ]
    # A column that no record has a value for would take width from the differences.
    kept = [i for i in range(len(_RECORDS)) if any(cells[i] is not None for cells in rows)]
    columns = tuple(_RECORDS[i] for i in kept)
    return Section("", "", columns, [[cells[i] for i in kept] for cells in rows]), more


def block_section(
    blocks: Iterable[tuple[str, DifferingRange]], masking: Masking, *, for_people: bool
) -> Section:
    """Return a table with a row for each block; keys are in hexadecimal unless `for_people`."""
    key_text = shown_key if for_people else masked_hex
    rows: list[list[Cell]] = [
        [
            name,
            key_text(masking, block.first_key),
            key_text(masking, block.last_key),
            block.only_a_count,
            block.only_b_count,
            block.changed_count,
        ]
        for name, block in blocks
    ]
    return Section("", "", _BLOCKS, rows)


def replication_section(last_a: int, last_b: int) -> Section:
    """Return the row for nodes whose logs end at different places of the replication stream."""
    return Section("replication", "", _REPLICATION, [[last_a, last_b]])


def file_section(pairs: Iterable[FilePair]) -> Section:
    """Return a table with a row for each file."""
    return section_of("", "", _FILES, pairs)
