"""Records on their way to a sink: databases with their batches, in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np
from msgspec import Struct

from je_tools.log.records import (
    PIECE_BYTES,
    PIECE_ROWS,
    Batch,
    Note,
    Records,
    UnreadRecords,
    bounded_slices,
    no_note,
)

if TYPE_CHECKING:
    from je_tools.output.encoders.record_lines import OutputDatabase


class DatabaseSource(Struct, frozen=True):
    """A database to be written, and its records in output order.

    Attributes:
        database: the database.
        batches: its records.
        note: function called with each note made while the records were read, in order.
    """

    database: OutputDatabase
    batches: Iterable[Batch]
    note: Note = no_note


class Written(Struct, frozen=True):
    """Result of writing a database.

    Attributes:
        database: the database.
        file: name of its file; None in a stream.
        records: number of records written.
        left_out: number of records left out because their data is unknown and the format cannot
            express that.
    """

    database: OutputDatabase
    file: str | None
    records: int
    left_out: int


class RecordSink(Protocol):
    """Writer of one output format."""

    @property
    def suffix(self) -> str:
        """Suffix of file names."""

    @property
    def is_single(self) -> bool:
        """True if a file can hold only one database."""

    def write(self, sources: Iterable[DatabaseSource], out: BinaryIO) -> list[Written]:
        """Write databases to `out`, which stays open."""


def pieces_of(
    records: Records, rows_max: int = PIECE_ROWS, bytes_max: int = PIECE_BYTES
) -> Iterator[Records]:
    """Yield the records in pieces of bounded size; a larger record is a piece by itself."""
    sizes = np.maximum(records.key.sizes, 0) + np.maximum(records.data.sizes, 0)
    for cut in bounded_slices(sizes, rows_max, bytes_max):
        yield records if cut.stop - cut.start == len(records) else records.select(cut)


def read_batch(batch: Batch) -> tuple[Records, list[Any]]:
    """Return the records of a batch, and the notes made while they were read."""
    if not isinstance(batch, UnreadRecords):
        return batch, []
    notes: list[Any] = []
    return batch.read(notes.append), notes


def in_pieces(
    batches: Iterable[Batch], rows_max: int = PIECE_ROWS, bytes_max: int = PIECE_BYTES
) -> Iterator[Batch]:
    """Yield unread batches as they are, and the others in the pieces of `pieces_of`."""
    for batch in batches:
        if isinstance(batch, UnreadRecords):
            yield batch
        else:
            yield from pieces_of(batch, rows_max, bytes_max)
