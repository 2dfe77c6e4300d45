"""Output of a salvage: a file of records for each database, and one for unfinished transactions."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from je_tools.log.images import unchanged
from je_tools.output.encoders.record_files import stems_of, write_files
from je_tools.output.encoders.record_lines import MarkColumn
from je_tools.output.encoders.record_sources import DatabaseSource, RecordSink, Written
from je_tools.salvage.batches import GradedRecords
from je_tools.salvage.choice import Confidence, LnOutcome

if TYPE_CHECKING:
    from je_tools.salvage.salvaged import Salvage, SalvagedDatabase


APART = ".unfinished"
"""Part of the names of files with records of unfinished transactions, before the suffix."""

REPORT, SUMMARY = "report.jsonl", "summary.txt"
"""Names of the report files, which lie next to the files of the databases."""


class Output(Struct, frozen=True):
    """Files of a salvage.

    Attributes:
        records: files of records, one for each database, in the order of `Salvage.databases`.
        apart: files of unfinished transactions, one for each database that has any.
    """

    records: list[Written]
    apart: list[Written]


def write(
    salvaged: Salvage,
    databases: list[SalvagedDatabase],
    sink: RecordSink,
    directory: Path,
    known: Path,
) -> Output:
    """Write the records of databases, each database to its own file.

    Args:
        salvaged: the salvage.
        databases: databases from `Salvage.databases`.
        sink: output format.
        directory: existing directory to write to.
        known: path that the directory will have when all files are written.

    Raises:
        RefusedError: a file cannot be written.
        StoppedError: a file of the log has changed.
    """
    with unchanged(salvaged.check_files):
        return _write(salvaged, databases, sink, directory, known)


def _write(
    salvaged: Salvage,
    databases: list[SalvagedDatabase],
    sink: RecordSink,
    directory: Path,
    known: Path,
) -> Output:
    marks = ["", APART] if any(one.apart for one in databases) else [""]
    stems = stems_of(sink, (one.database for one in databases), marks, (REPORT, SUMMARY))
    sources = (
        DatabaseSource(
            one.database,
            chain(salvaged.batches(one, LnOutcome.TAKEN), salvaged.dangling_batches(one)),
        )
        for one in databases
    )
    records = write_files(sink, sources, stems, directory, known)
    unfinished = (
        DatabaseSource(one.database, salvaged.batches(one, LnOutcome.APART))
        for one in databases
        if one.apart
    )
    return Output(records, write_files(sink, unfinished, stems, directory, known, APART))


def confidence_marks() -> MarkColumn:
    """Return the column with the confidence of each record."""
    labels = tuple(grade.label for grade in Confidence)
    return MarkColumn("confidence", labels, lambda records: cast(GradedRecords, records).confidence)
