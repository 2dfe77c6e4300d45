"""Transactions and records, with their keys, that nodes would roll back to follow a leader.

Records can be millions, so they are written as they are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from msgspec import Struct

from je_tools.core.escaping import clean_text, printable, safe_cell
from je_tools.formats.je.types import type_name
from je_tools.formats.rows import Buffer, Cell, Form, lines_of, words
from je_tools.output.encoders.json_cells import bytes_form
from je_tools.output.views import sections as s
from je_tools.output.views.section_formats import Report
from je_tools.output.views.section_tables import write_table
from je_tools.output.views.vlsn_comparison import comparison_row, comparison_sections
from je_tools.vlsn.lost_records import RecordCounts
from je_tools.vlsn.sync_points import ABSENT

if TYPE_CHECKING:
    import pyarrow as pa

    from je_tools.core.masking import Masking
    from je_tools.formats.files.source import Bytes
    from je_tools.vlsn.compare import ComparedNode, GroupComparison
    from je_tools.vlsn.lost_records import LostRecords

SHOWN = 20
"""Largest number of rows of each kind in tables for people."""

_AT_ONCE = 10_000

_TXN = (
    s.Column("node", "node", s.Kind.TEXT),
    s.Column("txn_id", "transaction", s.Kind.ID),
    s.Column("end", "end", s.Kind.TEXT),
    s.Column("record_count", "records"),
    s.Column("end_vlsn", "VLSN", s.Kind.ID),
    s.Column("time_ms", "time (UTC)", s.Kind.TIME, rank=1),
)
_DATABASE = (
    s.Column("node", "node", s.Kind.TEXT),
    s.Column("txn_id", "transaction", s.Kind.ID),
    s.Column("db_id", "db id", s.Kind.ID, rank=1),
    s.Column("db", "database", s.Kind.TEXT),
    s.Column("record_count", "records"),
)
_KEY = (
    s.Column("node", "node", s.Kind.TEXT, rank=1),
    s.Column("txn_id", "transaction", s.Kind.ID),
    s.Column("db_id", "db id", s.Kind.ID, rank=3),
    s.Column("db", "database", s.Kind.TEXT),
    s.Column("type", "type", s.Kind.TEXT, rank=2),
    s.Column("key", "key", s.Kind.KEY),
    s.Column("vlsn", "VLSN", s.Kind.ID, rank=1),
    s.Column("lsn", "LSN", s.Kind.LSN, rank=3),
)


class _Batch(Struct, frozen=True):
    """Some records that a node would roll back."""

    node: ComparedNode
    records: LostRecords

    def db_names(self) -> tuple[list[str | None], Any]:
        """Return names of databases, and the index of the name of each record."""
        ids, places = np.unique(self.records.db_id, return_inverse=True)
        return [_db_name(self.node, db_id) for db_id in ids.tolist()], places


def _db_name(node: ComparedNode, db_id: int) -> str | None:
    return None if node.records is None else node.records.name_of(db_id)


def write_comparison(
    comparison: GroupComparison, form: str, masking: Masking, out: BinaryIO, width: int | None
) -> None:
    """Write a comparison; CSV and Parquet have only the records that nodes would roll back.

    Args:
        comparison: the comparison.
        form: the format.
        masking: masking of keys.
        out: the output.
        width: characters in a line of `table`; None for no limit.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    if form == "table":
        write_table(_tables(comparison, masking), out, width)
    elif form in ("json", "jsonl"):
        _report(comparison).write(form, out)
        if form == "jsonl":
            _write_lines(comparison, masking, out, is_json=True)
    elif form == "csv":
        out.write((",".join(column.name for column in _KEY) + "\n").encode())
        _write_lines(comparison, masking, out, is_json=False)
    else:
        _write_parquet(comparison, masking, out)


def _report(comparison: GroupComparison) -> Report:
    """Return a comparison as a report; the lists are read when they are written."""
    lists = {
        "transactions": _objects(_txn_rows(comparison), _TXN),
        "databases": _objects(_database_rows(comparison), _DATABASE),
    }
    sections = comparison_sections(comparison)
    return Report(comparison_row(comparison), "comparison", {}, sections, lists)


def _objects(
    rows: Iterator[list[s.Cell]], columns: tuple[s.Column, ...]
) -> Iterator[dict[str, s.Cell]]:
    while chunk := list(islice(rows, _AT_ONCE)):
        yield from s.row_values(s.Section("", "", columns, chunk))


def _tables(comparison: GroupComparison, masking: Masking) -> list[s.Section]:
    """Return tables for people, with the first rows of what nodes would roll back."""
    losing = comparison.losing()
    txn_count = sum(len(pair.lost.txns) for pair in losing if pair.lost is not None)
    record_count = sum(pair.lost.record_count for pair in losing if pair.lost is not None)
    parts = [
        ("transactions", "Transactions rolled back", _TXN, _txn_rows(comparison), txn_count),
        ("databases", "Records rolled back", _DATABASE, _database_rows(comparison), None),
        ("keys", "Keys rolled back", _KEY, _key_rows(comparison, masking), record_count),
    ]
    tables = comparison_sections(comparison)
    for name, title, columns, rows, count in parts:
        shown = list(islice(rows, SHOWN + (count is None)))
        if count is not None and count > len(shown):
            title = f"{title}: the first {len(shown)} of {count:,}"
        elif len(shown) > SHOWN:
            title = f"{title}: the first {SHOWN} rows"
        if shown:
            tables.append(s.Section(name, title, columns, shown[:SHOWN]))
    return tables


