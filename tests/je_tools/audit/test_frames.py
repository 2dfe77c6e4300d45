"""Joining transactions that file boundaries cut, in cases that no fixture has."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from je_tools.audit.frames import spark_schema, transactions
from je_tools.audit.rows import fact_row
from je_tools.audit.staging import FACTS, SEGMENTS, TableWriter, ordered
from je_tools.audit.tables import TXNS
from je_tools.formats.je.types import ABORT_NO, COMMIT_NO
from je_tools.log.transactions import (
    Rollback,
    Transaction,
    TransactionOutcome,
    TransactionPart,
    TransactionPiece,
    Transactions,
)
from tests.je_tools.audit.auditing import signed

NEGATIVE = 0x8000_0000
"""First file number whose LSNs are negative as int64."""


def segment(txn_id: int, index: int, file_no: int, offset: int) -> tuple[Any, ...]:
    """Return a segment of two entries without an end; the transaction begins in the first file."""
    lsns = [ordered(signed(file_no << 32 | at)) for at in (offset, offset + 50)]
    rest = (2, 100, 0, index == 0, 0, None, False, [7])
    return (1, index, 0, txn_id, *lsns, *rest)


def joined(spark: Any, folder: Path, segments: list[Any], fact: tuple[Any, ...]) -> list[Any]:
    return sorted(joined_frame(spark, folder, segments, fact).collect())


def joined_frame(spark: Any, folder: Path, segments: list[Any], fact: tuple[Any, ...]) -> Any:
    frames = []
    for name, rows, schema in (("segments", segments, SEGMENTS), ("facts", [fact], FACTS)):
        columns = [
            pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)
        ]
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), folder / f"{name}.parquet")
        reader = spark.read.schema(spark_schema(schema))
        frames.append(reader.parquet(str(folder / f"{name}.parquet")))
    return transactions(frames[0], frames[1], 2)


def test_lsns_on_both_sides_of_the_sign(audit_session: Any, tmp_path: Path) -> None:
    """File 0x80000000 comes after 0x7fffffff, although its LSNs are negative as int64."""
    low, high = NEGATIVE - 1, NEGATIVE
    segments = [
        segment(1, 0, low, 100),
        segment(1, 1, high, 100),
        segment(2, 0, low, 900),
        segment(3, 1, high, 900),
    ]
    # firstActiveLsn is the start of the second file: the checkpoint knows what began after it.
    rollbacks = [Rollback(signed(high << 32 | 2000), low << 32 | 800, frozenset({2, 1}))]
    fact = fact_row(1, {"env": "e"}, high << 32, rollbacks)
    rows = joined(audit_session, tmp_path, segments, fact)
    places = [(row.txn_id, row.begin_lsn, row.end_lsn, row.outcome) for row in rows]
    assert sorted(places) == [
        (1, low << 32 | 100, signed(high << 32 | 150), "undone"),
        (2, low << 32 | 900, low << 32 | 950, "rolled back"),
        (3, signed(high << 32 | 900), signed(high << 32 | 950), "unfinished"),
    ]


def test_joined_rows_have_the_schema_of_whole_ones(audit_session: Any, tmp_path: Path) -> None:
    """Both are part files of the table txns, which readers must be able to concatenate."""
    frame = joined_frame(
        audit_session, tmp_path, [segment(1, 0, 1, 100)], fact_row(1, {"env": "e"})
    )
    frame.coalesce(1).write.parquet(str(tmp_path / "joined"))
    (by_spark,) = (tmp_path / "joined").glob("*.parquet")
    writer = TableWriter(tmp_path, TXNS.schema)
    row = ["e", 1, 2, 3, "committed", 4, 5, [6], 7]
    writer.add(row)
    by_executor = writer.close()
    assert by_executor is not None
    schemas = [pq.read_schema(path).remove_metadata() for path in (by_spark, by_executor)]
    assert schemas[0].equals(schemas[1]), schemas
    both = pa.concat_tables([pq.read_table(by_spark), pq.read_table(by_executor)])
    assert both.to_pylist()[1] == dict(zip(TXNS.schema.names, row, strict=True))


FILES, MOST = 6, 10**6


def random_piece(rng: random.Random, first_lsn: int) -> TransactionPiece:
    """Return a part of a transaction that does not have both its first entry and its end."""
    begins, ended = rng.choice([(False, False), (False, True), (True, False)])
    count = rng.randint(1, 3)
    outcome = rng.choice(
        [TransactionOutcome.UNFINISHED, TransactionOutcome.UNFINISHED, TransactionOutcome.PREPARED]
    )
    if ended:
        outcome = rng.choice([TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED])
    transaction = Transaction(
        rng.choice([1, 2, 3, -4, -5]),
        first_lsn,
        first_lsn + rng.randrange(90),
        count,
        count * rng.randint(20, 90),
        rng.choice([0, 0, count, rng.randint(0, count)]),
        set(rng.sample(range(3, 9), rng.randint(0, 3))),
        outcome,
        rng.randrange(10**9) if ended else None,
    )
    return TransactionPiece(begins, transaction)


ENDS = {TransactionOutcome.COMMITTED: COMMIT_NO, TransactionOutcome.ABORTED: ABORT_NO}


def as_segment(piece: TransactionPiece, index: int) -> tuple[Any, ...]:
    """Return the row that an executor stages for the piece."""
    each = piece.transaction
    return (
        *(1, index, 0, each.txn_id, ordered(each.first_lsn), ordered(each.last_lsn)),
        *(each.entries, each.size, each.invisible, piece.begins, ENDS.get(each.outcome, 0)),
        *(each.end_ms, each.outcome is TransactionOutcome.PREPARED, sorted(each.databases)),
    )


@pytest.mark.parametrize("seed", range(6))
def test_parts_are_joined_as_summary_joins_them(
    audit_session: Any, tmp_path: Path, seed: int
) -> None:
    """Ids recur, ends lack a beginning, and rollbacks occur, in random mixtures."""
    rng = random.Random(seed)
    rollbacks = [
        Rollback(rng.randrange(FILES) << 32 | 5000, rng.randrange(FILES) << 32, frozenset({1, -4}))
        for _ in range(2)
    ]
    first_active_lsn = rng.choice([None, rng.randrange(FILES) << 32 | 900])
    truth = Transactions(MOST)
    segments = []
    for index in range(FILES):
        pieces = [random_piece(rng, index << 32 | at) for at in range(100, 2000, 100)]
        segments += [as_segment(piece, index) for piece in pieces]
        truth.add(TransactionPart(tuple(pieces), (), (0, 0), (), None))
    truth.add(TransactionPart((), (), (0, 0), tuple(rollbacks), first_active_lsn))
    rng.shuffle(segments)
    fact = fact_row(1, {"env": "e"}, first_active_lsn, rollbacks)
    found = [
        (
            *(row.txn_id, row.begin_lsn, row.end_lsn, row.outcome, row.entry_count, row.size),
            *(row.databases, row.end_ms),
        )
        for row in joined(audit_session, tmp_path, segments, fact)
    ]
    expected = [
        (
            *(each.txn_id, each.first_lsn, each.last_lsn, each.outcome.value, each.entries),
            *(each.size, sorted(each.databases), each.end_ms),
        )
        for each in truth.largest()
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert len({row[3] for row in found}) >= 4
