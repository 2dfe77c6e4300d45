"""Prediction of a node's start: what prevents it, and what it loses without a message.

Source: GridCacheDatabaseSharedManager, CheckpointMarkersStorage.readCheckpointStatus,
FileWriteAheadLogManager.RecordsIterator, Ignite 2.18.0, and starts of a node on damaged copies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from je_tools.core.escaping import counted
from je_tools.findings import Severity
from je_tools.formats.ignite.markers import MarkerKind
from je_tools.formats.ignite.pages import PageState
from je_tools.formats.ignite.segments import Problem
from je_tools.ignite.caches import CACHE_LOST, CONFIGURATION
from je_tools.ignite.checkpoints.node_checkpoints import newest_marker
from je_tools.ignite.logical.log_range import WalEndReason
from je_tools.ignite.node_findings import CODES, NodeFinding
from je_tools.ignite.pages.files import FileKind
from je_tools.ignite.recovery.page_damage import PageRepair
from je_tools.ignite.recovery.partitions import checkpointed_partitions
from je_tools.ignite.segment_files import Status
from je_tools.ignite.store import path_below
from je_tools.ignite.wal.archive import (
    files_in_the_way,
    is_after_ring,
    is_due,
    last_archived,
    may_be_only_copy,
    moved_wrongly,
    unarchived,
    zips_without_entry,
)

if TYPE_CHECKING:
    from je_tools.ignite.checkpoints.markers import Marker
    from je_tools.ignite.checkpoints.node_checkpoints import NodeCheckpoints
    from je_tools.ignite.logical.log_range import WalEnd
    from je_tools.ignite.logical.updates import LogicalUpdates
    from je_tools.ignite.recovery.configurations import UnconfiguredFolder
    from je_tools.ignite.recovery.page_damage import DamagedPages, JudgedPages
    from je_tools.ignite.recovery.physical import PhysicalRecovery
    from je_tools.ignite.store import Node

REPAIRS = {
    PageRepair.RECOVERED: "recovery writes it anew",
    PageRepair.REPAIRED: "the node restores it from its log when it reads it",
    PageRepair.UNCLEAR: "its checksum is right, so the node may or may not halt when it reads it",
    PageRepair.LOST: "the node takes the partition for a new one, and loses its rows",
    PageRepair.FATAL: "the node does not start, or halts when it reads it",
}
"""Fate of a damaged page, in words."""

_CODE_OF = {
    PageRepair.UNCLEAR: "recovery-unclear",
    PageRepair.LOST: "recovery-loss",
    PageRepair.FATAL: "recovery-refused",
}
"""Code of a finding on a damaged page, by its fate; `recovery-page` for others."""

_STATES = {
    PageState.GOOD: "not the first page of a partition",
    PageState.ZERO: "zeros",
    PageState.MISPLACED: "that of another place",
    PageState.UNKNOWN: "of an unknown type, version or compression",
}

_HINTS = {
    PageRepair.REPAIRED: (
        "Keep the log until the node has read the page, or let `ignite recover --apply` write it: "
        "without the image in the log, the node halts."
    ),
    PageRepair.LOST: (
        "Copy the store before you start the node. `ignite recover` rebuilds the page if the log "
        "has its whole history."
    ),
}

_INDEX_ASIDE = (
    "The node builds its indexes anew once the file is gone. `ignite recover --apply` sets it "
    "aside, unless the log cannot be repaired."
)


_LOG_LOST = (
    "Do not start the node: it writes over the rest of the log. Copy the store first. `ignite "
    "recover` shows what can be repaired."
)

RUNS_SHOWN = 100
"""Runs of damaged pages of a file that are findings of their own, for each fate."""

_ONLY_COPY = (
    "The file may be the only one with the records of its segment, and `ignite recover` leaves it. "
    "Look for the segment in a backup of the node. If there is none, keep a copy of the file "
    "elsewhere, and remove it from the archive before the node starts."
)

_FIRST_OF_RING = (
    "An empty file of that name is enough, as the node writes it anew. `ignite recover --apply` "
    "makes it."
)

_FILE_LOST = (
    "The node makes an empty file. Copy the store before you start it. `ignite recover` shows "
    "whether the log has all pages of the partition. Otherwise look for its file in a backup, or "
    "for the partition on another node."
)


class Predictor:
    """Predictor of the start of one node."""

    def __init__(
        self, node: Node, root: str, found: NodeCheckpoints, physical: PhysicalRecovery
    ) -> None:
        self._node = node
        self._root = root
        self._found = found
        self._physical = physical

    def findings(
        self,
        logical: LogicalUpdates | None,
        judged: JudgedPages | None,
        lacking: Iterable[UnconfiguredFolder],
    ) -> Iterator[NodeFinding]:
        """Yield what prevents the start, and what is lost.

        Args:
            logical: the logical part; None if its begin is unclear.
            judged: damage in the pages; None if they were not read.
            lacking: caches without a readable configuration.
        """
        yield from self._of_markers()
        yield from self._of_physical()
        yield from self._of_archive()
        yield from self._of_configurations(lacking)
        if logical is not None:
            yield from self._of_log_end(logical)
            yield from self._of_entries(logical)
        if judged is not None:
            yield from self._of_pages(judged)
        yield from self._of_partitions()

    def _finding(self, code: str, path: Path | None = None, **facts: Any) -> NodeFinding:
        severity = facts.pop("severity", CODES[code].severity)
        file = None if path is None else path_below(path, self._root)
        return NodeFinding(code, severity, self._node.name, file, **facts)

    def _of_markers(self) -> Iterator[NodeFinding]:
        markers = self._found.folder.markers
        begin, end = newest_marker(markers), newest_marker(markers, MarkerKind.END)
        bad = [each for each in (begin, end) if each is not None and each.pointer is None]
        # The engine parses the names of all markers.
        bad += [each for each in markers if each.name.checkpoint is None]
        for marker in bad:
            texts = {"expected": "a pointer into the log", "found": marker.problem}
            yield self._finding("recovery-refused", marker.path, **texts)
        if bad or (begin is None and end is None):
            return
        if begin is None or (end is not None and end.name.time_ms > begin.name.time_ms):
            assert end is not None
            texts = {"expected": "the begin of this checkpoint", "found": "no marker"}
            yield self._finding("recovery-refused", end.path, **texts)
            return
        if not self._has_record(begin) and begin.pointer is not None and not begin.pointer.is_null:
            place = {"segment": begin.pointer.segment, "offset": begin.pointer.offset}
            texts = {
                "expected": f"the record of checkpoint {begin.name.checkpoint}",
                "found": "no such record in the log",
            }
            yield self._finding("recovery-refused", begin.path, **place, **texts)
        yield from self._unmarked(begin)

    def _has_record(self, begin: Marker) -> bool:
        same = (each for each in self._found.checkpoints if each.begin is begin)
        return any(each.record is not None for each in same)

    def _unmarked(self, begin: Marker) -> Iterator[NodeFinding]:
        known = {each.checkpoint for each in self._found.checkpoints}
        for record in self._found.records:
            is_later = begin.pointer is not None and record.pointer > begin.pointer
            if is_later and record.checkpoint not in known:
                yield self._finding(
                    "recovery-unclear",
                    segment=record.pointer.segment,
                    offset=record.pointer.offset,
                    expected="a begin marker",
                    found=f"checkpoint {record.checkpoint}, later than all markers",
                )

    def _of_physical(self) -> Iterator[NodeFinding]:
        physical = self._physical
        begin = physical.begin
        if physical.problem is None or begin is None or not self._has_record(begin):
            # A missing record of the checkpoint is a finding on its marker.
            return
        segment = offset = None
        if physical.end is not None:
            segment, offset = physical.end.segment, physical.end.offset
        path = physical.damaged_files[0] if physical.damaged_files else None
        code = "recovery-unclear" if physical.is_unclear else "recovery-refused"
        yield self._finding(code, path, segment=segment, offset=offset, found=physical.problem)

    def _of_archive(self) -> Iterator[NodeFinding]:
        """Yield files of the archive that prevent the start, and segments that it lacks."""
        yield from self._of_headers()
        for file in zips_without_entry(self._node):
            yield self._finding("recovery-refused", file.path, found="a ZIP without an entry")
        for file in moved_wrongly(self._node):
            texts = {
                "expected": "the first file of the ring, 0000000000000000.wal",
                "found": "no such file, so the node moves this one to the archive, and fails",
                "hint": _FIRST_OF_RING,
            }
            yield self._finding("recovery-refused", file.path, **texts)
        for file in files_in_the_way(self._node):
            is_at_start = is_due(self._node, file)
            when = "when it starts" if is_at_start else "once it has written it, and halts"
            is_left = may_be_only_copy(self._node, file) and not is_after_ring(self._node, file)
            yield self._finding(
                "recovery-refused" if is_at_start else "recovery-unclear",
                file.path,
                segment=file.number,
                expected=f"no file, because the node archives this segment {when}",
                found=file.problem,
                hint=_ONLY_COPY if is_left else "`ignite recover --apply` sets the file aside.",
            )
        first = self._found.need.first
        for copies in () if first is None else unarchived(self._node, first):
            yield self._finding(
                "recovery-refused",
                copies.chosen.path,
                segment=copies.index,
                expected="a file in the archive, because there are later ones",
                found="the segment is only in the ring",
                hint="Copy this file to the archive, named by the index of the segment.",
            )

    def _of_headers(self) -> Iterator[NodeFinding]:
        """Yield segments that the engine refuses, or may refuse, because of their headers.

        It ignores the copy in the ring of a segment that is in the archive, and segments that are
        older than those that recovery reads, unless their headers name another segment.
        """
        first, archived = self._found.need.first, last_archived(self._node)
        for file in self._node.segments:
            header = file.header
            is_other = file.problem == Problem.SEGMENT.value
            if not file.is_derived or header is None or not (is_other or file.is_refused):
                continue
            is_read = first is None or header.segment >= first
            if not file.is_archived and (header.segment <= archived or is_other):
                # A file of the ring with the header of another segment is the end of the log.
                continue
            if is_read:
                yield self._finding(
                    "recovery-refused", file.path, segment=header.segment, found=file.problem
                )
            elif is_other:
                yield self._finding(
                    "recovery-unclear", file.path, segment=header.segment, found=file.problem
                )

    def _of_configurations(self, lacking: Iterable[UnconfiguredFolder]) -> Iterator[NodeFinding]:
        """Yield caches without a readable configuration."""
        for each in lacking:
            if each.is_lost:
                texts = {"expected": CONFIGURATION, "found": each.found, "hint": CACHE_LOST}
                yield self._finding("recovery-loss", each.path, **texts)
            else:
                yield self._finding("recovery-refused", each.path, found=each.found)

    def _of_log_end(self, logical: LogicalUpdates) -> Iterator[NodeFinding]:
        end = logical.end
        if end.is_refused:
            if end.reason is not WalEndReason.NO_START:
                yield self._finding(
                    "recovery-refused",
                    segment=end.segment,
                    offset=end.offset,
                    expected="a record",
                    found=_end_text(end),
                )
            return
        if end.lost_records:
            found = f"{counted(end.lost_records, 'record')} after the first that cannot be read"
            yield self._finding(
                "recovery-loss",
                segment=end.segment,
                offset=end.offset,
                found=found,
                hint=_LOG_LOST,
            )
        elif end.reason is WalEndReason.ROLLED:
            expected = f"segment {end.segment + 1}, which follows"
            yield self._finding(
                "recovery-loss", segment=end.segment + 1, expected=expected, found=self._absent()
            )

    def _absent(self) -> str:
        """Return why the log has no more segments, in words."""
        bad = next((each for each in self._node.segments if each.status is Status.UNREADABLE), None)
        if bad is None:
            return "no file"
        return f"no file that can be read; {path_below(bad.path, self._root)}: {bad.problem}"

    def _of_entries(self, logical: LogicalUpdates) -> Iterator[NodeFinding]:
        if logical.undecodable:
            found = f"{counted(logical.undecodable, 'record')} whose fields do not decode"
            yield self._finding("recovery-unclear", found=found)

    def _of_pages(self, judged: JudgedPages) -> Iterator[NodeFinding]:
        for file in judged.unreadable:
            found = file.problem or "it cannot be read"
            yield self._finding("recovery-refused", file.path, found=found)
        for file in judged.hollow:
            texts = {"expected": "a file with pages", "found": "a hole for the most part"}
            yield self._finding("recovery-unclear", file.path, **texts)
        counts: Counter[tuple[Path, PageRepair]] = Counter()
        pages: Counter[tuple[Path, PageRepair]] = Counter()
        for run in judged.damaged:
            key = (run.file.path, run.repair)
            counts[key] += 1
            if counts[key] <= RUNS_SHOWN:
                yield self._of_run(run)
            else:
                pages[key] += run.pages
        for key, count in pages.items():
            more = f"{counts[key] - RUNS_SHOWN:,} more runs of pages, {counted(count, 'page')}"
            code, severity = _code_of(key[1])
            text = f"{more}; {REPAIRS[key[1]]}"
            yield self._finding(code, key[0], severity=severity, found=text)

    def _of_run(self, run: DamagedPages) -> NodeFinding:
        header = run.file.header
        assert header is not None
        code, severity = _code_of(run.repair)
        what = _STATES.get(run.state, run.state.name.lower())
        what = "after the end of the file" if run.is_absent else what
        is_index = run.file.kind is FileKind.INDEX and run.repair is not PageRepair.RECOVERED
        more = f" and each of the {run.pages - 1:,} after it" if run.pages > 1 else ""
        return self._finding(
            code,
            run.file.path,
            severity=severity,
            offset=header.size + run.page * header.page_size,
            length=run.pages * header.page_size,
            found=f"page {run.page}{more}: {what}; {REPAIRS[run.repair]}",
            hint=_INDEX_ASIDE if is_index else _HINTS.get(run.repair),
        )

    def _of_partitions(self) -> Iterator[NodeFinding]:
        """Yield partitions whose files are not those of the newest checkpoint."""
        replay = self._physical.replay if self._physical.problem is None else None
        if self._physical.status == "unfinished" and replay is None:
            return
        for each in checkpointed_partitions(self._node, self._found, replay):
            expected, found = each.expected, each.found
            if each.is_missing and expected.size:
                what = "a file without pages" if each.path.exists() else "no file"
                texts = {"expected": counted(expected.size, "row"), "found": what}
                yield self._finding("recovery-loss", each.path, hint=_FILE_LOST, **texts)
            elif found is not None and found.update_counter != expected.counter:
                is_older = found.update_counter < expected.counter
                age = "an older" if is_older else "a newer"
                texts = {
                    "expected": f"update counter {expected.counter}, as at the newest checkpoint",
                    "found": f"{found.update_counter}, of {age} file",
                }
                code = "recovery-loss" if is_older else "recovery-unclear"
                yield self._finding(code, each.path, **texts)


def _code_of(repair: PageRepair) -> tuple[str, Severity]:
    """Return the code and the severity of a finding on damaged pages, by their fate."""
    code = _CODE_OF.get(repair, "recovery-page")
    return code, Severity.NOTE if repair is PageRepair.RECOVERED else CODES[code].severity


def _end_text(end: WalEnd) -> str:
    if end.reason is WalEndReason.MISSING:
        return "the segment is in no file"
    return "damage in a segment of the archive, which the engine takes for no end of the log"
