"""Stakes of one environment of an audit: its values, findings, files, and report on a node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, astuple

from je_tools.audit.member_reading import read_member
from je_tools.audit.read_logs import ReadLog, Weighed
from je_tools.audit.rows import signed, unread
from je_tools.audit.stakes import StakeParts, Stakes, find_stakes
from je_tools.doctor.log_scan import facts_of, scan_log
from je_tools.doctor.loss_search import loss_search
from je_tools.doctor.recovered import Examiners
from je_tools.doctor.replication import examine_replication
from je_tools.findings import CODES, Finding, Severity
from je_tools.missing.run import report_losses

if TYPE_CHECKING:
    from je_tools.doctor.facts import LogFacts
    from je_tools.formats.je.log.fingerprints import Fingerprints
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner

ScanLog = Callable[["Environment", "Scanner", "Fingerprints | None"], "LogFacts"]

_LSNS = ("lost_first_lsn", "lost_last_lsn")


class Weigher(Struct, frozen=True):
    """Finds the stakes of environments, in any process.

    Attributes:
        tree: also check the B-trees; a log is then read again, for fingerprints of its records.
    """

    tree: bool = False

    def __call__(self, read: ReadLog) -> Weighed:
        """Return the stakes of an environment.

        Nothing is known of a log that could not be read to its end.
        """
        if any(each.code == "unread" for each in read.findings):
            return Weighed({})
        log = facts_of(read.listing, read.findings, read.periods)

        def scan(
            environment: Environment, scanner: Scanner, prints: Fingerprints | None
        ) -> LogFacts:
            return log if prints is None else scan_log(environment, scanner, prints)

        stakes = find_stakes(read.environment, parts_with(scan), env=read.env, tree=self.tree)
        return Weighed(
            _values(stakes),
            tuple(_findings(stakes, read.env, log)),
            tuple((read.env, *astuple(each)) for each in stakes.files),
            stakes.member,
        )


def parts_with(scan: ScanLog) -> StakeParts:
    """Return the functions that `find_stakes` needs.

    Args:
        scan: returns what a scan has found, as `log_scan.scan_log` does.
    """

    def examiners(on_refused: Callable[[Exception], None]) -> Examiners:
        losses = loss_search(report_losses, None, on_refused)
        # Only `doctor` says how a log would be repaired.
        return Examiners(scan, examine_replication, losses, lambda *_: None)

    return StakeParts(examiners, read_member)


def _values(stakes: Stakes) -> dict[str, Any]:
    values: dict[str, Any] = {
        "outcome": stakes.outcome,
        "verdict": stakes.verdict,
        "last_commit_ms": stakes.last_commit_ms,
        "last_commit_vlsn": stakes.last_commit_vlsn,
    }
    for part in (stakes.loss, stakes.node, stakes.space):
        if part is not None:
            values |= asdict(part)
    return values | {name: signed(values.get(name)) for name in _LSNS}


def _findings(stakes: Stakes, env: str, log: LogFacts) -> Iterator[Finding]:
    """Yield the findings that the scan of the log does not have.

    What is not known, and what is wrong without being a finding, must not pass as intact.
    """
    yield from stakes.findings
    if stakes.problems:
        yield unread(env, f"not all is known of recovery: {'; '.join(stakes.problems)}")
    found = (*log.findings, *stakes.findings)
    if stakes.is_damaged and not any(each.severity is Severity.ERROR for each in found):
        code = CODES["recovery-refused"]
        yield Finding(code.name, code.severity, env, found=stakes.verdict, hint=code.hint)
