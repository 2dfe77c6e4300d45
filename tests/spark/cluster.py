"""One query for a session of any kind; `main` runs it on a cluster of two executors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.corpus import FIXTURES
from tests.spark.session import open_session


def results(spark: Any) -> list[Any]:
    """Return numbers for each entry type of two logs, one of them filtered."""
    reading = spark.read.format("jelog").option("columns", "lsn,type,db_id,data_size,key")
    whole = reading.load(str(FIXTURES / "v8-cleaned" / "env"))
    some = reading.load(str(FIXTURES / "v17-basic" / "env")).where("type like '%LN%' and db_id = 6")
    frame = whole.union(some).groupBy("type")
    rows = frame.agg({"*": "count", "lsn": "sum", "data_size": "sum", "key": "max"}).collect()
    return sorted(
        [
            row["type"],
            row["count(1)"],
            row["sum(lsn)"],
            row["sum(data_size)"],
            _hex(row["max(key)"]),
        ]
        for row in rows
    )


def _hex(key: bytes | None) -> str | None:
    return None if key is None else key.hex()


def main() -> None:
    """Print the results of a local cluster as JSON, on the last line."""
    from je_tools.spark import register

    spark = open_session(Path(sys.argv[1]), "local-cluster[2,1,1024]")
    register(spark)
    print(json.dumps(results(spark)))
    spark.stop()
