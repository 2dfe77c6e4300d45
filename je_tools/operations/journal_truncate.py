"""Truncation of a front end's journals: the records above an id are deleted.

The journal that has the id loses its higher records. Later journals are removed as whole databases:
a front end continues its ids at the number in the name of the last one. All changes are one
transaction of the replication group. The engine finishes the removal of databases when it opens the
log, as after a crash.

Source: BDBEnvironment and BDBJEJournal with `--recovery_journal_id`, Apache Doris b64445effbf
(#60738); BDBJEJournal.getMaxJournalId, StarRocks 3.x; DbTree.doRemoveDb, NameLNLogEntry,
RecoveryManager, JE 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from je_tools.append.authors import last_author
from je_tools.append.operation import AppendLog, AppendOperation, PlannedChange
from je_tools.btree.key_ranges import KeyRange
from je_tools.checkpoint.old_versions import iterate_old_versions, old_versions
from je_tools.core.escaping import counted, printable, quoted
from je_tools.errors import RefusedError, UsageError
from je_tools.formats.je.flags import NameOperation
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.tuples import long_key
from je_tools.journal.lookup import has_id
from je_tools.journal.records_above import RecordsAbove, is_same_up_to, range_above, torn_journal
from je_tools.journal.report import check_is_front_end
from je_tools.journal.series import JournalDatabase, journals_among
from je_tools.operations.record_changes import other_changes
from je_tools.recovery.database import NAME_DB

if TYPE_CHECKING:
    from je_tools.formats.je.write.transactions import OldVersion, TransactionWriter
    from je_tools.journal.front_end import FrontEnd
    from je_tools.recovery.snapshot import Snapshot


class JournalTruncate(AppendOperation):
    """The deletion of all records of a series of journals above an id.

    Attributes:
        front_end: directories of the front end.
        above_id: last id that stays.
        series: series of journals; empty for the one without a prefix.
    """

    name = "journal truncate"

    def __init__(self, front_end: FrontEnd, above_id: int, series: str = "") -> None:
        self.front_end = front_end
        self.above_id = above_id
        self.series = series

    def write(self, log: AppendLog) -> None:
        """Append the deletions, the removals of later journals, and the Commit.

        Raises:
            InputError: the environment is not that of a front end.
            UsageError: no journal of the series has the id.
            RefusedError: the image is newer than the id; a journal has damage, or duplicates, or
                keys below its name; an open transaction changes one; the log names no master; or
                the engine would not continue with the VLSN index.
        """
        snapshot = log.snapshot
        check_is_front_end(snapshot)
        target, later = self._journals(snapshot)
        self._check_image(snapshot)
        _check_open(snapshot, [target, *later])
        deleted = RecordsAbove.read(snapshot, target, self.above_id)
        _check_below(snapshot, later)
        removed = [RecordsAbove.read(snapshot, each, each.named_id - 1) for each in later]
        torn = torn_journal(snapshot, [target, *later])
        if torn is not None:
            raise RefusedError(
                f"{snapshot.environment.name}: journal {printable(torn.name)} has damage, so not "
                "all of its records are known. `je-tools verify "
                f"{quoted(snapshot.environment.name)} --tree` reports it. Restore the node from a "
                "backup, or from another node (network restore)"
            )
        if not deleted.record_count and not removed:
            return
        author = last_author(snapshot)
        if author is None:
            raise RefusedError(
                f"{snapshot.environment.name}: the log has no Commit of a replication group, so it "
                "is not that of a front end's node"
            )
        transaction = log.group_transaction(replace(author, dtvlsn=None))
        _delete(log, transaction, deleted, self.above_id)
        names = old_versions(snapshot, snapshot.databases[NAME_DB])
        for each in removed:
            _remove(log, transaction, each, names.get(each.journal.name.encode()))
        written = transaction.commit()
        why = "all changes take effect at once"
        log.note(PlannedChange("commit", written.lsn, why, vlsn=log.next_vlsn - 1))

    def _journals(self, snapshot: Snapshot) -> tuple[JournalDatabase, list[JournalDatabase]]:
        """Return the journal that has the id, and the later ones of its series.

        Raises:
            UsageError: there is none.
            RefusedError: a journal of the series has duplicates.
        """
        journals = journals_among(snapshot.databases.values())
        own = [each for each in journals if each.series == self.series]
        if not own:
            raise UsageError(_no_series_text(self.series, {each.series for each in journals}))
        for each in own:
            if each.database.has_duplicates:
                raise RefusedError(
                    f"{snapshot.environment.name}: database {printable(each.name)} has duplicates, "
                    "so it is not a journal that a front end wrote"
                )
        until = [each for each in own if each.named_id <= self.above_id]
        if until and has_id(snapshot, until[-1], self.above_id):
            return until[-1], own[len(until) :]
        home = quoted(snapshot.environment.name)
        raise UsageError(
            f"--above {self.above_id}: no journal has this id. `je-tools journal {home}` lists the "
            "ids of each journal, and the missing ones"
        )

    def _check_image(self, snapshot: Snapshot) -> None:
        image_id = self.front_end.image_ids.get(self.series)
        if image_id is not None and image_id > self.above_id:
            raise RefusedError(
                f"{snapshot.environment.name}: the newest image has the changes up to id "
                f"{image_id}, and a front end would load it anyway. Move image.{image_id} and "
                f"other files of this image away from {self.front_end.image}, or give an id from "
                f"{image_id} on with --above"
            )

    def difference(self, before: Snapshot, after: Snapshot) -> str:
        """Compare the journals, and all other databases, with what they should be."""
        target, later = self._journals(before)
        found = journals_among(after.databases.values())
        names = {each.name for each in found if each.series == self.series}
        if names & {each.name for each in later}:
            return "a later journal is still there"
        kept = [each for each in found if each.name == target.name]
        if len(kept) != 1 or not is_same_up_to(before, target, after, kept[0], self.above_id):
            return f"the records of journal {printable(target.name)} are not those up to the id"
        own = {target.name, *(each.name for each in later)}
        return other_changes(before, after, own)


def _delete(
    log: AppendLog, transaction: TransactionWriter, above: RecordsAbove, above_id: int
) -> None:
    """Append the deletions of records, and note them as one change."""
    snapshot, database = log.snapshot, above.journal.database
    first_lsn, first_vlsn = NULL_LSN, log.next_vlsn
    for key, old in iterate_old_versions(snapshot, database, range_above(above_id)):
        written = transaction.write(database.db_id, key, None, old)
        first_lsn = written.lsn if first_lsn == NULL_LSN else first_lsn
    if first_lsn == NULL_LSN:
        return
    log.note(
        PlannedChange(
            "delete records",
            first_lsn,
            f"their ids are above {above_id}",
            vlsn=first_vlsn,
            db_id=database.db_id,
            db=database.name,
            old=above.text,
        )
    )


def _remove(
    log: AppendLog, transaction: TransactionWriter, above: RecordsAbove, old: OldVersion | None
) -> None:
    """Append the removal of a database, as the engine logs it.

    Raises:
        RefusedError: the entry with its name is not known.
    """
    database = above.journal.database
    name = above.journal.name
    if old is None:
        raise RefusedError(
            f"{log.snapshot.environment.name}: the entry with the name of journal "
            f"{printable(name)} is lost, so it cannot be removed"
        )
    fields = {"db_id": NAME_DB, "key": name.encode(), "data": None, "name_db_id": database.db_id}
    fields |= {"deleted": 1, "operation": NameOperation.REMOVE.value}
    written = transaction.ln("NameLN_TX", fields, old)
    log.note(
        PlannedChange(
            "remove database",
            written.lsn,
            "all its ids are above the given id",
            vlsn=log.next_vlsn - 1,
            db_id=database.db_id,
            db=name,
            old=above.text,
        )
    )


def _check_below(snapshot: Snapshot, later: list[JournalDatabase]) -> None:
    """Check that the journals to remove have no records below the ids in their names.

    Raises:
        RefusedError: one has.
    """
    for each in later:
        inside = KeyRange(high=long_key(each.named_id))
        below = snapshot.records(each.database, with_data=False, show_expired=True, inside=inside)
        count = sum(len(records) for records in below)
        if count:
            name = snapshot.environment.name
            raise RefusedError(
                f"{name}: journal {printable(each.name)} has {counted(count, 'record')} below id "
                f"{each.named_id}, where its ids begin, and would be removed with them. "
                f"`je-tools journal {quoted(name)}` reports it. Restore the node from a backup, or "
                "from another node (network restore)"
            )


def _check_open(snapshot: Snapshot, journals: list[JournalDatabase]) -> None:
    """Check that no transaction without an end has changed these journals.

    Raises:
        RefusedError: one has.
    """
    lns = snapshot.interval.lns
    own = np.isin(lns.db_id, [each.database.db_id for each in journals])
    open_txns = sorted(snapshot.kept_txns & set(np.unique(lns.txn_id[own]).tolist()))
    if open_txns:
        name = snapshot.environment.name
        raise RefusedError(
            f"{name}: transaction {', '.join(map(str, open_txns))} has written to these journals, "
            f"and has no end. `je-tools vlsn rollback {quoted(name)}` rolls it back"
        )


def _no_series_text(wanted: str, known: set[str]) -> str:
    """Return the text of the error about a series that the log does not have."""
    prefixes = [f"--series {printable(each)}" for each in sorted(known) if each]
    choices = (["omit --series for the one without a prefix"] if "" in known else []) + prefixes
    what = f"--series {printable(wanted)}" if wanted else "the series without a prefix"
    if not choices:
        return f"{what}: the log has no journals: name the environment of a front end"
    return f"{what}: the log has no such journals: {', or '.join(choices)}"
