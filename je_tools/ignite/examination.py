"""Examination of whole stores: log, checkpoints, pages and recovery.

The judges are those of `ignite wal verify`, `ignite checkpoints`, `ignite pages verify` and `ignite
recover`, so that their answers do not differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from je_tools.core.escaping import counted, quoted
from je_tools.errors import InputError
from je_tools.findings import Severity
from je_tools.ignite.checkpoints.judge import CheckpointJudge
from je_tools.ignite.checkpoints.node_checkpoints import node_checkpoints
from je_tools.ignite.info import LockState, lock_state
from je_tools.ignite.page_check.verify import verify_pages
from je_tools.ignite.recovery.plan import StartOutcome, encrypted_text, plan_recovery
from je_tools.ignite.recovery.steps import StoreStep
from je_tools.ignite.store import path_below
from je_tools.ignite.store_codes import STORE_CODES, verb_of
from je_tools.ignite.values.side_files import damaged_side_files
from je_tools.ignite.wal.verify import WalTotals, verify_wal

if TYPE_CHECKING:
    from je_tools.ignite.checkpoints.node_checkpoints import NodeCheckpoints
    from je_tools.ignite.node_findings import NodeFinding
    from je_tools.ignite.page_check.page_findings import PageFinding
    from je_tools.ignite.page_check.verify import Rebuilt
    from je_tools.ignite.recovery.walked import ReadNode
    from je_tools.ignite.store import Node, Store
    from je_tools.log.scan_options import Progress

_OF_RECOVERY = "recovery-"
"""Prefix of the codes that predict the next start."""

_OF_BYTES = frozenset({"wal-gap", "wal-early-end"})
"""Codes of unreadable bytes of a segment."""


class StoreFinding(Struct, frozen=True):
    """One finding on any part of a store; the same columns in every output.

    Attributes:
        code: a key of STORE_CODES.
        severity: severity of this finding.
        node: name of the node.
        file: path below the store.
        segment: index of the segment of the log.
        group, partition, page: cache group, partition and index of the first page.
        offset, length: byte range in the file, or in the unpacked segment.
        expected, found: expected and actual content.
        hint: next step.
    """

    code: str
    severity: Severity
    node: str
    file: str | None = None
    segment: int | None = None
    group: str | None = None
    partition: int | None = None
    page: int | None = None
    offset: int | None = None
    length: int | None = None
    expected: str | None = None
    found: str | None = None
    hint: str | None = None

    @property
    def is_prediction(self) -> bool:
        """True if it is about the next start."""
        return self.code.startswith(_OF_RECOVERY)


class NodeExamination(Struct, frozen=True):
    """The state of one node.

    Attributes:
        node: its name.
        outcome: outcome of its next start, as in `ignite recover`; None if unknown.
        lock: state of its lock; None without a folder.
        segment_files, records: files of segments that were read, and records in them.
        page_files, pages: files of pages, and pages in them.
        last_checkpoint_ms: time of the newest checkpoint whose begin and record are there.
        finished_count: checkpoints with both markers.
        errors, warnings, notes: findings by severity.
        unfinished_count: transactions that recovery leaves out; None if unknown.
        lost_record_count: whole records after the first that cannot be read; None if unknown.
    """

    node: str
    outcome: StartOutcome | None
    lock: LockState | None
    segment_files: int
    records: int
    page_files: int
    pages: int
    last_checkpoint_ms: int | None
    finished_count: int
    errors: int
    warnings: int
    notes: int
    unfinished_count: int | None = None
    lost_record_count: int | None = None


class StoreExamination(Struct):
    """The state of a store.

    Attributes:
        nodes: its nodes.
        findings: by node: log, checkpoints, pages, recovery.
        not_checked: what was not checked, in words, with what is unread.
        unread: node and reason of each part that could not be read.
    """

    nodes: list[NodeExamination] = []
    findings: list[StoreFinding] = []
    not_checked: list[str] = []
    unread: list[tuple[str, str]] = []

    @property
    def is_damaged(self) -> bool:
        """True if there are errors or warnings, unread parts, or nodes not known to start."""
        is_wrong = any(each.severity is not Severity.NOTE for each in self.findings)
        is_unclear = any(each.outcome is not StartOutcome.STARTS for each in self.nodes)
        return is_wrong or is_unclear or bool(self.unread)


def examine_store(
    store: Store,
    threads: int,
    progress: Progress | None = None,
    *,
    predicts: bool = True,
    rebuilt: Rebuilt | None = None,
) -> StoreExamination:
    """Examine all nodes of a store.

    Args:
        store: the nodes.
        threads: number of segments, or blocks of pages, to read at once.
        progress: called with the bytes that were read; None for nothing.
        predicts: False to leave out the predictions of the next starts.
        rebuilt: as for `verify_pages`.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    result = StoreExamination()
    for node in store.nodes:
        one = replace(store, nodes=(node,))
        parts = _Parts(rebuilt=rebuilt)
        _examine(result, parts, one, node, threads, progress, predicts=predicts)
    result.not_checked = list(dict.fromkeys(result.not_checked))
    result.unread = list(dict.fromkeys(result.unread))
    return result


