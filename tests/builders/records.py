"""`Records` from plain rows, as tests write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.spans import Spans
from je_tools.log.records import NO_TIME, NO_VLSN, Records


class Row(NamedTuple):
    """A record; defaults mean that it lacks the value."""

    key: bytes
    data: bytes | None = b""
    lsn: int = NULL_LSN
    vlsn: int = NO_VLSN
    modified_ms: int = NO_TIME
    created_ms: int = NO_TIME
    expires_ms: int = NO_TIME
    tombstone: bool = False


def spans_of(values: Sequence[bytes | None]) -> Spans:
    """Return byte strings as a column, each after a foreign byte."""
    sizes = np.array([-1 if value is None else len(value) for value in values], np.int64)
    ends = np.cumsum(np.maximum(sizes, 0) + 1, dtype=np.int64)
    data = b"".join(b"#" + (value or b"") for value in values)
    return Spans(np.frombuffer(data, np.uint8), ends - np.maximum(sizes, 0), sizes)


def records_of(rows: Sequence[Row]) -> Records:
    """Return the rows as a batch."""
    columns = list(zip(*rows, strict=True))
    numbers = [np.array(column, np.int64) for column in columns[2:7]]
    tombstone = np.array(columns[7], np.bool_)
    return Records(spans_of(columns[0]), spans_of(columns[1]), *numbers, tombstone)
