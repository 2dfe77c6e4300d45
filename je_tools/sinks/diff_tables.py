"""Differences of two environments as tables of results."""

from __future__ import annotations

from collections.abc import Iterable

from je_tools.diff.environments import Tally
from je_tools.diff.files import FilePair
from je_tools.diff.records import Block
from je_tools.masking import Masking
from je_tools.sinks.key_tables import spelled
from je_tools.sinks.sections import Cell, Column, Kind, Section, section_of

_DATABASES = (
    Column("db", "database", Kind.TEXT, cell=lambda each: each.pair.label),
    Column("state", "state", Kind.TEXT),
    Column("only_a_count", "only in A"),
    Column("only_b_count", "only in B"),
    Column("changed_count", "changed"),
)

_BLOCKS = (
    Column("db", "database", Kind.TEXT),
    Column("first_key", "first key", Kind.TEXT),
    Column("last_key", "last key", Kind.TEXT),
    Column("only_a_count", "only in A"),
    Column("only_b_count", "only in B"),
    Column("changed_count", "changed"),
)

_FILES = (
    Column("file_no", "file", Kind.FILE),
    Column("state", "state", Kind.TEXT, cell=lambda each: each.state.value),
    Column("size_a", "bytes in A"),
    Column("size_b", "bytes in B"),
    Column("differ_offset", "first difference"),
)


def database_section(tallies: Iterable[Tally]) -> Section:
    """One row a database."""
    return section_of("", "", _DATABASES, tallies)


def block_section(blocks: Iterable[tuple[str, Block]], masking: Masking) -> Section:
    """One row a block; keys are hexadecimal."""
    rows: list[list[Cell]] = [
        [
            name,
            spelled(masking, block.first_key),
            spelled(masking, block.last_key),
            block.only_a_count,
            block.only_b_count,
            block.changed_count,
        ]
        for name, block in blocks
    ]
    return Section("", "", _BLOCKS, rows)


def file_section(pairs: Iterable[FilePair]) -> Section:
    """One row a file."""
    return section_of("", "", _FILES, pairs)
