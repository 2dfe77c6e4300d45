"""Records of the engine's own databases that a checkpoint has to bring up to date.

What is missing here the engine adds when it next opens the log, and for a file without a summary it
refuses to open it read-only. Removing a record takes no entry: its slot is left out.

Source: je-log.md "Databases of the engine"; ExpirationProfile.populateCache,
UtilizationProfile.populateCache and flushFileSummary, JE 18.3.12.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import asdict, replace

from je_tools.checkpoint.changes import Written
from je_tools.checkpoint.log import CheckpointLog
from je_tools.checkpoint.survey import Survey
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.internal import (
    EXPIRATION_DB,
    EXTINCT_SCANS_DB,
    RESERVED_FILES_DB,
    UTILIZATION_DB,
    VLSN_MAP_DB,
    DatabaseExtinction,
    Expirations,
    FileSummaryKey,
)
from je_tools.formats.je.tuples import TupleError
from je_tools.snapshot import Database, Snapshot
from je_tools.utilization import (
    FileSummary,
    expirations,
    file_summaries,
    internal_records,
    record_places,
    reserved_files,
)

Records = dict[bytes, Written | None]
"""What comes into the slots of an internal database, by key; None for a slot that goes."""

_HOURS_A_DAY = 24

NO_LN = {"flags": 0, "flags2": 0, "flags3": 0, "modified_ms": 0}
"""The fields of an LN outside transactions of which a checkpoint's have nothing to say."""


def lacking_summaries(snapshot: Snapshot, start_lsn: int) -> frozenset[int]:
    """Files that the engine has no summary of, and has not reserved.

    Args:
        snapshot: the log.
        start_lsn: of a CkptStart; only files in front of its own need one.
    """
    known = file_summaries(snapshot).keys() | reserved_files(snapshot).keys()
    return frozenset(no for no in _complete(snapshot) - known if no < start_lsn >> 32)


def lacking_expirations(snapshot: Snapshot) -> frozenset[int]:
    """Files in front of the last of which the engine does not know what expires in them."""
    if own_database(snapshot, EXPIRATION_DB) is None:
        return frozenset()
    return _complete(snapshot) - expirations(snapshot).keys()


def _complete(snapshot: Snapshot) -> frozenset[int]:
    return frozenset(file.file_no for file in snapshot.end.files[:-1])


def own_database(snapshot: Snapshot, name: str) -> Database | None:
    """One of the engine's databases; None where the log has none."""
    found = [each for each in snapshot.databases.values() if each.name == name]
    return found[0] if found else None


