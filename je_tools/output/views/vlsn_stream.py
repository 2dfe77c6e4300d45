"""Entries of the replication stream as rows: text made from columns, or Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from je_tools.formats.rows import Buffer, Cell, Form, Text, lines_of, words
from je_tools.vlsn.stream_columns import (
    STATES,
    TYPES,
    pieces_of,
    stream_batch,
    stream_schema,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from je_tools.formats.arrays import Ints
    from je_tools.formats.files.source import Bytes
    from je_tools.vlsn.logged_stream import LoggedStream

_CSV_HEADER = b"vlsn,lsn,type,size,state\n"
_POWERS = np.array([10**digits for digits in range(1, 19)], np.int64)


def write_stream(form: str, stream: LoggedStream, rows: Ints, out: BinaryIO) -> None:
    """Write entries in one of the formats of rows.

    Args:
        form: the format.
        stream: the stream.
        rows: int64; the entries to write, in their order.
        out: the output.
    """
    if form == "parquet":
        _write_parquet(stream, rows, out)
        return
    if form == "table":
        _write_table(stream, rows, out)
        return
    if form == "csv":
        out.write(_CSV_HEADER)
    buffer = Buffer()
    for some in pieces_of(rows):
        out.write(_lines(stream, some, is_json=form == "jsonl", buffer=buffer).data)


def _lines(stream: LoggedStream, rows: Ints, *, is_json: bool, buffer: Buffer) -> Bytes:
    quote = b'"' if is_json else b""

    def before(name: str, quoted: bytes = b"") -> bytes:
        opening = b"{" if name == "vlsn" else b", "
        return opening + f'"{name}": '.encode() + quoted if is_json else b","

    return lines_of(
        [
            Cell(Form.DECIMAL, stream.vlsn[rows], before("vlsn") if is_json else b""),
            Cell(Form.LSN, stream.lsn[rows], before("lsn", quote), quote),
            Cell(Form.TEXT, _words(TYPES, stream.type[rows]), before("type", quote), quote),
            Cell(Form.DECIMAL, stream.size[rows].astype(np.int64), before("size")),
            Cell(
                Form.TEXT,
                _words(STATES, stream.state[rows]),
                before("state", quote),
                quote + (b"}\n" if is_json else b"\n"),
            ),
        ],
        buffer,
    )


def _words(texts: list[str], choice: npt.NDArray[np.uint8]) -> Text:
    return words([text.encode() for text in texts], choice)


def _write_table(stream: LoggedStream, rows: Ints, out: BinaryIO) -> None:
    """Write aligned columns for people; nothing but `none` without entries."""
    if not len(rows):
        out.write(b"none\n")
        return
    types = sorted({TYPES[number] for number in np.unique(stream.type[rows]).tolist()}, key=len)
    type_width = len(types[-1])
    state_width = max(len(STATES[state]) for state in np.unique(stream.state[rows]).tolist())
    state_width = max(state_width, len("state"))
    most = (int(stream.vlsn[rows].max()), int(stream.size[rows].max()))
    widths = [max(len(str(number)), 5) for number in most]
    head = ["VLSN".rjust(widths[0]), "state".ljust(state_width), "type".ljust(type_width)]
    out.write("  ".join([*head, "bytes".rjust(widths[1]), "LSN"]).encode() + b"\n")
    buffer = Buffer()
    states = [label.ljust(state_width) for label in STATES]
    names = [name.ljust(type_width) for name in TYPES]
    for some in pieces_of(rows):
        vlsn, size = stream.vlsn[some], stream.size[some].astype(np.int64)
        cells = [
            Cell(Form.TEXT, _padding(vlsn, widths[0])),
            Cell(Form.DECIMAL, vlsn),
            Cell(Form.TEXT, _words(states, stream.state[some]), b"  "),
            Cell(Form.TEXT, _words(names, stream.type[some]), b"  "),
            Cell(Form.TEXT, _padding(size, widths[1]), b"  "),
            Cell(Form.DECIMAL, size),
            Cell(Form.LSN, stream.lsn[some], b"  ", b"\n"),
        ]
        out.write(lines_of(cells, buffer).data)


def _digits(numbers: Ints) -> Ints:
    return np.searchsorted(_POWERS, numbers, side="right") + 1


def _padding(numbers: Ints, width: int) -> Text:
    return words([b" " * count for count in range(width + 1)], width - _digits(numbers))


def _write_parquet(stream: LoggedStream, rows: Ints, out: BinaryIO) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(out, stream_schema()) as writer:
        for some in pieces_of(rows):
            writer.write_batch(stream_batch(stream, some))
