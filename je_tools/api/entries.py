"""Entries of a log as Arrow record batches, judged while they are read."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from je_tools.api.arguments import named_arguments
from je_tools.api.calls import Call, FindingReporter
from je_tools.dump.entries import Dump
from je_tools.dump.preparation import Preparation, prepare
from je_tools.log.scan import Scanner
from je_tools.output.encoders.entry_sinks import EntryFormat, ParquetSink, open_sink
from je_tools.verify.state_findings import file_findings

if TYPE_CHECKING:
    from je_tools.dump.filters import Filters
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import FileState


class EntryRequest(Struct, frozen=True):
    """Entries that a caller wants.

    Attributes:
        filters: filters on headers and payloads.
        databases: names and ids of databases; empty for all.
        limit: largest number of entries; None for all.
        backward: go from the end of the log to its beginning.
        check: verify the checksum of every entry.
    """

    filters: Filters
    databases: tuple[str, ...]
    limit: int | None
    backward: bool
    check: bool


def read_entries(call: Call, wanted: EntryRequest) -> Generator[Any, None, None]:
    """Yield the schema when everything is ready, then the entries as `pyarrow.RecordBatch`.

    The columns are those of `dump --format parquet`. Findings are reported before the entries after
    them are yielded.

    Raises:
        UsageError: a filter cannot be parsed, or the log has no such database; before the schema.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read, or a batch of keys and values is too long for Arrow.
    """
    environment = call.environment
    with named_arguments():
        selection = wanted.filters.selection()
        scanner = Scanner(check=wanted.check, threads=call.threads)
        prepared = prepare(
            environment,
            selection,
            scanner,
            FindingReporter(environment.name, report=call.report),
            databases=wanted.databases,
            is_partial=wanted.backward or wanted.limit is not None,
        )
        sink = _sink(call, prepared)
        judge = prepared.judge
        dump = Dump(
            selection=prepared.selection,
            encode=sink.encode,
            scanner=scanner,
            backward=wanted.backward,
            limit=wanted.limit,
            look_up=prepared.look_up,
            inspector=judge.inspector if judge is not None else None,
        )
        yield sink.schema
        ended = _Ended(call, prepared)
        for encoded in dump.run(environment, ended, judge.merge if judge is not None else None):
            yield encoded.content
        if judge is not None:
            judge.finish()


def _sink(call: Call, prepared: Preparation) -> ParquetSink:
    versions = frozenset(file.version for file in call.environment.files)
    sink = open_sink(EntryFormat.PARQUET, prepared.names, call.masking, width=0, versions=versions)
    assert isinstance(sink, ParquetSink)
    return sink


class _Ended(Struct, frozen=True):
    """Callback that reports the damage in a file read to its end, if no judge reads the log."""

    call: Call
    prepared: Preparation

    def __call__(self, state: FileState) -> None:
        if self.prepared.judge is not None or self.prepared.judged is not None:
            return
        environment: Environment = self.call.environment
        self.call.report_all(file_findings(environment, state))
