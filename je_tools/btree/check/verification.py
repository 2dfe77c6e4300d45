"""Verification of a log together with its B-trees: one scan of the log, then one of the trees."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from je_tools.core.masking import SHOWN, Masking
from je_tools.errors import UsageError
from je_tools.log.wrong_places import foreign_findings
from je_tools.recovery.choices import ChosenEnd, chosen_now

if TYPE_CHECKING:
    from je_tools.btree.check.findings import TreeCheckInput
    from je_tools.findings import Finding
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.verify.totals import Totals


_PLACES = ("tree-node", "tree-record", "tree-delta")
"""Codes of findings whose place may be in a file of another log."""


class TreeCheck(Struct, frozen=True):
    """Choices of a user about a check of B-trees.

    Attributes:
        utilization: also compare the engine's totals of each file with a count.
        now: time before which expired records may be gone, as text; None for the current time.
        end: end of the log.
    """

    utilization: bool = False
    now: str | None = None
    end: ChosenEnd = ChosenEnd()

    def check(self, environment: Environment, *, tree: bool) -> None:
        """Check that the choices fit the log and each other.

        Args:
            environment: the log.
            tree: True if the trees are to be checked.

        Raises:
            UsageError: the trees of single files are to be checked, or a choice needs the trees
                and they are not, or two choices exclude each other.
        """
        if tree and not environment.is_directory:
            raise UsageError(
                "--tree: expected an environment directory: name the directory that holds the files"
            )
        ends = self.end.named()
        given = {"--utilization": self.utilization, "--now": self.now is not None}
        for name in [*(name for name, is_given in given.items() if is_given), *ends]:
            if not tree:
                raise UsageError(f"{name} needs --tree: add it")
        if self.utilization and ends:
            text = f"--utilization counts the whole log, but {ends[0]} cuts it: give one of them"
            raise UsageError(text)


def verify_with_trees(
    environment: Environment,
    scanner: Scanner,
    totals: Totals,
    check: TreeCheck,
    *,
    everything: bool = False,
    masking: Masking = SHOWN,
) -> Iterator[Finding]:
    """Yield the findings of `verify`, then those of the B-trees.

    Args:
        environment: a whole directory.
        scanner: options of the scan; its progress is that of the scan of the log alone.
        totals: filled meanwhile, also with the findings of the trees.
        check: how to check the trees.
        everything: also yield `clean-end` for ends without damage.
        masking: masking of keys in the findings of trees.

    Raises:
        UsageError: the log does not have the chosen end, or a text is not a time.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    from je_tools.core.ordered import in_background
    from je_tools.formats.je.log.fingerprints import Fingerprints, Printing
    from je_tools.verify.judge import verify

    quiet = replace(scanner, progress=None)
    to_lsn = check.end.lsn(environment, quiet)
    open_all = partial(_opened, environment, quiet, chosen_now(check.now), to_lsn)
    # Opening is mostly Python, as are the imports; the scan is mostly native code beside it.
    opened = in_background(open_all) if scanner.threads_for(environment.size) > 1 else open_all
    prints = Fingerprints(Printing.at_random())
    totals.has_trees = True
    known = set()
    for found in verify(
        environment,
        scanner,
        totals,
        everything=everything,
        prints=prints,
        trees_follow=True,
        # An earlier end may have a root where the whole log has none.
        root_follows=to_lsn is None,
    ):
        known |= {found.file_no} if found.code == "foreign-file" else set()
        yield found
    from je_tools.btree.check.findings import tree_findings

    utilization, lsns = check.utilization, []
    for found in tree_findings(environment, quiet, opened, utilization=utilization, prints=prints):
        lsns += [found.lsn] if found.code in _PLACES and found.lsn is not None else []
        totals.count(found)
        yield _masked(found, masking)
    for found in foreign_findings(environment, lsns):
        if found.file_no not in known:
            totals.count(found)
            yield found


def _masked(found: Finding, masking: Masking) -> Finding:
    tree = None if found.tree is None else replace(found.tree, masking=masking)
    return replace(found, tree=tree)


def _opened(
    environment: Environment, scanner: Scanner, now_ms: int, to_lsn: int | None
) -> TreeCheckInput:
    from je_tools.btree.check.findings import open_trees

    return open_trees(environment, scanner, now_ms, to_lsn)
