"""Formats of result tables, and the one place that writes them.

`je_tools.output.formats` has the names of the formats.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct

from je_tools.output.views import sections as s
from je_tools.output.views.section_tables import write_table

if TYPE_CHECKING:
    import pyarrow as pa


def write_sections(
    form: str, sections: Sequence[s.Section], out: BinaryIO, width: int | None
) -> None:
    """Write result tables in one of the formats of rows.

    CSV and Parquet have one kind of rows. Tables with different columns become one table with the
    columns of all, and the name of its table in each row, as `section`.

    Args:
        form: the format.
        sections: the tables; those for people if it is `table`.
        out: the output.
        width: characters in a line of `table`; None for no limit.
    """
    if form == "jsonl":
        s.write_jsonl(sections, out)
    elif form == "table":
        write_table(sections, out, width)
    else:
        write = s.write_csv if form == "csv" else write_parquet
        write(as_one_kind(sections), out)


class Report(Struct, frozen=True):
    """An answer that is one thing with its parts.

    Attributes:
        row: facts of the whole.
        name: `section` of `row` in JSON lines.
        parts: further single facts by name; None for one that does not apply.
        sections: its tables.
        lists: rows by name, after the tables.
    """

    row: Mapping[str, Any]
    name: str
    parts: Mapping[str, Mapping[str, Any] | None] = {}
    sections: Sequence[s.Section] = ()
    lists: Mapping[str, Iterable[Mapping[str, Any]]] = {}

    def document(self) -> dict[str, Any]:
        """Return the report as one object, with each table and list as a list in it."""
        lists = {name: list(rows) for name, rows in self.lists.items()}
        return {**self._facts(), **lists}

    def _facts(self) -> dict[str, Any]:
        tables = {section.name: list(s.row_values(section)) for section in self.sections}
        return {**self.row, **self.parts, **tables}

    def write_lines(self, out: BinaryIO) -> None:
        """Write the report as JSON lines, each with its `section`."""
        _write_line(self.name, self.row, out)
        for name, part in self.parts.items():
            if part is not None:
                _write_line(name, part, out)
        s.write_jsonl(self.sections, out)
        for name, rows in self.lists.items():
            for row in rows:
                _write_line(name, row, out)

    def write(self, form: str, out: BinaryIO) -> None:
        """Write the report as `json` or `jsonl`."""
        if form == "jsonl":
            self.write_lines(out)
            return
        _write_streamed(self._facts(), self.lists, out)


def write_document(document: Mapping[str, Any], out: BinaryIO) -> None:
    """Write an object as JSON for machines and people."""
    out.write(json.dumps(document, indent=2).encode() + b"\n")


def _write_streamed(
    document: Mapping[str, Any], lists: Mapping[str, Iterable[Mapping[str, Any]]], out: BinaryIO
) -> None:
    """Write the same as `write_document` for an object with lists, without keeping their rows."""
    pieces = (f"{json.dumps(name)}: {_indented(value)}" for name, value in document.items())
    border = "{\n  "
    for piece in pieces:
        out.write((border + piece).encode())
        border = ",\n  "
    for name, rows in lists.items():
        out.write(f"{border}{json.dumps(name)}: [".encode())
        border, row_border = ",\n  ", "\n    "
        for row in rows:
            out.write((row_border + _indented(row, depth=2)).encode())
            row_border = ",\n    "
        out.write(b"]" if row_border == "\n    " else b"\n  ]")
    out.write(b"{}\n" if border == "{\n  " else b"\n}\n")


def _indented(value: Any, depth: int = 1) -> str:
    """Return a value as JSON whose later lines are indented as deep as it lies."""
    return json.dumps(value, indent=2).replace("\n", "\n" + "  " * depth)


def _write_line(name: str, row: Mapping[str, Any], out: BinaryIO) -> None:
    out.write(json.dumps({"section": name, **row}).encode() + b"\n")


def as_one_kind(sections: Sequence[s.Section]) -> list[s.Section]:
    """Return sections that all have the same columns: those of all of them, in their order."""
    if len({section.columns for section in sections}) <= 1:
        return list(sections)
    columns = {column.name: column for section in sections for column in section.columns}
    every = tuple(columns.values())
    merged = []
    for section in sections:
        places = {column.name: i for i, column in enumerate(section.columns)}
        chosen = [places.get(name) for name in columns]
        rows = [[None if i is None else row[i] for i in chosen] for row in section.rows]
        merged.append(s.Section(section.name, section.title, every, rows))
    return merged


def write_parquet(sections: Iterable[s.Section], out: BinaryIO) -> None:
    """Write sections that have the same columns as one Parquet file, a row group each."""
    import pyarrow.parquet as pq

    writer = None
    for section in sections:
        table = _arrow_table(section)
        writer = writer or pq.ParquetWriter(out, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _arrow_table(section: s.Section) -> pa.Table:
    import pyarrow as pa

    arrays: dict[str, pa.Array] = {}
    if section.name:
        arrays["section"] = pa.array([section.name] * len(section.rows), pa.string())
    for i, column in enumerate(section.columns):
        arrays[column.name] = _array(column.kind, [row[i] for row in section.rows])
    return pa.table(arrays)


def _array(kind: s.Kind, cells: list[s.Cell]) -> pa.Array:
    """Return a column: LSNs are numbers, as in the Parquet of `dump`."""
    import pyarrow as pa

    types = {
        s.Kind.TEXT: pa.string(),
        s.Kind.KEY: pa.string(),
        s.Kind.DATA: pa.string(),
        s.Kind.PATH: pa.string(),
        s.Kind.COMMAND: pa.string(),
        s.Kind.TEXTS: pa.list_(pa.string()),
        s.Kind.CODES: pa.list_(pa.string()),
        s.Kind.LSN: pa.uint64(),
        s.Kind.PERCENT: pa.float64(),
        s.Kind.FLAG: pa.bool_(),
    }
    kind_type = types.get(kind, pa.int64())
    if pa.types.is_string(kind_type) or pa.types.is_list(kind_type):
        cells = [s.value_of(kind, cell) for cell in cells]
    return pa.array(cells, kind_type)
