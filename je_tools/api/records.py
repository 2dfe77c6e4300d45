"""Records of databases as Arrow record batches, as the engine would return them after recovery."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from je_tools.api.calls import Call, RecordRequest, recovered
from je_tools.btree.key_ranges import parse_key_range
from je_tools.core.ordered import map_in_order
from je_tools.output.encoders.record_parquet import record_batches, record_schema
from je_tools.records.export import Export
from je_tools.recovery.choices import choose_databases

if TYPE_CHECKING:
    import pyarrow as pa

    from je_tools.core.masking import Masking
    from je_tools.output.encoders.record_sources import DatabaseSource


def read_records(call: Call, request: RecordRequest) -> Generator[Any, None, None]:
    """Yield the schema when everything is ready, then the records as `pyarrow.RecordBatch`.

    The columns are those of `export --format parquet`; a batch has records of one database, in its
    order. Records whose data cannot be had are left out. Findings are reported at the end.

    Raises:
        UsageError: there is no such end, time, range or database; before the schema.
        InputError: nothing in the log leads to records; before the schema.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    inside = None
    if request.key_range is not None:
        inside = parse_key_range("key_range", request.key_range)
    with recovered(call, request) as snapshot:
        chosen = choose_databases(snapshot, request.databases, internal=request.internal)
        sources = list(Export(snapshot, inside, request.show_expired).sources(chosen))
        yield record_schema()
        for source in sources:
            # The threads end before the findings are collected.
            with closing(_batches(source, call.masking, snapshot.threads)) as batches:
                yield from batches


def _batches(
    source: DatabaseSource, masking: Masking, threads: int
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the records of a database, which threads read and encode ahead."""
    encode = partial(record_batches, source.database, masking)
    for batches, notes in map_in_order(encode, source.batches, threads):
        for note in notes:
            source.note(note)
        yield from batches