def _examine(
    result: StoreExamination,
    parts: _Parts,
    store: Store,
    node: Node,
    threads: int,
    progress: Progress | None,
    *,
    predicts: bool,
) -> None:
    totals = WalTotals()
    logged = list(map(_of_log, verify_wal(store, totals, threads, progress=progress)))
    found: list[StoreFinding] = []
    steps: list[Callable[[Store, Node, int], list[StoreFinding]]]
    steps = [parts.add_checkpoints, parts.add_pages, parts.add_side_files]
    steps += [parts.add_recovery] if predicts else []
    for examine in steps:
        try:
            found += examine(store, node, threads)
        except InputError as error:
            # The other parts are examined all the same.
            result.not_checked.append(f"{node.name or 'the node'}: {error}")
            result.unread.append((node.name, str(error)))
    result.not_checked += parts.not_checked
    found = [_with_reach(each, parts.unread_before) for each in logged] + found
    result.findings += found
    counts = {each: sum(one.severity is each for one in found) for each in Severity}
    result.nodes.append(
        NodeExamination(
            node=node.name,
            outcome=parts.outcome,
            lock=None if node.db is None else lock_state(node.db),
            segment_files=totals.files,
            records=totals.records,
            page_files=parts.page_files,
            pages=parts.pages,
            last_checkpoint_ms=parts.newest_ms,
            finished_count=parts.finished,
            errors=counts[Severity.ERROR],
            warnings=counts[Severity.WARNING],
            notes=counts[Severity.NOTE],
            unfinished_count=parts.unfinished_count,
            lost_record_count=parts.lost_record_count,
        )
    )


class _Parts(Struct):
    """Facts of one node besides its log; see `NodeExamination`."""

    rebuilt: Any = None
    checkpoints: NodeCheckpoints | None = None
    read: dict[str, ReadNode] | None = None
    outcome: StartOutcome | None = None
    page_files: int = 0
    pages: int = 0
    newest_ms: int | None = None
    finished: int = 0
    unread_before: tuple[int, int] | None = None
    not_checked: tuple[str, ...] = ()
    unfinished_count: int | None = None
    lost_record_count: int | None = None

    def add_checkpoints(self, store: Store, node: Node, threads: int) -> list[StoreFinding]:
        """Judge the checkpoints of a node."""
        # The log is read once for all parts: it may be large, or a ZIP of far more bytes.
        checkpoints = self.checkpoints = node_checkpoints(node, threads)
        begun = [each for each in checkpoints.checkpoints if each.begin is not None]
        self.finished = sum(each.end is not None for each in begun)
        # The name of a marker that points nowhere may have any time.
        real = (each.time_ms for each in begun if each.record is not None)
        self.newest_ms = max(real, default=None)
        self.unread_before = checkpoints.unread_before
        root = str(store.roots[0])
        return [_of_log(each) for each in CheckpointJudge(checkpoints, root).findings()]

    def add_pages(self, store: Store, node: Node, threads: int) -> list[StoreFinding]:
        """Judge the pages of a node."""
        known = None if self.checkpoints is None else {node.name: self.checkpoints}
        report = verify_pages(store, threads, rebuilt=self.rebuilt, checkpoints=known)
        self.page_files = len(report.files)
        self.pages = sum(each.pages for each in report.files)
        encrypted = sum(each.encrypted for each in report.files)
        if encrypted:
            self.not_checked += (encrypted_text(encrypted),)
        self.read = report.read
        advice = {each.file: each.advice for each in report.files}
        return [_of_pages(each, advice) for each in report.findings]

    def add_side_files(self, store: Store, node: Node, _threads: int) -> list[StoreFinding]:
        """Judge the descriptions of types, the names of classes, and configurations."""
        code, root = STORE_CODES["metadata-damaged"], store.roots[0]
        return [
            StoreFinding(
                code.name,
                code.severity,
                node.name,
                file=path_below(each.path, root),
                found=each.found,
                hint=code.hint,
            )
            for each in damaged_side_files(node)
        ]

    def add_recovery(self, store: Store, _node: Node, threads: int) -> list[StoreFinding]:
        """Predict the next start of a node."""
        (plan,) = plan_recovery(store, threads, read=self.read)
        self.outcome = plan.outcome
        # Not `left_to_others`: all copies of the log were read for the findings on the log.
        self.not_checked += plan.not_checked
        if plan.logical is not None:
            self.unfinished_count = len(plan.logical.uncommitted)
            self.lost_record_count = plan.logical.end.lost_records
        return [_of_log(each) for each in plan.findings]


