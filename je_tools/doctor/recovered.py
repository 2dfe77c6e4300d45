"""The log after recovery in memory: plan, losses, space, and on request its B-trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from je_tools.core.masking import SHOWN, Masking
from je_tools.doctor.facts import NotRecovered, Recovered
from je_tools.errors import InputError
from je_tools.log.images import unchanged
from je_tools.recovery.findings import missing_findings, snapshot_findings
from je_tools.recovery.opening import NoTreeError, take_snapshot
from je_tools.recovery.plan import plan_recovery
from je_tools.recovery.refusals import WHY
from je_tools.space.usage import measure_space

if TYPE_CHECKING:
    from je_tools.btree.check.findings import TreeCheckInput
    from je_tools.doctor.facts import LogFacts, RecoveryRepair
    from je_tools.doctor.replication import Examined
    from je_tools.findings import Finding
    from je_tools.formats.je.log.fingerprints import Fingerprints
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.missing.losses import LossReport as Losses
    from je_tools.recovery.plan import Plan
    from je_tools.recovery.snapshot import Snapshot


class DiagnosisOptions(Struct, frozen=True):
    """Options of a diagnosis.

    Attributes:
        now_ms: time at which records expire.
        tree: check the B-trees.
        masking: masking of keys in findings.
    """

    now_ms: int
    tree: bool = False
    masking: Masking = SHOWN


class Examiners(Struct, frozen=True):
    """Functions that the examination calls and does not import, which keeps import chains short.

    Attributes:
        scan: `log_scan.scan_log`.
        replication: `replication.examine_replication`.
        losses: searches the trees for places that do not exist, at a time in ms since 1970
            (`loss_search.loss_search`); returns None if it could not.
        repair: returns how `recover --apply` would repair the log (`log_repair.repair_of`).
    """

    scan: Callable[[Environment, Scanner, Fingerprints | None], LogFacts]
    replication: Callable[..., Examined]
    losses: Callable[[Snapshot, int], Losses | None]
    repair: Callable[[Snapshot, Plan], RecoveryRepair | None]


class StateInputs(Struct, frozen=True):
    """Inputs of the examination of a recovered log besides its state.

    Attributes:
        prints: fingerprints of the records that a scan found good; None if trees are not checked.
        replication: examines the log as a node of a group (`replication.examine_replication`).
    """

    prints: Fingerprints | None
    replication: Callable[[Snapshot], Examined]


class OpenedState(Struct, frozen=True):
    """The log as recovery leaves it.

    Attributes:
        snapshot: the log.
        trees: input of the check of its B-trees; None if they are not checked.
    """

    snapshot: Snapshot
    trees: TreeCheckInput | None


def open_state(
    environment: Environment, scanner: Scanner, options: DiagnosisOptions
) -> OpenedState:
    """Open the log as recovery leaves it; with its cleaner metadata if the trees are checked.

    Raises:
        InputError: the log has no root, or two files have the same number.
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    if options.tree:
        from je_tools.btree.check.findings import open_trees

        trees = open_trees(environment, scanner, options.now_ms)
        return OpenedState(trees.snapshot, trees)
    return OpenedState(take_snapshot(environment, scanner, now_ms=options.now_ms), None)


@contextmanager
def held_state(
    environment: Environment,
    scanner: Scanner,
    opened: Callable[[], OpenedState],
    options: DiagnosisOptions,
    inputs: StateInputs,
) -> Iterator[tuple[Recovered | NotRecovered, Snapshot | None]]:
    """Yield the state of the log after recovery, whose files must not change meanwhile.

    Args:
        environment: a whole directory.
        scanner: options of the scan.
        opened: returns the result of `open_state`, or raises its error.
        options: options.
        inputs: what else the examination needs.

    Raises:
        StoppedError: a file shrank, vanished or was replaced, which may show only at the end.
    """
    try:
        state = opened()
    except InputError as error:
        yield _not_recovered(environment, error), None
        return
    with unchanged(state.snapshot.check_files):
        yield _recovered(state, scanner, options, inputs), state.snapshot


def _not_recovered(environment: Environment, error: InputError) -> NotRecovered:
    if isinstance(error, NoTreeError):
        return NotRecovered(WHY[error.refusal], is_refused=True)
    return NotRecovered(str(error).removeprefix(f"{environment.name}: "), is_refused=False)


def _recovered(
    state: OpenedState,
    scanner: Scanner,
    options: DiagnosisOptions,
    inputs: StateInputs,
) -> Recovered:
    snapshot = state.snapshot
    plan = plan_recovery(snapshot)
    is_at_rest = plan.is_clean and not plan.unfinished_removals and not snapshot.temporary
    found = [*missing_findings(snapshot), *_of_trees(state, scanner, options, inputs.prints)]
    examined = inputs.replication(snapshot)
    found += examined.findings
    space = measure_space(snapshot)
    # All that was read so far may have shown damage of trees.
    found += snapshot_findings(snapshot, options.masking)
    return Recovered(
        plan,
        tuple(found),
        None,
        space,
        has_trees=state.trees is not None,
        is_at_rest=is_at_rest,
        replication=examined.replication,
    )


def _of_trees(
    state: OpenedState, scanner: Scanner, options: DiagnosisOptions, prints: Fingerprints | None
) -> Iterator[Finding]:
    """Yield the findings of the B-trees, with masked keys."""
    trees, environment = state.trees, state.snapshot.environment
    if trees is None:
        return
    from je_tools.btree.check.findings import tree_findings

    quiet = replace(scanner, progress=None)
    for each in tree_findings(environment, quiet, lambda: trees, prints=prints):
        tree = each.tree
        masked = replace(tree, masking=options.masking) if tree is not None else None
        yield replace(each, tree=masked)
