"""Staged rows, on their way from executors to the tables: Parquet files in a shared folder.

A task that is run twice writes files of other names. Readers take the files of the attempt that
counts, or the rows that `TAKEN` lists. A file that a killed task leaves half written has a hidden
name, which Spark passes over.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from je_tools.audit.tables import ENVIRONMENTS, TXNS
from je_tools.formats.je.types import COMMIT_NO
from je_tools.log.transactions import Segments, TransactionOutcome

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints

_ROWS = 1 << 16
"""Rows that are buffered before they are written."""

_PIECE = [("env_no", pa.int32()), ("file_index", pa.int32()), ("cut", pa.int32())]

PARTS, WHOLE_TXNS = "segments", "whole"
"""Folders with parts of transactions, and with whole ones."""

SEGMENTS = pa.schema(
    [
        *_PIECE,
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
"""`transactions.Segments` that do not hold a whole transaction; LSNs are `ordered`."""

TAKEN = pa.schema(
    [
        *_PIECE,
        ("attempt", pa.string()),
        ("env", pa.string()),
        ("file_no", pa.int64()),
        ("piece_count", pa.int32()),
    ]
)
"""Pieces that count, each with the attempt that read it.

An attempt is the name of two files: one with parts of transactions, and one with whole ones, as
rows of the table txns. The files hold `piece_count` pieces.
"""

ROLLBACK = pa.struct(
    [("lsn", pa.int64()), ("matchpoint_lsn", pa.int64()), ("txn_ids", pa.list_(pa.int64()))]
)
"""A RollbackStart: entries of these transactions after the matchpoint were rolled back."""

COUNTED_LATER = ("committed_count", "aborted_count", "unfinished_count")
"""Columns of environments that are known only when transactions have been joined."""

FACTS = pa.schema(
    [
        ("env_no", pa.int32()),
        ("first_active_lsn", pa.int64()),
        ("rollbacks", pa.list_(ROLLBACK)),
        *(field for field in ENVIRONMENTS.schema if field.name not in COUNTED_LATER),
    ]
)
"""One row an environment; LSNs that are not columns of the table are `ordered`."""

WHOLE, AGAIN = 0, -1
"""`cut` of a file that is not cut, and of ranges that were read again in the join."""


Ended = tuple[tuple[str, int, int, int, int], ...]
"""Whole transactions by outcome: their number, entries, bytes, and the time of the last end."""

SIGN = -(1 << 63)
"""Sign bit of an int64 that holds an LSN."""


def ordered(lsn: Any) -> Any:
    """Convert int64 with the bits of LSNs to int64 that compare as the LSNs do.

    The argument is an array or a number. The function is its own inverse.
    """
    return lsn ^ SIGN


class TableWriter:
    """Writer of one Parquet file, by rows or by columns; without rows there is no file.

    Args:
        folder: folder of the file; it is made if needed, but its parent is not: that must be the
            driver's.
        schema: schema of the file.
        name: name of the file; a random one by default.
    """

    def __init__(self, folder: Path, schema: Any, name: str | None = None) -> None:
        name = name or secrets.token_hex(8)
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


class SegmentWriter:
    """Writer of the segments of pieces: whole transactions as rows of the table txns, others apart.

    Args:
        folder: folder where files are staged.
        count: number of pieces whose segments go into the files.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.attempt = secrets.token_hex(8)
        self.count = count
        self._parts = TableWriter(folder / PARTS, SEGMENTS, self.attempt)
        self._whole = TableWriter(folder / WHOLE_TXNS, TXNS.schema, self.attempt)

    def write(self, segments: Segments, place: tuple[int, int, int], env: str) -> Ended:
        """Write the segments of some rows of one file; return the sums of the whole transactions.

        Args:
            segments: segments in any order.
            place: env_no, file_index and cut.
            env: name of the environment.
        """
        is_whole = segments.begins & (segments.end_type != 0)
        whole, parts = np.flatnonzero(is_whole), np.flatnonzero(~is_whole)
        # Within one file, the bits of LSNs sort as the LSNs do.
        whole = whole[np.argsort(segments.first_lsn[whole], kind="stable")]
        self._whole.write(_whole_txns(segments, whole, env))
        self._parts.write(_parts(segments, parts, place))
        return _ended(segments, whole)

    def close(self) -> None:
        """Finish both files."""
        self._parts.close()
        self._whole.close()


def _columns(segments: Segments, rows: Ints) -> dict[str, Any]:
    """Build the columns that both files have, for some segments."""
    counts = np.diff(segments.db_first)[rows]
    first = np.append(0, np.cumsum(counts))
    of_list = np.repeat(segments.db_first[rows] - first[:-1], counts) + np.arange(first[-1])
    db_ids = pa.array(segments.db_id[of_list], pa.int64())
    ends = segments.end_type[rows]
    return {
        "txn_id": segments.txn_id[rows],
        "entry_count": segments.entries[rows],
        "size": segments.size[rows],
        "end_ms": pa.array(segments.end_ms[rows], pa.int64(), mask=ends == 0),
        "databases": pa.ListArray.from_arrays(pa.array(first, pa.int32()), db_ids),
    }


def _parts(segments: Segments, rows: Ints, place: tuple[int, int, int]) -> Any:
    """Build rows of the schema SEGMENTS from segments that are parts of transactions."""
    columns = {
        **{name: np.full(len(rows), no) for (name, _), no in zip(_PIECE, place, strict=True)},
        **_columns(segments, rows),
        "first_lsn": ordered(segments.first_lsn[rows]),
        "last_lsn": ordered(segments.last_lsn[rows]),
        "invisible_count": segments.invisible[rows],
        "begins": segments.begins[rows],
        "end_type": segments.end_type[rows],
        "is_prepared": segments.prepared[rows],
    }
    return _table(columns, SEGMENTS)


def _whole_txns(segments: Segments, rows: Ints, env: str) -> Any:
    """Build rows of the table txns from segments that are whole transactions."""
    is_abort = (segments.end_type[rows] != COMMIT_NO).astype(np.int8)
    names = pa.array([TransactionOutcome.COMMITTED.value, TransactionOutcome.ABORTED.value])
    columns = {
        **_columns(segments, rows),
        "env": pa.repeat(env, len(rows)),
        "begin_lsn": segments.first_lsn[rows],
        "end_lsn": segments.last_lsn[rows],
        "outcome": names.take(pa.array(is_abort)),
    }
    return _table(columns, TXNS.schema)


def _table(columns: Mapping[str, Any], schema: Any) -> Any:
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for field in schema
        for column in (columns[field.name],)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _ended(segments: Segments, rows: Ints) -> Ended:
    """Sum up whole transactions by outcome."""
    found = []
    is_commit = segments.end_type[rows] == COMMIT_NO
    for outcome, are in (
        (TransactionOutcome.COMMITTED, is_commit),
        (TransactionOutcome.ABORTED, ~is_commit),
    ):
        of_it = rows[are]
        if len(of_it):
            entries, size = int(segments.entries[of_it].sum()), int(segments.size[of_it].sum())
            last_ms = int(segments.end_ms[of_it].max())
            found.append((outcome.value, len(of_it), entries, size, last_ms))
    return tuple(found)


def _encodings(schema: Any) -> dict[str, Any]:
    """Return the encodings of columns: numbers as differences, which take a third of the space."""
    numbers = [field.name for field in schema if pa.types.is_int64(field.type)]
    return {
        "use_dictionary": [field.name for field in schema if pa.types.is_string(field.type)],
        "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
    }
