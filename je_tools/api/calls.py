"""Calls of the API: the log that a call reads, and the findings that it reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.api.arguments import Lsn, Time, lsn_argument, named_arguments, time_argument
from je_tools.errors import StoppedError, UsageError
from je_tools.log.scan import Scanner
from je_tools.recovery.choices import ChosenEnd, chosen_snapshot
from je_tools.verify.totals import Totals

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.findings import Finding
    from je_tools.log.environment import Environment
    from je_tools.recovery.snapshot import Snapshot

Report = Callable[["Finding"], None]


def end_argument(to_lsn: Lsn | None, to_vlsn: int | None, to_time: Time | None) -> ChosenEnd:
    """Return the chosen end of a log."""
    return ChosenEnd(lsn_argument("to_lsn", to_lsn), to_vlsn, time_argument("to_time", to_time))


class Call(Struct, frozen=True):
    """Input of a call.

    Attributes:
        environment: the log as it is when the call begins.
        threads: number of threads; 0 for one a core.
        masking: masking of keys and values, also in findings.
        report: called with each finding.
    """

    environment: Environment
    threads: int
    masking: Masking
    report: Report

    def report_all(self, findings: Iterable[Finding]) -> None:
        """Report findings."""
        for found in findings:
            self.report(found)


class RecordRequest(Struct, frozen=True, kw_only=True):
    """Records that a caller wants, or the databases that hold them.

    Attributes:
        end: end of the log.
        now: time at which records are read, as text; None for the current time.
        databases: names and ids; empty for all databases of applications.
        internal: without names, also the engine's own databases.
        show_expired: include expired records.
        key_range: range of keys as `--key-range` takes it; None for all.
    """

    end: ChosenEnd
    now: str | None = None
    databases: tuple[str, ...] = ()
    internal: bool = False
    show_expired: bool = False
    key_range: str | None = None


class FindingReporter(Totals, kw_only=True):
    """Totals that pass each finding to the caller as it is counted."""

    report: Report

    def count(self, found: Finding) -> None:
        """Count and report a finding."""
        super().count(found)
        self.report(found)


def check_home(call: Call) -> None:
    """Check that a whole environment was opened.

    Raises:
        UsageError: single files were.
    """
    if not call.environment.is_directory:
        raise UsageError(
            f"{call.environment.name}: single files: open the environment's home, their directory"
        )


@contextmanager
def recovered(call: Call, request: RecordRequest) -> Iterator[Snapshot]:
    """Open the log as recovery leaves it, and report its findings at the end.

    If a generator that uses the snapshot is closed early, the findings on what it has read are
    reported.

    Raises:
        UsageError: single files, or there is no such end or time.
        InputError: nothing in the log leads to records.
        StoppedError: a file shrank, vanished or was replaced, which may show only at the end.
    """
    check_home(call)
    # Not later: batches may be closed while Python shuts down, when nothing can be imported.
    from je_tools.recovery.findings import snapshot_findings

    def report() -> None:
        # Damage in files that have changed may be only apparent.
        snapshot.check_files()
        call.report_all(snapshot_findings(snapshot, call.masking))

    scanner = Scanner(threads=call.threads, wide=True)
    with (
        named_arguments(),
        chosen_snapshot(call.environment, scanner, request.end, request.now) as snapshot,
    ):
        try:
            yield snapshot
        except GeneratorExit:
            with suppress(StoppedError):
                report()
            raise
        report()
