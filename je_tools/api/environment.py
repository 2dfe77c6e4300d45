"""The reader of an environment: the methods of the Python API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from je_tools.api import arguments as a
from je_tools.api.calls import Choice, end_argument, recovered
from je_tools.api.opened import OpenedLog

if TYPE_CHECKING:
    from je_tools.api.arguments import DatabaseId, Key, Lsn, Time
    from je_tools.api.batches import ArrowBatches
    from je_tools.api.verification import Verification
    from je_tools.records.databases import DatabaseRow
    from je_tools.recovery.plan import Plan


class EnvironmentReader(OpenedLog):
    """A log that has been opened; `je_tools.open` returns it.

    It takes no lock, writes nothing, and holds no file open. Each call reads the log as it is at
    that moment, as a command does; what is appended meanwhile may be missing from its result. It is
    a context manager; leaving it closes the batches that are still being read.

    Every method raises, in addition to its own errors:
        UsageError: an argument is not valid, or the environment is closed.
        InputError: the log is gone, is none, or cannot be read.
        StoppedError: a file shrank, vanished or was replaced while it was read.

    Damage is not an error: reading resumes after it, and `findings` reports it.
    """

    def entries(
        self,
        *,
        type: str | Iterable[str] | None = None,
        db: DatabaseId | Iterable[DatabaseId] | None = None,
        txn: int | Iterable[int] | None = None,
        key: Key | Iterable[Key] | None = None,
        grep: Key | Iterable[Key] | None = None,
        from_lsn: Lsn | None = None,
        to_lsn: Lsn | None = None,
        from_vlsn: int | None = None,
        to_vlsn: int | None = None,
        since: Time | None = None,
        until: Time | None = None,
        replicated: bool = False,
        limit: int | None = None,
        backward: bool = False,
        ignore_checksum: bool = False,
    ) -> ArrowBatches:
        """Return the entries of the log, in log order, with the columns of `dump`'s Parquet.

        All filters must hold; of several values of one filter, one. They are those of the command
        `dump`: `type`, `db`, `txn`, `key`, `grep`, inclusive bounds of LSNs, VLSNs and times, and
        `replicated`. Bytes that cannot be read as entries are no rows, but findings.

        Args:
            limit: largest number of entries; None for all.
            backward: go from the end of the log to its beginning.
            ignore_checksum: do not verify checksums.

        Raises:
            UsageError: also if the log has no such database or entry type; all at the call.
            InputError: also if the keys and values of a batch are too long for Arrow.
        """
        from je_tools.api.entries import EntryRequest, read_entries
        from je_tools.dump.filters import Filters

        filters = Filters(
            types=tuple(map(a.type_text, a.several(type))),
            txns=tuple(map(a.txn_number, a.several(txn))),
            keys=tuple(map(a.key_text, a.several(key))),
            greps=tuple(map(a.grep_text, a.several(grep))),
            from_lsn=a.lsn_argument("from_lsn", from_lsn),
            to_lsn=a.lsn_argument("to_lsn", to_lsn),
            from_vlsn=from_vlsn,
            to_vlsn=to_vlsn,
            since=a.time_argument("since", since),
            until=a.time_argument("until", until),
            replicated=replicated,
        )
        databases = tuple(map(a.database_text, a.several(db)))
        limit = a.at_least("limit", limit, 1)
        wanted = EntryRequest(filters, databases, limit, backward, check=not ignore_checksum)
        return self._reading(read_entries(self._call(), wanted))

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
            db: databases by name or id; None for all of applications. One call for several
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

        choice = Choice(
            end=end_argument(to_lsn, to_vlsn, to_time),
            now=a.time_argument("now", now),
            databases=tuple(map(a.database_text, a.several(db))),
            internal=internal,
            show_expired=show_expired,
            key_range=key_range,
        )
        return self._reading(read_records(self._call(), choice))

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
        return database_rows(self._call(), Choice(end=end, now=moment, internal=internal))

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

        choice = Choice(
            end=end_argument(to_lsn, to_vlsn, to_time),
            now=a.time_argument("now", now),
            databases=tuple(map(a.database_text, a.several(db))),
            internal=internal,
            show_expired=show_expired,
        )
        return count_records(self._call(), choice)

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

        choice = Choice(end=end_argument(to_lsn, to_vlsn, to_time))
        with recovered(self._call(), choice) as snapshot:
            return plan_recovery(snapshot)

    def verify(
        self,
        *,
        tree: bool = False,
        utilization: bool = False,
        everything: bool = False,
        to_lsn: Lsn | None = None,
        to_vlsn: int | None = None,
        to_time: Time | None = None,
        now: Time | None = None,
    ) -> Verification:
        """Read the whole log, and return its findings and a verdict on what was read.

        Args:
            tree: also check the B-trees: every node, slot and record.
            utilization: with `tree`, also compare the engine's totals of each file with a count.
            everything: also findings `clean-end`, of files that end as they should.
            to_lsn, to_vlsn, to_time, now: with `tree`, as for `records`.

        Raises:
            UsageError: also if there is no such end; or if single files were opened, which have no
                tree.
        """
        from je_tools.api.verification import verify_log
        from je_tools.btree.check.verification import TreeCheck

        end = end_argument(to_lsn, to_vlsn, to_time)
        check = TreeCheck(utilization, a.time_argument("now", now), end)
        return verify_log(self._call(), check, tree=tree, everything=everything)