def _of_log(found: NodeFinding) -> StoreFinding:
    return StoreFinding(
        found.code,
        found.severity,
        found.node,
        file=found.file,
        segment=found.segment,
        offset=found.offset,
        length=found.length,
        expected=found.expected,
        found=found.found,
        hint=found.hint or STORE_CODES[found.code].hint,
    )


def _with_reach(found: StoreFinding, before: tuple[int, int] | None) -> StoreFinding:
    """Return a finding on the log; if recovery does not read the bytes, its hint says so."""
    if before is None or found.code not in _OF_BYTES or found.severity is Severity.NOTE:
        return found
    if found.segment is None or found.offset is None:
        return found
    end = (found.segment, found.offset + (found.length or 0))
    if found.segment > before[0] or (found.segment == before[0] and end > before):
        return found
    hint = (
        f"The start needs nothing: recovery reads from segment {before[0]}, offset {before[1]}, "
        "and not these bytes. Readers of the older log miss their records: historical rebalance, "
        "change data capture, and an export to an earlier time. Look for them in another copy of "
        "the segment, or in a backup."
    )
    return replace(found, hint=hint)


def _of_pages(found: PageFinding, advice: dict[str, str]) -> StoreFinding:
    is_note = found.severity is Severity.NOTE
    hint = STORE_CODES[found.code].hint if is_note else advice.get(found.file or "")
    return StoreFinding(
        found.code,
        found.severity,
        found.node,
        file=found.file,
        group=found.group,
        partition=found.partition,
        page=found.page,
        offset=found.offset,
        length=found.length,
        expected=found.expected,
        found=found.found,
        hint=hint or STORE_CODES[found.code].hint,
    )


_WHY = {
    "wal verify": "shows every damaged byte range of the log",
    "checkpoints": "shows the markers, and the log that recovery needs",
    "pages verify": "shows the state of every file of pages, with advice",
}


def next_steps(examination: StoreExamination, name: str) -> Iterator[StoreStep]:
    """Yield the commands to run next on a store, the most useful first; none if it is whole."""
    if not examination.is_damaged:
        return
    found = [each for each in examination.findings if each.severity is not Severity.NOTE]
    wrong = [each.code for each in found]
    is_start_known = all(each.outcome is not None for each in examination.nodes)
    is_repaired = any("ignite recover`" in (each.hint or "") for each in found)
    if not is_start_known or is_repaired or any(code.startswith(_OF_RECOVERY) for code in wrong):
        why = "shows what the next start does and loses, and the edits that repair the store"
        yield StoreStep(f"je-tools ignite recover {quoted(name)}", why)
    verbs = {verb_of(code) for code in wrong}
    for verb, why in _WHY.items():
        if verb in verbs:
            yield StoreStep(f"je-tools ignite {verb} {quoted(name)}", why)


def held_nodes(nodes: Iterable[NodeExamination]) -> list[str]:
    """Return the names of the nodes that are running: their changes may be half done."""
    return [each.node for each in nodes if each.lock is not None and each.lock.state == "held"]


def worst_outcome(examination: StoreExamination) -> StartOutcome | None:
    """Return the worst outcome of all nodes; None if one is unknown, and no other is worse."""
    outcomes = [each.outcome for each in examination.nodes]
    for worst in (StartOutcome.REFUSED, StartOutcome.LOSES, StartOutcome.UNCLEAR, None):
        if worst in outcomes:
            return worst
    return StartOutcome.STARTS if outcomes else None


def store_verdict(examination: StoreExamination) -> str:
    """Return the outcomes of the next starts, and the number of findings, in a sentence."""
    nodes = ", ".join(f"{each.node or 'the node'} {_verb(each)}" for each in examination.nodes)
    errors = sum(each.errors for each in examination.nodes)
    warnings = sum(each.warnings for each in examination.nodes)
    is_all = not examination.unread and all(each.outcome for each in examination.nodes)
    nothing = "no damage" if is_all else "no damage in what was checked"
    both = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"
    what = both if errors or warnings else nothing
    held = held_nodes(examination.nodes)
    live = f"; {', '.join(held)} runs, so its writes may be seen half done" if held else ""
    return f"{nodes}; {what} found{live}."


def _verb(node: NodeExamination) -> str:
    return "was not judged" if node.outcome is None else node.outcome.value
