"""Folder of audits: tables partitioned by run, and the reports of the last run.

A run appears when it is complete: its row in the table runs is written last, and readers pass over
partitions without one. What a killed audit leaves is removed by the next.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from msgspec import Struct

from je_tools.audit.tables import RUNS, TABLES
from je_tools.core.escaping import clean_text, printable
from je_tools.errors import RefusedError

if TYPE_CHECKING:
    from je_tools.audit.discover import Fleet

STAGING_NAME = ".staging"
"""Folder below an output in which executors write."""

KNOWN_NAME = ".known"
"""Folder below an output with what is known of files from earlier runs."""

LOG_NAME = "spark.log"

_PARTITION = "run="


class RunFolder(Struct, frozen=True):
    """Tables of one run.

    Attributes:
        path: folder of all runs.
        run: id of the run: its start, as `20261123T220120Z`.
    """

    path: Path
    run: str

    def parts(self, table: str) -> list[Path]:
        """Return the files of a table, in order."""
        return sorted(self._partition(table).glob("[!._]*.parquet"))

    def publish(self, written: Iterable[tuple[str, str]]) -> None:
        """Move finished files of tables to their final place; an empty table is a file too.

        Args:
            written: name of the table, and path, of each file.
        """
        paths: dict[str, list[str]] = {table.name: [] for table in TABLES}
        for name, path in written:
            paths[name].append(path)
        for table in TABLES:
            folder = self._partition(table.name)
            folder.mkdir(parents=True)
            for number, path in enumerate(paths[table.name]):
                Path(path).rename(folder / f"part-{number:05}.parquet")
            if not paths[table.name]:
                pq.write_table(table.schema.empty_table(), folder / "part-00000.parquet")

    def complete(self, row: dict[str, Any]) -> None:
        """Write the row of the run, which makes it count.

        Args:
            row: values of the table runs, by column.
        """
        import pyarrow as pa

        folder = self._partition(RUNS.name)
        folder.mkdir(parents=True)
        half = folder / ".part-00000.parquet"
        pq.write_table(pa.Table.from_pylist([row], RUNS.schema), half)
        half.rename(folder / "part-00000.parquet")

    def remove(self) -> None:
        """Remove the run: its row first, so that readers never see a part of it."""
        for table in (RUNS, *TABLES):
            shutil.rmtree(self._partition(table.name), ignore_errors=True)

    def _partition(self, table: str) -> Path:
        return self.path / table / f"{_PARTITION}{self.run}"


def complete_runs(path: Path) -> list[RunFolder]:
    """Return the complete runs in a folder, the oldest first."""
    found = (path / RUNS.name).glob(f"{_PARTITION}*/part-00000.parquet")
    names = sorted(part.parent.name.removeprefix(_PARTITION) for part in found)
    return [RunFolder(path, name) for name in names]


def run_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of the table runs with their ids, the oldest first."""
    return [
        {"run": each.run, **row}
        for each in complete_runs(path)
        for row in pq.ParquetFile(each.parts(RUNS.name)[0]).read().to_pylist()
    ]


@contextmanager
def open_output(output: Path) -> Iterator[RunFolder]:
    """Open the folder of audits for a new run; if the run is not completed, nothing of it is left.

    Raises:
        RefusedError: `output` is something that no audit has made, cannot be made, has a name that
            is not UTF-8, or another audit writes into it.
    """
    _refuse_what_is_no_audit(output)
    # A link stays a link.
    output = Path(os.path.realpath(output))
    if clean_text(str(output)) != str(output):
        # Parquet's library takes no other names.
        raise RefusedError(f"{output}: this name is not UTF-8; name another folder")
    try:
        output.mkdir(parents=True, exist_ok=True)
        held = os.open(output, os.O_RDONLY)
    except OSError as error:
        raise RefusedError(f"{output}: cannot create the folder: {error.strerror}") from error
    try:
        _lock(held, output)
        with _new_run(output) as new:
            yield new
    finally:
        os.close(held)


@contextmanager
def _new_run(output: Path) -> Iterator[RunFolder]:
    """Begin a run in a folder that no other audit writes into."""
    _remove_what_was_killed(output)
    new = RunFolder(output, _new_name(output))
    try:
        # It marks the folder as one of audits, also if this one is killed.
        for name in (RUNS.name, STAGING_NAME, KNOWN_NAME):
            (output / name).mkdir(exist_ok=True)
        yield new
    finally:
        shutil.rmtree(output / STAGING_NAME, ignore_errors=True)
        if new not in complete_runs(output):
            new.remove()
            _remove_empty_folders(output)


def _lock(held: int, output: Path) -> None:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise RefusedError(
            f"{output}: another audit writes into this folder; wait for it, or name another folder"
        ) from error


def _new_name(output: Path) -> str:
    """Return the id of a run that starts now, later than all others."""
    now = datetime.now(UTC)
    last = complete_runs(output)
    while True:
        name = now.strftime("%Y%m%dT%H%M%SZ")
        if not last or name > last[-1].run:
            return name
        now = max(now, datetime.strptime(last[-1].run, "%Y%m%dT%H%M%S%z")) + timedelta(seconds=1)


def _remove_what_was_killed(output: Path) -> None:
    """Remove what audits could not clean up, as after a power cut."""
    shutil.rmtree(output / STAGING_NAME, ignore_errors=True)
    complete = {each.run for each in complete_runs(output)}
    for table in (RUNS, *TABLES):
        for partition in (output / table.name).glob(f"{_PARTITION}*"):
            if partition.name.removeprefix(_PARTITION) not in complete:
                shutil.rmtree(partition, ignore_errors=True)


def _remove_empty_folders(output: Path) -> None:
    """Remove the folders of a first run that has failed; what it knows already is kept."""
    if not complete_runs(output):
        (output / LOG_NAME).unlink(missing_ok=True)
    names = (*(table.name for table in (RUNS, *TABLES)), KNOWN_NAME)
    for folder in (*(output / name for name in names), output):
        with suppress(OSError):
            folder.rmdir()


def prune(output: Path, keep: int) -> None:
    """Remove all runs but the last `keep`."""
    for each in complete_runs(output)[:-keep]:
        each.remove()


def _refuse_what_is_no_audit(output: Path) -> None:
    """Refuse an existing output unless it is empty or a folder of audits."""
    if not os.path.lexists(output):
        return
    try:
        names = {path.name for path in output.iterdir()}
    except OSError as error:
        reason = f"cannot list the folder: {error.strerror}"
        raise RefusedError(f"{printable(clean_text(str(output)))}: {reason}") from error
    if names - {STAGING_NAME, KNOWN_NAME, LOG_NAME} and not (output / RUNS.name).is_dir():
        raise RefusedError(
            f"{output}: the folder exists, but is not from an audit of this version; name another "
            "folder"
        )


def refuse_what_holds_logs(output: Path, fleet: Fleet) -> None:
    """Refuse an output that holds logs: an audit would read its own folder."""
    place = os.path.realpath(output)
    for found in fleet.environments:
        places = map(os.path.realpath, found.local_places)
        if any(Path(each).is_relative_to(place) for each in places):
            raise RefusedError(
                f"{output}: the folder holds logs that the audit reads; name another folder"
            )