def _txn_rows(comparison: GroupComparison) -> Iterator[list[s.Cell]]:
    for pair in comparison.losing():
        assert pair.lost is not None
        name, txns = comparison.nodes[pair.node].name, pair.lost.txns
        for row in range(len(txns)):
            end = int(txns.end_type[row])
            yield [
                name,
                int(txns.txn_id[row]),
                type_name(end).lower() if end else "open",
                int(txns.record_count[row]),
                *(
                    None if column[row] == ABSENT else int(column[row])
                    for column in (txns.end_vlsn, txns.time_ms)
                ),
            ]


def _batches(comparison: GroupComparison) -> Iterator[_Batch]:
    for pair in comparison.losing():
        if pair.matchpoint.vlsn is not None:
            node = comparison.nodes[pair.node]
            for records in node.lost_records(pair.matchpoint.vlsn):
                yield _Batch(node, records)


def _database_rows(comparison: GroupComparison) -> Iterator[list[s.Cell]]:
    for pair in comparison.losing():
        node, counts = comparison.nodes[pair.node], RecordCounts.none()
        for records in node.lost_records(pair.matchpoint.vlsn or 0):
            counts = counts.plus(records)
        columns = (counts.txn_id, counts.db_id, counts.count)
        for txn_id, db_id, count in zip(*(each.tolist() for each in columns), strict=True):
            yield [node.name, txn_id, db_id, _db_name(node, db_id), count]


def _key_rows(comparison: GroupComparison, masking: Masking) -> Iterator[list[s.Cell]]:
    """Yield the rows of keys one by one, for the first ones."""
    for batch in _batches(comparison):
        records = batch.records
        for row in range(len(records)):
            key, db_id = records.key[row], int(records.db_id[row])
            yield [
                batch.node.name,
                int(records.txn_id[row]),
                db_id,
                _db_name(batch.node, db_id),
                type_name(int(records.type[row])),
                None if key is None else masking.key_text(key),
                int(records.vlsn[row]),
                int(records.lsn[row]),
            ]


def _write_lines(
    comparison: GroupComparison, masking: Masking, out: BinaryIO, *, is_json: bool
) -> None:
    buffer = Buffer()
    for batch in _batches(comparison):
        lines = _json_lines if is_json else _csv_lines
        if len(batch.records):
            out.write(lines(batch, masking, buffer).data)


def _json_lines(batch: _Batch, masking: Masking, buffer: Buffer) -> Bytes:
    records, (names, places) = batch.records, batch.db_names()
    node = json.dumps({"section": "keys", "node": clean_text(batch.node.name)})[:-1]
    dbs = [json.dumps(None if name is None else clean_text(name)).encode() for name in names]
    return lines_of(
        [
            Cell(Form.DECIMAL, records.txn_id, f'{node}, "txn_id": '.encode()),
            Cell(Form.DECIMAL, records.db_id, b', "db_id": '),
            Cell(Form.TEXT, words(dbs, places), b', "db": '),
            Cell(Form.TEXT, words(_TYPES, records.type), b', "type": "', b'"'),
            Cell(
                bytes_form(masking),
                masking.column(records.key),
                b', "key": "',
                b'"',
                b', "key": null',
            ),
            Cell(Form.DECIMAL, records.vlsn, b', "vlsn": '),
            Cell(Form.LSN, records.lsn, b', "lsn": "', b'"}\n'),
        ],
        buffer,
    )


def _csv_lines(batch: _Batch, masking: Masking, buffer: Buffer) -> Bytes:
    records, (names, places) = batch.records, batch.db_names()
    dbs = [b"" if name is None else _quoted(name) for name in names]
    return lines_of(
        [
            Cell(Form.DECIMAL, records.txn_id, _quoted(batch.node.name) + b","),
            Cell(Form.DECIMAL, records.db_id, b","),
            Cell(Form.TEXT, words(dbs, places), b","),
            Cell(Form.TEXT, words(_TYPES, records.type), b","),
            Cell(bytes_form(masking), masking.column(records.key), b",", b"", b","),
            Cell(Form.DECIMAL, records.vlsn, b","),
            Cell(Form.LSN, records.lsn, b",", b"\n"),
        ],
        buffer,
    )


def _quoted(text: str) -> bytes:
    cell = safe_cell(text).replace('"', '""')
    return f'"{cell}"'.encode()


_TYPES: list[bytes | None] = [type_name(number).encode() for number in range(256)]


def _write_parquet(comparison: GroupComparison, masking: Masking, out: BinaryIO) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = pa.dictionary(pa.int32(), pa.string())
    kinds = {s.Kind.ID: pa.int64(), s.Kind.LSN: pa.uint64(), s.Kind.KEY: pa.string()}
    schema = pa.schema([(column.name, kinds.get(column.kind, text)) for column in _KEY])
    with pq.ParquetWriter(out, schema) as writer:
        for batch in _batches(comparison):
            columns = _arrow_columns(batch, masking)
            writer.write_batch(pa.record_batch(columns, schema=schema))


def _arrow_columns(batch: _Batch, masking: Masking) -> list[pa.Array]:
    import pyarrow as pa

    from je_tools.output.encoders.arrow_texts import data_texts

    records, (names, places) = batch.records, batch.db_names()
    key = records.key

    def chosen(texts: Iterable[str | None], choice: Any) -> pa.Array:
        known = [None if text is None else printable(text) for text in texts]
        return pa.DictionaryArray.from_arrays(
            pa.array(choice.astype(np.int32)), pa.array(known, pa.string())
        )

    return [
        chosen([batch.node.name], np.zeros(len(records), np.int32)),
        pa.array(records.txn_id),
        pa.array(records.db_id),
        chosen(names, places),
        chosen(map(type_name, range(256)), records.type),
        data_texts(key.data, key.starts, key.sizes, masking),
        pa.array(records.vlsn),
        pa.array(records.lsn.astype(np.uint64)),
    ]
