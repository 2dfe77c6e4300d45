"""Files of records: one for each database, named after it, or one stream of all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from je_tools.errors import UsageError
from je_tools.output.encoders.record_sources import DatabaseSource, RecordSink, Written
from je_tools.output.files.file_names import file_stems
from je_tools.output.files.outputs import PartPath, fsync_file, open_part

if TYPE_CHECKING:
    from je_tools.output.encoders.record_lines import OutputDatabase


def write_stream(
    sink: RecordSink, sources: Iterable[DatabaseSource], out: BinaryIO
) -> list[Written]:
    """Write all databases to one file.

    Raises:
        UsageError: there are several, and the format cannot separate them.
    """
    return sink.write(_single(sources) if sink.is_single else sources, out)


def _single(sources: Iterable[DatabaseSource]) -> Iterator[DatabaseSource]:
    for number, source in enumerate(sources):
        if number:
            raise UsageError(
                "this form holds one database per file; name one with --db, or a new folder with "
                "--output"
            )
        yield source


def stems_of(
    sink: RecordSink,
    databases: Iterable[OutputDatabase],
    marks: Sequence[str] = ("",),
    reserved: Iterable[str] = (),
) -> dict[int, str]:
    """Return the beginnings of the file names of databases, by id.

    Args:
        sink: the format.
        databases: all databases that are written to one directory.
        marks: marks with which `write_files` will be called.
        reserved: names of other files in the directory.
    """
    names = ((database.db_id, database.shown) for database in databases)
    return file_stems(names, [mark + sink.suffix for mark in marks], reserved)


def write_files(
    sink: RecordSink,
    sources: Iterable[DatabaseSource],
    stems: Mapping[int, str],
    directory: Path,
    final: Path,
    mark: str = "",
) -> list[Written]:
    """Write each database to a file of its own, named after it.

    Args:
        sink: the format.
        sources: the databases.
        stems: beginnings of the file names by id, from `stems_of`.
        directory: existing directory to write to.
        final: path that the directory will have when all files are written.
        mark: text before the suffix in the file names.

    Raises:
        RefusedError: a file cannot be written.
    """
    written = []
    for source in sources:
        name = stems[source.database.db_id] + mark + sink.suffix
        path = PartPath(directory / name, final / name)
        with open_part(path) as out:
            (done,) = sink.write([source], out)
        fsync_file(path)
        written.append(Written(done.database, name, done.records, done.left_out))
    return written
