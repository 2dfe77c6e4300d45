"""Rows on their way from executors to the tables: Parquet files in a folder that all can reach.

A task that is run twice writes files of other names. Whoever reads takes those that the attempt
names which counted, or the rows that `TAKEN` lists. What a task that was killed leaves half written
has a hidden name, which Spark passes over.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from je_tools.audit.tables import TXNS
from je_tools.formats.je.types import COMMIT_NO
from je_tools.transactions import Outcome, Segments

_ROWS = 1 << 16
"""Rows that are held before they are written."""

_PIECE = [("env_no", pa.int32()), ("file_index", pa.int32()), ("cut", pa.int32())]

SEGMENTS = pa.schema(
    [
        *_PIECE,
        ("attempt", pa.string()),
        ("txn_id", pa.int64()),
        ("first_lsn", pa.int64()),
        ("last_lsn", pa.int64()),
        ("entry_count", pa.int64()),
        ("size", pa.int64()),
        ("invisible_count", pa.int64()),
        ("begins", pa.bool_()),
        ("end_type", pa.int16()),
        ("end_ms", pa.int64()),
        ("is_prepared", pa.bool_()),
        ("databases", pa.list_(pa.int64())),
    ]
)
"""`transactions.Segments` that do not hold a whole transaction."""

TAKEN = pa.schema(
    [
        *_PIECE,
        ("attempt", pa.string()),
        ("env", pa.string()),
        ("file_no", pa.int64()),
        ("whole", pa.string()),
        ("whole_count", pa.int32()),
    ]
)
"""The pieces that count, each by the attempt that read it.

`whole` names the file with the whole transactions of the piece, and of others, `whole_count` in
all: rows as in the table txns.
"""

ROLLBACKS = pa.schema(
    [
        ("env_no", pa.int32()),
        ("lsn", pa.int64()),
        ("matchpoint_lsn", pa.int64()),
        ("txn_ids", pa.list_(pa.int64())),
    ]
)
"""RollbackStarts: transactions whose entries behind the matchpoint were taken back."""

FACTS = pa.schema(
    [
        ("env_no", pa.int32()),
        ("env", pa.string()),
        ("damaged_size", pa.int64()),
        ("first_active_lsn", pa.int64()),
    ]
)
"""One row an environment: what no table holds."""

WHOLE, AGAIN = 0, -1
"""`cut` of a file that is not cut, and of ranges of one that were read again when joined."""


class TableWriter:
    """Writes one Parquet file, row by row or by columns; there is no file without rows.

    Args:
        folder: where to; made if need be.
        schema: of the file.
    """

    def __init__(self, folder: Path, schema: Any) -> None:
        self.attempt = secrets.token_hex(8)
        self.path = folder / f"{self.attempt}.parquet"
        self._half = folder / f".{self.attempt}.part"
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
        """Add columns."""
        if table.num_rows:
            self._flush()
            self._open().write_table(table, row_group_size=_ROWS)

    def close(self) -> Path | None:
        """Finish the file, and give its path; None where there were no rows."""
        self._flush()
        if self._writer is None:
            return None
        self._writer.close()
        self._half.rename(self.path)
        return self.path

    def _open(self) -> Any:
        if self._writer is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._half, self._schema)
        return self._writer

    def _flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, self._schema, strict=True)]
            self._open().write_table(pa.Table.from_arrays(arrays, schema=self._schema))
            self._rows = []


class SegmentWriter:
    """Writes the segments of pieces: whole transactions as the table txns has them, others apart.

    Args:
        folder: where to.
        count: of pieces whose whole transactions go into one file.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.parts = TableWriter(folder / "segments", SEGMENTS)
        self.count = count
        self._whole = TableWriter(folder / "whole", TXNS.schema)

    @property
    def attempt(self) -> str:
        """With which the rows of parts are marked."""
        return self.parts.attempt

    @property
    def whole(self) -> str:
        """The name of the file with whole transactions."""
        return self._whole.path.name

    def write(self, segments: Segments, place: tuple[int, int, int], env: str) -> None:
        """Write the segments of some rows of one file.

        Args:
            segments: in any order.
            place: env_no, file_index and cut.
            env: name of the environment.
        """
        is_whole = segments.begins & (segments.end_type != 0)
        table = _columns(segments)
        self._whole.write(_whole_txns(table.filter(pa.array(is_whole)), env))
        parts = table.filter(pa.array(~is_whole))
        for i, value in enumerate((*place, self.attempt)):
            column = pa.repeat(pa.scalar(value, SEGMENTS.field(i).type), parts.num_rows)
            parts = parts.add_column(i, SEGMENTS.field(i), column)
        self.parts.write(parts)

    def close(self) -> None:
        """Finish both files."""
        self.parts.close()
        self._whole.close()


def _columns(segments: Segments) -> Any:
    """Segments as columns, those of SEGMENTS behind the place."""
    databases = pa.ListArray.from_arrays(
        pa.array(segments.db_first, pa.int32()), pa.array(segments.db_id, pa.int64())
    )
    arrays = [
        *map(pa.array, (segments.txn_id, segments.first_lsn, segments.last_lsn)),
        *map(pa.array, (segments.entries, segments.size, segments.invisible)),
        pa.array(segments.begins),
        pa.array(segments.end_type, pa.int16()),
        pa.array(segments.end_ms, pa.int64(), mask=segments.end_type == 0),
        pa.array(segments.prepared),
        databases,
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(list(SEGMENTS)[4:]))


def _whole_txns(table: Any, env: str) -> Any:
    """Segments that are whole transactions, as rows of the table txns, in log order."""
    table = table.sort_by("first_lsn")
    n = table.num_rows
    is_commit = pc.equal(table["end_type"], COMMIT_NO)
    outcome = pc.if_else(is_commit, Outcome.COMMITTED.value, Outcome.ABORTED.value)
    columns = {
        "env": pa.repeat(env, n),
        "begin_lsn": table["first_lsn"],
        "end_lsn": table["last_lsn"],
        "outcome": outcome,
    }
    named = {**{name: table[name] for name in table.schema.names}, **columns}
    arrays = [named[name] for name in TXNS.schema.names]
    return pa.Table.from_arrays(arrays, schema=TXNS.schema)