def write_expirations(
    snapshot: Snapshot, survey: Survey, log: CheckpointLog, last_file_no: int
) -> Records:
    """Bring what expires in which file up to date.

    Args:
        snapshot: the log.
        survey: what files without a record hold.
        log: what is appended to.
        last_file_no: the file that the checkpoint will end in, which has none.
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
    """Records of what expires in files that are not among these."""
    gone = expirations(snapshot).keys() - there
    return {Expirations(file_no, False, ()).encode()[0]: None for file_no in gone}


def _expirations_of(file_no: int, hours: Mapping[int, int]) -> Expirations:
    times = sorted(hour for hour, size in hours.items() if size)
    in_hours = any(hour % _HOURS_A_DAY for hour in times)
    unit = 1 if in_hours else _HOURS_A_DAY
    return Expirations(file_no, in_hours, tuple((time // unit, hours[time]) for time in times))


def write_summaries(
    snapshot: Snapshot, survey: Survey, log: CheckpointLog, start_lsn: int
) -> Records:
    """Give files a summary that have none, and let go those of files that are gone or reserved.

    Args:
        snapshot: the log.
        survey: what files without a summary hold.
        log: what is appended to.
        start_lsn: of the CkptStart; files in front of its own need one.
    """
    database = own_database(snapshot, UTILIZATION_DB)
    if database is None:
        return {}
    there = _in_use(snapshot)
    known = {file_no for file_no, _ in _summary_keys(snapshot)}
    records = _gone_summaries(snapshot)
    needing = {file_no for file_no in there - known if file_no < start_lsn >> 32}
    for file_no in sorted(needing):
        key = _summary_key(file_no, survey.summaries[file_no])
        summary = {"summary": asdict(survey.summaries[file_no]), "obsolete_offsets": ()}
        fields = NO_LN | {"db_id": database.db_id, "key": key, "data": b"", "anchor_lsn": NULL_LSN}
        records[key] = log.entry("FileSummaryLN", fields | summary)
    return records


def _in_use(snapshot: Snapshot) -> Set[int]:
    """Files that are there, and not reserved."""
    last_no = snapshot.end.files[-1].file_no
    return (_complete(snapshot) | {last_no}) - reserved_files(snapshot).keys()


def _summary_keys(snapshot: Snapshot) -> Iterator[tuple[int, bytes]]:
    """The file of each record of a summary, and its key."""
    for key, _ in record_places(snapshot, UTILIZATION_DB):
        try:
            yield FileSummaryKey.decode(key).file_no, key
        except TupleError:
            continue


def _gone_summaries(snapshot: Snapshot) -> Records:
    """Summaries of files that are not there, or reserved."""
    there = _in_use(snapshot)
    return {key: None for file_no, key in _summary_keys(snapshot) if file_no not in there}


def stale_records(snapshot: Snapshot) -> Records:
    """Records of files that are gone, which the engine would remove."""
    gone = _gone_expirations(snapshot, _complete(snapshot))
    return gone | _gone_summaries(snapshot) | gone_reserved_files(snapshot)


def _summary_key(file_no: int, counts: FileSummary) -> bytes:
    obsolete = counts.obsolete_in_count + counts.obsolete_ln_count
    return FileSummaryKey(file_no, counts.total_count + obsolete).encode()


def gone_reserved_files(snapshot: Snapshot) -> Records:
    """Records of reserved files that are not there."""
    there = {file.file_no for file in snapshot.end.files}
    reserved = reserved_files(snapshot)
    return {each.encode()[0]: None for no, each in reserved.items() if no not in there}


def finished_removals(snapshot: Snapshot, removed: frozenset[int]) -> Records:
    """Records of scans for databases of which nothing is left when the checkpoint is there.

    The scan would count what their trees hold as obsolete, and trees are not looked for any more.
    """
    left = snapshot.databases.keys() - removed
    return {
        scan.encode()[0]: None
        for scan in internal_records(snapshot, EXTINCT_SCANS_DB)
        if isinstance(scan, DatabaseExtinction) and scan.db_id not in left
    }


_REPLICATED_ENV = 1
_MAX_ENTRIES = 128

_NEEDED_SINCE = {
    UTILIZATION_DB: 0,
    RESERVED_FILES_DB: 15,
    EXPIRATION_DB: 12,
    EXTINCT_SCANS_DB: 17,
}
"""Databases that the engine makes when it opens an environment without them, and since which log
version. Source: DbTree, DbType, JE 7.5.11 and 18.3.12."""


def with_own_databases(snapshot: Snapshot) -> tuple[Snapshot, tuple[Database, ...]]:
    """The same with the databases that the engine would make, which have no tree yet; and those.

    A crash while an environment is made leaves it without some.
    """
    version = snapshot.end.files[-1].version
    root = snapshot.entry(snapshot.checkpoint.root_lsn)
    fields = root.fields if root is not None else {}
    db_id = max([int(fields.get("last_local_db_id", 0)), *snapshot.databases])
    made = []
    for name, since in _NEEDED_SINCE.items():
        # In a group the first removal makes it, for all members.
        by_group = name == EXTINCT_SCANS_DB and fields.get("flags", 0) & _REPLICATED_ENV
        if version < since or by_group or own_database(snapshot, name) is not None:
            continue
        db_id += 1
        record = {
            "id": db_id,
            "name": name,
            "tree_exists": 0,
            "db_flags": 0,
            "btree_comparator": b"",
            "dup_comparator": b"",
            "max_entries": _MAX_ENTRIES,
            "created_at_log_version": version,
        }
        made.append(Database(db_id, name, record, NULL_LSN, NULL_LSN, version))
    if not made:
        return snapshot, ()
    databases = snapshot.databases | {each.db_id: each for each in made}
    return replace(snapshot, databases=databases), tuple(made)


OWN = (UTILIZATION_DB, EXPIRATION_DB, RESERVED_FILES_DB, EXTINCT_SCANS_DB, VLSN_MAP_DB)
"""Databases of which a checkpoint changes records, and which are written behind all others."""
