"""The format `jelog` in Spark itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import ArrayType, StructType

from je_tools.formats.je.log import reader
from je_tools.spark import sources
from je_tools.spark.ignitepages import IgnitepagesSource
from je_tools.spark.ignitewal import IgnitewalSource
from je_tools.spark.source import LogSource
from tests.corpus import FIXTURES, ROOT
from tests.je_tools.dumped import je_tools
from tests.spark import queries
from tests.spark.cluster import results
from tests.spark.reading import assert_same, dumped, read

HOME = FIXTURES / "v17-basic" / "env"
NAMES = ["v6-halt/env", "v8-cleaned/env", "v26-rep-committed/node1"]


def load(spark: Any, path: Path | list[Path], **options: str) -> Any:
    """Return a DataFrame of a log."""
    paths = [str(each) for each in path] if isinstance(path, list) else str(path)
    return spark.read.format("jelog").options(**options).load(paths)


def table(frame: Any) -> pa.Table:
    """Return the rows of a DataFrame in the order of the log."""
    found = frame.orderBy("lsn").toArrow()
    return pa.table(
        {
            name: found.column(name).cast(field.type)
            for name, field in zip(found.column_names, found.schema, strict=True)
        }
    )


@pytest.mark.parametrize("name", NAMES)
def test_entries_are_those_of_dump(spark: Any, name: str, tmp_path: Path) -> None:
    expected = dumped(FIXTURES / name, tmp_path / "out.parquet")
    frame = load(spark, FIXTURES / name)
    assert_same(table(frame), expected)
    # A second query, as a user makes on the same DataFrame.
    assert frame.count() == len(expected)


def test_types_are_those_that_spark_reads_from_parquet(spark: Any, tmp_path: Path) -> None:
    """LSNs are the exception: Spark makes them decimals if they come from Parquet."""
    out = tmp_path / "out.parquet"
    assert je_tools("dump", HOME, "--format", "parquet", "--output", out).code == 0
    found = {field.name: field.dataType for field in load(spark, HOME).schema}
    for field in spark.read.parquet(str(out)).schema:
        assert is_part(field.dataType, found[field.name]), field.name


def is_part(stored: Any, own: Any) -> bool:
    """Return whether a type from Parquet is that of `jelog`, which has fields of all versions."""
    if isinstance(stored, StructType):
        kinds = {field.name: field.dataType for field in own}
        return all(is_part(field.dataType, kinds[field.name]) for field in stored)
    if isinstance(stored, ArrayType):
        return is_part(stored.elementType, own.elementType)
    return own.simpleString() == stored.simpleString().replace("decimal(20,0)", "bigint")


def test_a_file_of_joined_row_groups(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read row by row, and with a reader that skips row groups and pages by their metadata."""
    monkeypatch.setattr("je_tools.core.worker_processes.PROCESSES_FROM", 1)
    monkeypatch.setattr("je_tools.log.scan_options.ONE_THREAD_MAX", 1)
    monkeypatch.setattr("je_tools.output.encoders.entry_sinks.JOINED_FILE_SIZE", 1)
    monkeypatch.setattr(reader, "RANGE_SIZE", 20_000)
    out = tmp_path / "out.parquet"
    expected = dumped(FIXTURES / NAMES[1], out, "--threads", "2")
    assert pq.ParquetFile(out).metadata.num_row_groups > 3
    frame = spark.read.parquet(str(out)).drop("lsn")
    found = frame.orderBy("file_no", "offset").toArrow()
    for name in ("file_no", "offset", "key", "data", "txn_id"):
        assert found.column(name).to_pylist() == expected.column(name).to_pylist()
    where = (pc.field("offset") > 30_000) & (pc.field("offset") < 31_000)
    some = frame.where("offset > 30000 and offset < 31000")
    assert some.count() == len(expected.filter(where)) > 0


@pytest.fixture(scope="module")
def held(spark: Any) -> Any:
    """Return rows that Spark holds itself."""
    return spark.createDataFrame(read(HOME))


@pytest.mark.parametrize(
    "where",
    [
        "type = 'Commit' and lsn > 5000",
        "type in ('Commit', 'CkptEnd') and file_no = 0 and version >= 17",
        "replicated",
        "type like 'INS%' and vlsn is null",
        "db = 'people' and txn_id in (7, 8)",
        "key = X'7573657230303030303030303037'",
        "key = X'757365723030303030303037' or type = 'Trace'",
        "txn_end.time_ms > 0 and type <> 'Commit'",
    ],
)
def test_conditions_of_a_query(spark: Any, held: Any, where: str) -> None:
    assert_same(table(load(spark, HOME).where(where)), table(held.where(where)))


