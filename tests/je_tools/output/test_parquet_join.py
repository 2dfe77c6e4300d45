"""Joined Parquet files: the bytes of a single writer if row groups are the same."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from arro3.io import read_parquet, write_parquet

from je_tools.output.encoders import parquet_join
from je_tools.output.encoders.parquet_join import Joiner, take_apart

SEED = 20261121
LARGE = 900_000_000
ITEM = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.binary()))])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("words", pa.dictionary(pa.int32(), pa.string())),
        ("item", ITEM),
        ("items", pa.list_(ITEM)),
        ("never", pa.uint64()),
        ("flag", pa.bool_()),
    ]
)
SIZES = [[0], [1], [50], [0, 0], [30, 30], [30, 1], [0, 30, 0, 7], [30] * 20]
Write = Callable[[pa.Table, int], bytes]


def by_rust(table: pa.Table, rows: int) -> bytes:
    out = io.BytesIO()
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    write_parquet(
        reader,
        out,
        compression="snappy",
        column_dictionary_enabled={"name": False},
        max_row_group_size=rows,
        data_page_row_count_limit=7,
        write_batch_size=7,
    )
    return out.getvalue()


def by_arrow(table: pa.Table, rows: int, **options: Any) -> bytes:
    out = io.BytesIO()
    with pq.ParquetWriter(out, table.schema, **options) as writer:
        if len(table):
            writer.write_table(table, row_group_size=rows)
    return out.getvalue()


def by_arrow_with_indexes(table: pa.Table, rows: int) -> bytes:
    return by_arrow(table, rows, write_page_index=True, data_page_size=100, compression="zstd")


WRITERS: list[Write] = [by_rust, by_arrow, by_arrow_with_indexes]


def some_table(rng: random.Random, n: int) -> pa.Table:
    def perhaps(value: Any) -> Any:
        return value if rng.random() < 0.7 else None

    def item() -> Any:
        words = [rng.randbytes(rng.randrange(4)) for _ in range(rng.randrange(3))]
        return perhaps({"a": perhaps(rng.randrange(2**60)), "b": perhaps(words)})

    rows = [
        {
            "id": rng.randrange(-9, 10**9),
            "name": perhaps("n" * rng.randrange(40) + str(i)),
            "item": item(),
            "items": perhaps([item() for _ in range(rng.randrange(3))]),
            "never": None,
            "flag": perhaps(rng.random() < 0.5),
        }
        for i in range(n)
    ]
    # One dictionary for all rows, as a writer builds its own from it.
    numbers = pa.array([perhaps(rng.randrange(3)) for _ in rows], pa.int32())
    words = pa.DictionaryArray.from_arrays(numbers, ["one", "two", "three"])
    rest = pa.Table.from_pylist(rows, schema=SCHEMA.remove(2))
    return rest.add_column(2, "words", words)


def joined(files: list[bytes]) -> bytes:
    out = io.BytesIO()
    joiner = Joiner(out)
    for file in files:
        joiner.append(take_apart(memoryview(file)), memoryview(file))
    joiner.finish()
    return out.getvalue()


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: f"{len(sizes)}-{sizes[-1]}")
def test_the_same_bytes_as_of_one_writer(sizes: list[int], write: Write) -> None:
    """Footer, statistics and page indexes are equal, too: row groups are those of the parts."""
    tables = [some_table(random.Random(SEED + i), n) for i, n in enumerate(sizes)]
    file = joined([write(table, 30) for table in tables])
    assert file == write(pa.concat_tables(tables).combine_chunks(), 30)


@pytest.mark.parametrize("write", WRITERS)
def test_every_reader_reads_what_was_written(write: Write, tmp_path: Path) -> None:
    """Parts have several row groups, the last of them short, as no single writer makes them."""
    rng = random.Random(SEED)
    tables = [some_table(rng, rng.randrange(90)) for _ in range(12)]
    path = tmp_path / "joined.parquet"
    path.write_bytes(joined([write(table, 25) for table in tables]))
    whole = pa.concat_tables(tables)
    rows = whole.to_pylist()
    assert pq.read_table(path).to_pylist() == rows
    assert pa.table(read_parquet(path).read_all()).to_pylist() == rows
    assert (
        pl.read_parquet(path, columns=["id", "item", "items"]).to_dicts()
        == whole.select(["id", "item", "items"]).to_pylist()
    )
    # Lookups by statistics.
    wanted = [row["id"] for row in rows if row["id"] > LARGE]
    found = duckdb.sql(f"select id from '{path}' where id > {LARGE}").fetchall()
    assert [number for (number,) in found] == wanted
    large = pl.scan_parquet(path).filter(pl.col("id") > LARGE).collect()
    assert large["id"].to_list() == wanted


def test_statistics_are_those_of_their_rows() -> None:
    tables = [some_table(random.Random(i), 40) for i in range(5)]
    file = pq.ParquetFile(io.BytesIO(joined([by_rust(table, 25) for table in tables])))
    assert file.metadata.num_row_groups == 10
    for number in range(10):
        ids = file.read_row_group(number)["id"].to_pylist()
        told = file.metadata.row_group(number).column(0).statistics
        assert (told.min, told.max) == (min(ids), max(ids))


def test_more_row_groups_than_there_are_ordinals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups then have no ordinals: a reader expects all or none."""
    tables = [some_table(random.Random(i), 40) for i in range(3)]
    files = [by_rust(table, 25) for table in tables]
    with_ordinals = joined(files)
    monkeypatch.setattr(parquet_join, "_ORDINALS", 5)
    without = joined(files)
    assert len(with_ordinals) == len(without) + 2 * 6
    for file in (with_ordinals, without):
        rows = pq.read_table(io.BytesIO(file)).to_pylist()
        assert rows == pa.concat_tables(tables).to_pylist()
        assert pa.table(read_parquet(io.BytesIO(file)).read_all()).num_rows == 120


def test_other_schemas_are_refused() -> None:
    table = some_table(random.Random(SEED), 5)
    for other in (table.drop_columns(["flag"]), table.replace_schema_metadata({"a": "b"})):
        with pytest.raises(ValueError, match="different schemas"):
            joined([by_arrow(table, 5), by_arrow(other, 5)])


@pytest.mark.parametrize("file", [b"", b"PAR1", b"PAR1\0\0\0\0PAR1", b"PAR1\xff\xff\0\0PAR1"])
def test_what_is_no_parquet_file_is_refused(file: bytes) -> None:
    with pytest.raises(Exception, match=r"Parquet|Thrift|row groups"):
        take_apart(memoryview(file))


def test_nothing_to_join_is_an_error() -> None:
    with pytest.raises(ValueError, match="no Parquet file"):
        joined([])
