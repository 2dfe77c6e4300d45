"""Records as lines: the text that DbLoad reads, JSON lines, CSV."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.core.escaping import clean_text, safe_cell
from je_tools.core.masking import DataMode, Masking
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.rows import Buffer, Cell, Form, Text, lines_of, text_of_ours, words
from je_tools.formats.spans import Spans
from je_tools.log.records import NO_TIME, NO_VLSN, Records
from je_tools.output.encoders.json_cells import bytes_form

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.files.source import Bytes

Typed = Callable[[Records], list[str | None]]
"""Encoder of internal database records: a JSON object in ASCII, or None, for each."""

TIMES = ("modified_ms", "created_ms", "expires_ms")
RECORD_COLUMNS = ("db", "key", "data", *TIMES, "tombstone", "vlsn", "lsn")
"""Fields of a record, in the order of the columns of CSV and Parquet."""

_DUMP_HEADER = "VERSION=3\nformat={form}\ntype=btree\ndupsort={dupsort}\nHEADER=END\n"
"""Source: DbDump.printHeader, 18.3.12; equal to its output in every byte."""
_DUMP_FOOTER = b"DATA=END\n"


class OutputDatabase(Struct, frozen=True):
    """A database to be written.

    Attributes:
        name: name in the log, with bytes that are not UTF-8 as surrogates; None if unknown.
        db_id: its id.
        has_duplicates: True if a key can have several records.
        typed: encoder of its records for JSON lines; None if only applications can decode them.
    """

    name: str | None
    db_id: int
    has_duplicates: bool
    typed: Typed | None = None

    @property
    def shown(self) -> str:
        """Its name, or `id-N`, as valid text."""
        return f"id-{self.db_id}" if self.name is None else clean_text(self.name)


class MarkColumn(Struct, frozen=True):
    """A column in addition to RECORD_COLUMNS, with few distinct values.

    Attributes:
        name: name of the column.
        labels: plain words for the numbers.
        of: function that returns the number of each record, uint8.
    """

    name: str
    labels: tuple[str, ...]
    of: Callable[[Records], npt.NDArray[np.uint8]]

    def cell(self, records: Records, before: str, after: str) -> Cell:
        """Return the labels as a cell."""
        labels = words([label.encode() for label in self.labels], self.of(records))
        return Cell(Form.TEXT, labels, before.encode(), after.encode())


class LineForm(Struct, frozen=True):
    """An output format that consists of lines.

    Attributes:
        suffix: suffix of a file name.
        start: text before the records of the first database.
        lines: encoder of records to lines, in a buffer.
        end: text after all records.
        is_single: True if a file can hold only one database.
        wants_data: True if records with unknown data are left out.
    """

    suffix: str
    start: Callable[[OutputDatabase], bytes]
    lines: Callable[[OutputDatabase, Records, Buffer], Bytes]
    end: bytes = b""
    is_single: bool = False
    wants_data: bool = False


def dump_form(masking: Masking, *, is_print: bool) -> LineForm:
    """Return the format of the engine's DbDump; its DbLoad reads it, and refuses it if masked.

    Args:
        masking: masking of keys and data: its text as bytes, nothing if hidden.
        is_print: visible characters as they are, as `-p`; else hexadecimal throughout.
    """
    lines = partial(_dump_lines, masking, Form.PRINT if is_print else Form.HEX)
    # Masked text is no database any more; DbLoad refuses a format of this name.
    is_shown = masking.mode is DataMode.SHOW
    form = "print" if is_print else "bytevalue"
    start = partial(_dump_header, form if is_shown else f"masked-{masking.mode.value}")
    return LineForm(".dump", start, lines, _DUMP_FOOTER, is_single=True, wants_data=True)


def jsonl_form(masking: Masking, marks: MarkColumn | None = None) -> LineForm:
    """Return the format with a JSON object for each record; absent fields are left out."""
    return LineForm(".jsonl", lambda _: b"", partial(_json_lines, masking, marks))


def csv_form(masking: Masking, marks: MarkColumn | None = None) -> LineForm:
    """Return the format with columns RECORD_COLUMNS after a header; absent fields are empty."""
    names = [*RECORD_COLUMNS, *([marks.name] if marks else [])]
    header = (",".join(names) + "\n").encode()
    return LineForm(".csv", lambda _: header, partial(_csv_lines, masking, marks))


def _objects(values: Sequence[str | None]) -> Text:
    """Return JSON objects as a column; they are written only if nothing is masked."""
    return text_of_ours(Spans.of([None if text is None else text.encode() for text in values]))


def optional_columns(records: Records) -> dict[str, tuple[Ints, Mask]]:
    """Return the numeric columns that a record may lack, each with a mask of present values."""
    columns = {name: getattr(records, name) for name in TIMES}
    found = {name: (numbers, numbers != NO_TIME) for name, numbers in columns.items()}
    found["vlsn"] = (records.vlsn, records.vlsn != NO_VLSN)
    found["lsn"] = (records.lsn, records.lsn != NULL_LSN)
    return found


def _dump_header(form: str, database: OutputDatabase) -> bytes:
    return _DUMP_HEADER.format(form=form, dupsort=int(database.has_duplicates)).encode()


def _dump_lines(
    masking: Masking, form: Form, database: OutputDatabase, records: Records, buffer: Buffer
) -> Bytes:
    columns = (masking.column(records.key), masking.column(records.data))
    cells = [Cell(form, values, b" ", b"\n", b" \n") for values in columns]
    return lines_of(cells, buffer)


def _json_lines(
    masking: Masking,
    marks: MarkColumn | None,
    database: OutputDatabase,
    records: Records,
    buffer: Buffer,
) -> Bytes:
    form = bytes_form(masking)
    key, data = masking.column(records.key), masking.column(records.data)
    front = f'{{"db":{json.dumps(database.shown)},"key":'.encode()
    cells = [
        Cell(form, key, front + b'"', b'"', front + b"null"),
        Cell(form, data, b',"data":"', b'"', b',"data":null'),
    ]
    columns = optional_columns(records)
    cells += [_number_cell(columns[name], f',"{name}":'.encode()) for name in TIMES]
    cells.append(_choice(records.tombstone, b',"tombstone":true', b""))
    cells.append(_number_cell(columns["vlsn"], b',"vlsn":'))
    lsn, has_lsn = columns["lsn"]
    # A typed object can contain keys of an application, so it is left out if keys are masked.
    typed = database.typed if masking.mode is DataMode.SHOW else None
    end = b"" if marks or typed else b"}\n"
    cells.append(Cell(Form.LSN, lsn, b',"lsn":"', b'"' + end, end, has_lsn))
    if marks:
        end = b"" if typed else b"}\n"
        cells.append(marks.cell(records, f',"{marks.name}":"', '"' + end.decode()))
    if typed is not None:
        objects = _objects(typed(records))
        cells.append(Cell(Form.TEXT, objects, b',"record":', b"}\n", b"}\n"))
    return lines_of(cells, buffer)


def _csv_lines(
    masking: Masking,
    marks: MarkColumn | None,
    database: OutputDatabase,
    records: Records,
    buffer: Buffer,
) -> Bytes:
    form = bytes_form(masking)
    name = safe_cell(database.shown).replace('"', '""')
    front = f'"{name}",'.encode()
    cells = [
        Cell(form, masking.column(records.key), front + b'"', b'",', front + b","),
        Cell(form, masking.column(records.data), b'"', b'",', b","),
    ]
    columns = optional_columns(records)
    cells += [_number_cell(columns[each], b"", b",", b",") for each in TIMES]
    cells.append(_choice(records.tombstone, b"true,", b"false,"))
    cells.append(_number_cell(columns["vlsn"], b"", b",", b","))
    lsn, has_lsn = columns["lsn"]
    end = b"," if marks else b"\n"
    cells.append(Cell(Form.LSN, lsn, b'"', b'"' + end, end, has_lsn))
    if marks:
        cells.append(marks.cell(records, '"', '"\n'))
    return lines_of(cells, buffer)


def _number_cell(
    column: tuple[Ints, Mask], before: bytes, after: bytes = b"", instead: bytes = b""
) -> Cell:
    numbers, valid = column
    return Cell(Form.DECIMAL, numbers, before, after, instead, valid)


def _choice(mask: Mask, yes: bytes, no: bytes) -> Cell:
    """Return one of two words for each row."""
    return Cell(Form.TEXT, words([no, yes], mask.astype(np.int64)))
