"""Findings of a snapshot: the damage in it, and the trouble that the engine would have with it.

Source: je-log.md "Recovery" and "Where a log ends, and what damage costs".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

import numpy as np

from je_tools.btree.fault_kinds import FAULT_TEXTS, Fault, FaultKind
from je_tools.core.escaping import printable
from je_tools.core.masking import SHOWN, Masking
from je_tools.findings import CODES, Finding, Severity
from je_tools.formats.je.flags import NameOperation
from je_tools.formats.je.header import NULL_LSN, lsn_text
from je_tools.formats.je.internal.names import INTERNAL_PREFIX
from je_tools.log.file_findings import finding_at, unreadable_findings
from je_tools.log.wrong_places import foreign_findings
from je_tools.recovery.database import NAME_DB
from je_tools.recovery.end import EndReason
from je_tools.recovery.refusals import REFUSALS, WHY

if TYPE_CHECKING:
    from je_tools.recovery.snapshot import Snapshot

_WAITS_SINCE = 19
"""Log version of the first engine that can deadlock with itself when it creates a database."""


_CODES = {
    FaultKind.WRONG_ROOT_MARK: "tree-level",
    FaultKind.OTHER_RANGE: "tree-identifier",
}
"""Codes of faults other than `tree-damage`."""

_WARNING_CODES = {
    FaultKind.STRAY_SLOTS: "stray-slots",
    FaultKind.SPLIT_CUT_SHORT: "root-split-cut-short",
    FaultKind.EXPIRATION_UNIT: "expiration-unit",
}
"""Codes of faults that are no damage, but make the engine go wrong."""


_ELSEWHERE = {
    FaultKind.MISSING,
    FaultKind.DAMAGED,
    FaultKind.NOT_A_NODE,
    FaultKind.NOT_A_RECORD,
}
"""Faults whose place may be in a file of another log."""


def snapshot_findings(snapshot: Snapshot, masking: Masking = SHOWN) -> list[Finding]:
    """Return the findings of a snapshot, including those of trees that have been read.

    Args:
        snapshot: the snapshot.
        masking: masking of keys.
    """
    return [*log_findings(snapshot), *_of_trees(snapshot, masking)]


def log_findings(snapshot: Snapshot) -> list[Finding]:
    """Return the findings of a snapshot, without those of damage in trees."""
    return [*_of_log(snapshot), *_of_creations(snapshot), *_of_databases(snapshot)]


def missing_findings(snapshot: Snapshot, known: Collection[int] = ()) -> list[Finding]:
    """Return findings of missing files that the engine's own counts show as in use.

    For callers that do not read the data of records, and so would not notice a missing file.

    Args:
        snapshot: the snapshot.
        known: numbers of files to leave out.
    """
    if not snapshot.environment.missing:
        return []
    from je_tools.recovery.utilization import missing_in_use

    code = CODES["missing-file"]
    return [
        Finding(
            code.name,
            Severity.ERROR,
            snapshot.environment.name,
            file_no,
            expected="a file that the log counts as in use",
            found="none; records in it count if their keys are known",
            hint=f"`je-tools missing` lists what is lost with it. {code.hint}",
        )
        for file_no in missing_in_use(snapshot)
        if file_no not in known
    ]


def _of_log(snapshot: Snapshot) -> Iterator[Finding]:
    yield from unreadable_findings(snapshot.environment)
    for refusal in snapshot.refusals:
        yield finding_at(
            snapshot.environment,
            "recovery-refused",
            found=WHY[refusal],
            hint=REFUSALS[refusal].hint,
        )
    end = snapshot.end
    if end.reason is EndReason.DAMAGED:
        count = len(end.commits_after_end)
        what = f"{count:,} Commits" if count else "whole entries"
        found = f"{what} in the {end.cut_size:,} bytes from there on"
        code = "lost-tail" if count else "damaged-end"
        yield finding_at(snapshot.environment, code, end.next_lsn, length=end.cut_size, found=found)
    yield from _of_skipped_ranges(snapshot)
    for txn_id in sorted(snapshot.interval.in_doubt):
        yield finding_at(
            snapshot.environment, "transaction-in-doubt", found=f"transaction {txn_id}"
        )


def _of_skipped_ranges(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield a finding for each range that the backward passes of recovery jump over."""
    interval = snapshot.interval
    skipped = interval.skipped_ends
    for start, stop in interval.backward.skipped:
        inside = [
            int(np.count_nonzero((lsns >= start) & (lsns < stop)))
            for lsns in (skipped.lsn[skipped.is_commit], interval.lns.lsn)
        ]
        found = f"{inside[0]:,} Commits and {inside[1]:,} LNs that the backward passes jump over"
        length = stop - start if stop >> 32 == start >> 32 else None
        yield finding_at(snapshot.environment, "backward-jump", start, length=length, found=found)


