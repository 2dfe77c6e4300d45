"""Findings of `verify --tree`: problems of the B-trees of a log and of its file summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.btree.check.cleaner_metadata import CleanerMetadata, read_cleaner_metadata
from je_tools.btree.check.problems import LISTED, TreeProblem, TreeProblems
from je_tools.btree.check.run import check_trees
from je_tools.btree.check.utilization import wrong_totals
from je_tools.core.escaping import printable
from je_tools.errors import InputError
from je_tools.findings import CODES, Finding, Severity, TreePlace
from je_tools.formats.je.header import NULL_LSN
from je_tools.log.file_findings import finding_at
from je_tools.log.images import unchanged
from je_tools.recovery.database import NAME_DB, Database
from je_tools.recovery.findings import log_findings
from je_tools.recovery.opening import take_snapshot

if TYPE_CHECKING:
    from je_tools.formats.je.log.fingerprints import Fingerprints
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.recovery.snapshot import Snapshot


class TreeCheckInput(Struct, frozen=True):
    """The input of the check of trees: a snapshot, and the cleaner metadata in it."""

    snapshot: Snapshot
    cleaner: CleanerMetadata


def open_trees(
    environment: Environment, scanner: Scanner, now_ms: int, to_lsn: int | None = None
) -> TreeCheckInput:
    """Read the input of `tree_findings`.

    Args:
        environment: a whole directory.
        scanner: settings for reading it.
        now_ms: records that expired before this time may be gone.
        to_lsn: end the log with the entry at this LSN.

    Raises:
        InputError: the log has no root, and so no trees.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    snapshot = take_snapshot(environment, scanner, now_ms=now_ms, to_lsn=to_lsn)
    with unchanged(snapshot.check_files):
        return TreeCheckInput(snapshot, read_cleaner_metadata(snapshot))


def tree_findings(
    environment: Environment,
    scanner: Scanner,
    opened: Callable[[], TreeCheckInput],
    *,
    utilization: bool = False,
    prints: Fingerprints | None = None,
) -> Iterator[Finding]:
    """Yield the findings of the B-trees of a log.

    Args:
        environment: a whole directory.
        scanner: settings for reading it.
        opened: returns the result of `open_trees`, or raises its errors.
        utilization: True to compare the totals in file summaries with a count too.
        prints: fingerprints of records that a scan found good; these are not read again.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    try:
        trees = opened()
    except InputError as error:
        yield finding_at(environment, "recovery-refused", found=str(error))
        return
    with unchanged(trees.snapshot.check_files):
        yield from _of_snapshot(trees.snapshot, trees.cleaner, prints)
        if utilization:
            yield from _of_totals(environment, scanner, trees.cleaner)


def _of_snapshot(
    snapshot: Snapshot, cleaner: CleanerMetadata, prints: Fingerprints | None
) -> Iterator[Finding]:
    yield from log_findings(snapshot)
    yield from _of_names(snapshot)
    for database, problems in check_trees(snapshot, cleaner, prints):
        if snapshot.image.has_lost_page:
            # A page could not be read. If its file has changed, the problems are not damage.
            snapshot.check_files()
        yield from _of_problems(snapshot, database, problems)


def shown_name(database: Database) -> str:
    """Return the name of a database, or its id if it has none."""
    return f"id:{database.db_id}" if database.name is None else printable(database.name)


def _of_problems(
    snapshot: Snapshot, database: Database, problems: TreeProblems
) -> Iterator[Finding]:
    for problem in problems.listed:
        yield _of_problem(snapshot, database, problem)
    for code, count in sorted(problems.unlisted.items()):
        yield finding_at(
            snapshot.environment,
            "more-tree-damage",
            severity=CODES[code].severity,
            found=f"{count:,} more {code} in database {shown_name(database)}",
        )


def _of_problem(snapshot: Snapshot, database: Database, problem: TreeProblem) -> Finding:
    place = TreePlace(
        shown_name(database),
        None if problem.parent_lsn == NULL_LSN else problem.parent_lsn,
        None if problem.slot < 0 else problem.slot,
        problem.low,
        problem.high,
        problem.loses,
    )
    return finding_at(
        snapshot.environment,
        problem.code,
        problem.lsn,
        expected=problem.expected,
        found=problem.found,
        tree=place,
    )


def _of_names(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield findings for names without a descriptor, at most LISTED."""
    severity = Severity.WARNING if snapshot.was_crashed else Severity.ERROR
    names = snapshot.databases[NAME_DB]
    count = 0
    for batch in snapshot.records(names, with_data=False):
        for row in range(len(batch)):
            entry = snapshot.entry(int(batch.lsn[row]))
            db_id = entry.fields.get("name_db_id") if entry is not None else None
            if entry is None or db_id is None or db_id in snapshot.databases:
                continue
            count += 1
            if count > LISTED:
                return
            key = batch.key[row] or b""
            place = TreePlace(shown_name(names), None, None, key, key, loses=True)
            yield finding_at(
                snapshot.environment,
                "tree-name",
                int(batch.lsn[row]),
                expected=f"the descriptor of database id:{db_id}",
                found="none",
                tree=place,
                severity=severity,
            )


def _of_totals(
    environment: Environment, scanner: Scanner, cleaner: CleanerMetadata
) -> Iterator[Finding]:
    for difference in wrong_totals(environment, scanner, cleaner):
        yield finding_at(
            environment,
            "utilization",
            difference.lsn,
            expected=f"of file {difference.file_no:08x}.jdb {_totals(difference.counted)}",
            found=_totals(difference.stored),
        )


def _totals(totals: dict[str, int]) -> str:
    return ", ".join(f"{name} {value:,}" for name, value in totals.items())
