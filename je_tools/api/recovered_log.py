"""Methods of the Python API on the log as recovery leaves it: records, databases, and the plan."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from je_tools.api import arguments as a
from je_tools.api.calls import RecordRequest, end_argument, recovered
from je_tools.api.opened import OpenedLog

if TYPE_CHECKING:
    from je_tools.api.arguments import DatabaseId, Lsn, Time
    from je_tools.api.batches import ArrowBatches
    from je_tools.records.databases import DatabaseRow
    from je_tools.recovery.plan import Plan


class RecoveredLog(OpenedLog):
    """An opened log whose records can be read; see `EnvironmentReader`."""

    def records(
        self,
        db: DatabaseId | Iterable[DatabaseId] | None = None,
        *,
        internal: bool = False,
        key_range: str | None = None,
        show_expired: bool = False,
        to_lsn: Lsn | None = None,
        to_vlsn: int | None = None,
        to_time: Time | None = None,
        now: Time | None = None,
    ) -> ArrowBatches:
        """Return the records of databases after recovery, with the columns of `export`'s Parquet.

        They come by database, in the order of its keys. Records whose data cannot be had are left
        out, and are findings.

        Args:
            db: databases by name or id; None for all that applications made. One call for several
                databases runs recovery once.
            internal: without `db`, also the engine's own databases.
            key_range: `FROM..TO`, both inclusive, keys as `dump` takes them; one may be left out.
            show_expired: also records that have expired and are still there.
            to_lsn, to_vlsn, to_time: earlier end of the log; at most one of them.
            now: time before which expired records are left out; None for the current time.

        Raises:
            UsageError: also if there is no such database, end, or range, or if single files were
                opened; all at the call.
            InputError: also if nothing in the log leads to records.
        """
        from je_tools.api.records import read_records

        request = RecordRequest(
            end=end_argument(to_lsn, to_vlsn, to_time),
            now=a.time_argument("now", now),
            databases=tuple(map(a.database_text, a.several(db))),
            internal=internal,
            show_expired=show_expired,
            key_range=key_range,
        )
        return self._reading(read_records(self._call(), request))

    def databases(
        self,
        *,
        internal: bool = False,
        to_lsn: Lsn | None = None,
        to_vlsn: int | None = None,
        to_time: Time | None = None,
        now: Time | None = None,
    ) -> list[DatabaseRow]:
        """Return the databases after recovery, with the size and shape of their trees.

        They come by name; then those without a name, then names without a descriptor.

        Args:
            internal: also the engine's own databases.
            to_lsn, to_vlsn, to_time, now: as for `records`.

        Raises:
            UsageError: also if there is no such end, or if single files were opened.
            InputError: also if nothing in the log leads to records.
        """
        from je_tools.api.databases import database_rows

        end, moment = end_argument(to_lsn, to_vlsn, to_time), a.time_argument("now", now)
        return database_rows(self._call(), RecordRequest(end=end, now=moment, internal=internal))

    def count(
        self,
        db: DatabaseId | Iterable[DatabaseId] | None = None,
        *,
        internal: bool = False,
        show_expired: bool = False,
        to_lsn: Lsn | None = None,
        to_vlsn: int | None = None,
        to_time: Time | None = None,
        now: Time | None = None,
    ) -> dict[str, int]:
        """Return the number of records of each database, by name; `id:7` for one without a name.

        Data is not read, so a record counts also if only its key can be had.

        Args:
            db, internal, show_expired, to_lsn, to_vlsn, to_time, now: as for `records`.

        Raises:
            UsageError: also if there is no such database or end, or if single files were opened.
            InputError: also if nothing in the log leads to records.
        """
        from je_tools.api.databases import count_records

        request = RecordRequest(
            end=end_argument(to_lsn, to_vlsn, to_time),
            now=a.time_argument("now", now),
            databases=tuple(map(a.database_text, a.several(db))),
            internal=internal,
            show_expired=show_expired,
        )
        return count_records(self._call(), request)

    def recovery(
        self,
        *,
        to_lsn: Lsn | None = None,
        to_vlsn: int | None = None,
        to_time: Time | None = None,
    ) -> Plan:
        """Return what the engine's recovery would do with the log, as `recover` prints it.

        Args:
            to_lsn, to_vlsn, to_time: as for `records`.

        Raises:
            UsageError: also if there is no such end, or if single files were opened.
            InputError: also if the log has no root, so that there is nothing to recover.
        """
        from je_tools.recovery.plan import plan_recovery

        request = RecordRequest(end=end_argument(to_lsn, to_vlsn, to_time))
        with recovered(self._call(), request) as snapshot:
            return plan_recovery(snapshot)
