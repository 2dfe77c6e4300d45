"""Writers of the tables: Parquet files in a shared folder.

A task that is run twice writes files of other names, and only those of the attempt that counts are
kept. A file that a killed task leaves half written has a hidden name.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from je_tools.audit.staged_members import SCHEMAS
from je_tools.audit.tables import TXNS

_ROWS = 1 << 16
"""Rows that are collected before they are written, as one row group."""

HELD_SIZE = 4 << 20
"""Bytes that are collected, if that is less."""

_PIECES = 64
"""Tables that are collected before they are copied into one: a table of one row takes 20 KB."""


class TableWriter:
    """Writer of one Parquet file; without rows there is no file.

    Args:
        folder: folder of the file; it is made if needed, but its parent is not: that must be the
            driver's.
        schema: schema of the file.
    """

    def __init__(self, folder: Path, schema: Any) -> None:
        name = secrets.token_hex(8)
        self.path = folder / f"{name}.parquet"
        self._half = folder / f".{name}.part"
        self._schema = schema
        self._waiting: list[Any] = []
        self._row_count = self._size = 0
        self._writer: Any = None

    def write(self, table: Any) -> None:
        """Add the rows of a table."""
        self._waiting.append(table)
        self._row_count += table.num_rows
        self._size += table.nbytes
        if self._row_count >= _ROWS or self._size >= HELD_SIZE:
            self._flush()
        elif len(self._waiting) >= _PIECES:
            self._waiting = [pa.concat_tables(self._waiting).combine_chunks()]

    def close(self) -> Path | None:
        """Finish the file and return its path, or None if there were no rows."""
        if self._row_count:
            self._flush()
        if self._writer is None:
            return None
        self._writer.close()
        self._half.rename(self.path)
        return self.path

    def _flush(self) -> None:
        if self._writer is None:
            self.path.parent.mkdir(exist_ok=True)
            self._writer = pq.ParquetWriter(self._half, self._schema, **_encodings(self._schema))
        table = pa.concat_tables(self._waiting)
        self._writer.write_table(table, row_group_size=_ROWS)
        self._waiting, self._row_count, self._size = [], 0, 0


class StagedTables:
    """Writers of one task, by the name of the table; all its files are below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writers = {
            name: TableWriter(folder / name, schema) for name, schema in SCHEMAS.items()
        }

    def __getitem__(self, name: str) -> TableWriter:
        return self._writers[name]

    def write(self, tables: Mapping[str, Any]) -> None:
        """Add the rows of tables, by their names."""
        for name, table in tables.items():
            self._writers[name].write(table)

    def close(self) -> list[tuple[str, str]]:
        """Finish all files; return the table and the path of each."""
        closed = ((name, writer.close()) for name, writer in self._writers.items())
        return [(name, str(path)) for name, path in closed if path is not None]


def write_txns(folder: Path, txns: Sequence[Any]) -> str | None:
    """Write transactions to a file of their own; return its path, or None if there are none."""
    writer = TableWriter(folder / TXNS.name, TXNS.schema)
    for table in txns:
        writer.write(table)
    path = writer.close()
    return None if path is None else str(path)


def _encodings(schema: Any) -> dict[str, Any]:
    """Return the encodings of columns: numbers as differences, which take a third of the space."""
    numbers = [field.name for field in schema if pa.types.is_int64(field.type)]
    return {
        "use_dictionary": [field.name for field in schema if pa.types.is_string(field.type)],
        "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
    }
