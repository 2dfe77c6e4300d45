"""The verdict: what the engine would do with the log, in one sentence, the worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.core.escaping import counted, printable
from je_tools.doctor.facts import NotRecovered, OpenOutcome, Recovered, Surroundings
from je_tools.findings import Finding, Severity
from je_tools.recovery.end import EndReason, Refusal
from je_tools.recovery.refusals import WHY
from je_tools.writing.lock import LockMode

if TYPE_CHECKING:
    from je_tools.doctor.facts import LogFacts, RecoveryRepair, Releases
    from je_tools.log.environment import Environment
    from je_tools.missing.losses import DatabaseLoss

_NAMED = 3
"""Number of files, or codes, that the verdict names."""

REPORTED_ELSEWHERE = frozenset(
    {
        "damaged-end",
        "lost-tail",
        "missing-file",
        "old-form-left-out",
        "recovery-refused",
        "unreadable-file",
        "vlsn-index-refused",
    }
)
"""Codes of errors that the state after recovery, or the list of files, reports as well."""

OF_CONTENT = frozenset(
    {
        "backward-jump",
        "damaged-entry",
        "damaged-gap",
        "more-damage",
        "prev-offset-mismatch",
        "torn-tail",
        "truncated-file",
        "unknown-type",
        "unread",
        "unreadable",
        "zero-tail",
    }
)
"""Codes of damage inside a file."""

OF_HEADER = frozenset({"bad-file-header", "unsupported-version", "wrong-file-number"})
"""Codes of files that the engine refuses as a whole, once it opens them."""

OF_ORIGIN = frozenset(
    {
        "duplicate-file",
        "foreign-file",
        "last-entry-mismatch",
        "version-step",
        "vlsn-backward",
        "vlsn-duplicate",
        "vlsn-gap",
    }
)
"""Codes of files that do not belong together."""

OF_GROUP = frozenset({"group-record", "group-unreadable"})
"""Codes of the records of a replication group."""

OF_INDEX = frozenset(
    {
        "vlsn-index-bucket",
        "vlsn-index-lost",
        "vlsn-index-mapping",
        "vlsn-index-range",
        "vlsn-index-refused",
        "vlsn-index-short",
        "vlsn-rollback",
        "vlsn-unmarked",
    }
)
"""Codes of a VLSN index that does not match the log, and of rollbacks."""

OF_FRONT_END = frozenset({"front-end-mismatch"})
"""Codes of the files beside the log of a front end."""

OF_JOURNALS = frozenset({"journal-hole", "journal-order", "journal-record"})
"""Codes of the journals of a front end."""

_REASONS = (
    (OF_GROUP, "records of the group are wrong"),
    (OF_INDEX, "the VLSN index or a rollback does not match the log"),
    (OF_JOURNALS, "the front end stops if it has to replay its journals"),
    (OF_FRONT_END, "the files of the front end do not match the group"),
)
"""Codes that have a reason of their own."""

_OF_FRONT_END = {reason for codes, reason in _REASONS if codes in (OF_JOURNALS, OF_FRONT_END)}


class OpenVerdict(Struct, frozen=True):
    """The verdict and the reasons for it; see `Diagnosis`."""

    outcome: OpenOutcome
    text: str
    reasons: tuple[str, ...] = ()


class Evidence(Struct, frozen=True):
    """The facts that the verdict depends on.

    Attributes:
        environment: the log.
        log: result of the scan.
        releases: releases that open it.
        recovered: the log after recovery.
        surroundings: its lock, files put aside, settings and disk.
        findings: all findings.
        repair: how `recover --apply` would repair the log; None if it would not.
    """

    environment: Environment
    log: LogFacts
    releases: Releases
    recovered: Recovered | NotRecovered
    surroundings: Surroundings
    findings: Sequence[Finding]
    repair: RecoveryRepair | None = None

    @property
    def state(self) -> Recovered | None:
        """The log after recovery; None if there is none."""
        return self.recovered if isinstance(self.recovered, Recovered) else None

    @property
    def has_trees(self) -> bool:
        """True if the B-trees were checked."""
        return self.state is not None and self.state.has_trees


def is_tree_code(code: str) -> bool:
    """Return whether a finding of this code concerns a B-tree."""
    return code.startswith("tree-") or code == "more-tree-damage"


def verdict_of(evidence: Evidence) -> OpenVerdict:
    """Return the verdict on a log."""
    interrupted = evidence.surroundings.interrupted
    refused = list(dict.fromkeys(_refusals(evidence)))
    failing = list(dict.fromkeys(_failures(evidence)))
    stopping = list(_of_errors(evidence, of_front_end=True))
    lost = _loss(evidence)
    losing = [lost] if lost else []
    stopped = [] if interrupted is None else [interrupted]
    reasons = (*stopped, *refused, *failing, *stopping, *losing)
    engine = _engine_name(evidence.releases)
    if interrupted is not None:
        text = f"Do not open it: {interrupted}"
        return OpenVerdict(OpenOutcome.UNSAFE, text + _now_open(evidence), reasons)
    if refused:
        text = f"{engine} would refuse to open it: {'; '.join(refused)}"
        more = _joined_reasons(failing + stopping + losing)
        return OpenVerdict(OpenOutcome.REFUSES, text + more + _now_open(evidence), reasons)
    if failing:
        text = f"{engine} may open it, and then fails or misses records: {'; '.join(failing)}"
        more = _joined_reasons(stopping + losing)
        return OpenVerdict(OpenOutcome.FAILS, text + more + _now_open(evidence), reasons)
    if stopping:
        text = f"{engine} opens it, but {'; '.join(stopping)}{_joined_reasons(losing)}"
        return OpenVerdict(
            OpenOutcome.STOPS, text + _now_open(evidence) + _unchecked(evidence), reasons
        )
    if lost:
        text = (
            f"{engine} opens it, and {lost}{_later_releases_text(evidence.releases)}"
            + _now_open(evidence)
        )
        return OpenVerdict(OpenOutcome.LOSES, f"{text}{_unchecked(evidence)}", reasons)
    writer = _writer(evidence)
    if writer is not None:
        text = f"{writer} has it open for writing, so another engine would not open it"
        return OpenVerdict(OpenOutcome.LOCKED, f"{text}; no loss found{_unchecked(evidence)}")
    work = f"{_opening_text(evidence)}{_later_releases_text(evidence.releases)}{_limits(evidence)}"
    found = "no loss found"
    if any(each.code == "old-form-left-out" for each in evidence.findings):
        found = "je-tools does not replay all of it (old-form-left-out), so losses are not known"
    text = f"{engine} opens it{work}; {found}{_unchecked(evidence)}"
    return OpenVerdict(OpenOutcome.OPENS, text)


def _engine_name(releases: Releases) -> str:
    """Return the subject of the verdict, with the releases that it holds for."""
    if releases.opened_from is None:
        return "The engine"
    return f"The engine (JE {releases.opened_from} or later)"


def _later_releases_text(releases: Releases) -> str:
    """Return a text on what later releases do with the log instead, to follow the verdict."""
    refusals = [f"JE {each}" for each in releases.not_opened_by]
    return f", but {' and '.join(refusals)}" if refusals else ""


def _joined_reasons(reasons: Sequence[str]) -> str:
    return f"; also: {'; '.join(reasons)}" if reasons else ""


def _unchecked(evidence: Evidence) -> str:
    state = evidence.state
    if state is None or not (state.has_trees or state.missing is not None):
        return "; B-trees not checked"
    return "" if state.has_trees else "; B-trees searched only for slots that lead nowhere"


def _writer(evidence: Evidence) -> str | None:
    """Return the process that has the log open for writing, or None."""
    for holder in evidence.surroundings.holders:
        if holder.mode is LockMode.READ_WRITE:
            return holder.text[:1].upper() + holder.text[1:]
    if any(found.code == "live-writer" for found in evidence.findings):
        return "A process"
    return None


def _now_open(evidence: Evidence) -> str:
    writer = _writer(evidence)
    return "" if writer is None else f"; {writer[:1].lower()}{writer[1:]} has it open for writing"


def _opening_text(evidence: Evidence) -> str:
    """Return what the engine does with the log when it opens it."""
    state = evidence.state
    if state is None:
        return ""
    done = []
    if state.lost.size and state.end.reason in (EndReason.TORN, EndReason.ZEROS):
        what = "an incomplete entry" if state.end.reason is EndReason.TORN else "zeros"
        done.append(f"cuts off {what} at its end ({counted(state.lost.size, 'byte')})")
    done.append("has nothing to write" if state.is_at_rest else "writes a checkpoint")
    return f", {' and '.join(done)}" if len(done) > 1 else f" and {done[0]}"


def _limits(evidence: Evidence) -> str:
    """Return what the disk limits prevent."""
    state = evidence.state
    disk = state.space.disk if state is not None else evidence.surroundings.disk
    if disk is None or not disk.prohibits_writes:
        return ""
    return ", but the disk limits allow it no writes"


def _refusals(evidence: Evidence) -> Iterator[str]:
    """Yield the reasons why the engine would not open the log."""
    state, recovered = evidence.state, evidence.recovered
    yield from evidence.surroundings.refused_settings
    if isinstance(recovered, NotRecovered):
        if recovered.is_refused:
            yield recovered.reason
    else:
        yield from (WHY[each] for each in recovered.plan.refusals)
        yield from _of_index(recovered)
    errors = [found for found in evidence.findings if found.severity is Severity.ERROR]
    if evidence.surroundings.is_marked:
        yield WHY[Refusal.RESTORE_REQUIRED]
    if any(found.code == "misplaced-file" for found in errors):
        yield "a file is in the wrong data directory"
    for found in errors if state is not None else ():
        number = found.file_no
        if found.code in OF_HEADER and number is not None and _is_needed(evidence, number):
            yield f"{number:08x}.jdb: {found.found}"


def _of_index(recovered: Recovered) -> Iterator[str]:
    """Yield the reason why recovery does not continue with the VLSN index."""
    node = recovered.replication.node if recovered.replication is not None else None
    if node is not None and node.index.refusal is not None:
        yield f"the VLSN index does not fit the log: {node.index.refusal}"


def _is_needed(evidence: Evidence, file_no: int) -> bool:
    """Return whether recovery reads a file; False if there is no recovery."""
    return evidence.state is not None and file_no >= evidence.state.plan.files_needed[0]


def _failures(evidence: Evidence) -> Iterator[str]:
    """Yield the reasons why the engine would fail or give wrong answers after it opened the log."""
    state, recovered = evidence.state, evidence.recovered
    if isinstance(recovered, NotRecovered) and not recovered.is_refused:
        yield recovered.reason
    if state is not None and state.plan.missing:
        yield _missing(state)
    elif state is not None and state.missing is not None and state.missing.losses:
        losses = state.missing.losses
        yield f"trees lead to places that do not exist{_keys(losses)}"
    for file in evidence.environment.unreadable:
        yield f"{printable(file.path.name)} cannot be read ({file.reason})"
    yield from _of_errors(evidence, of_front_end=False)


def _missing(state: Recovered) -> str:
    numbers = state.plan.missing
    names = [f"{number:08x}.jdb" for number in numbers[:_NAMED]]
    more = f" and {len(numbers) - _NAMED:,} more" if len(numbers) > _NAMED else ""
    verb = "is" if len(numbers) == 1 else "are"
    text = f"{', '.join(names)}{more} {verb} in use and missing or empty"
    losses = state.missing.losses if state.missing is not None else ()
    return f"{text}{_keys(losses)}"


def _keys(losses: Sequence[DatabaseLoss]) -> str:
    """Return a text on the number of lost keys, as far as known, to follow another text."""
    keys = [loss.key_count for loss in losses if not loss.is_internal]
    if not keys:
        return ""
    known = sum(each for each in keys if each is not None)
    least = "at least " if None in keys else ""
    number = f"{least}{counted(known, 'key')}" if known else "keys"
    return f", with {number} of {counted(len(keys), 'database')}"


def _of_errors(evidence: Evidence, *, of_front_end: bool) -> Iterator[str]:
    """Yield reasons for the errors that no other reason covers.

    Args:
        evidence: the facts.
        of_front_end: choose the errors of a front end that the engine does not mind, or the others.
    """
    kinds: dict[str, list[Finding]] = {}
    for found in evidence.findings:
        kind = _kind(evidence, found)
        if kind is not None and (kind in _OF_FRONT_END) == of_front_end:
            kinds.setdefault(kind, []).append(found)
    for kind, some in kinds.items():
        numbers = sorted({found.file_no for found in some if found.file_no is not None})
        places = counted(len(some), "place")
        if kind == "content":
            size = sum(found.length or 0 for found in some)
            bytes_text = f", {counted(size, 'byte')}" if size else ""
            names = [f"{number:08x}.jdb" for number in numbers[:_NAMED]]
            more = len(numbers) - _NAMED
            names += [f"{counted(more, 'other file')}"] if more > 0 else []
            verb = "is" if len(numbers) == 1 else "are"
            yield f"{', '.join(names)} {verb} damaged ({places}{bytes_text})"
        elif kind == "trees":
            yield f"B-trees are damaged ({places})"
        elif kind == "origin":
            yield f"files do not belong together ({_codes(some)})"
        elif kind != "other":
            yield f"{kind} ({_codes(some)})"
        else:
            yield f"{counted(len(some), 'other error')} ({_codes(some)})"


def _kind(evidence: Evidence, found: Finding) -> str | None:
    """Return the kind of an error that no other reason covers; None for other findings."""
    if found.severity is not Severity.ERROR or found.code in REPORTED_ELSEWHERE:
        return None
    state = evidence.state
    is_reported = state is not None and state.missing is not None and bool(state.missing.losses)
    if is_tree_code(found.code) and is_reported and not evidence.has_trees:
        return None
    if found.code == "misplaced-file" or (found.code == "restore-marker" and _restores(evidence)):
        return None
    if is_tree_code(found.code):
        return "trees"
    if found.code in OF_ORIGIN:
        return "origin"
    for codes, reason in _REASONS:
        if found.code in codes:
            return reason
    if found.code not in OF_CONTENT | OF_HEADER:
        return "other"
    if state is None:
        return "content"
    is_cut = state.end.reason is EndReason.DAMAGED and (found.lsn or 0) >= state.end.next_lsn
    needed = found.file_no is not None and _is_needed(evidence, found.file_no)
    if is_cut or (found.code in OF_HEADER and needed):
        return None
    return "content"


def _restores(evidence: Evidence) -> bool:
    """Return whether the engine refuses the log because of a RestoreRequired entry."""
    refusals = evidence.state.plan.refusals if evidence.state is not None else ()
    return evidence.surroundings.is_marked or Refusal.RESTORE_REQUIRED in refusals


def _codes(some: Iterable[Finding]) -> str:
    counts = Counter(found.code for found in some)
    named = [f"{code} × {count:,}" if count > 1 else code for code, count in counts.items()]
    more = [f"{len(named) - _NAMED} more codes"] if len(named) > _NAMED else []
    return ", ".join(named[:_NAMED] + more)


def _loss(evidence: Evidence) -> str | None:
    """Return what the engine cuts off when it opens the log, in words; None for nothing."""
    state = evidence.state
    if state is None:
        return None
    commits = len(state.lost.transactions)
    size = counted(state.lost.size, "byte")
    if commits:
        return f"cuts off {counted(commits, 'Commit')} without a message ({size})"
    if state.end.reason is EndReason.DAMAGED:
        return f"cuts off {size} after damage without a message, with no whole Commit in them"
    return None
