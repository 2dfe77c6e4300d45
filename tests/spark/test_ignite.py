"""The formats of Ignite's stores: records of logs, and pages."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from je_tools.errors import InputError, UsageError
from je_tools.ignite.page_check.verify import verify_pages
from je_tools.ignite.store import open_store
from je_tools.spark.ignite_records import WAL_RECORDS
from je_tools.spark.ignitepages import IgnitepagesSource
from je_tools.spark.ignitewal import IgnitewalSource
from je_tools.spark.jelog import JelogSource
from tests.builders import ignite as build
from tests.builders import ignite_pages as pages
from tests.corpus import FIXTURES, IgniteNode
from tests.je_tools.dumped import je_tools
from tests.spark.reading import assert_same, in_spark, read, reader


def dumped(store: Path, out: Path, *arguments: str) -> pa.Table:
    """Return the output of `ignite wal dump` in the columns of `ignitewal`."""
    out.unlink(missing_ok=True)
    words = ("ignite", "wal", "dump", store, "--format", "parquet", "--output", out)
    assert je_tools(*words, *arguments).code in (0, 3)
    return in_spark(pq.read_table(out), str(store), WAL_RECORDS.schema())


def test_records_are_those_of_dump(ignite_node: IgniteNode, tmp_path: Path) -> None:
    expected = dumped(ignite_node.store, tmp_path / "out", "--node", ignite_node.node)
    for tasks in ("1", "5"):
        found = read(ignite_node.store, IgnitewalSource, node=ignite_node.node, tasks=tasks)
        assert_same(found, expected)


def test_pages_are_those_that_are_verified(ignite_node: IgniteNode) -> None:
    found = read(ignite_node.store, IgnitepagesSource, node=ignite_node.node, tasks="5")
    report = verify_pages(open_store([ignite_node.store], [ignite_node.node]), 2)
    by_file = Counter(found.column("file").to_pylist())
    assert by_file == {each.file: each.pages for each in report.files if each.pages}
    good = found.filter(pa.compute.equal(found.column("state"), "good"))
    types = Counter(good.column("type").to_pylist())
    assert types == {each.type: each.pages for each in report.types}
    assert found.column("node").unique().to_pylist() == [ignite_node.node]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store with transactions, entries and a page of two caches, in two segments."""
    return build.write_dumped_store(tmp_path / "store")


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({}, []),
        ({"type": "TX_RECORD, DATA"}, ["--type", "TX_RECORD", "--type", "DATA"]),
        ({"cache": "accounts"}, ["--cache", "accounts"]),
        ({"partition": "5"}, ["--partition", "5"]),
        ({"page": "accounts:0001000500000002"}, ["--page", "accounts:0001000500000002"]),
        ({"transaction": "5:6:7"}, ["--transaction", "5:6:7"]),
        ({"from_pointer": "1:0"}, ["--from", "1:0"]),
        ({"to_pointer": "0:29"}, ["--to", "0:29"]),
        ({"since": "2000ms"}, ["--since", "2000ms"]),
        ({"data": "hash"}, ["--data", "hash"]),
    ],
)
def test_options_of_records(
    options: dict[str, str], arguments: list[str], store: Path, tmp_path: Path
) -> None:
    expected = dumped(store, tmp_path / "out", *arguments)
    assert len(expected) > 0
    assert_same(read(store, IgnitewalSource, **options), expected)


def test_a_task_reads_the_segments_of_its_share(store: Path) -> None:
    planned = reader(store, IgnitewalSource, tasks="2", columns="segment,env")
    found = [
        {batch.column(0)[0].as_py() for batch in planned.read(each)}
        for each in planned.partitions()
    ]
    assert found == [{0}, {1}]
    assert len(reader(store, IgnitewalSource, from_pointer="1:0").partitions()) == 1
    assert read(store, IgnitewalSource, columns="env").num_rows > 3


def test_columns_alone_are_those_of_all(store: Path, tmp_path: Path) -> None:
    whole = read(store, IgnitewalSource)
    for name in whole.column_names:
        assert read(store, IgnitewalSource, columns=name).column(0).equals(whole.column(name))
    made = pages.write_damaged_page_store(tmp_path / "pages")
    whole = read(made, IgnitepagesSource)
    for name in whole.column_names:
        assert read(made, IgnitepagesSource, columns=name).column(0).equals(whole.column(name))


def test_pages_of_a_damaged_store(tmp_path: Path) -> None:
    made = pages.write_damaged_page_store(tmp_path / "store")
    names = "file,page,state,type,kind,partition,offset,length"
    found = read(made, IgnitepagesSource, columns=names, state="checksum, zero", tasks="9")
    kinds = {"cache-first": "partition", "metastorage": "metastorage"}
    rows = [
        ("cache-first/part-0.bin", 4, "checksum", "data", 0),
        ("cache-first/part-0.bin", 5, "checksum", "data", 0),
        ("cache-first/index.bin", 2, "checksum", "tree meta", 65535),
        ("metastorage/part-1.bin", 1, "zero", None, 1),
        ("metastorage/part-1.bin", 3, "zero", None, 1),
    ]

    def expected(file: str, page: int, state: str, kind: str | None, partition: int) -> Any:
        return {
            "file": f"db/node1/{file}",
            "page": page,
            "state": state,
            "type": kind,
            "kind": "index" if partition == 65535 else kinds[file.split("/")[0]],
            "partition": partition,
            "offset": (page + 1) * pages.SIZE,
            "length": pages.SIZE,
        }

    key = ("file", "page")
    assert sorted(found.to_pylist(), key=lambda row: [row[name] for name in key]) == sorted(
        (expected(*row) for row in rows), key=lambda row: [row[name] for name in key]
    )
    some = read(made, IgnitepagesSource, kind="index", columns="file")
    assert set(some.column("file").to_pylist()) == {"db/node1/cache-first/index.bin"}
    some = read(made, IgnitepagesSource, group="first", partition="1", columns="file")
    assert set(some.column("file").to_pylist()) == {"db/node1/cache-first/part-1.bin"}