def _of_databases(snapshot: Snapshot) -> Iterator[Finding]:
    for database in snapshot.databases.values():
        if database.name is None:
            continue
        if database.comparators:
            yield finding_at(
                snapshot.environment, "unknown-order", found=f"database {printable(database.name)}"
            )
        changes = snapshot.ln_count(database.db_id) if database.old_duplicates else 0
        if changes:
            found = f"{changes:,} writes of database {printable(database.name)}"
            yield finding_at(snapshot.environment, "old-form-left-out", found=found)


def _of_creations(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield findings of the engine's own databases whose uncommitted creation has no descriptor."""
    lns = snapshot.interval.lns
    if snapshot.end.files[-1].version < _WAITS_SINCE:
        return
    for row in np.flatnonzero((lns.db_id == NAME_DB) & snapshot.rules.is_undone(lns)).tolist():
        lsn = int(lns.lsn[row])
        entry = snapshot.entry(lsn)
        fields = entry.fields if entry is not None else {}
        name = bytes(fields.get("key", b"")).decode("utf-8", "replace")
        is_new = fields.get("operation") == NameOperation.CREATE and not fields["deleted"]
        is_new = is_new and fields["name_db_id"] not in snapshot.databases
        if is_new and name.startswith(INTERNAL_PREFIX):
            yield finding_at(
                snapshot.environment, "creation-cut-short", lsn, found=f"name {printable(name)}"
            )


def _of_trees(snapshot: Snapshot, masking: Masking) -> Iterator[Finding]:
    faults = snapshot.faults
    for fault in faults.damage:
        yield finding_at(
            snapshot.environment,
            _CODES.get(fault.kind, "tree-damage"),
            fault.lsn,
            expected=_expected(snapshot, fault, masking.key_text),
            found=FAULT_TEXTS[fault.kind],
        )
    yield from _of_foreign_files(snapshot)
    if faults.left_out_count:
        yield finding_at(
            snapshot.environment, "more-tree-damage", found=f"{faults.left_out_count} more places"
        )
    for kind, code in _WARNING_CODES.items():
        for fault in faults.warnings.values():
            if fault.kind is kind:
                # One finding per kind and database; it counts the nodes.
                count = faults.warning_count(kind, fault.db_id)
                found = f"{count} nodes of {_name(snapshot, fault.db_id)}, this one first"
                yield finding_at(snapshot.environment, code, fault.lsn, found=found)
    severity = Severity.WARNING if snapshot.was_crashed else Severity.ERROR
    for db_id, name in snapshot.names.items():
        if db_id not in snapshot.databases:
            found = f"no descriptor of database {printable(name)}, id:{db_id}"
            yield finding_at(snapshot.environment, "tree-name", severity=severity, found=found)


def _of_foreign_files(snapshot: Snapshot) -> list[Finding]:
    """Return findings of files of another log, by the damage found in trees so far."""
    lsns = [fault.lsn for fault in snapshot.faults.damage if fault.kind in _ELSEWHERE]
    if snapshot.foreign[0] != len(lsns):
        snapshot.foreign = len(lsns), list(foreign_findings(snapshot.environment, lsns))
    return snapshot.foreign[1]


def _expected(snapshot: Snapshot, fault: Fault, key_text: Callable[[bytes], str]) -> str:
    name = _name(snapshot, fault.db_id)
    if fault.parent_lsn == NULL_LSN and fault.low is not None and fault.low == fault.high:
        return f"the record of key {key_text(fault.low)} of {name}"
    under = (
        "the root" if fault.parent_lsn == NULL_LSN else f"a node under {lsn_text(fault.parent_lsn)}"
    )
    low = "the first key" if fault.low is None else key_text(fault.low)
    high = "the last key" if fault.high is None else f"before {key_text(fault.high)}"
    return f"{under} of {name}, for keys from {low} to {high}"


def _name(snapshot: Snapshot, db_id: int) -> str:
    database = snapshot.databases.get(db_id)
    return printable(database.name) if database and database.name else f"id:{db_id}"
