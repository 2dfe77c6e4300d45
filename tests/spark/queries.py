"""Queries that use one loaded log twice; `main` runs them over Spark Connect."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.builders import ignite, ignite_pages
from tests.corpus import FIXTURES
from tests.spark.reading import read
from tests.spark.session import connect_session

HOME = FIXTURES / "v17-basic" / "env"
COLUMNS = "lsn,type,txn_id"


def results(spark: Any) -> list[Any]:
    """Return the counts of queries that filter one DataFrame in different ways."""
    log = spark.read.format("jelog").option("columns", COLUMNS).load(str(HOME))
    commits, inserts = log.where("type='Commit'"), log.where("type='INS_LN_TX'")
    both = commits.union(inserts).groupBy("type").count().orderBy("type")
    joined = inserts.join(commits.select("txn_id"), "txn_id").count()
    # A frame that is cached, and its union with one that is not.
    kept = log.where("type='Abort'").cache()
    aborts = [kept.count(), kept.union(log.where("type='Commit'")).count(), kept.count()]
    kept.unpersist()
    selfs = log.alias("a").join(log.alias("b"), "lsn").where("a.type='Abort' and b.type='Abort'")
    return [
        aborts,
        selfs.count(),
        [list(row) for row in both.collect()],
        joined,
        # Unlike the queries above: a condition that options cannot express, then no condition.
        log.where("type like '%LN%' or lsn < 100").count(),
        log.count(),
    ]


def expected() -> list[Any]:
    """Return the same results, computed without Spark."""
    log = read(HOME, columns=COLUMNS)
    kinds, txns = log.column("type"), log.column("txn_id")
    is_commit, is_insert = pc.equal(kinds, "Commit"), pc.equal(kinds, "INS_LN_TX")
    ended = pa.table({"txn_id": txns.filter(is_commit)}).group_by("txn_id").aggregate([])
    assert len(ended) == pc.sum(is_commit).as_py()
    joined = pc.is_in(txns.filter(is_insert), value_set=ended.column("txn_id").combine_chunks())
    aborts = pc.sum(pc.equal(kinds, "Abort")).as_py()
    odd = pc.or_(pc.match_substring(kinds, "LN"), pc.less(log.column("lsn"), 100))
    return [
        [aborts, aborts + len(ended), aborts],
        aborts,
        [["Commit", len(ended)], ["INS_LN_TX", pc.sum(is_insert).as_py()]],
        pc.sum(joined).as_py(),
        pc.sum(odd).as_py(),
        len(log),
    ]


def written_stores(folder: Path) -> dict[str, str]:
    """Write a store of Ignite for each of its formats; return their paths by format."""
    return {
        "ignitewal": str(ignite.write_dumped_store(folder / "wal")),
        "ignitepages": str(ignite_pages.write_damaged_page_store(folder / "pages")),
    }


def of_stores(spark: Any, folder: Path) -> list[list[int]]:
    """Return, for each format of Ignite, the rows of a DataFrame and of a SQL table."""
    found = []
    for name, path in written_stores(folder).items():
        frame = spark.read.format(name).option("columns", "env,node").load(path)
        spark.sql(f"create table t using {name} options (path '{path}', columns 'node')")
        found.append([frame.count(), spark.sql("select node from t").count()])
        spark.sql("drop table t")
    return found


def main() -> None:
    """Print the results of a server of its own, reached over Spark Connect, on the last line."""
    from je_tools.spark import register

    folder = Path(sys.argv[1])
    spark = connect_session(folder)
    register(spark)
    print(json.dumps([type(spark).__module__, results(spark), of_stores(spark, folder)]))
    spark.stop()
