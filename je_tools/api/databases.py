"""Databases of a log, and counts of their records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from je_tools.api.calls import Call, RecordRequest, recovered
from je_tools.records.databases import DatabaseRow, list_databases
from je_tools.recovery.choices import choose_databases
from je_tools.recovery.findings import missing_findings

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot


def database_rows(call: Call, request: RecordRequest) -> list[DatabaseRow]:
    """Return the databases with the shape of their trees; findings are reported.

    Raises:
        UsageError: there is no such end or time.
        InputError: nothing in the log leads to records.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    with _counted(call, request) as snapshot:
        return list(list_databases(snapshot, internal=request.internal))


def count_records(call: Call, request: RecordRequest) -> dict[str, int]:
    """Return the number of records of each database by name; findings are reported.

    Raises:
        UsageError: there is no such end, time or database.
        InputError: nothing in the log leads to records.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    with _counted(call, request) as snapshot:
        chosen = choose_databases(snapshot, request.databases, internal=request.internal)
        return {
            f"id:{each.db_id}" if each.name is None else each.name: snapshot.count(
                each, show_expired=request.show_expired
            )
            for each in chosen
        }


@contextmanager
def _counted(call: Call, request: RecordRequest) -> Iterator[Snapshot]:
    """Open a snapshot whose data is not read: its findings include files in use that are gone."""
    with recovered(call, request) as snapshot:
        yield snapshot
        missing = missing_findings(snapshot)
        call.report_all(missing)
