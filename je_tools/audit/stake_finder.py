"""The finder of the stakes of environments, small enough to be sent to any process.

The process that plans an audit does without the modules that its functions load.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.audit.judged_log import StakeRows

if TYPE_CHECKING:
    from je_tools.audit.judged_log import JudgedLog
    from je_tools.audit.stakes import StakeParts
    from je_tools.doctor.facts import LogFacts
    from je_tools.doctor.recovered import Examiners
    from je_tools.formats.je.log.fingerprints import Fingerprints
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner

ScanLog = Callable[["Environment", "Scanner", "Fingerprints | None"], "LogFacts"]


class StakeFinder(Struct, frozen=True):
    """Finds the stakes of environments.

    Attributes:
        tree: also check the B-trees; a log is then read again, for fingerprints of its records.
    """

    tree: bool = False

    def __call__(self, read: JudgedLog) -> StakeRows:
        """Return the stakes of an environment.

        Nothing is known of a log that could not be read to its end.
        """
        from je_tools.audit.stake_rows import stake_rows
        from je_tools.audit.stakes import find_stakes
        from je_tools.doctor.log_scan import facts_of, scan_log

        if any(each.code == "unread" for each in read.findings):
            return StakeRows({})
        log = facts_of(read.listing, read.findings, read.periods)

        def scan(
            environment: Environment, scanner: Scanner, prints: Fingerprints | None
        ) -> LogFacts:
            return log if prints is None else scan_log(environment, scanner, prints)

        stakes = find_stakes(read.environment, parts_with(scan), env=read.env, tree=self.tree)
        return stake_rows(stakes, read.env, log)


def parts_with(scan: ScanLog) -> StakeParts:
    """Return the functions that `find_stakes` needs.

    Args:
        scan: returns what a scan has found, as `log_scan.scan_log` does.
    """
    from je_tools.audit.member_reading import read_member
    from je_tools.audit.stakes import StakeParts
    from je_tools.doctor.loss_search import loss_search
    from je_tools.doctor.recovered import Examiners
    from je_tools.doctor.replication import examine_replication
    from je_tools.missing.run import report_losses

    def examiners(on_refused: Callable[[Exception], None]) -> Examiners:
        losses = loss_search(report_losses, None, on_refused)
        # Only `doctor` says how a log would be repaired.
        return Examiners(scan, examine_replication, losses, lambda *_: None)

    return StakeParts(examiners, read_member)