def test_several_stores_and_what_is_none(store: Path, tmp_path: Path) -> None:
    other = build.write_dumped_store(tmp_path / "deep" / "other")
    shutil.copytree(FIXTURES / "v17-basic" / "env", tmp_path / "je")
    found = read(tmp_path, IgnitewalSource, columns="env,segment")
    assert set(found.column("env").to_pylist()) == {str(store), str(other)}
    assert len(read(tmp_path, IgnitewalSource, env="*other", columns="env")) * 2 == len(found)
    # Each format passes over what the other one reads.
    assert set(read(tmp_path, JelogSource, columns="env").column(0).to_pylist()) == {
        str(tmp_path / "je")
    }
    with pytest.raises(InputError, match="no store of Ignite here or below"):
        read(tmp_path / "je", IgnitewalSource)
    with pytest.raises(InputError, match=r"no \.jdb files here or below"):
        read(store, JelogSource)
    wrong = "option group: cash: there is no such group, nor a cache without one"
    with pytest.raises(UsageError, match=wrong):
        read(pages.write_page_store(tmp_path / "pages"), IgnitepagesSource, group="cash, first")
    with pytest.raises(UsageError, match="option cache: zz: there is no such cache or group"):
        read(store, IgnitewalSource, cache="zz, accounts")
    assert not len(read(store, IgnitewalSource, cache="77"))
    with pytest.raises(
        UsageError, match="option node: nobody: no node has this name; there are node1"
    ):
        read(store, IgnitewalSource, node="nobody")


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("type", "NONE"),
        ("page", "accounts"),
        ("transaction", "5"),
        ("from_pointer", "0x1"),
        ("partition", "x"),
        ("since", "soon"),
    ],
)
def test_wrong_options(option: str, text: str, store: Path) -> None:
    with pytest.raises(UsageError, match=f"^option {option}: "):
        read(store, IgnitewalSource, **{option: text})
    with pytest.raises(UsageError, match="option state: 'odd' is none of good, zero"):
        read(store, IgnitepagesSource, state="odd")


def test_files_that_cannot_be_read(store: Path, tmp_path: Path) -> None:
    (segment,) = (store / "db" / "wal" / "node1").glob("*.wal")
    whole = read(store, IgnitewalSource, columns="segment")
    segment.write_bytes(b"\x05" + bytes(20))
    with pytest.raises(InputError, match=r"unreadable=skip; `je-tools ignite wal verify`"):
        read(store, IgnitewalSource)
    left = read(store, IgnitewalSource, columns="segment", unreadable="skip")
    assert 0 < len(left) < len(whole)
    made = pages.write_page_store(tmp_path / "pages")
    every = read(made, IgnitepagesSource, columns="file")
    for path in made.rglob("*.bin"):
        path.write_bytes(path.read_bytes()[:10])
    with pytest.raises(InputError, match="shorter than its header"):
        read(made, IgnitepagesSource)
    assert len(read(made, IgnitepagesSource, unreadable="skip")) == 0 < len(every)


def test_tables_of_stores(spark: Any, store: Path, tmp_path: Path) -> None:
    """The options reach the queries of a table."""
    made = pages.write_damaged_page_store(tmp_path / "pages")
    for kind, home, more, column in (
        (IgnitewalSource, store, {"type": "TX_RECORD"}, "segment"),
        (IgnitepagesSource, made, {"state": "checksum"}, "page"),
    ):
        expected = read(home, kind, columns=f"{column},env", **more)
        assert 0 < len(expected) < len(read(home, kind, columns=column))
        options = {"path": str(home), "columns": f"{column},env"} | more
        listed = ", ".join(f"{name} '{value}'" for name, value in options.items())
        spark.sql(f"create table of_store using {kind.name()} options ({listed})")
        try:
            rows = spark.sql("select * from of_store").collect()
            assert sorted(map(tuple, rows)) == sorted(
                tuple(row.values()) for row in expected.to_pylist()
            )
            twice = "select count(*) from of_store a join of_store b using (env)"
            assert spark.sql(twice).collect()[0][0] == len(expected) ** 2
        finally:
            spark.sql("drop table of_store")


def test_stores_in_spark(spark: Any, store: Path, tmp_path: Path) -> None:
    made = pages.write_damaged_page_store(tmp_path / "pages")
    log = spark.read.format("ignitewal").load(str(store))
    expected = read(store, IgnitewalSource)
    assert log.count() == len(expected)
    data, others = log.where("type like 'DATA%'"), log.where("type not like 'DATA%'")
    assert data.union(others).count() == len(expected)
    assert data.join(others, "segment", "left_anti").count() == 1
    spark.sql(
        f"create or replace temporary view bad_pages using ignitepages options "
        f"(path '{made}', columns 'state,file')"
    )
    rows = spark.sql("select state, count(*) from bad_pages group by state order by state")
    counts = Counter(read(made, IgnitepagesSource).column("state").to_pylist())
    assert [tuple(row) for row in rows.collect()] == sorted(counts.items())
