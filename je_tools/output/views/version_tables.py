"""Versions of the records of a key, in every format."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.types import ENTRY_TYPES
from je_tools.formats.rows import Cell, Form, lines_of, words
from je_tools.log.entry_table import NO_TIME
from je_tools.log.records import NO_VLSN
from je_tools.output.encoders.json_cells import bytes_form
from je_tools.output.views.key_tables import masked_hex, shown_key, shown_value
from je_tools.output.views.section_formats import write_parquet
from je_tools.output.views.section_tables import write_long_table
from je_tools.output.views.sections import Cell as SectionCell
from je_tools.output.views.sections import Column, Kind, Section, section_of, unless
from je_tools.records.versions import STATES

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.rows import Text
    from je_tools.records.history import KeyHistory
    from je_tools.records.versions import Version, VersionBatch

_PARQUET_ROWS = 1 << 15
"""Fewest rows of a row group, except of the last."""

_NAMES = ("lsn", "type", "time_ms", "txn_id", "vlsn", "state", "current", "key", "data")
_TYPE_NAMES = [ENTRY_TYPES[no].name.encode() if no in ENTRY_TYPES else None for no in range(256)]
_STATE_NAMES = [state.value.encode() for state in STATES]


def write_history(
    history: KeyHistory, masking: Masking, form: str, out: BinaryIO, width: int | None
) -> None:
    """Write the versions of a key, batch by batch.

    Args:
        history: the versions.
        masking: masking of keys and data.
        form: `table`, `jsonl`, `csv` or `parquet`.
        out: the output.
        width: characters in a line of `table`; None for no limit.

    Raises:
        StoppedError: a file of the log has changed.
        RefusedError: a temporary file cannot be read.
    """
    if form == "table":
        if len(history):
            to_section = partial(version_section, masking=masking, for_people=True)
            write_long_table(lambda: map(to_section, history.batches()), out, width)
    elif form == "parquet":
        write_parquet(_row_groups(history, masking), out)
    else:
        if form == "csv":
            out.write(",".join(_NAMES).encode() + b"\n")
        for batch in history.batches():
            out.write(_lines(batch, masking, is_json=form == "jsonl").data)


def _row_groups(history: KeyHistory, masking: Masking) -> Iterator[Section]:
    """Yield the versions in sections of _PARQUET_ROWS rows or more; the last may have fewer."""
    columns = _columns(masking, for_people=False)
    rows: list[list[SectionCell]] = []
    is_first = True
    for batch in history.batches():
        rows += [[column.cell_of(each) for column in columns] for each in batch.versions()]
        if len(rows) >= _PARQUET_ROWS:
            yield Section("", "", columns, rows)
            rows, is_first = [], False
    if rows or is_first:
        yield Section("", "", columns, rows)


def version_section(batch: VersionBatch, masking: Masking, *, for_people: bool) -> Section:
    """Return a table with a row for each version; bytes are hexadecimal unless `for_people`."""
    return section_of("", "", _columns(masking, for_people=for_people), batch.versions())


def _columns(masking: Masking, *, for_people: bool) -> tuple[Column, ...]:
    key = partial(shown_key if for_people else masked_hex, masking)
    value = partial(shown_value if for_people else masked_hex, masking)
    return (
        Column("lsn", "LSN", Kind.LSN, cell=lambda each: unless(each.lsn, NULL_LSN)),
        Column("type", "type", Kind.TEXT, rank=5),
        Column("time_ms", "time (UTC)", Kind.TIME, rank=2),
        Column("txn_id", "transaction", Kind.ID, rank=3, cell=lambda each: each.txn_id or None),
        Column("vlsn", "VLSN", Kind.ID, rank=4, cell=lambda each: unless(each.vlsn, NO_VLSN)),
        Column("state", "state", Kind.TEXT),
        Column("current", "current", Kind.TEXT, cell=_current),
        Column("key", "key", Kind.KEY, rank=1, cell=lambda each: key(each.key)),
        Column("data", "data", Kind.DATA, cell=lambda each: value(each.data)),
    )


def _current(version: Version) -> str:
    return "yes" if version.is_current else "no"


def _lines(batch: VersionBatch, masking: Masking, *, is_json: bool) -> Bytes:
    """Return a line for each version, as `sections.write_jsonl` and `write_csv` write them."""
    key_form = bytes_form(masking)
    types = words(_TYPE_NAMES, batch.type)
    states = words(_STATE_NAMES, batch.state)
    current = words([b"no", b"yes"], batch.is_current.astype(np.int64))
    # No value needs quotes or escapes: they are numbers, hexadecimal, names of ours and digests.
    columns: list[tuple[str, Form, Text | Ints, Mask | None]] = [
        ("lsn", Form.LSN, batch.lsn, batch.lsn != NULL_LSN),
        ("type", Form.TEXT, types, None),
        ("time_ms", Form.DECIMAL, batch.time_ms, batch.time_ms != NO_TIME),
        ("txn_id", Form.DECIMAL, batch.txn_id, batch.txn_id != 0),
        ("vlsn", Form.DECIMAL, batch.vlsn, batch.vlsn != NO_VLSN),
        ("state", Form.TEXT, states, None),
        ("current", Form.TEXT, current, None),
        ("key", key_form, masking.column(batch.key), None),
        ("data", key_form, masking.column(batch.data), None),
    ]
    cells = []
    for i, (name, form, values, valid) in enumerate(columns):
        end = "" if i + 1 < len(columns) else "}\n" if is_json else "\n"
        if is_json:
            front = f'{", " if i else "{"}"{name}": '
            quote = "" if form is Form.DECIMAL else '"'
            parts = (front + quote, quote + end, front + "null" + end)
        else:
            front = "," if i else ""
            parts = (front, end, front + end)
        before, after, instead = (part.encode() for part in parts)
        cells.append(Cell(form, values, before, after, instead, valid))
    return lines_of(cells)
