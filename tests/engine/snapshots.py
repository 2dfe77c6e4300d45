"""Our snapshot as an answer in a campaign: records or a refusal, with warnings of engine errors.

`python -m tests.engine.snapshots [SEED [WORKLOADS [CRASHES]]] [COORDINATE]` compares it with the
engine; `... DIR NOW_MS [COORDINATE]` does so for one log that a campaign kept.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from je_tools.btree.fault_kinds import FaultKind
from je_tools.btree.faults import WARNING_KINDS
from je_tools.checkpoint.slot_repair import FAR_MS
from je_tools.errors import InputError
from je_tools.formats.je.expirations import expiration_ms
from je_tools.formats.je.header import FILE_HEADER_SIZE
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.end import REPAIRED_REFUSALS
from je_tools.recovery.findings import missing_findings, snapshot_findings
from je_tools.recovery.opening import take_snapshot
from je_tools.recovery.snapshot import Snapshot
from je_tools.recovery.utilization import reserved_files, stored_summaries
from tests.engine.campaign import Foretold, Warned, main
from tests.truth.contents import Contents, Refusal


def recovered(home: Path, now_ms: int, *, threads: int | None = None) -> Foretold:
    """Return the snapshot's records or refusal for a directory, and its warnings.

    Args:
        home: the directory.
        now_ms: time at which records expire.
        threads: number of reading threads; if None, one or two, by the name of the directory.
    """
    is_odd = sum(home.name.encode()) % 2 == 1
    if threads is None:
        threads = 1 + is_odd
    scanner = Scanner(threads=threads)
    try:
        snapshot = take_snapshot(open_environment([home]), scanner, now_ms=now_ms)
    except InputError as error:
        return Foretold(Refusal("open", _reason(str(error), home), str(error)), frozenset())
    contents = contents_of(snapshot)
    warnings = frozenset(_warned(snapshot))
    reasons = [str(each) for each in snapshot.refusals if each not in REPAIRED_REFUSALS]
    if reasons:
        return Foretold(Refusal("open", reasons[0], ", ".join(reasons)), warnings)
    return Foretold(contents, warnings)


def _reason(text: str, home: Path) -> str:
    """Return the reason of a refusal if the engine gives it too, else "another".

    If a file is only a whole header, the engine reads it and finds no root after it.
    """
    files = open_environment([home]).files
    is_alone = any(file.size == FILE_HEADER_SIZE and file.header.good for file in files)
    empty = "header-alone" if is_alone else "no-file"
    known = {"root of the databases": "no-root", "no file holds": empty, "the header of": "no-file"}
    return next((reason for words, reason in known.items() if words in text), "another")


def _warned(snapshot: Snapshot) -> Iterator[Warned]:
    """Yield warnings for faults of trees, by database, and for what keeps the engine from opening.

    A missing file may be one that the cleaner removed after the place at which the log is cut. No
    crash leaves such a log, and the engine may search the file for nodes that recovery replaces.
    """
    if missing_findings(snapshot) or _removed_later(snapshot):
        yield Warned("missing-file", None)
    told = {each.code for each in snapshot_findings(snapshot)}
    for fault in snapshot.faults:
        database = snapshot.databases.get(fault.db_id)
        name = database.name if database and not database.is_internal else None
        if fault.kind in WARNING_KINDS:
            assert fault.kind.value in told
            yield Warned(fault.kind.value, name)
        elif fault.kind is FaultKind.OTHER_RANGE:
            assert "tree-identifier" in told
            yield Warned(fault.kind.value, name)
        else:
            assert {"tree-damage", "tree-level"} & told
            yield Warned("damage", name)
    if snapshot.faults.left_out_count:
        yield Warned("damage", None)
    if REPAIRED_REFUSALS & set(snapshot.refusals):
        yield Warned("locked out", None)


def _removed_later(snapshot: Snapshot) -> set[int]:
    """Return the numbers of missing files whose removal is not in the log."""
    there = {file.file_no for file in snapshot.environment.files}
    counted = {file_no for file_no, _, _ in stored_summaries(snapshot).newest()}
    return counted - there - reserved_files(snapshot).keys()


def contents_of(snapshot: Snapshot) -> Contents:
    """Return the records of the user's databases."""
    found: Contents = {}
    for database in snapshot.databases.values():
        if database.name is None or database.is_internal:
            continue
        records = found[database.name] = []
        for batch in snapshot.records(database):
            for row in range(len(batch)):
                key, data = batch.key[row], batch.data[row]
                records.append((key or b"", b"<no data>" if data is None else data))
    return found


def lapsed(home: Path, now_ms: int, *, by_unit: bool = False) -> dict[str, set[bytes]]:
    """Return keys of records that exist because an engine took hours of expiration for days.

    Our checkpoint restores the expirations of their entries, by which they have expired.

    Args:
        home: the directory.
        now_ms: time at which records expire.
        by_unit: use the expirations that the application set, as the replay of the whole log
            does: an update writes the slot's expiration, already multiplied, to its entry.
    """
    snapshot = take_snapshot(open_environment([home]), Scanner(threads=1), now_ms=now_ms)
    found: dict[str, set[bytes]] = {}
    for database in snapshot.databases.values():
        if database.name is None or database.is_internal:
            continue
        for batch in snapshot.records(database):
            for row in (batch.expires_ms > FAR_MS).nonzero()[0].tolist():
                expires = int(batch.expires_ms[row])
                while by_unit and expires > FAR_MS:
                    expires //= 24
                entry = None if by_unit else snapshot.entry(int(batch.lsn[row]))
                if entry is not None:
                    expires = int(expiration_ms(np.array([entry.fields["expiration"]]))[0])
                if 0 < expires < now_ms:
                    found.setdefault(database.name, set()).add(batch.key[row] or b"")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], recovered))
