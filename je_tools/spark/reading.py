"""Execution of a task: entries of its files as Arrow batches, in Spark's types."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from je_tools.dump.entries import Dump
from je_tools.formats.je.types import ENTRY_TYPES, Family, mask_of
from je_tools.log.entry_table import EntryTable, build_table
from je_tools.log.scan import Scanner
from je_tools.output.encoders.entry_batches import UNDECODABLE, entry_batch
from je_tools.spark.columns import spark_batch, spark_schema, wanted_fields

if TYPE_CHECKING:
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.spark.plan import Task


def read_task(task: Task) -> Iterator[pa.RecordBatch]:
    """Yield the entries of a task in log order, in batches of some megabytes of log at most.

    Raises:
        StoppedError: a file shrank, vanished or was replaced since the task was planned.
        InputError: a file cannot be read, or a batch of keys and values is too long for Arrow.
    """
    scanner = Scanner(check=task.check, threads=1)
    encode = partial(
        entry_batch,
        names=task.names,
        masking=task.masking,
        versions=task.versions,
        columns=task.columns,
    )
    dump = Dump(task.selection, encode, scanner, build=_Builder.of(task.columns))
    schema = spark_schema(task.versions, task.columns)
    for piece in task.pieces:
        for part in scanner.scan_piece(piece, dump.encode_rows):
            for encoded in part.results:
                for told in encoded:
                    yield spark_batch(told.content, schema)


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
