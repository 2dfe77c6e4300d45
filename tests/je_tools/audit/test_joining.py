"""Joining transactions that file boundaries cut, in cases that no fixture has."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from je_tools.audit.joining import OpenTransactions
from je_tools.audit.tables import TXNS
from je_tools.audit.txn_sums import TxnSums
from je_tools.audit.whole_txns import ended_sums, split_segments, txn_rows
from je_tools.formats.je.types import ABORT_NO, COMMIT_NO
from je_tools.log.transactions import (
    Rollback,
    Segments,
    Transaction,
    TransactionOutcome,
    TransactionPart,
    TransactionPiece,
    Transactions,
)
from tests.je_tools.audit.auditing import ALL, Row, signed

NEGATIVE = 0x8000_0000
"""First file number whose LSNs are negative as int64."""

ENDS = {TransactionOutcome.COMMITTED: COMMIT_NO, TransactionOutcome.ABORTED: ABORT_NO}


def segments_of(pieces: list[TransactionPiece]) -> Segments:
    """Return the columns in which a scan gives the pieces."""
    found = [piece.transaction for piece in pieces]
    databases = [sorted(each.databases) for each in found]
    counts = [len(ids) for ids in databases]

    def ints(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(values, np.int64)

    return Segments(
        txn_id=ints([each.txn_id for each in found]),
        first_lsn=ints([signed(each.first_lsn) for each in found]),
        last_lsn=ints([signed(each.last_lsn) for each in found]),
        entries=ints([each.entries for each in found]),
        size=ints([each.size for each in found]),
        invisible=ints([each.invisible for each in found]),
        begins=np.array([piece.begins for piece in pieces], np.bool_),
        end_type=np.array([ENDS.get(each.outcome, 0) for each in found], np.uint8),
        end_ms=ints([each.end_ms or 0 for each in found]),
        prepared=np.array(
            [each.outcome is TransactionOutcome.PREPARED for each in found], np.bool_
        ),
        db_first=ints([0, *np.cumsum(counts).tolist()]),
        db_id=ints([db_id for ids in databases for db_id in ids]),
    )


def piece(
    txn_id: int,
    file_no: int,
    offset: int,
    *,
    begins: bool,
    invisible: int = 0,
    outcome: TransactionOutcome = TransactionOutcome.UNFINISHED,
) -> TransactionPiece:
    """Return a piece of two entries."""
    lsns = [file_no << 32 | at for at in (offset, offset + 50)]
    end_ms = 5 if outcome in ENDS else None
    found = Transaction(txn_id, lsns[0], lsns[1], 2, 100, invisible, {7}, outcome, end_ms)
    return TransactionPiece(begins, found)


def joined(*parts: list[TransactionPiece], **marks: object) -> list[Row]:
    opened = OpenTransactions([segments_of(part) for part in parts], **marks)  # type: ignore[arg-type]
    rows: list[Row] = opened.joined("e").to_pylist()
    return rows


def test_lsns_on_both_sides_of_the_sign() -> None:
    """File 0x80000000 comes after 0x7fffffff, although its LSNs are negative as int64."""
    low, high = NEGATIVE - 1, NEGATIVE
    rows = joined(
        [piece(1, low, 100, begins=True), piece(2, low, 900, begins=True)],
        [piece(1, high, 100, begins=False), piece(3, high, 900, begins=False)],
        # The checkpoint knows what began after firstActiveLsn, the start of the second file.
        first_active_lsn=high << 32,
        rollbacks=[Rollback(signed(high << 32 | 2000), low << 32 | 800, frozenset({2, 1}))],
    )
    places = [(row["txn_id"], row["begin_lsn"], row["end_lsn"], row["outcome"]) for row in rows]
    assert sorted(places) == [
        (1, low << 32 | 100, signed(high << 32 | 150), "undone"),
        (2, low << 32 | 900, low << 32 | 950, "rolled back"),
        (3, signed(high << 32 | 900), signed(high << 32 | 950), "unfinished"),
    ]


MATCHPOINT, ROLLED_BACK = 1 << 32 | 500, 2 << 32 | 800
OUTCOMES: dict[str, tuple[list[TransactionPiece], str]] = {
    "no end": ([piece(1, 3, 0, begins=True)], "unfinished"),
    "before firstActiveLsn": ([piece(1, 0, 0, begins=True)], "undone"),
    "at firstActiveLsn": ([piece(1, 0, 900, begins=True)], "unfinished"),
    "all invisible": ([piece(1, 0, 0, begins=True, invisible=2)], "rolled back"),
    "half invisible": ([piece(1, 3, 0, begins=True, invisible=1)], "unfinished"),
    "rolled back": ([piece(4, 1, 600, begins=True)], "rolled back"),
    "at the matchpoint": ([piece(4, 1, 500, begins=True)], "unfinished"),
    "up to the RollbackStart": ([piece(4, 2, 750, begins=True)], "unfinished"),
    "before the RollbackStart": ([piece(4, 2, 749, begins=True)], "rolled back"),
    "of another id": ([piece(5, 1, 600, begins=True)], "unfinished"),
    "prepared": ([piece(1, 0, 0, begins=True, outcome=TransactionOutcome.PREPARED)], "prepared"),
    "prepared, then more": (
        [
            piece(1, 3, 0, begins=True, outcome=TransactionOutcome.PREPARED),
            piece(1, 3, 200, begins=False),
        ],
        "prepared",
    ),
    "prepared, committed": (
        [
            piece(1, 3, 0, begins=True, outcome=TransactionOutcome.PREPARED),
            piece(1, 3, 200, begins=False, outcome=TransactionOutcome.COMMITTED),
        ],
        "committed",
    ),
    "end alone": (
        [piece(1, 3, 0, begins=False, outcome=TransactionOutcome.ABORTED)],
        "aborted",
    ),
    "rolled back, but committed": (
        [piece(4, 1, 600, begins=False, outcome=TransactionOutcome.COMMITTED)],
        "committed",
    ),
}


@pytest.mark.parametrize("case", OUTCOMES)
def test_outcomes(case: str) -> None:
    """They are those of `Transactions`, too."""
    pieces, outcome = OUTCOMES[case]
    rollback = Rollback(ROLLED_BACK, MATCHPOINT, frozenset({4}))
    (row,) = joined(pieces, rollbacks=[rollback], first_active_lsn=900)
    assert row["outcome"] == outcome
    truth = Transactions(ALL)
    truth.add(TransactionPart(tuple(pieces), (), (0, 0), (rollback,), 900))
    assert [each.outcome.value for each in truth.largest()] == [outcome]


def test_without_open_transactions() -> None:
    for opened in (OpenTransactions(), OpenTransactions([segments_of([])])):
        table = opened.joined("e")
        assert (table.num_rows, table.schema) == (0, TXNS.schema)


def test_joined_rows_have_the_schema_of_whole_ones() -> None:
    """Both are in files of the table txns, which readers must be able to concatenate."""
    whole = segments_of([piece(1, 1, 0, begins=True, outcome=TransactionOutcome.COMMITTED)])
    opened = OpenTransactions([segments_of([piece(2, 1, 0, begins=True)])])
    tables = [txn_rows(whole, "e"), opened.joined("e")]
    assert [table.schema for table in tables] == [TXNS.schema] * 2
    rows = pa.concat_tables(tables).to_pylist()
    assert [(row["txn_id"], row["outcome"]) for row in rows] == [
        (1, "committed"),
        (2, "unfinished"),
    ]
    assert list(rows[0].values()) == ["e", 1, 1 << 32, 1 << 32 | 50, "committed", 2, 100, [7], 5]


FILES = 6


def random_piece(rng: random.Random, first_lsn: int, *, whole: bool) -> TransactionPiece:
    """Return a part of a transaction; if `whole`, it may have its first entry and its end."""
    begins, ended = rng.choice(
        [(False, False), (False, True), (True, False), *([(True, True)] if whole else [])]
    )
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


def values(found: list[Row]) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values())[1:] for row in found), key=str)


@pytest.mark.parametrize("seed", range(60))
def test_parts_are_joined_as_summary_joins_them(seed: int) -> None:
    """Ids recur, ends lack a beginning, and rollbacks occur, in random mixtures."""
    rng = random.Random(seed)
    rollbacks = [
        Rollback(rng.randrange(FILES) << 32 | 5000, rng.randrange(FILES) << 32, frozenset({1, -4}))
        for _ in range(2)
    ]
    first_active_lsn = rng.choice([0, rng.randrange(FILES) << 32 | 900])
    truth, opened = Transactions(ALL), OpenTransactions([], rollbacks, first_active_lsn)
    found = []
    for index in range(FILES):
        pieces = [random_piece(rng, index << 32 | at, whole=True) for at in range(100, 2000, 100)]
        is_whole = [each.begins and each.transaction.outcome in ENDS for each in pieces]
        # A scan sorts by transaction; `split_segments` puts them in log order again.
        of_id = sorted(pieces, key=lambda each: each.transaction.txn_id)
        whole, others = split_segments(segments_of(of_id))
        found += txn_rows(whole, "e").to_pylist()
        opened.parts.append(others)
        truth.add(
            TransactionPart(
                tuple(each for each, is_it in zip(pieces, is_whole, strict=True) if not is_it),
                tuple(
                    each.transaction for each, is_it in zip(pieces, is_whole, strict=True) if is_it
                ),
                (0, 0),
                (),
                None,
            )
        )
    truth.add(TransactionPart((), (), (0, 0), tuple(rollbacks), first_active_lsn))
    expected = [
        {
            "env": "e",
            "txn_id": each.txn_id,
            "begin_lsn": each.first_lsn,
            "end_lsn": each.last_lsn,
            "outcome": each.outcome.value,
            "entry_count": each.entries,
            "size": each.size,
            "databases": sorted(each.databases),
            "end_ms": each.end_ms,
        }
        for each in truth.largest()
    ]
    found += opened.joined("e").to_pylist()
    assert values(found) == values(expected)
    assert len({row["outcome"] for row in found}) >= 4


# Sums


COUNTED = ("committed_count", "aborted_count", "unfinished_count")
EXPECTED = {
    "committed": (3, 0, 0),
    "aborted": (0, 3, 0),
    "unfinished": (0, 0, 3),
    "prepared": (0, 0, 3),
    "undone": (0, 0, 3),
    "rolled back": (0, 0, 0),
}


@pytest.mark.parametrize("outcome", TransactionOutcome)
def test_every_outcome_has_its_column_or_none(outcome: TransactionOutcome) -> None:
    row = {"env": "e", "outcome": outcome.value, "entry_count": 4, "size": 5}
    sums = TxnSums()
    sums.add_rows(pa.Table.from_pylist([row] * 3, TXNS.schema))
    assert tuple(sums.counts[name] for name in COUNTED) == EXPECTED[outcome.value]
    assert list(sums.rows("e")) == [("e", outcome.value, 3, 12, 15, None)]


def test_sums_of_whole_transactions_are_those_of_their_rows() -> None:
    rng = random.Random(2)
    pieces = [random_piece(rng, at, whole=True) for at in range(100, 9000, 100)]
    whole, _ = split_segments(segments_of(pieces))
    sums, expected = TxnSums(), TxnSums()
    half = len(whole.txn_id) // 2
    assert half > 5
    rows = txn_rows(whole, "e")
    expected.add_rows(rows)
    expected.add_rows(rows.slice(0, 0))
    sums.add(ended_sums(whole))
    assert sums.counts == expected.counts
    assert list(sums.rows("e")) == list(expected.rows("e"))
    assert {row[1] for row in sums.rows("e")} == {"committed", "aborted"}


ROWS = 200_000


def test_whole_transactions_are_handled_in_columns() -> None:
    """As Python objects these take 120 MB."""
    numbers = np.arange(ROWS, dtype=np.int64)
    is_open = numbers % 100 == 0
    segments = Segments(
        *(numbers for _ in range(6)),
        begins=np.ones(ROWS, np.bool_),
        end_type=np.where(is_open, 0, COMMIT_NO).astype(np.uint8),
        end_ms=numbers,
        prepared=np.zeros(ROWS, np.bool_),
        db_first=np.arange(ROWS + 1),
        db_id=numbers,
    )
    tracemalloc.start()
    whole, others = split_segments(segments)
    rows = txn_rows(whole, "e")
    table = OpenTransactions([others]).joined("e")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 45 << 20
    assert (rows.num_rows, table.num_rows) == (ROWS - is_open.sum(), is_open.sum())
