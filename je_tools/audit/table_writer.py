"""Writers of the tables: Parquet files in a shared folder, by rows or by columns.

A task that is run twice writes files of other names, and only those of the attempt that counts are
kept. A file that a killed task leaves half written has a hidden name.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from je_tools.audit.tables import TABLES, TXNS

_ROWS = 1 << 16
"""Rows that are buffered before they are written."""


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
        self._rows: list[Sequence[Any]] = []
        self._writer: Any = None

    def add(self, row: Sequence[Any]) -> None:
        """Add a row, its values in the order of the schema."""
        self._rows.append(row)
        if len(self._rows) == _ROWS:
            self._flush()

    def extend(self, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows."""
        for row in rows:
            self.add(row)

    def write(self, table: Any) -> None:
        """Add the rows of a table."""
        if table.num_rows:
            self._flush()
            self._open().write_table(table, row_group_size=_ROWS)

    def close(self) -> Path | None:
        """Finish the file and return its path, or None if there were no rows."""
        self._flush()
        if self._writer is None:
            return None
        self._writer.close()
        self._half.rename(self.path)
        return self.path

    def _open(self) -> Any:
        if self._writer is None:
            self.path.parent.mkdir(exist_ok=True)
            self._writer = pq.ParquetWriter(self._half, self._schema, **_encodings(self._schema))
        return self._writer

    def _flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, self._schema, strict=True)]
            self._open().write_table(pa.Table.from_arrays(arrays, schema=self._schema))
            self._rows = []


class StagedTables:
    """Writers of one task, by the name of the table; all its files are below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writers = {
            table.name: TableWriter(folder / table.name, table.schema) for table in TABLES
        }

    def __getitem__(self, name: str) -> TableWriter:
        return self._writers[name]

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
