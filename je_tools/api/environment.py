"""The reader of an environment: the methods of the Python API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from je_tools.api import arguments as a
from je_tools.api.calls import RecordRequest, end_argument
from je_tools.api.recovered_log import RecoveredLog

if TYPE_CHECKING:
    from je_tools.api.arguments import DatabaseId, Key, Lsn, Time
    from je_tools.api.batches import ArrowBatches
    from je_tools.api.verification import Verification
    from je_tools.doctor.facts import Diagnosis
    from je_tools.group.members import GroupRecords
    from je_tools.journal.report import JournalReport
    from je_tools.vlsn.node_state import NodeState


class EnvironmentReader(RecoveredLog):
    """A reader of one log: the methods of the Python API; `je_tools.open` returns it.

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

    def doctor(self, *, tree: bool = False, now: Time | None = None) -> Diagnosis:
        """Return the diagnosis that `doctor` prints: a verdict, what was examined, next commands.

        Args:
            tree: also check the B-trees, and read the values of journals.
            now: time before which records are expired; None for the current time.

        Raises:
            UsageError: also if single files were opened.
        """
        from je_tools.api.diagnosis import diagnose
        from je_tools.doctor.log_repair import repair_of
        from je_tools.doctor.log_scan import scan_log
        from je_tools.doctor.loss_search import loss_search
        from je_tools.doctor.recovered import Examiners
        from je_tools.doctor.replication import examine_replication
        from je_tools.missing.run import report_losses

        losses = loss_search(report_losses, None, lambda _: None)
        examiners = Examiners(scan_log, examine_replication, losses, repair_of)
        moment = a.time_argument("now", now)
        return diagnose(self._call(), examiners, tree=tree, now=moment)

    def vlsn(
        self,
        *,
        sync_points: int = 1,
        to_lsn: Lsn | None = None,
        to_vlsn: int | None = None,
        to_time: Time | None = None,
    ) -> NodeState:
        """Return the state of a node of a replication group, as `vlsn show` prints it.

        It has the VLSN index as stored and after recovery, the end of the replication stream, and
        the masters. Only the files at the end of the log are read as a whole.

        Args:
            sync_points: number of Commits, Aborts and Matchpoints at the end of the log to read.
            to_lsn, to_vlsn, to_time: as for `records`.

        Raises:
            UsageError: also if there is no such end, or if single files were opened.
            InputError: also if the log is not that of a replicated node.
        """
        from je_tools.api.diagnosis import read_node_state

        request = RecordRequest(end=end_argument(to_lsn, to_vlsn, to_time))
        count = a.at_least("sync_points", sync_points, 1) or 1
        return read_node_state(self._call(), request, count)

    def group(
        self,
        *,
        to_lsn: Lsn | None = None,
        to_vlsn: int | None = None,
        to_time: Time | None = None,
    ) -> GroupRecords:
        """Return the replication group and its nodes after recovery, as `group show` prints them.

        Args:
            to_lsn, to_vlsn, to_time: as for `records`.

        Raises:
            UsageError: also if there is no such end, or if single files were opened.
            InputError: also if the environment is not a node of a group.
        """
        from je_tools.api.diagnosis import read_group_records

        return read_group_records(
            self._call(), RecordRequest(end=end_argument(to_lsn, to_vlsn, to_time))
        )

    def journals(
        self,
        *,
        to_lsn: Lsn | None = None,
        to_vlsn: int | None = None,
        to_time: Time | None = None,
        now: Time | None = None,
    ) -> JournalReport:
        """Return the journals of a StarRocks or Doris front end, as `journal show` prints them.

        Args:
            to_lsn, to_vlsn, to_time, now: as for `records`.

        Raises:
            UsageError: also if there is no such end, or if single files were opened.
            InputError: also if the environment is not that of a front end.
        """
        from je_tools.api.diagnosis import read_journal_report

        end = end_argument(to_lsn, to_vlsn, to_time)
        return read_journal_report(
            self._call(), RecordRequest(end=end, now=a.time_argument("now", now))
        )

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
