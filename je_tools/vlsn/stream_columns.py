"""Entries of the replication stream as Arrow record batches."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats.je.types import type_name
from je_tools.vlsn.logged_stream import EntryState, LoggedStream

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from je_tools.formats.arrays import Ints

ROWS_AT_ONCE = 1 << 16
"""Entries that are encoded at once."""

STATES = [state.label for state in EntryState]
TYPES = [type_name(number) for number in range(256)]


@functools.cache
def stream_schema() -> pa.Schema:
    """Return the columns of an entry of the stream."""
    import pyarrow as pa

    text = pa.dictionary(pa.int32(), pa.string())
    return pa.schema(
        [
            ("vlsn", pa.int64()),
            ("lsn", pa.uint64()),
            ("type", text),
            ("size", pa.int64()),
            ("state", text),
        ]
    )


def pieces_of(rows: Ints) -> Iterator[Ints]:
    """Yield rows in pieces of at most ROWS_AT_ONCE."""
    for first in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[first : first + ROWS_AT_ONCE]


def stream_batch(stream: LoggedStream, rows: Ints) -> pa.RecordBatch:
    """Return entries of a stream, in the columns of `stream_schema`."""
    import pyarrow as pa

    columns = [
        pa.array(stream.vlsn[rows]),
        pa.array(stream.lsn[rows].astype(np.uint64)),
        _dictionary(TYPES, stream.type[rows]),
        pa.array(stream.size[rows].astype(np.int64)),
        _dictionary(STATES, stream.state[rows]),
    ]
    return pa.record_batch(columns, schema=stream_schema())


def _dictionary(texts: list[str], choice: npt.NDArray[np.uint8]) -> pa.Array:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(choice.astype(np.int32)), pa.array(texts))
