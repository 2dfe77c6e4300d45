"""Internal database records that a checkpoint has to bring up to date.

The engine adds the missing ones when it next opens the log, and refuses to open the log read-only
if a file has no summary. Removing a record takes no entry: its slot is left out.

Source: je-log.md "Databases of the engine"; ExpirationProfile.populateCache,
UtilizationProfile.populateCache and flushFileSummary, JE 18.3.12.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import asdict, replace

from je_tools.checkpoint.changes import Written
from je_tools.checkpoint.obsolete import (
    Gone,
    joined_gone,
    obsolete_by_file,
    of_removed,
)
from je_tools.checkpoint.utilization_tracker import Survey, given_numbers
from je_tools.formats.je.fetch import fetch
from je_tools.formats.je.flags import DbTreeFlag
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.internal_cleaner import DatabaseExtinction, Expirations, FileSummaryKey
from je_tools.formats.je.internal_names import (
    BEFORE_IMAGES_DB,
    EXPIRATION_DB,
    EXTINCT_SCANS_DB,
    RESERVED_FILES_DB,
    UTILIZATION_DB,
    VLSN_MAP_DB,
)
from je_tools.formats.je.tuples import TupleError
from je_tools.log.names import FIXED_NAMES
from je_tools.recovery.database import Database
from je_tools.recovery.utilization import (
    FileSummary,
    expirations,
    file_summaries,
    internal_records,
    record_places,
    reserved_files,
    stored_summaries,
)

if TYPE_CHECKING:
    from je_tools.checkpoint.log import CheckpointLog
    from je_tools.recovery.snapshot import Snapshot

Fields = Mapping[str, Any]

Records = dict[bytes, Written | None]
"""Changes to the slots of an internal database, by key; None for a slot that is removed."""

_HOURS_A_DAY = 24

NO_LN = {"flags": 0, "flags2": 0, "flags3": 0, "modified_ms": 0}
"""Fields that a checkpoint leaves empty in an LN outside transactions."""


def lacking_summaries(snapshot: Snapshot, start_lsn: int) -> frozenset[int]:
    """Return the files that have no summary and are not reserved.

    Args:
        snapshot: the log.
        start_lsn: LSN of a CkptStart; only files before its own need a summary.
    """
    known = file_summaries(snapshot).keys() | reserved_files(snapshot).keys()
    return frozenset(no for no in _complete(snapshot) - known if no < start_lsn >> 32)


def lacking_expirations(snapshot: Snapshot) -> frozenset[int]:
    """Return the files before the last one that have no record of their expirations."""
    if own_database(snapshot, EXPIRATION_DB) is None:
        return frozenset()
    return _complete(snapshot) - expirations(snapshot).keys()


def _complete(snapshot: Snapshot) -> frozenset[int]:
    return frozenset(file.file_no for file in snapshot.end.files[:-1])


def own_database(snapshot: Snapshot, name: str) -> Database | None:
    """Return the internal database of a name, or None if the log has none."""
    found = [each for each in snapshot.databases.values() if each.name == name]
    return found[0] if found else None


def write_expirations(
    snapshot: Snapshot, survey: Survey, log: CheckpointLog, last_file_no: int
) -> Records:
    """Bring the records of expirations by file up to date.

    Args:
        snapshot: the log.
        survey: contents of files without a record.
        log: log to append to.
        last_file_no: number of the file in which the checkpoint will end; it gets no record.
    """
    database = own_database(snapshot, EXPIRATION_DB)
    if database is None:
        return {}
    known = expirations(snapshot)
    first_new = snapshot.end.files[-1].file_no
    there = _complete(snapshot) | set(range(first_new, last_file_no))
    records = _gone_expirations(snapshot, there)
    for file_no in sorted(there - known.keys()):
        hours = survey.expiring.get(file_no, Counter()) + log.expiring[file_no]
        key, data = _expirations_of(file_no, hours).encode()
        fields = NO_LN | {"db_id": database.db_id, "key": key, "data": data}
        records[key] = log.entry("INS_LN", fields)
    return records


def _gone_expirations(snapshot: Snapshot, there: Set[int]) -> Records:
    """Return the records of expirations in files that are not in `there`."""
    gone = expirations(snapshot).keys() - there
    return {Expirations(file_no, False, ()).encode()[0]: None for file_no in gone}


def _expirations_of(file_no: int, hours: Mapping[int, int]) -> Expirations:
    times = sorted(hour for hour, size in hours.items() if size)
    in_hours = any(hour % _HOURS_A_DAY for hour in times)
    unit = 1 if in_hours else _HOURS_A_DAY
    return Expirations(file_no, in_hours, tuple((time // unit, hours[time]) for time in times))


def count_files(
    snapshot: Snapshot,
    survey: Survey,
    log: CheckpointLog,
    start_lsn: int,
    removed: frozenset[int],
) -> dict[bytes, Fields | None]:
    """Return the fields of the file summaries that change, by key.

    Files that are gone or reserved lose their summaries. What this checkpoint itself replaces is
    counted and not listed, so that nothing is listed that a crash within it would bring back.

    Args:
        snapshot: the log.
        survey: contents of files without a summary, and obsolete entries that no summary counts.
        log: log with the entries of all other databases.
        start_lsn: LSN of the CkptStart. The next recovery reads all of the files after its own.
        removed: ids of databases whose removal the checkpoint completes.

    Returns:
        The fields of each summary, the last file's first, because that file gets the others; None
        for a summary that is removed.
    """
    database = own_database(snapshot, UTILIZATION_DB)
    if database is None:
        return {}
    there = _in_use(snapshot)
    records: dict[bytes, Fields | None] = dict.fromkeys(_gone_summaries(snapshot))
    stored = stored_summaries(snapshot)
    known = {file_no: summary for file_no, _, summary in stored.newest()}
    # The engine has listed some already, for reasons of which a crash leaves no trace.
    gone = joined_gone(survey.gone)
    gone = gone.select(~gone.is_listed | ~np.isin(gone.lsn, stored.summaries.obsolete))
    obsolete = obsolete_by_file(joined_gone([gone, *_replaced(snapshot, log)]))
    none = FileSummary()
    extinct: dict[int, FileSummary] = defaultdict(FileSummary)
    for db_id in sorted(removed):
        for file_no, summary in of_removed(snapshot, snapshot.databases[db_id]).items():
            extinct[file_no] += summary
    for file_no in sorted((no for no in there if no <= start_lsn >> 32), reverse=True):
        begun = known.get(file_no) or survey.summaries.get(file_no, none)
        more, offsets = obsolete.get(file_no, (none, ()))
        more += survey.since.get(file_no, none) if file_no in known else none
        more += log.totals[file_no] + extinct[file_no]
        if file_no in known and more == none:
            continue
        summary = begun + more
        key = FileSummaryKey(file_no, summary.counted).encode()
        said = {"summary": asdict(summary), "obsolete_offsets": offsets}
        fields = {"db_id": database.db_id, "key": key, "data": b"", "anchor_lsn": NULL_LSN}
        records[key] = NO_LN | fields | said
    return records


def _in_use(snapshot: Snapshot) -> Set[int]:
    """Return the numbers of files that exist and are not reserved."""
    last_no = snapshot.end.files[-1].file_no
    return (_complete(snapshot) | {last_no}) - reserved_files(snapshot).keys()


def _summary_keys(snapshot: Snapshot) -> Iterator[tuple[int, bytes]]:
    """Yield the file number and the key of each record of a summary."""
    for key, _ in record_places(snapshot, UTILIZATION_DB):
        try:
            yield FileSummaryKey.decode(key).file_no, key
        except TupleError:
            continue


def _gone_summaries(snapshot: Snapshot) -> Records:
    """Return the summaries of files that are missing or reserved."""
    there = _in_use(snapshot)
    return {key: None for file_no, key in _summary_keys(snapshot) if file_no not in there}


def stale_records(snapshot: Snapshot) -> Records:
    """Return the records of missing or reserved files that the engine would remove."""
    gone = _gone_expirations(snapshot, _complete(snapshot))
    return gone | _gone_summaries(snapshot) | gone_reserved_files(snapshot)


def write_summaries(counted: Mapping[bytes, Fields | None], log: CheckpointLog) -> Records:
    """Append the summaries of `count_files`."""
    return {
        key: None if fields is None else log.entry("FileSummaryLN", fields)
        for key, fields in counted.items()
    }


def _replaced(snapshot: Snapshot, log: CheckpointLog) -> list[Gone]:
    """Return the entries that this checkpoint has replaced so far."""
    nodes = np.concatenate([*log.replaced_nodes, np.empty(0, np.int64)])
    lns = np.array(log.replaced_lns, np.int64)
    sizes = fetch(snapshot.image, lns, check=False).size
    return [
        Gone.of(nodes[nodes != NULL_LSN], is_ln=False, is_listed=False),
        Gone.of(lns, sizes, is_ln=True, is_listed=False),
    ]


def gone_reserved_files(snapshot: Snapshot) -> Records:
    """Return the records of reserved files that no longer exist."""
    there = {file.file_no for file in snapshot.end.files}
    reserved = reserved_files(snapshot)
    return {each.encode()[0]: None for no, each in reserved.items() if no not in there}


def finished_removals(snapshot: Snapshot, removed: frozenset[int]) -> Records:
    """Return the records of scans for databases of which the checkpoint leaves nothing.

    Such a scan counts the contents of a tree as obsolete; these trees can no longer be reached.
    """
    left = snapshot.databases.keys() - removed
    return {
        scan.encode()[0]: None
        for scan in internal_records(snapshot, EXTINCT_SCANS_DB)
        if isinstance(scan, DatabaseExtinction) and scan.db_id not in left
    }


MAX_ENTRIES = 128
"""Slots of a node, and of a node of old duplicates, if nothing else is set."""

_NEEDED_SINCE = {
    UTILIZATION_DB: 0,
    RESERVED_FILES_DB: 15,
    EXPIRATION_DB: 12,
    EXTINCT_SCANS_DB: 17,
    BEFORE_IMAGES_DB: 25,
}
"""Internal databases that the engine creates if they are missing, and the first log version that
has each. Source: DbTree, DbType, JE 7.5.11, 18.3.12 and 25.3.17."""

_BY_GROUP = (EXTINCT_SCANS_DB, BEFORE_IMAGES_DB)
"""Databases that a replication group creates for all members when one first needs them."""


def with_own_databases(snapshot: Snapshot) -> tuple[Snapshot, tuple[Database, ...]]:
    """Return the snapshot with the internal databases that the engine would create, and these.

    They have no tree yet. A crash while an environment is created leaves it without some.
    """
    version = snapshot.end.files[-1].version
    root = snapshot.entry(snapshot.checkpoint.root_lsn)
    fields = root.fields if root is not None else {}
    names = []
    for name, since in _NEEDED_SINCE.items():
        by_group = name in _BY_GROUP and fields.get("flags", 0) & DbTreeFlag.REPLICATED
        if version < since or by_group or own_database(snapshot, name) is not None:
            continue
        names.append(name)
    if not names:
        return snapshot, ()
    next_ids = itertools.count(given_numbers(snapshot).local["db"] + 1)
    fixed_ids = {name: db_id for db_id, name in FIXED_NAMES.items()}
    made = []
    for name in names:
        db_id = fixed_ids[name] if name in fixed_ids else next(next_ids)
        record = {
            "id": db_id,
            "name": name,
            "tree_exists": 0,
            "db_flags": 0,
            "btree_comparator": b"",
            "dup_comparator": b"",
            "max_entries": MAX_ENTRIES,
            "created_at_log_version": version,
        }
        made.append(Database(db_id, name, record, NULL_LSN, NULL_LSN, version))
    databases = snapshot.databases | {each.db_id: each for each in made}
    return replace(snapshot, databases=databases), tuple(made)


OWN = (UTILIZATION_DB, EXPIRATION_DB, RESERVED_FILES_DB, EXTINCT_SCANS_DB, VLSN_MAP_DB)
"""Databases whose records a checkpoint changes; they are written after all others."""
