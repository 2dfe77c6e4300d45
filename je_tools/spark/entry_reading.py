"""Execution of a task of `jelog`: entries of its files as Arrow batches, in Spark's types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from je_tools.dump.entries import Dump, ResolvedSelection
from je_tools.formats.je.types import ENTRY_TYPES, Family, mask_of
from je_tools.log.entry_table import EntryTable, build_table
from je_tools.log.scan import Scanner
from je_tools.output.encoders.entry_batches import UNDECODABLE, entry_batch, entry_schema
from je_tools.spark.columns import ENV, chosen, spark_batch, spark_schema

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import FilePiece
    from je_tools.spark.entry_names import NameResolver

PAYLOAD_FIELDS = {
    "db_id": frozenset({"db_id"}),
    "db": frozenset({"db_id"}),
    "txn_id": frozenset({"txn_id"}),
    "key": frozenset({"key"}),
    "data_size": frozenset({"data"}),
    "data": frozenset({"data"}),
}
"""Payload fields from which columns of every row are made; other such columns need none."""


class LogPieces(Struct, frozen=True):
    """Pieces of one log.

    Attributes:
        env: name of the log.
        pieces: pieces of files, in log order.
        prepared: selection, and names of databases to show; None if the task must find them.
        resolver, environment: how the task finds them, and the whole log.
    """

    env: str
    pieces: tuple[FilePiece, ...]
    prepared: ResolvedSelection | None
    resolver: NameResolver | None = None
    environment: Environment | None = None

    def prepare(self) -> ResolvedSelection:
        """Return the selection and the names, which may take reading the whole log."""
        if self.prepared is not None:
            return self.prepared
        assert self.resolver is not None
        assert self.environment is not None
        return self.resolver.resolve(self.environment, threads=1)


class EntryTask(Struct, frozen=True):
    """Input of one task; it pickles.

    Attributes:
        parts: what to read, by log.
        columns: names of the columns, in order.
        masking: masking of keys and values, the same in every task.
        check: True to verify the checksum of every entry.
    """

    parts: tuple[LogPieces, ...]
    columns: tuple[str, ...]
    masking: Masking
    check: bool

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the entries in log order, in batches of some megabytes of log at most.

        Raises:
            StoppedError: a file shrank, vanished or was replaced since the task was planned.
            InputError: a file cannot be read, or a batch of keys and values is too long for Arrow.
        """
        schema = chosen(spark_schema(entry_schema()), self.columns)
        # A batch has rows only if it has columns.
        own = tuple(name for name in self.columns if name != ENV) or ("file_no",)
        scanner = Scanner(check=self.check, threads=1)
        for part in self.parts:
            prepared = part.prepare()
            encode = partial(entry_batch, names=prepared.names, masking=self.masking, columns=own)
            dump = Dump(prepared.selection, encode, scanner, build=_Builder.of(own))
            for piece in part.pieces:
                for read in scanner.scan_piece(piece, dump.encode_rows):
                    for encoded in (each for found in read.results for each in found):
                        yield spark_batch(encoded.content, part.env, schema)


def wanted_fields(columns: Iterable[str]) -> frozenset[str]:
    """Return the payload fields that must be decoded for these columns."""
    return frozenset().union(*(PAYLOAD_FIELDS.get(name, frozenset()) for name in columns))


class _Builder(Struct, frozen=True):
    """Decoder of the fields from which some columns are made.

    Attributes:
        fields: payload fields to decode in all entries; None for every field.
        families: families whose entries are decoded as a whole.
    """

    fields: frozenset[str] | None
    families: frozenset[Family]

    @classmethod
    def of(cls, columns: tuple[str, ...]) -> _Builder:
        """Build the decoder that these columns need."""
        fields = None if UNDECODABLE in columns else wanted_fields(columns)
        return cls(fields, frozenset(family for family in Family if family.value in columns))

    def __call__(self, rows: Rows) -> EntryTable:
        nos = (each.no for each in ENTRY_TYPES.values() if each.family in self.families)
        whole = mask_of(nos)[rows.type]
        if self.fields:
            # Only a full decode shows whether an id of a damaged entry counts.
            whole |= ~rows.good
        return build_table(rows, wanted=self.fields, whole=whole)
