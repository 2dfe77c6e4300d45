"""A node of a replication group, and the journals of a front end, as `doctor` examines them.

The check of the node is that of `vlsn check`, without a second pass over the log. Of journals, only
keys are read, unless the trees are checked too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.doctor.facts import Replication
from je_tools.errors import InputError
from je_tools.formats.je.internal.names import REP_GROUP_DB
from je_tools.group.members import group_findings, read_group
from je_tools.journal.front_end import find_front_end
from je_tools.journal.group_facts import group_facts
from je_tools.journal.journal_findings import journal_findings
from je_tools.journal.report import report_journals
from je_tools.journal.series import GROUP_NAME, epochs_among, journals_among
from je_tools.recovery.internal_databases import internal_database, is_replicated
from je_tools.vlsn.quick_check import QuickCheck, quick_check

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.journal.report import JournalReport
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.verify.odd_flags import Period


class Examined(Struct, frozen=True):
    """Result of an examination: the facts, and what is wrong."""

    replication: Replication | None
    findings: tuple[Finding, ...] = ()


def examine_replication(
    snapshot: Snapshot, periods: Sequence[Period], *, with_values: bool
) -> Examined:
    """Examine a node; nothing for an environment that is neither replicated nor a front end's.

    Faults of the trees that are read are added to `snapshot.faults`.

    Args:
        snapshot: the log.
        periods: all rollbacks of the log.
        with_values: also read the values of journals.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    node: QuickCheck | None = None
    journals: JournalReport | None = None
    problems: list[str] = []
    if is_replicated(snapshot):
        try:
            node = quick_check(snapshot, periods)
        except InputError as error:
            problems.append(str(error))
    if _is_front_end(snapshot, node):
        try:
            front_end = find_front_end(Path(snapshot.environment.name))
            journals = report_journals(snapshot, front_end, with_values=with_values)
        except InputError as error:
            problems.append(str(error))
    if node is None and journals is None and not problems:
        return Examined(None)
    name = f"{snapshot.environment.name}: "
    texts = tuple(each.removeprefix(name) for each in problems)
    facts = Replication(node, journals, with_values, texts)
    return Examined(facts, tuple(_findings(snapshot, facts)))


def _is_front_end(snapshot: Snapshot, node: QuickCheck | None) -> bool:
    """Return whether a log is that of a StarRocks or Doris front end."""
    name = node.group.name if node is not None else group_facts(snapshot).name
    if name is not None:
        return name == GROUP_NAME
    databases = list(snapshot.databases.values())
    return bool(journals_among(databases)) and epochs_among(databases) is not None


def _findings(snapshot: Snapshot, facts: Replication) -> Iterator[Finding]:
    if facts.node is not None:
        yield from facts.node.findings
    if internal_database(snapshot, REP_GROUP_DB) is not None:
        yield from group_findings(snapshot, read_group(snapshot))
    if facts.journals is not None:
        yield from journal_findings(facts.journals, snapshot.environment.name)
