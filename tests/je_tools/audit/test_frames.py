"""Transactions that files cut, joined: what no log of the fixtures has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from je_tools.audit.frames import spark_schema, transactions
from je_tools.audit.judging import fact_row
from je_tools.audit.staging import FACTS, SEGMENTS, ordered
from je_tools.transactions import Rollback
from tests.je_tools.audit.auditing import signed

NEGATIVE = 0x8000_0000
"""From this file number on LSNs are negative as int64."""


def segment(txn_id: int, index: int, file_no: int, offset: int) -> tuple[Any, ...]:
    """A piece of a transaction of two entries: begun in the first file, without an end."""
    lsns = [ordered(signed(file_no << 32 | at)) for at in (offset, offset + 50)]
    rest = (2, 100, 0, index == 0, 0, None, False, [7])
    return (1, index, 0, txn_id, *lsns, *rest)


def joined(spark: Any, folder: Path, segments: list[Any], fact: tuple[Any, ...]) -> list[Any]:
    frames = []
    for name, rows, schema in (("segments", segments, SEGMENTS), ("facts", [fact], FACTS)):
        columns = [
            pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)
        ]
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), folder / f"{name}.parquet")
        reader = spark.read.schema(spark_schema(schema))
        frames.append(reader.parquet(str(folder / f"{name}.parquet")))
    return sorted(transactions(frames[0], frames[1], 2).collect())


def test_lsns_on_both_sides_of_the_sign(audit_session: Any, tmp_path: Path) -> None:
    """File 0x80000000 comes behind 0x7fffffff, though its LSNs are negative as int64."""
    low, high = NEGATIVE - 1, NEGATIVE
    segments = [
        segment(1, 0, low, 100),
        segment(1, 1, high, 100),
        segment(2, 0, low, 900),
        segment(3, 1, high, 900),
    ]
    # The checkpoint knows of what began behind the start of the second file.
    rollbacks = [Rollback(signed(high << 32 | 2000), low << 32 | 800, frozenset({2, 1}))]
    fact = fact_row(1, {"env": "e"}, high << 32, rollbacks)
    rows = joined(audit_session, tmp_path, segments, fact)
    places = [(row.txn_id, row.begin_lsn, row.end_lsn, row.outcome) for row in rows]
    assert sorted(places) == [
        (1, low << 32 | 100, signed(high << 32 | 150), "undone"),
        (2, low << 32 | 900, low << 32 | 950, "rolled back"),
        (3, signed(high << 32 | 900), signed(high << 32 | 950), "unfinished"),
    ]
