"""The formats in SQL: views and tables."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from je_tools.spark.jefindings import JefindingsSource
from je_tools.spark.jerecords import JerecordsSource
from je_tools.spark.jevlsn import JevlsnSource
from je_tools.spark.source import LogSource
from tests.corpus import FIXTURES
from tests.spark.reading import read

HOME = FIXTURES / "v17-basic" / "env"


@pytest.fixture
def home(tmp_path: Path, spark: Any) -> Iterator[Path]:
    """Copy an environment, and drop the tables of the test."""
    home = tmp_path / "root" / "my env"
    shutil.copytree(HOME, home)
    yield home
    spark.sql("drop table if exists entries")


def rows(spark: Any, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    return [tuple(row) for row in spark.sql(query).collect()]


def test_a_view(spark: Any, home: Path) -> None:
    spark.sql(
        f"create temporary view some using jelog options (path '{home}', columns 'lsn,type', "
        "type 'Commit')"
    )
    try:
        assert rows(spark, "select count(*), min(type) from some") == [(272, "Commit")]
    finally:
        spark.catalog.dropTempView("some")


@pytest.mark.parametrize(
    "place",
    [
        "options (path '{home}', columns 'env,lsn,type')",
        "options (columns 'env,lsn,type') location '{home}'",
        "options (paths '{home}', columns 'env,lsn,type')",
        "options (path '{root}/*', columns 'env,lsn,type') comment 'x' "
        "tblproperties ('colour' = 'red')",
    ],
)
def test_a_table(spark: Any, home: Path, place: str) -> None:
    """Its options reach the queries, though Spark passes them to CREATE TABLE alone."""
    spark.sql(f"create table entries using jelog {place.format(home=home, root=home.parent)}")
    whole = read(HOME, columns="lsn,type")
    found = rows(spark, "select * from entries order by lsn")
    assert [row[1:] for row in found] == [tuple(row.values()) for row in whole.to_pylist()]
    assert {row[0] for row in found} == {str(home)}
    commits = "select count(*) from entries with (type = 'Commit', from_lsn = '0x0/0x10000')"
    expected = whole["type"].to_pylist()
    lsns = whole["lsn"].to_pylist()
    at_least = sum(
        kind == "Commit" and lsn >= 0x10000 for kind, lsn in zip(expected, lsns, strict=True)
    )
    assert rows(spark, commits) == [(at_least,)]
    both = "select a.type, b.type from entries a join entries b on a.lsn = b.lsn where "
    assert len(rows(spark, both + "a.type = 'Commit'")) == 272
    assert len(rows(spark, both + "a.type = 'Commit' and b.type = 'Abort'")) == 0
    spark.sql("drop table entries")
    assert (home / "00000000.jdb").read_bytes() == (HOME / "00000000.jdb").read_bytes()


def test_a_table_keeps_other_options(spark: Any, home: Path) -> None:
    spark.sql(
        f"create table entries using jelog options (path '{home}', Columns 'lsn,key', type 'LN', "
        "data 'length')"
    )
    keys = read(HOME, columns="lsn,key", type="LN", data="length")["key"].to_pylist()
    found = rows(spark, "select key from entries order by lsn")
    assert [key for (key,) in found] == keys


def test_what_spark_does_not_allow(spark: Any, home: Path) -> None:
    spark.sql(f"create table entries (lsn bigint) using jelog options (path '{home}')")
    with pytest.raises(AnalysisException, match="create it without naming its columns"):
        spark.sql("select * from entries").collect()
    with pytest.raises(AnalysisException, match="UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"):
        spark.sql(f"select * from jelog.`{home}`")
    with pytest.raises(AnalysisException, match="no such file or directory"):
        spark.sql("create table other using jelog options (path '/no/such/log')")


def test_only_tables_keep_options_in_their_schema(spark: Any, home: Path) -> None:
    """Spark writes metadata of columns into Parquet files, where needles must not get."""
    frame = spark.read.format("jelog").options(key="secret", columns="lsn").load(str(home))
    assert [field.metadata for field in frame.schema] == [{}]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (JerecordsSource, "v26-dbops/env"),
        (JefindingsSource, "v8-crash-txn-ckpt/env"),
        (JevlsnSource, "v26-rep-committed/node1"),
    ],
    ids=["jerecords", "jefindings", "jevlsn"],
)
def test_the_other_formats(spark: Any, kind: type[LogSource], name: str) -> None:
    home = FIXTURES / name
    expected = read(home, kind)
    assert len(expected) > 0
    frame = spark.read.format(kind.name()).load(str(home))
    assert frame.toArrow().sort_by("env").to_pylist() == expected.to_pylist()
    spark.sql(f"create table entries using {kind.name()} options (path '{home}', columns 'env')")
    try:
        assert rows(spark, "select count(env) from entries") == [(len(expected),)]
    finally:
        spark.sql("drop table entries")
