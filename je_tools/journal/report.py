"""The report of a front end's journals: what was read, what is missing, and what the log still has.

`report_journals` makes the report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.errors import DamageError, InputError
from je_tools.journal.continuity import Continuity, Hole, check_continuity
from je_tools.journal.group_facts import (
    GroupDifference,
    GroupFacts,
    compare_with_group,
    group_facts,
)
from je_tools.journal.log_search import LoggedIds, search_log
from je_tools.journal.op_codes import Product, product_of
from je_tools.journal.reading import Journals, JournalSummary, read_journals
from je_tools.journal.series import GROUP_NAME, epochs_among, journals_among
from je_tools.recovery.database import ID_DB, NAME_DB
from je_tools.recovery.end import Refusal

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.journal.front_end import FrontEnd
    from je_tools.recovery.snapshot import Snapshot

_LISTED = 10


class HoleReport(Struct, frozen=True):
    """A hole, and the entries of its ids that the log still has.

    Attributes:
        hole: the hole.
        logged_count: number of its ids that an entry in the log wrote; None if not searched.
        record_lsn: LSN of the newest entry that wrote one of them; None without one.
        deletion_lsn: LSN of the newest entry that deleted one of them; None without one.
    """

    hole: Hole
    logged_count: int | None = None
    record_lsn: int | None = None
    deletion_lsn: int | None = None


class CutOff(Struct, frozen=True):
    """Records of a journal above its last id that recovery cuts off, since the log is damaged.

    They are after the end of the log, or their transaction has its Commit there.

    Attributes:
        journal: the journal.
        first_id, last_id, id_count: lowest and highest id, and number of different ids.
        lsn: LSN of the first entry.
        op_counts: number of entries of each op code.
    """

    journal: JournalSummary
    first_id: int
    last_id: int
    id_count: int
    lsn: int
    op_counts: dict[int, int]


class JournalReport(Struct, frozen=True):
    """The journals of a front end.

    Attributes:
        front_end: directories, and what the image says.
        group: what the group database says.
        differences: differences of these two.
        product: front end that wrote the journals; None if they do not show it.
        journals: the journals and epochs.
        continuity: holes and overlaps.
        holes: the holes that are kept, with what the log still has.
        cut_off: records after the end of a damaged log.
    """

    front_end: FrontEnd
    group: GroupFacts
    differences: list[GroupDifference]
    product: Product | None
    journals: Journals
    continuity: Continuity
    holes: list[HoleReport]
    cut_off: list[CutOff]


def report_journals(
    snapshot: Snapshot, front_end: FrontEnd, *, with_values: bool = True
) -> JournalReport:
    """Read the journals of a snapshot, and search the log for missing ids.

    Faults of the trees are added to `snapshot.faults`.

    Args:
        snapshot: the log.
        front_end: directories of the front end.
        with_values: as for `read_journals`.

    Raises:
        InputError: it is not the environment of a front end.
        DamageError: it does not seem to be one, but damage may hide its databases.
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    group = check_is_front_end(snapshot)
    journals = read_journals(snapshot, with_values=with_values)
    continuity = check_continuity(journals.journals, front_end.image_ids)
    summaries = journals.journals
    logged = search_log(snapshot, summaries, continuity.holes)
    return JournalReport(
        front_end=front_end,
        group=group,
        differences=list(compare_with_group(front_end, group)),
        product=product_of(
            (code for each in summaries for code in each.op_counts),
            {each.journal.series for each in summaries},
        ),
        journals=journals,
        continuity=continuity,
        holes=[_with_entries(hole, logged, snapshot) for hole in continuity.holes],
        cut_off=[] if logged is None else _cut_off(summaries, logged),
    )


def check_is_front_end(snapshot: Snapshot) -> GroupFacts:
    """Check that an environment has the databases of a front end, or the name of its group.

    Returns:
        What its group database says.

    Raises:
        InputError: it has neither.
        DamageError: it has neither, and damage may hide them.
    """
    group = group_facts(snapshot)
    databases = list(snapshot.databases.values())
    if journals_among(databases) or epochs_among(databases) or group.name == GROUP_NAME:
        return group
    name = snapshot.environment.name
    names = sorted(each.name for each in databases if each.name and not each.is_internal)
    listed = ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
    text = (
        f"{name}: not the environment of a StarRocks or Doris front end: no database has the name "
        f"of a journal, such as 1 or 5213, or epochDB. The log has: {listed or 'none'}"
    )
    is_hidden = any(fault.db_id in (ID_DB, NAME_DB) for fault in snapshot.faults.damage)
    if is_hidden or Refusal.OWN_DATABASE_LOST in snapshot.refusals:
        raise DamageError(f"{text}. But damage has cost names of databases: run `je-tools verify`")
    raise InputError(f"{text}. `je-tools databases` lists the databases of any environment")


def _with_entries(hole: Hole, logged: LoggedIds | None, snapshot: Snapshot) -> HoleReport:
    if logged is None:
        return HoleReport(hole)
    own = logged.db_id == hole.journal.journal.database.db_id
    own &= logged.lsn < snapshot.end.next_lsn
    own &= (logged.journal_id >= hole.first_id) & (logged.journal_id <= hole.last_id)
    some = logged.select(own)
    written, deleted = some.lsn[~some.is_deletion], some.lsn[some.is_deletion]
    return HoleReport(
        hole,
        logged_count=_distinct(some.journal_id[~some.is_deletion]),
        record_lsn=int(written.max()) if len(written) else None,
        deletion_lsn=int(deleted.max()) if len(deleted) else None,
    )


def _cut_off(summaries: list[JournalSummary], logged: LoggedIds) -> list[CutOff]:
    found = []
    for each in summaries:
        own = logged.db_id == each.journal.database.db_id
        own &= (logged.journal_id > each.end_id) & ~logged.is_deletion
        some = logged.select(own)
        if not len(some):
            continue
        codes, counts = np.unique(some.op_code, return_counts=True)
        found.append(
            CutOff(
                journal=each,
                first_id=int(some.journal_id.min()),
                last_id=int(some.journal_id.max()),
                id_count=_distinct(some.journal_id),
                lsn=int(some.lsn.min()),
                op_counts=dict(zip(codes.tolist(), counts.tolist(), strict=True)),
            )
        )
    return found


def _distinct(ids: Ints) -> int:
    ordered = np.sort(ids)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + 1 if len(ordered) else 0
