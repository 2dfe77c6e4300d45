"""Totals of a log as tables: columns and rows of each section of a summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats.je.log.tally import COUNT, DATA, KEY, MAX, MIN, PROVISIONAL, TOTAL
from je_tools.formats.je.types import Group, type_name
from je_tools.output.views.sections import Cell, Column, Kind, Section, section_of
from je_tools.summary.run import (
    BYTES,
    DATA_BYTES,
    ENTRIES,
    IN_BYTES,
    INS,
    KEY_BYTES,
    LN_BYTES,
    LNS,
    NO_DATABASE,
    FileTotals,
    Summary,
    types_of,
)

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.log.transactions import Transaction, Transactions

GROUPS = (Group.LN, Group.IN, Group.TXN, Group.CKPT)
"""Groups that have no type in common; types in none of them are summed up as `other`."""

_OTHER = "other"

_TYPE_COLUMNS = (
    Column("name", "TYPE", Kind.TEXT),
    Column("count", "COUNT"),
    Column("provisional_count", "PROVISIONAL", rank=5),
    Column("total_bytes", "BYTES"),
    Column("min_bytes", "MIN", rank=3),
    Column("max_bytes", "MAX", rank=3),
    Column("avg_bytes", "AVG", rank=2),
    Column("share_percent", "% OF LOG", Kind.PERCENT, rank=1),
)


def type_sections(summary: Summary) -> list[Section]:
    """Return entries by type and by group, the sizes of keys and values, and the total."""
    types = summary.tally.types
    present = np.flatnonzero(types[:, COUNT]).tolist()
    rows = [_type_row(type_name(no), types[no], summary.size) for no in present]
    groups = {group.value: types_of(group) for group in GROUPS}
    groups[_OTHER] = ~np.logical_or.reduce(list(groups.values()))
    sums = [
        _type_row(name, _summed(types[mask]), summary.size)
        for name, mask in groups.items()
        if types[mask, COUNT].any()
    ]
    sizes = [
        (*row[:2], None, *row[3:])
        for row in (
            _type_row(name, summary.tally.sizes[line], summary.size)
            for name, line in (("key bytes", KEY), ("data bytes", DATA))
        )
    ]
    total = _type_row("total", _summed(types), summary.size)
    return [
        Section("type", "", _TYPE_COLUMNS, rows),
        Section("group", "Groups", _TYPE_COLUMNS, sums),
        Section("size", "Keys and values of user records", _TYPE_COLUMNS, sizes),
        Section("total", "Whole log", _TYPE_COLUMNS, [total]),
    ]


def _summed(lines: Ints) -> Ints:
    summed: Ints = lines.sum(axis=0)
    summed[MIN], summed[MAX] = lines[:, MIN].min(), lines[:, MAX].max()
    return summed


def _type_row(name: str, line: Ints, whole: int) -> tuple[Cell, ...]:
    count, total, smallest, largest = line[[COUNT, TOTAL, MIN, MAX]].tolist()
    return (
        name,
        count,
        int(line[PROVISIONAL]),
        total,
        smallest if count else None,
        largest if count else None,
        total // count if count else None,
        _percent(total, whole),
    )


def _percent(part: int, whole: int) -> float:
    return part * 100 / whole if whole else 0.0


_FILE_COLUMNS = (
    Column("file_no", "FILE", Kind.FILE),
    Column("version", "VERSION", Kind.ID, rank=3),
    Column("size", "SIZE", rank=5),
    Column("entries", "ENTRIES"),
    Column("total_bytes", "BYTES"),
    Column("ln_count", "LN", rank=2),
    Column("ln_bytes", "LN BYTES", rank=1),
    Column("in_count", "IN", rank=2),
    Column("in_bytes", "IN BYTES", rank=1),
    Column("other_count", "OTHER", rank=4),
    Column("other_bytes", "OTHER BYTES", rank=4),
    Column("first_lsn", "FIRST LSN", Kind.LSN, rank=6),
    Column("last_lsn", "LAST LSN", Kind.LSN, rank=6),
)


def file_section(summary: Summary) -> Section:
    """Return entries by file."""
    return Section("file", "Files", _FILE_COLUMNS, [_file_row(file) for file in summary.files])


def _file_row(file: FileTotals) -> tuple[Cell, ...]:
    types = file.tally.types
    lns, ins = types_of(Group.LN), types_of(Group.IN)
    masks = (np.ones(256, np.bool_), lns, ins, ~(lns | ins))
    totals = [int(types[mask, column].sum()) for mask in masks for column in (COUNT, TOTAL)]
    named = file.file
    return (
        named.file_no, named.version, named.size, *totals, file.first_lsn, file.last_lsn
    )  # fmt: skip


_DATABASE_COLUMNS = (
    Column("db_id", "DB", Kind.ID),
    Column("db", "NAME", Kind.TEXT),
    Column("entries", "ENTRIES"),
    Column("total_bytes", "BYTES"),
    Column("share_percent", "% OF LOG", Kind.PERCENT, rank=1),
    Column("ln_count", "LN", rank=3),
    Column("ln_bytes", "LN BYTES", rank=2),
    Column("in_count", "IN", rank=3),
    Column("in_bytes", "IN BYTES", rank=2),
    Column("key_bytes", "KEY BYTES", rank=4),
    Column("data_bytes", "DATA BYTES", rank=4),
)


def database_section(summary: Summary) -> Section:
    """Return entries by database, the largest first; those without a database last."""
    known = [item for item in summary.databases.items() if item[0] is not NO_DATABASE]
    known.sort(key=lambda item: (-int(item[1][BYTES]), item[0] or 0))
    none = summary.databases.get(NO_DATABASE)
    lines = [*known, *([] if none is None else [(NO_DATABASE, none)])]
    rows: list[tuple[Cell, ...]] = [
        (
            db_id,
            None if db_id is None else summary.names.get(db_id),
            *line[[ENTRIES, BYTES]].tolist(),
            _percent(int(line[BYTES]), summary.size),
            *line[[LNS, LN_BYTES, INS, IN_BYTES, KEY_BYTES, DATA_BYTES]].tolist(),
        )
        for db_id, line in lines
    ]
    return Section("database", "Databases (-: entries without a database)", _DATABASE_COLUMNS, rows)


_VLSN_COLUMNS = (
    Column("file_no", "FILE", Kind.FILE, cell=lambda file: file.file.file_no),
    Column("replicated_count", "REPLICATED", cell=lambda file: file.vlsns.count),
    Column("first_vlsn", "FIRST VLSN", cell=lambda file: file.vlsns.first),
    Column("last_vlsn", "LAST VLSN", cell=lambda file: file.vlsns.last),
)


def vlsn_section(summary: Summary) -> Section:
    """Return replicated entries of each file, with the first and the last VLSN."""
    return section_of("vlsn", "VLSNs", _VLSN_COLUMNS, summary.files)


_CHECKPOINT_COLUMNS = (
    Column("ln_txn", "LN TXN", rank=5),
    Column("ln", "LN", rank=5),
    Column("map_ln_txn", "MAPLN TXN", rank=8),
    Column("map_ln", "MAPLN", rank=8),
    Column("total_bytes", "BYTES", rank=4, cell=lambda interval: interval.size),
    Column("end_to_end", "END TO END", rank=6),
    Column("end_to_start", "END TO START", rank=6),
    Column("start_to_end", "START TO END", rank=6),
    Column("max_ln_replay", "MAX LN REPLAY"),
    Column("start_lsn", "START LSN", Kind.LSN, rank=3),
    Column("end_lsn", "END LSN", Kind.LSN),
    Column("complete", "COMPLETE", Kind.TEXT, 7, lambda each: "yes" if each.complete else "no"),
    Column("start_ms", "STARTED", Kind.TIME, rank=9),
    Column("end_ms", "ENDED", Kind.TIME, rank=10),
    Column("duration_ms", "DURATION", Kind.DURATION, rank=2),
    Column("invoker", "INVOKER", Kind.TEXT, rank=1),
)


def checkpoint_section(summary: Summary) -> Section:
    """Return checkpoint intervals; the last ends with the log."""
    columns = _CHECKPOINT_COLUMNS
    return section_of("checkpoint", "Checkpoint intervals", columns, summary.intervals)


_OUTCOME_COLUMNS = (Column("outcome", "TRANSACTIONS", Kind.TEXT), Column("count", "COUNT"))


def transaction_sections(transactions: Transactions, names: dict[int, str]) -> list[Section]:
    """Return numbers of transactions by outcome, those without an end, and the largest."""
    without_end = transactions.without_end()
    counts = {"committed": transactions.committed, "aborted": transactions.aborted}
    for transaction in without_end:
        outcome = transaction.outcome.value
        counts[outcome] = counts.get(outcome, 0) + 1
    columns = _transaction_columns(names)
    title = "Transactions without Commit or Abort"
    return [
        Section("transactions", "", _OUTCOME_COLUMNS, list(counts.items())),
        section_of("without-end", title, columns, without_end),
        section_of("largest", "Largest transactions", columns, transactions.largest()),
    ]


def _transaction_columns(names: Mapping[int, str]) -> tuple[Column, ...]:
    """Return the columns of transactions, given the names of their databases."""

    def databases(transaction: Transaction) -> Cell:
        return [names.get(db_id, str(db_id)) for db_id in sorted(transaction.databases)]

    return (
        Column("txn_id", "TXN", Kind.ID),
        Column("outcome", "OUTCOME", Kind.TEXT, cell=lambda each: each.outcome.value),
        Column("first_lsn", "FIRST LSN", Kind.LSN, rank=1),
        Column("last_lsn", "LAST LSN", Kind.LSN, rank=4),
        Column("entries", "ENTRIES"),
        Column("total_bytes", "BYTES", cell=lambda each: each.size),
        Column("invisible_count", "INVISIBLE", rank=6, cell=lambda each: each.invisible),
        Column("databases", "DATABASES", Kind.TEXTS, rank=2, cell=databases),
        Column("end_ms", "ENDED", Kind.TIME, rank=5),
    )
