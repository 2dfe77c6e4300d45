"""Verification of a log, as a result instead of a print-out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.api.arguments import named_arguments
from je_tools.btree.check.verification import TreeCheck, verify_with_trees
from je_tools.log.scan import Scanner
from je_tools.verify.judge import verify
from je_tools.verify.totals import Totals

if TYPE_CHECKING:
    from je_tools.api.calls import Call
    from je_tools.findings import Finding


class Verification(Struct, frozen=True):
    """Result of a verification.

    Attributes:
        totals: files, bytes and good entries that were read, and the number of findings.
        findings: all findings, in log order, then those of the directory and of trees.
        tree: True if the B-trees were checked.
    """

    totals: Totals
    findings: tuple[Finding, ...]
    tree: bool

    @property
    def is_intact(self) -> bool:
        """True if there is no error in what was read; B-trees only count if `tree` is true."""
        return not self.totals.errors

    @property
    def verdict(self) -> str:
        """The outcome in one line, as the command prints it."""
        return self.totals.verdict()


def verify_log(call: Call, check: TreeCheck, *, tree: bool, everything: bool) -> Verification:
    """Read the whole log, and return its findings, which are also reported.

    Args:
        call: the log.
        check: options of the check of trees.
        tree: check the trees.
        everything: also findings of ends without damage.

    Raises:
        UsageError: the options contradict each other, or single files have no trees.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    environment = call.environment
    scanner = Scanner(threads=call.threads, wide=True)
    totals = Totals(environment.name)
    with named_arguments():
        check.check(environment, tree=tree)
        if tree:
            found = verify_with_trees(
                environment, scanner, totals, check, everything=everything, masking=call.masking
            )
        else:
            found = verify(environment, scanner, totals, everything=everything)
        findings = tuple(found)
    call.report_all(findings)
    return Verification(totals, findings, tree)
