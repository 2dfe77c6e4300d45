"""Verdicts on files of pages: findings with byte ranges, and what to do about each file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Set
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from je_tools.core.escaping import counted
from je_tools.findings import Severity
from je_tools.formats.ignite.ids import cache_id
from je_tools.formats.ignite.page_ids import INDEX_PARTITION, PageFlag, page_file_name, whole_id
from je_tools.formats.ignite.pages import PageState, page_type_name
from je_tools.formats.ignite.types import PartitionState
from je_tools.ignite.caches import CONFIGURATION
from je_tools.ignite.page_check.page_findings import CODES, PageFinding
from je_tools.ignite.page_check.structure_judge import structure_findings
from je_tools.ignite.pages.files import FileKind, PageFile, PageFolder
from je_tools.ignite.pages.page_sets import PageSet
from je_tools.ignite.store import path_below

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from je_tools.formats.ignite.check import Structure
    from je_tools.ignite.page_check.page_recovery import PageRecovery
    from je_tools.ignite.page_check.structure_judge import Affinity, FindingMaker
    from je_tools.ignite.pages.scan import PageFileScan, Run
    from je_tools.ignite.recovery.configurations import UnconfiguredFolder

RUNS_SHOWN = 100
"""Runs of pages of a file that are findings of their own, for each code."""

_OWNED = (PartitionState.OWNING, PartitionState.LOST)
"""States of a partition that has data."""

_CODE_OF = {
    PageState.CHECKSUM: "page-checksum",
    PageState.UNSUMMED: "page-checksum",
    PageState.CUT: "page-cut",
    PageState.MISPLACED: "page-misplaced",
    PageState.UNKNOWN: "page-unknown",
    PageState.UNREADABLE: "page-unreadable",
}


class PageFileState(StrEnum):
    """Verdict on a file."""

    GOOD = "good"
    MENDED = "mended by recovery"
    ENCRYPTED = "checksums only"
    """Encrypted: no more can be judged."""
    UNSUMMED = "no checksums"
    UNCLEAR = "unclear"
    """Warnings, and no error."""
    DAMAGED = "damaged"
    MISSING = "missing"


ADVICE = {
    FileKind.INDEX: "Stop the node and remove the file: the node rebuilds its indexes.",
    FileKind.PARTITION: (
        "Load the partition again: from another node that owns it, or from a backup. A node that "
        "starts without the file misses its rows and reports nothing."
    ),
    FileKind.METASTORAGE: (
        "Restore the node from a backup, or clear it and let the other nodes load it: no other "
        "node has this file."
    ),
}
_BY_RECOVER = "`je-tools ignite recover` rebuilds it from the log. Otherwise: {}"
_INDEX_ASIDE = "`je-tools ignite recover` sets the file aside: the node rebuilds its indexes."
_FROM_LOG = (
    "page-checksum",
    "page-zero",
    "page-cut",
    "page-misplaced",
    "page-unknown",
    "page-file-missing",
)
"""Codes of the errors that a rebuilt file no longer has."""
_KEEP_LOG = "Nothing to do: the node repairs it when it starts. Keep the markers and the log."
_NOTHING = "Nothing to do."


class FileVerdict(Struct, frozen=True):
    """The verdict on one file.

    Attributes:
        node, group, file, partition: as in `PageFinding`.
        kind: content of the file.
        pages: number of pages.
        zeros, encrypted, compressed: such pages.
        torn: pages that recovery writes anew.
        bad: pages with errors or warnings.
        rows: rows that can be read; None if trees were not walked, or the file has no rows.
        state: the verdict.
        advice: next step.
    """

    node: str
    group: str
    file: str
    kind: FileKind
    partition: int
    pages: int
    zeros: int
    encrypted: int
    compressed: int
    torn: int
    bad: int
    rows: int | None
    state: PageFileState
    advice: str


class PageJudge:
    """Judge of the files of one node."""

    def __init__(self, node: str, root: str, recovery: PageRecovery) -> None:
        """Make a judge; `root` is the folder that paths are shown below."""
        self._node = node
        self._root = root
        self._recovery = recovery
        self._mended = PageSet(recovery.mended)

    def judge(
        self, scan: PageFileScan, structure: Structure | None, affinity: Affinity
    ) -> tuple[FileVerdict, list[PageFinding]]:
        """Return the verdict on a file, and the findings in it.

        Args:
            scan: its pages.
            structure: what the pages lead to; None if it was not checked.
            affinity: numbers of partitions of the caches of the node.
        """
        findings = list(self._of_file(scan))
        findings += self._of_runs(scan)
        if structure is not None:
            findings += structure_findings(scan, structure, affinity, self._maker(scan.file))
        is_index = scan.file.kind is FileKind.INDEX
        rows = None if structure is None or is_index else structure.rows
        return self._verdict(scan, findings, rows), findings

    def unwalked_finding(
        self, files: Sequence[PageFile], reason: str, *, is_warning: bool = False
    ) -> PageFinding:
        """Return a finding on files whose trees were not checked for one reason."""
        group = files[0].group if len({each.group for each in files}) == 1 else None
        severity = Severity.WARNING if is_warning else Severity.NOTE
        found = f"{counted(len(files), 'file')}: {reason}"
        return self._finding("page-unwalked", severity=severity, group=group, found=found)

    def _maker(self, file: PageFile) -> FindingMaker:
        """Return a maker of findings in a file, on a page or on the whole file."""
        header = file.header
        assert header is not None
        size = header.page_size

        def make(
            code: str, page: int | None, pages: int | None = None, **facts: Any
        ) -> PageFinding:
            if page is None:
                return self._finding_in(code, file, pages=pages, **facts)
            pages = pages or 1
            offset, length = header.size + page * size, pages * size
            if offset >= file.size and code != "page-lost":
                # Recovery makes the page.
                return self._finding_in(code, file, page=page, pages=pages, **facts)
            length = length if offset >= file.size else min(length, file.size - offset)
            place = {"page": page, "pages": pages, "offset": offset, "length": length}
            return self._finding_in(code, file, **place, **facts)

        return make

    def of_node(self) -> Iterator[PageFinding]:
        """Yield notes on all files of the node."""
        recovery = self._recovery
        if recovery.is_mixed:
            found = "the markers do not show which checkpoint is the newest"
            if recovery.status == "unfinished":
                mended = counted(len(recovery.mended), "page")
                found = f"the newest checkpoint did not end; recovery writes {mended}"
            yield self._finding("page-mixed", found=found)

    def of_folder(self, folder: PageFolder) -> Iterator[tuple[FileVerdict | None, PageFinding]]:
        """Yield missing files with their verdict, and files that were not read."""
        newest = self._recovery.newest
        for group in dict.fromkeys(each.group for each in folder.files):
            files = [each for each in folder.files if each.group == group]
            known = {each.partition for each in files}
            parts = newest.groups.get(cache_id(group), []) if newest is not None else []
            for part in parts:
                is_owned = part.state in _OWNED and part.size > 0
                if is_owned and part.partition not in known:
                    path = files[0].path.with_name(page_file_name(part.partition))
                    lost = replace(
                        files[0],
                        path=path,
                        kind=FileKind.PARTITION,
                        partition=part.partition,
                        size=0,
                        header=None,
                    )
                    yield self._missing(lost, part.size)
        for path in folder.others:
            yield None, self._finding("page-file-unread", file=self.path(path))

    def of_configurations(self, lost: Iterable[UnconfiguredFolder]) -> Iterator[PageFinding]:
        """Yield findings on caches without a configuration."""
        for each in lost:
            if not each.is_lost:
                # `recover` and `doctor` report it: it has no pages.
                continue
            facts = {"expected": CONFIGURATION, "found": each.found}
            path = self.path(each.path)
            yield self._finding("cache-unconfigured", group=each.group, file=path, **facts)

    def _missing(self, file: PageFile, rows: int) -> tuple[FileVerdict, PageFinding]:
        counts = dict.fromkeys(("pages", "zeros", "encrypted", "compressed", "torn", "bad"), 0)
        verdict = self._row(file, counts, None, PageFileState.MISSING, ADVICE[file.kind])
        return verdict, self._finding_in(
            "page-file-missing", file, expected=counted(rows, "row"), found="no file"
        )

    def path(self, path: Path) -> str:
        """Return a path below the store."""
        return path_below(path, self._root)

    def _finding(self, code: str, **facts: Any) -> PageFinding:
        severity = facts.pop("severity", CODES[code].severity)
        return PageFinding(code, severity, self._node, **facts)

    def _finding_in(self, code: str, file: PageFile, **facts: Any) -> PageFinding:
        path = self.path(file.path)
        return self._finding(code, group=file.group, file=path, partition=file.partition, **facts)

    def _lost_rows(self, file: PageFile) -> int:
        """Return the rows that a partition without pages had at the newest checkpoint, else 0."""
        newest = self._recovery.newest
        if newest is None or self._recovery.is_mixed or not file.is_without_pages:
            return 0
        parts = newest.groups.get(cache_id(file.group), [])
        own = (each for each in parts if each.partition == file.partition)
        return sum(each.size for each in own if each.state in _OWNED)

    def _of_file(self, scan: PageFileScan) -> Iterator[PageFinding]:
        file = scan.file
        if rows := self._lost_rows(file):
            expected = counted(rows, "row")
            yield self._finding_in("page-file-missing", file, expected=expected, found="no pages")
        if file.is_empty:
            yield self._finding_in("page-unwritten", file, found=file.problem)
        elif file.problem is not None:
            code = "page-file-header" if file.size else "page-unreadable"
            yield self._finding_in(code, file, offset=0, length=17, found=file.problem)
        if scan.problem is not None:
            yield self._finding_in("page-unreadable", file, found=scan.problem)
        if _is_unsummed(scan):
            yield self._finding_in("page-unsummed", file, pages=scan.states[PageState.UNSUMMED])

    def _of_runs(self, scan: PageFileScan) -> Iterator[PageFinding]:
        """Yield findings on all runs: the first of each code, and the number of the others."""
        counts: Counter[tuple[str, Severity]] = Counter()
        pages: Counter[tuple[str, Severity]] = Counter()
        for run in scan.runs:
            for found in self._of_run(scan, run):
                key = (found.code, found.severity)
                counts[key] += 1
                if counts[key] <= RUNS_SHOWN:
                    yield found
                else:
                    pages[key] += found.pages or 0
        for (code, severity), count in pages.items():
            more = f"{counts[code, severity] - RUNS_SHOWN:,} more runs of pages"
            yield self._finding_in(code, scan.file, severity=severity, pages=count, found=more)

    def _of_run(self, scan: PageFileScan, run: Run) -> Iterator[PageFinding]:
        """Yield findings on a run, split where recovery writes pages anew."""
        if run.state is PageState.UNSUMMED and _is_unsummed(scan):
            return
        if run.state is PageState.ZERO and run.page >= scan.written:
            yield self._of_pages("page-unwritten", scan, run, found="zeros")
            return
        place = (cache_id(scan.file.group), scan.file.partition)
        parts = self._mended.split(*place, run.page, run.page + run.pages)
        for start, stop, is_mended in parts:
            part = replace(run, page=start, pages=stop - start)
            if is_mended and run.state is not PageState.UNREADABLE:
                yield self._of_pages("page-torn", scan, part, **_words(scan, part))
            elif run.state is PageState.ZERO:
                severity = Severity.WARNING if self._recovery.is_mixed else Severity.ERROR
                yield self._of_pages("page-zero", scan, part, severity=severity, found="zeros")
            elif run.state is PageState.UNKNOWN:
                yield from self._of_unknown(scan, part)
            else:
                yield self._of_pages(_CODE_OF[run.state], scan, part, **_words(scan, part))

    def _of_unknown(self, scan: PageFileScan, run: Run) -> Iterator[PageFinding]:
        """Yield pages of unknown types; with such a first page, a node loses a partition."""
        if run.page == 0 and scan.file.kind is FileKind.PARTITION:
            first, run = replace(run, pages=1), replace(run, page=1, pages=run.pages - 1)
            yield self._of_pages(
                "page-unknown", scan, first, severity=Severity.ERROR, **_words(scan, first)
            )
        if run.pages:
            yield self._of_pages("page-unknown", scan, run, **_words(scan, run))

    def _of_pages(self, code: str, scan: PageFileScan, run: Run, **facts: Any) -> PageFinding:
        header = scan.file.header
        assert header is not None
        offset = header.size + run.page * header.page_size
        stop = min(offset + run.pages * header.page_size, scan.file.size)
        is_typed = run.state not in (PageState.ZERO, PageState.UNREADABLE)
        return self._finding_in(
            code,
            scan.file,
            page=run.page,
            pages=run.pages,
            offset=offset,
            length=stop - offset,
            type=page_type_name(run.type_no) if is_typed else None,
            **facts,
        )

    def _verdict(
        self, scan: PageFileScan, findings: list[PageFinding], rows: int | None
    ) -> FileVerdict:
        def pages(chosen: list[PageFinding]) -> int:
            return sum(each.pages or 0 for each in chosen)

        errors = [each for each in findings if each.severity is Severity.ERROR]
        warnings = [each for each in findings if each.severity is Severity.WARNING]
        torn = [each for each in findings if each.code == "page-torn"]
        counts = {
            "pages": scan.file.pages,
            "zeros": scan.states[PageState.ZERO],
            "encrypted": scan.states[PageState.ENCRYPTED],
            "compressed": scan.compressed,
            "torn": pages(torn),
            "bad": pages(errors) + pages(warnings),
        }
        if errors:
            return self._row(scan.file, counts, rows, PageFileState.DAMAGED, ADVICE[scan.file.kind])
        if warnings:
            hint = CODES[warnings[0].code].hint
            if warnings[0].code == "page-zero":
                hint = "`je-tools ignite recover` shows whether the node starts with these pages."
            return self._row(scan.file, counts, rows, PageFileState.UNCLEAR, hint)
        if torn:
            return self._row(scan.file, counts, rows, PageFileState.MENDED, _KEEP_LOG)
        state = PageFileState.ENCRYPTED if counts["encrypted"] else PageFileState.GOOD
        state = PageFileState.UNSUMMED if _is_unsummed(scan) else state
        return self._row(scan.file, counts, rows, state, _NOTHING)

    def _row(
        self,
        file: PageFile,
        counts: dict[str, int],
        rows: int | None,
        state: PageFileState,
        advice: str,
    ) -> FileVerdict:
        return FileVerdict(
            self._node,
            file.group,
            self.path(file.path),
            file.kind,
            file.partition,
            **counts,
            rows=rows,
            state=state,
            advice=advice,
        )


def advised(
    verdict: FileVerdict, findings: Sequence[PageFinding], rebuilt: Set[str]
) -> FileVerdict:
    """Return a verdict whose advice names `ignite recover` first, if that repairs the file.

    Args:
        verdict: the verdict.
        findings: findings on its node.
        rebuilt: files in which `ignite recover` repairs every damaged page.
    """
    own = [each for each in findings if each.file == verdict.file]
    errors = {each.code for each in own if each.severity is Severity.ERROR}
    if verdict.file not in rebuilt or not errors:
        return verdict
    if verdict.kind is FileKind.INDEX:
        return replace(verdict, advice=_INDEX_ASIDE)
    is_all = errors.issubset(_FROM_LOG)
    return replace(verdict, advice=_BY_RECOVER.format(verdict.advice)) if is_all else verdict


def _is_unsummed(scan: PageFileScan) -> bool:
    """Return True if no written page of a file has a checksum."""
    states = scan.states
    return states[PageState.UNSUMMED] > 0 and not states[PageState.GOOD]


def _words(scan: PageFileScan, run: Run) -> dict[str, str]:
    """Return expected and actual content of the first page of a run."""
    if run.state in (PageState.CHECKSUM, PageState.UNSUMMED):
        return {"expected": f"{run.computed:08x}", "found": f"{run.stored:08x}"}
    if run.state is PageState.MISPLACED:
        flag = PageFlag.INDEX if scan.file.partition == INDEX_PARTITION else PageFlag.DATA
        expected = whole_id(flag, scan.file.partition, run.page)
        found = run.page_id & (1 << 64) - 1
        return {"expected": f"{expected:016x}", "found": f"{found:016x}"}
    if run.state is PageState.UNKNOWN:
        return {"found": f"{page_type_name(run.type_no)}, version {run.version}"}
    if run.state is PageState.CUT:
        return {"found": "the file ends"}
    return {"found": "zeros" if run.state is PageState.ZERO else "cannot be read"}
