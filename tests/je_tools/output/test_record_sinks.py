"""Records in every format: exact, ordered, in bounded pieces, and in separate files."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from je_tools.core import worker_pool
from je_tools.core.masking import DataMode, Masking
from je_tools.errors import RefusedError, UsageError
from je_tools.formats.je.header import lsn_text
from je_tools.log.records import NO_TIME, NO_VLSN, Records, UnreadRecords, no_records
from je_tools.output.encoders import record_parquet as record_tables
from je_tools.output.encoders import record_sinks as sink
from je_tools.output.encoders.record_files import stems_of, write_files, write_stream
from je_tools.output.encoders.record_lines import RECORD_COLUMNS, OutputDatabase
from je_tools.output.encoders.record_sinks import LineSink, RecordFormat, open_record_sink
from je_tools.output.encoders.record_sources import DatabaseSource
from tests.builders.records import Row, records_of

LAST = (1 << 63) - 1
ROWS = [
    Row(b"", b""),
    Row(b"a\\b c\x7f\x80~!", bytes(range(256)), (3 << 32) | 0x1A2F, 7, 1_700_000_000_001, 5, LAST),
    Row(b"k", None, tombstone=True),
    Row(b"n", b"v", -(1 << 63), LAST, -1, -10, -(1 << 63), True),
]
PEOPLE = OutputDatabase('p"é', 5, has_duplicates=False)


def coming(records: Records) -> UnreadRecords[Records]:
    return UnreadRecords(lambda _: records)


def written(form: RecordFormat, masking: Masking | None = None, **options: Any) -> bytes:
    """Write ROWS twice, in two batches with an empty one between them; return the output."""
    out = io.BytesIO()
    batches = [records_of(ROWS), no_records(), records_of(ROWS)]
    made = open_record_sink(form, masking or Masking(), threads=2, **options)
    write_stream(made, [DatabaseSource(PEOPLE, batches)], out)
    return out.getvalue()


def expected(row: Row) -> dict[str, Any]:
    told: dict[str, Any] = {"db": 'p"é', "key": row.key.hex()}
    told["data"] = None if row.data is None else row.data.hex()
    for name in ("modified_ms", "created_ms", "expires_ms"):
        if getattr(row, name) != NO_TIME:
            told[name] = getattr(row, name)
    if row.tombstone:
        told["tombstone"] = True
    if row.vlsn != NO_VLSN:
        told["vlsn"] = row.vlsn
    if row.lsn != -1:
        told["lsn"] = lsn_text(row.lsn)
    return told


def test_json_lines() -> None:
    lines = written(RecordFormat.JSONL).decode("ascii").splitlines()
    assert [json.loads(line) for line in lines] == [expected(row) for row in ROWS * 2]
    assert list(json.loads(lines[1])) == [name for name in RECORD_COLUMNS if name != "tombstone"]


def test_csv() -> None:
    header, *lines = csv.reader(io.StringIO(written(RecordFormat.CSV).decode()))
    assert tuple(header) == RECORD_COLUMNS
    for row, line in zip(ROWS * 2, lines, strict=True):
        told = expected(row) | {"tombstone": "true" if row.tombstone else "false"}
        shown = ["" if told.get(name) is None else str(told[name]) for name in RECORD_COLUMNS]
        assert line == shown


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "records.parquet"
    path.write_bytes(written(RecordFormat.PARQUET))
    table = pq.read_table(path)
    assert tuple(table.column_names) == RECORD_COLUMNS
    for row, told in zip(ROWS * 2, table.to_pylist(), strict=True):
        assert (told["db"], told["key"], told["data"]) == ('p"é', row.key, row.data)
        assert told["tombstone"] == row.tombstone
        assert told["lsn"] == (None if row.lsn == -1 else row.lsn % (1 << 64))
        for name in ("modified_ms", "created_ms", "expires_ms", "vlsn"):
            assert told[name] == expected(row).get(name)


def test_dump_text() -> None:
    """Records without known data are left out, as the format cannot express them."""
    lines = written(RecordFormat.DUMP).splitlines()
    header = [b"VERSION=3", b"format=bytevalue", b"type=btree", b"dupsort=0", b"HEADER=END"]
    assert lines[:5] == header
    known = [row for row in ROWS * 2 if row.data is not None]
    told = [b" " + v.hex().encode() for row in known for v in (row.key, row.data or b"")]
    assert lines[5:] == [*told, b"DATA=END"]


def test_printed_dump_text() -> None:
    lines = written(RecordFormat.DUMP, is_print=True).splitlines()
    assert lines[1] == b"format=print"
    assert lines[5:9] == [b" ", b" ", rb" a\\b\20c\7f\80~!", lines[8]]
    whole = b"".join(rb"\%02x" % b if b < 33 or b > 126 else bytes([b]) for b in range(256))
    assert lines[8] == b" " + whole.replace(b"[\\]", rb"[\\]")


@pytest.mark.parametrize("mode", [m for m in DataMode if m is not DataMode.SHOW])
def test_masked(mode: DataMode) -> None:
    masking = Masking(mode)
    row = ROWS[3]
    key = masking.text_of(row.key)
    told = json.loads(written(RecordFormat.JSONL, masking).splitlines()[3])
    assert (told["key"], told["data"]) == (key, masking.text_of(b"v"))
    lines = written(RecordFormat.DUMP, masking, is_print=True).splitlines()
    assert lines[-3] == b" " + (key or "").encode()
    table = pq.read_table(io.BytesIO(written(RecordFormat.PARQUET, masking)))
    assert table["key"][3].as_py() == (None if key is None else key.encode())
    for form in RecordFormat:
        assert b"757365" not in written(form, masking)


def test_pieces_are_bounded_and_hold_every_record_once() -> None:
    rows = [Row(b"%d" % i, b"x" * (i % 7) * 10) for i in range(100)] + [Row(b"big", b"y" * 1000)]
    batch = records_of(rows)
    pieces = list(sink.pieces_of(batch, rows_max=10, bytes_max=200))
    keys = [piece.key[i] for piece in pieces for i in range(len(piece))]
    assert keys == [row.key for row in rows]
    for piece in pieces:
        size = int((piece.key.sizes + piece.data.sizes).sum())
        assert len(piece) == 1 or (len(piece) <= 10 and size <= 200)


def test_buffers_are_reused_except_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "BUFFER_MAX", 3000)
    rows = [Row(b"%d" % i, bytes([i]) * i) for i in range(200)]
    rows.insert(100, Row(b"big", b"y" * 5000))
    made = open_record_sink(RecordFormat.DUMP, Masking(), threads=3)
    assert isinstance(made, LineSink)
    out = io.BytesIO()
    pieces = [records_of(rows[at : at + 3]) for at in range(0, len(rows), 3)]
    write_stream(made, [DatabaseSource(PEOPLE, pieces)], out)
    lines = out.getvalue().splitlines()[5:-1]
    assert lines == [b" " + v.hex().encode() for row in rows for v in (row.key, row.data or b"")]
    assert 0 < len(made.pool.buffers) <= made.pool.count + worker_pool.AHEAD
    assert all(buffer.size <= 3000 for buffer in made.pool.buffers)


def test_two_databases_do_not_fit_in_one_dump_text() -> None:
    made = open_record_sink(RecordFormat.DUMP, Masking())
    sources = [
        DatabaseSource(OutputDatabase("a", 5, False), []),
        DatabaseSource(OutputDatabase("b", 6, False), []),
    ]
    with pytest.raises(UsageError, match="one database per file"):
        write_stream(made, sources, io.BytesIO())


def test_a_file_for_each_database(tmp_path: Path) -> None:
    names = [
        OutputDatabase("../../x", 5, True),
        OutputDatabase("A", 6, False),
        OutputDatabase("a", 7, False),
    ]
    names += [OutputDatabase(None, 8, False), OutputDatabase("", 9, False)]
    made = open_record_sink(RecordFormat.DUMP, Masking())
    sources = (DatabaseSource(name, [records_of([Row(b"%d" % name.db_id)])]) for name in names)
    stems = stems_of(made, names)
    told = write_files(made, sources, stems, tmp_path, tmp_path)
    files = [each.file for each in told]
    assert files == ["%2e.%2f..%2fx.dump", "A.dump", "a~7.dump", "id-8.dump", "%.dump"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)
    assert b"dupsort=1\nHEADER=END\n 35\n \nDATA=END\n" in (tmp_path / files[0]).read_bytes()
    again = DatabaseSource(names[0], [records_of(ROWS)])
    with pytest.raises(RefusedError, match="exists"):
        write_files(made, [again], stems, tmp_path, tmp_path)


def test_parquet_row_groups_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Small batches are combined into row groups, and large ones are cut."""
    monkeypatch.setattr(record_tables, "GROUP_ROWS", 10)
    monkeypatch.setattr(record_tables, "GROUP_BYTES", 5000)
    rows = [Row(b"%d" % i, b"x" * 10) for i in range(35)] + [Row(b"big", b"y" * 6000)] * 2
    sizes = [1, 2, 3, 20, 4, 7]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    batches = [records_of(rows[at : at + n]) for at, n in zip(starts, sizes, strict=True)]
    path = tmp_path / "records.parquet"
    made = open_record_sink(RecordFormat.PARQUET, Masking(), threads=2)
    with path.open("wb") as out:
        write_stream(made, [DatabaseSource(PEOPLE, batches)], out)
    file = pq.ParquetFile(path)
    groups = [file.read_row_group(i).num_rows for i in range(file.num_row_groups)]
    assert max(groups) <= 10
    assert groups[-2:] == [1, 1]
    assert len(groups) < len(batches) + 3
    assert file.read()["key"].to_pylist() == [row.key for row in rows]


