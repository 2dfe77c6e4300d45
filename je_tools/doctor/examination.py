"""Examination of one environment: a scan of the log beside recovery in memory, then the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from je_tools.core.ordered import in_background
from je_tools.doctor.conditions import conditions_of, surrounding_conditions
from je_tools.doctor.facts import Diagnosis, NotRecovered, OpenOutcome, Recovered
from je_tools.doctor.next_steps import steps_of, steps_without_log
from je_tools.doctor.recovered import (
    DiagnosisOptions,
    Examiners,
    OpenedState,
    StateInputs,
    held_state,
    open_state,
)
from je_tools.doctor.surroundings import examine_surroundings
from je_tools.doctor.verdict import Evidence, verdict_of
from je_tools.errors import InputError
from je_tools.findings import Finding, Severity
from je_tools.formats.je.log.fingerprints import Fingerprints, Printing

if TYPE_CHECKING:
    from je_tools.doctor.facts import LogFacts, RecoveryRepair
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.recovery.snapshot import Snapshot

_NEW = "the engine would begin a new, empty one"
_SEVERITIES = (Severity.ERROR, Severity.WARNING, Severity.NOTE)


@contextmanager
def diagnosed(
    home: Path,
    environment: Environment | InputError,
    scanner: Scanner,
    options: DiagnosisOptions,
    examiners: Examiners,
) -> Iterator[tuple[Diagnosis, Snapshot | None]]:
    """Yield the diagnosis of an environment, and its snapshot; None if recovery leaves nothing.

    Args:
        home: its directory.
        environment: its log, opened with `keep_going`, or the reason why there is none.
        scanner: options of the scan.
        options: options of the diagnosis.
        examiners: functions of other modules.

    Raises:
        StoppedError: a file shrank, vanished or was replaced, which may show only at the end.
        InputError: a file cannot be read any more.
    """
    if isinstance(environment, InputError):
        yield _without_log(home, environment), None
        return
    log_files = environment
    quiet = replace(scanner, progress=None)
    prints = Fingerprints(Printing.at_random()) if options.tree else None

    # Opening is mostly Python, as are the imports; the scan is mostly native code beside it.
    def open_all() -> OpenedState:
        return open_state(log_files, quiet, options)

    is_large = scanner.threads_for(environment.size) > 1
    opened = in_background(open_all) if is_large else open_all
    log = examiners.scan(environment, scanner, prints)
    if options.tree:
        log.totals.has_trees = True
    of_node = partial(examiners.replication, periods=log.periods, with_values=options.tree)
    with held_state(environment, scanner, opened, options, StateInputs(prints, of_node)) as (
        recovered,
        snapshot,
    ):
        repair = None
        if isinstance(recovered, Recovered) and snapshot is not None:
            repair = examiners.repair(snapshot, recovered.plan)
            if _is_suspect(environment, log, recovered):
                recovered = replace(recovered, missing=examiners.losses(snapshot, options.now_ms))
        yield _diagnosis(home, environment, log, recovered, repair), snapshot


def _is_suspect(environment: Environment, log: LogFacts, recovered: Recovered) -> bool:
    """Return whether to search the trees for places that do not exist, as `missing` does.

    If an engine closed the log and every file exists, there is nothing to search for.
    """
    is_whole = recovered.is_at_rest and not environment.missing
    return not is_whole or bool(log.totals.errors)


def _diagnosis(
    home: Path,
    environment: Environment,
    log: LogFacts,
    recovered: Recovered | NotRecovered,
    repair: RecoveryRepair | None,
) -> Diagnosis:
    surroundings = examine_surroundings(home, environment)
    more = recovered.findings if isinstance(recovered, Recovered) else ()
    findings = tuple(merged([*log.findings, *more]))
    evidence = Evidence(environment, log, log.releases, recovered, surroundings, findings, repair)
    verdict = verdict_of(evidence)
    return Diagnosis(
        env=str(home),
        outcome=verdict.outcome,
        verdict=verdict.text,
        reasons=verdict.reasons,
        releases=log.releases,
        log=log,
        recovered=recovered,
        surroundings=surroundings,
        conditions=tuple(conditions_of(evidence)),
        findings=findings,
        steps=tuple(steps_of(home, evidence, verdict)),
    )


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Return each finding once, the worst first, else in their order.

    The scan and recovery report some of the same problems, in words of their own: the first counts.
    """
    found: dict[object, Finding] = {}
    for each in findings:
        place: tuple[object, ...] = (each.file_no, each.offset)
        if each.file_no is None or each.tree is not None:
            place = (*place, each.expected, each.found, each.tree and each.tree.path)
        found.setdefault((each.code, place), each)
    return sorted(found.values(), key=lambda each: _SEVERITIES.index(each.severity))


def _without_log(home: Path, error: InputError) -> Diagnosis:
    """Return the diagnosis of a directory without a log that can be read."""
    is_denied = isinstance(error.__cause__, OSError)
    surroundings = examine_surroundings(home, None)
    reason = str(error).removeprefix(f"{home}: ")
    if is_denied:
        verdict = f"Nothing is known about the log: the system does not allow reading it ({reason})"
    elif surroundings.put_aside:
        verdict = f"There is no log here, only files that were put aside: {_NEW}"
    elif "no .jdb files" in reason:
        verdict = f"There is no log here: {_NEW}"
    else:
        verdict = f"The log cannot be read: {reason}"
    return Diagnosis(
        env=str(home),
        outcome=OpenOutcome.NO_LOG,
        verdict=verdict,
        reasons=(reason,),
        releases=None,
        log=None,
        recovered=NotRecovered(reason, is_refused=False),
        surroundings=surroundings,
        conditions=tuple(surrounding_conditions(surroundings, surroundings.disk)),
        findings=(),
        steps=tuple(steps_without_log(home, surroundings, is_denied=is_denied)),
    )
