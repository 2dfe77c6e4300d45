"""Facts of a diagnosis, as the views show them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.findings import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from je_tools.files.listing import FileRow
    from je_tools.journal.report import JournalReport
    from je_tools.missing.losses import LossReport
    from je_tools.recovery.end import LogEnd
    from je_tools.recovery.lost_content import LostContent
    from je_tools.recovery.plan import Plan
    from je_tools.space.usage import DiskUse, Space
    from je_tools.verify.odd_flags import Period
    from je_tools.verify.totals import Totals
    from je_tools.vlsn.quick_check import QuickCheck
    from je_tools.writing.lock import Holder


class OpenOutcome(StrEnum):
    """Result of an attempt of the engine to open the log and to use it, the worst first."""

    NO_LOG = "no-log"
    """Nothing can be read as a log."""
    UNSAFE = "unsafe"
    """An operation of je-tools was interrupted, and the log is in a state between two others."""
    REFUSES = "refuses"
    """The engine would not open the log."""
    FAILS = "fails"
    """The engine may open the log, and fails or gives wrong answers when it uses it."""
    STOPS = "stops"
    """The engine opens the log, but the front end that uses it stops."""
    LOSES = "loses"
    """The engine opens the log, and cuts off whole entries."""
    LOCKED = "locked"
    """No damage was found, but another process has the log open for writing."""
    OPENS = "opens"
    """The engine opens the log, and no loss was found."""


class State(StrEnum):
    """State of one aspect of an environment."""

    OK = "ok"
    UNKNOWN = "unknown"
    """It was not examined."""
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


_BY_SEVERITY = {
    Severity.ERROR: State.ERROR,
    Severity.WARNING: State.WARNING,
    Severity.NOTE: State.NOTE,
}
"""States of an aspect by the severity of a finding on it, the worst first."""


def worst_state(findings: Iterable[Finding]) -> State:
    """Return the state of an aspect with these findings; OK without any."""
    severities = {each.severity for each in findings}
    return next((state for each, state in _BY_SEVERITY.items() if each in severities), State.OK)


class Condition(Struct, frozen=True):
    """One aspect of an environment.

    Attributes:
        name: the aspect in a word or two.
        state: its state.
        text: the details.
    """

    name: str
    state: State
    text: str


class Step(Struct, frozen=True):
    """A command to run next.

    Attributes:
        command: a command line that can be pasted.
        why: its purpose.
        changes: True if it changes the log.
    """

    command: str
    why: str
    changes: bool = False


class Releases(Struct, frozen=True):
    """Releases of the engine that open the log.

    Attributes:
        versions: log versions of the files, ascending.
        written_by: releases that write the highest of these versions.
        opened_from: lowest release that opens the log; None if no header is good.
        not_opened_by: later releases that must not open it, with the reasons.
    """

    versions: tuple[int, ...]
    written_by: str | None
    opened_from: str | None
    not_opened_by: tuple[str, ...]


class LogFacts(Struct, frozen=True):
    """Result of one scan of the whole log.

    Attributes:
        rows: the files.
        findings: findings of `verify`, in its order.
        totals: counts of entries and of damage.
        releases: releases of the engine that open these files.
        periods: rollback periods.
    """

    rows: tuple[FileRow, ...]
    findings: tuple[Finding, ...]
    totals: Totals
    releases: Releases
    periods: tuple[Period, ...] = ()


class RecoveryRepair(Struct, frozen=True):
    """Repair of the log by `recover --apply`.

    Attributes:
        in_place: True if it writes this log version in place, and not only to a copy.
    """

    in_place: bool


class Replication(Struct, frozen=True):
    """A node of a replication group, and the journals of a front end.

    Attributes:
        node: the node; None if the log is not replicated, or could not be examined.
        journals: the journals; None if the log is not that of a front end.
        has_values: True if the values of journals were read.
        problems: reasons why something could not be examined.
    """

    node: QuickCheck | None
    journals: JournalReport | None
    has_values: bool
    problems: tuple[str, ...] = ()


class Recovered(Struct, frozen=True):
    """The log after recovery in memory.

    Attributes:
        plan: the changes that recovery would make.
        findings: findings of the snapshot, and with `has_trees` those of its trees.
        missing: losses from missing, unreadable and short files; None if the trees were not
            searched for them.
        space: disk space and use of each file.
        has_trees: True if all B-trees were checked.
        is_at_rest: True if the engine would open the log and write nothing.
        replication: its group and journals; None if it has neither.
    """

    plan: Plan
    findings: tuple[Finding, ...]
    missing: LossReport | None
    space: Space
    has_trees: bool
    is_at_rest: bool
    replication: Replication | None = None

    @property
    def end(self) -> LogEnd:
        """End of the log."""
        return self.plan.end

    @property
    def lost(self) -> LostContent:
        """Content after the end of the log."""
        return self.plan.lost


class NotRecovered(Struct, frozen=True):
    """A log without a state after recovery.

    Attributes:
        reason: the reason, without the name of the environment.
        is_refused: True if the engine would refuse the log for this reason.
    """

    reason: str
    is_refused: bool


class Surroundings(Struct, frozen=True):
    """Files beside the log, and the processes that use it.

    Attributes:
        holders: processes that hold the engine's lock.
        lock_problem: reason why the lock could not be examined; None if it could.
        put_aside: names of files with the suffix .bad, .del or .bup, relative to the home.
        is_marked: True if there is a marker file, 7fffffff.jdb.
        interrupted: description of an operation of je-tools that was interrupted; None for none.
        is_erased_in_part: True if that is an erasure.
        undo_count: number of undo journals.
        refused_settings: settings of je.properties that the engine refuses, as sentences.
        settings_problem: reason why je.properties could not be read; None if it could.
        disk: disk limits and free space; sizes of files are those of the directory.
        logs_below: directories below this one that hold log files, if it holds none.
        owner: name of the owner of the directory, or its number as text; None if unknown.
    """

    holders: tuple[Holder, ...] = ()
    lock_problem: str | None = None
    put_aside: tuple[str, ...] = ()
    is_marked: bool = False
    interrupted: str | None = None
    is_erased_in_part: bool = False
    undo_count: int = 0
    refused_settings: tuple[str, ...] = ()
    settings_problem: str | None = None
    disk: DiskUse | None = None
    logs_below: tuple[str, ...] = ()
    owner: str | None = None


class Diagnosis(Struct, frozen=True):
    """The answer about one environment.

    Attributes:
        env: name of the environment as the user wrote it.
        outcome: result of an attempt of the engine to open the log.
        verdict: the answer in one sentence.
        reasons: reasons for the outcome, the worst first; empty if the engine opens the log.
        releases: releases of the engine; None without a log.
        log: result of the scan; None without a log.
        recovered: the log after recovery, or the reason why there is none; None without a log.
        surroundings: what lies beside the log.
        conditions: aspects of the environment.
        findings: all findings, each once: the worst first, else in log order.
        steps: commands to run next, the safest first.
    """

    env: str
    outcome: OpenOutcome
    verdict: str
    reasons: tuple[str, ...]
    releases: Releases | None
    log: LogFacts | None
    recovered: Recovered | NotRecovered | None
    surroundings: Surroundings
    conditions: tuple[Condition, ...]
    findings: tuple[Finding, ...]
    steps: tuple[Step, ...]

    @property
    def state(self) -> Recovered | None:
        """The log after recovery; None if there is none."""
        return self.recovered if isinstance(self.recovered, Recovered) else None

    @property
    def is_damaged(self) -> bool:
        """True if there is an error, or a loss."""
        has_errors = any(found.severity is Severity.ERROR for found in self.findings)
        return has_errors or self.outcome not in (OpenOutcome.LOCKED, OpenOutcome.OPENS)