@pytest.mark.parametrize("pushes", [pytest.param("false", marks=pytest.mark.exhaustive), "true"])
def test_one_load_that_is_filtered_twice(spark: Any, pushes: str) -> None:
    """Spark shares what a reader planned among all queries of a load; filters must not get in."""
    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting)
    spark.conf.set(setting, pushes)
    try:
        assert queries.results(spark) == queries.expected()
    finally:
        spark.conf.set(setting, before)


@pytest.mark.parametrize("kind", sources(), ids=lambda kind: kind.name())
def test_no_source_takes_conditions(kind: type[LogSource]) -> None:
    """Spark would reuse what one query planned with its conditions for others, and lose rows."""
    made = kind({"path": str(HOME)})
    reading = made.reader(made.schema())
    assert type(reading).pushFilters is DataSourceReader.pushFilters


def test_one_load_answers_several_queries(spark: Any) -> None:
    """Columns of one query are not missing from the others, nor from the sides of a join."""
    log = load(spark, HOME, columns="lsn,type,txn_id,db,key")
    whole = read(HOME, columns="type").column("type").to_pylist()
    commits = log.where("type = 'Commit'")
    assert commits.count() == whole.count("Commit")
    assert log.count() == len(whole)
    assert log.where("type = 'Abort'").union(commits).count() == sum(
        name in ("Commit", "Abort") for name in whole
    )
    inserts = log.where("type = 'INS_LN_TX' and db = 'people'")
    joined = inserts.join(commits.select("txn_id"), "txn_id").count()
    other = log.where("type = 'Abort'").select("txn_id")
    assert joined + inserts.join(other, "txn_id").count() == inserts.count() > joined > 0


def test_several_files(spark: Any, tmp_path: Path) -> None:
    home = FIXTURES / "v8-cleaned" / "env"
    files = sorted(home.glob("*.jdb"))
    expected = dumped(files, tmp_path / "out.parquet")
    assert_same(table(load(spark, files)), expected)
    listed = spark.read.format("jelog").option("paths", ",".join(map(str, files))).load()
    assert_same(table(listed), expected)


def test_columns_and_options(spark: Any, tmp_path: Path) -> None:
    frame = load(spark, HOME, columns="lsn, key", Type="LN", db="people", data="salted-hash")
    assert frame.columns == ["lsn", "key"]
    expected = dumped(HOME, tmp_path / "out.parquet", "--type", "LN", "--db", "people")
    found = table(frame)
    assert found.column("lsn").equals(expected.column("lsn"))
    assert found.column("key").to_pylist()[0].startswith(b"salted:")
    assert table(frame).equals(found), "another salt for the same DataFrame"


def test_a_join_of_salted_hashes(spark: Any) -> None:
    frame = load(spark, HOME, columns="lsn,key", data="salted-hash").where("key is not null")
    keys = load(spark, HOME, columns="key").where("key is not null")
    shown = keys.groupBy("key").count().selectExpr("sum(count * count)").first()[0]
    other = frame.selectExpr("key", "lsn as other")
    assert frame.join(other, "key").count() == shown