def test_parquet_is_the_same_by_one_thread_and_by_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for several databases, for batches that are made late, and for empty ones."""
    monkeypatch.setattr(record_tables, "GROUP_ROWS", 10)
    rows = [Row(b"%d" % i, b"x" * i) for i in range(60)]
    whole = [records_of(rows[:25]), no_records(), records_of(rows[25:])]
    late = [coming(each) for each in (no_records(), *whole)]

    def made(threads: int) -> bytes:
        form = open_record_sink(RecordFormat.PARQUET, Masking(), threads=threads)
        others = [
            OutputDatabase("late", 6, has_duplicates=False),
            OutputDatabase("none", 7, has_duplicates=False),
        ]
        sources = [
            DatabaseSource(PEOPLE, whole),
            DatabaseSource(others[0], late),
            DatabaseSource(others[1], []),
        ]
        out = io.BytesIO()
        told = write_stream(form, sources, out)
        assert [each.records for each in told] == [60, 60, 0]
        return out.getvalue()

    assert made(1) == made(4)
    table = pq.read_table(io.BytesIO(made(4)))
    assert table["key"].to_pylist() == [row.key for row in rows] * 2
    assert table["db"].to_pylist() == ['p"é'] * 60 + ["late"] * 60


@pytest.mark.parametrize("batches", [[], [no_records()], [coming(no_records())] * 2])
def test_parquet_of_nothing(batches: list[Any]) -> None:
    out = io.BytesIO()
    form = open_record_sink(RecordFormat.PARQUET, Masking(), threads=2)
    write_stream(form, [DatabaseSource(PEOPLE, batches)], out)
    file = pq.ParquetFile(out)
    assert (file.metadata.num_rows, file.metadata.num_row_groups) == (0, 0)
    assert file.schema_arrow.equals(record_tables.RECORD_SCHEMA)


def test_an_error_of_the_records_passes_through(tmp_path: Path) -> None:
    def batches() -> Any:
        yield records_of(ROWS)
        raise RefusedError("the log went away")

    for form in RecordFormat:
        made = open_record_sink(form, Masking())
        with pytest.raises(RefusedError, match="went away"):
            write_stream(made, [DatabaseSource(PEOPLE, batches())], io.BytesIO())
