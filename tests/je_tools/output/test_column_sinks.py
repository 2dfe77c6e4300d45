"""Parquet files of columns without nesting: row groups, and files that end early."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from je_tools.output.encoders import column_sinks
from je_tools.output.encoders.column_sinks import ColumnParquetSink

SCHEMA = pa.schema(
    [
        ("name", pa.dictionary(pa.int32(), pa.string())),
        ("number", pa.int64()),
        ("data", pa.binary()),
    ]
)
SINK = ColumnParquetSink(lambda _: None, SCHEMA)


def _batch(first: int, rows: int, size: int = 1) -> pa.RecordBatch:
    names = pa.array([f"name {first}"] * rows).dictionary_encode()
    data = pa.array([None, *[bytes(size)] * (rows - 1)], pa.binary())
    numbers = pa.array(range(first, first + rows), pa.int64())
    return pa.RecordBatch.from_arrays([names, numbers, data], schema=SCHEMA)


def test_row_groups_have_many_rows_or_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_sinks, "GROUP_ROWS", 100)
    monkeypatch.setattr(column_sinks, "GROUP_BYTES", 100_000)
    batches = [_batch(0, 60), _batch(60, 60), _batch(120, 3, 60_000), _batch(123, 90)]
    out = io.BytesIO()
    SINK.write_all(iter(batches), out)
    file = pq.ParquetFile(out)
    groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert groups == [120, 3, 90]
    assert file.schema_arrow.equals(SCHEMA)
    assert file.read().to_pydict() == pa.Table.from_batches(batches).to_pydict()
    with_statistics = [
        file.metadata.row_group(0).column(i).is_stats_set for i in range(len(SCHEMA))
    ]
    assert with_statistics == [True, True, False]


def test_no_rows_are_a_file_of_no_rows() -> None:
    out = io.BytesIO()
    SINK.write_all(iter([]), out)
    assert pq.read_table(out).equals(SCHEMA.empty_table())


class _FullDisk(io.BytesIO):
    """A file whose device is full after `room` bytes."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("room", [0, 3, 1000, 20_000])
def test_a_file_that_cannot_be_written(room: int, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError, match="No space left"):
        SINK.write_all((_batch(i, 40_000) for i in range(9)), _FullDisk(room))
    assert capfd.readouterr().err == ""


def test_pieces_that_fail_stop_a_file(capfd: pytest.CaptureFixture[str]) -> None:
    def pieces() -> Iterator[pa.RecordBatch]:
        yield _batch(0, 40_000)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SINK.write_all(pieces(), io.BytesIO())
    assert capfd.readouterr().err == ""