def test_a_schema_of_ones_own(spark: Any) -> None:
    """The schema chooses columns, and is checked against the log."""
    reading = spark.read.format("jelog")
    frame = reading.schema("type string, lsn bigint").load(str(HOME))
    assert frame.columns == ["type", "lsn"]
    assert frame.where("type = 'FileHeader'").collect() == [("FileHeader", 0)]
    with pytest.raises(
        AnalysisException, match=r"column lsn: jelog has it as bigint, not as string"
    ):
        reading.schema("lsn string").load(str(HOME)).count()
    with pytest.raises(AnalysisException, match="column size: no such column"):
        reading.schema("size bigint").load(str(HOME)).count()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"colums": "lsn"}, "option colums: no such option; did you mean columns?"),
        ({"columns": "lsn,size"}, "column size: no such column; there are env, file_no, offset"),
        ({"columns": "lsn,lsn"}, "column lsn: named twice"),
        ({"type": "INS"}, "option type: INS: no such entry type or group; did you mean"),
        ({"from_lsn": "12"}, "option from_lsn: 12: an LSN is written 0xFILE/0xOFFSET"),
        ({"data": "none"}, "option data: 'none' is none of show, hide"),
        ({"txn": "a"}, "option txn: 'a' is no whole number"),
        ({"replicated": "yes"}, "option replicated: 'yes' is neither true nor false"),
        ({"pushdown": "true"}, "option pushdown: it was removed, because Spark"),
        ({"path": "/no/such/log"}, "/no/such/log: no such file or directory"),
        ({"path": "s3://key:word@host/log"}, "give it as the store's own tools take it"),
    ],
)
def test_what_cannot_be_read_is_told_at_load(
    spark: Any, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("jelog").options(**{"path": str(HOME), **options}).load()
    assert reason in str(caught.value)


def test_a_database_that_is_not_there_is_told_when_it_is_read(spark: Any) -> None:
    with pytest.raises(AnalysisException, match=r"option db: nobody: not in this log, .* people"):
        load(spark, HOME, db="nobody").count()


def test_a_log_that_is_cut_short_ends_the_read(spark: Any, tmp_path: Path) -> None:
    home = tmp_path / "env"
    shutil.copytree(HOME, home)
    rows = load(spark, home, columns="lsn").rdd
    assert rows.count() == 1695
    file = home / "00000000.jdb"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(Exception, match=r"shrank from 287967 to 287867 bytes"):
        rows.count()
    # A new load finds the log as it is now.
    assert load(spark, home, columns="lsn").count() < 1695


def test_nothing_matches(spark: Any) -> None:
    assert load(spark, HOME).where("file_no = 77").count() == 0
    assert load(spark, HOME, from_lsn="0x99/0x0").collect() == []


def test_workers_need_no_pandas(spark: Any) -> None:
    """They have the requirements of je-tools, which do not include pandas."""

    def loaded(_: Any) -> Any:
        import je_tools.spark.entry_reading  # noqa: F401

        yield "pandas" in sys.modules

    assert spark.sparkContext.parallelize([0], 1).mapPartitions(loaded).collect() == [False]


def expected_results() -> list[Any]:
    """Return the results of tests.spark.cluster, computed without Spark."""
    columns = "lsn,type,db_id,data_size,key"
    whole = read(FIXTURES / "v8-cleaned" / "env", columns=columns)
    some = read(HOME, columns=columns)
    is_ln = pc.match_substring(some.column("type"), "LN")
    some = some.filter(pc.and_(is_ln, pc.equal(some.column("db_id"), 6)))
    rows = pa.concat_tables([whole, some]).to_pylist()
    found = []
    for name in sorted({row["type"] for row in rows}):
        own = [row for row in rows if row["type"] == name]
        sizes = [row["data_size"] for row in own if row["data_size"] is not None]
        keys = [row["key"] for row in own if row["key"] is not None]
        size, key = sum(sizes) if sizes else None, max(keys).hex() if keys else None
        found.append([name, len(own), sum(row["lsn"] for row in own), size, key])
    return found


def test_threads_of_one_process(spark: Any) -> None:
    assert results(spark) == expected_results()


@pytest.mark.spark
def test_executors_that_know_nothing_of_each_other(tmp_path: Path) -> None:
    """A cluster of two executors on this host, whose JVMs are separate from the session's."""
    assert json.loads(printed("tests.spark.cluster", tmp_path)) == expected_results()


@pytest.mark.exhaustive
@pytest.mark.spark
def test_a_session_over_spark_connect(tmp_path: Path) -> None:
    """`make test-all` installs what it needs."""
    packages = ROOT / "build" / "connect"
    assert packages.is_dir(), "run scripts/connect.sh"
    module, found, of_stores = json.loads(printed("tests.spark.queries", tmp_path, packages))
    assert module == "pyspark.sql.connect.session"
    assert found == queries.expected()
    stores = {
        "ignitewal": (IgnitewalSource, tmp_path / "wal"),
        "ignitepages": (IgnitepagesSource, tmp_path / "pages"),
    }
    counts = [len(read(path, kind, columns="env")) for kind, path in stores.values()]
    assert of_stores == [[count, count] for count in counts]
    assert all(counts)


def printed(module: str, folder: Path, *packages: Path) -> str:
    """Return the last line that `main` of a module prints in a process of its own.

    The process finds more packages in the folders `packages`.
    """
    script = f"from {module} import main; main()"
    paths = {"PYTHONPATH": ":".join(map(str, packages))} if packages else {}
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        cwd=ROOT,
        env=os.environ | paths,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()[-1]
