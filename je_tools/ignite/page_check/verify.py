"""Verifying the page stores of nodes: every page of every file, and a verdict on each file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.core.escaping import counted
from je_tools.findings import Severity
from je_tools.formats.ignite.check import Structure
from je_tools.formats.ignite.pages import page_type_name
from je_tools.ignite.page_check.judge import FileVerdict, PageFileState, PageJudge, advised
from je_tools.ignite.page_check.page_findings import CODES, PageFinding
from je_tools.ignite.page_check.page_recovery import page_recovery
from je_tools.ignite.page_check.structure_judge import affinity_of
from je_tools.ignite.pages.files import page_folder
from je_tools.ignite.pages.scan import scan_files
from je_tools.ignite.pages.walk import HOLLOW, CacheRows, Walk, add_rows
from je_tools.ignite.recovery.configurations import lacking_configurations
from je_tools.ignite.recovery.walked import ReadNode, recovered_walk

if TYPE_CHECKING:
    from pathlib import Path

    from je_tools.ignite.checkpoints.node_checkpoints import NodeCheckpoints
    from je_tools.ignite.page_check.page_recovery import PageRecovery
    from je_tools.ignite.pages.files import PageFile
    from je_tools.ignite.pages.walk import Walked
    from je_tools.ignite.recovery.physical import PhysicalRecovery
    from je_tools.ignite.store import Node, Store
    from je_tools.log.scan_options import Progress

    Rebuilt = Callable[
        [Node, int, Sequence[Walked], NodeCheckpoints, PhysicalRecovery], frozenset[Path]
    ]


_TO_REPAIR = (PageFileState.DAMAGED, PageFileState.MISSING)


class PageTypeCount(Struct, frozen=True):
    """Good pages of one type on one node."""

    node: str
    type: str
    pages: int


class PageReport(Struct):
    """The verification of the page stores of nodes.

    Attributes:
        files: verdict on each file.
        findings: by node and file.
        types: good pages by node and type.
        read: by the name of a node with markers: what was read of it, for others that judge it.
    """

    files: list[FileVerdict]
    findings: list[PageFinding]
    types: list[PageTypeCount]
    read: dict[str, ReadNode]

    @property
    def wrong(self) -> int:
        """Number of errors and warnings."""
        return sum(each.severity is not Severity.NOTE for each in self.findings)

    def verdict(self, name: str) -> str:
        """Return the totals in one line."""
        pages = sum(each.pages for each in self.files)
        what = "error or warning" if self.wrong == 1 else "errors or warnings"
        read = f"{counted(len(self.files), 'file')}, {counted(pages, 'page')}"
        return f"{name}: {self.wrong or 'no'} {what} in {read}"


def page_bytes(store: Store) -> int:
    """Return the bytes of all files of pages."""
    return sum(each.size for node in store.nodes for each in page_folder(node).files)


def verify_pages(
    store: Store,
    threads: int,
    progress: Progress | None = None,
    *,
    trees: bool = True,
    rebuilt: Rebuilt | None = None,
    checkpoints: Mapping[str, NodeCheckpoints] | None = None,
) -> PageReport:
    """Read every page of the nodes of a store.

    Args:
        store: the nodes.
        threads: number of blocks of pages, and of files, to read at once.
        progress: called with the bytes of each block that was read; None for nothing.
        trees: also walk trees, lists and rows.
        rebuilt: `rebuilt_files`, so that the advice names `ignite recover` where that repairs a
            file; None for advice without it. It is an argument to keep chains of imports short.
        checkpoints: by the name of a node: its checkpoints, if they were read already.

    Raises:
        InputError: a node has no folder of caches.
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    report = PageReport([], [], [], {})
    for node in store.nodes:
        recovery = page_recovery(node, threads, (checkpoints or {}).get(node.name))
        if not trees:
            walk = Walk(threads, "only pages were asked for")
        elif recovery.physical is None:
            walk = Walk(threads, None)
        else:
            walk = recovered_walk(recovery.physical, threads)
        judge = PageJudge(node.name, str(store.roots[0]), recovery)
        walked = _verify_node(report, node, judge, walk, progress)
        if recovery.checkpoints is not None and recovery.physical is not None:
            report.read[node.name] = ReadNode(recovery.checkpoints, recovery.physical, walked)
        if rebuilt is not None:
            _advise(report, node, judge, partial(rebuilt, node, threads, walked), recovery)
    return report


def _verify_node(
    report: PageReport, node: Node, judge: PageJudge, walk: Walk, progress: Progress | None
) -> list[Walked]:
    """Add the verdicts and findings of a node to a report, and return the pages of its files."""
    folder = page_folder(node)
    types: Counter[int] = Counter()
    before = len(report.files)
    report.findings += judge.of_node()
    scans = scan_files(folder.files, walk.threads, progress)
    walked = list(walk.files(scans))
    rows: CacheRows = {}
    affinity = affinity_of(
        (scan.file, found) for scan, found in walked if isinstance(found, Structure)
    )
    for scan, found in walked:
        structure = found if isinstance(found, Structure) else None
        if structure is not None:
            add_rows(rows, scan.file, structure)
        verdict, findings = judge.judge(scan, structure, affinity)
        report.files.append(verdict)
        report.findings += findings
        types += scan.types
    report.findings += _unpacked(report.files[before:])
    report.findings += _unwalked(judge, walked)
    report.findings += judge.of_configurations(lacking_configurations(node, rows))
    for missing, finding in judge.of_folder(folder):
        if missing is not None:
            report.files.append(missing)
        report.findings.append(finding)
    report.types += [
        PageTypeCount(node.name, page_type_name(no), pages) for no, pages in sorted(types.items())
    ]
    return walked


def _advise(
    report: PageReport,
    node: Node,
    judge: PageJudge,
    rebuilt: Callable[[NodeCheckpoints, PhysicalRecovery], frozenset[Path]],
    recovery: PageRecovery,
) -> None:
    """Let the advice on files of a node name `ignite recover`, if that repairs them."""
    own = [each for each in report.files if each.node == node.name and each.state in _TO_REPAIR]
    if own and recovery.checkpoints is not None and recovery.physical is not None:
        files = set(map(judge.path, rebuilt(recovery.checkpoints, recovery.physical)))
        findings = [each for each in report.findings if each.node == node.name]
        report.files = [
            advised(each, findings, files) if each in own else each for each in report.files
        ]


def _unwalked(judge: PageJudge, walked: Sequence[Walked]) -> Iterator[PageFinding]:
    """Yield a finding for each reason why trees of files were not walked."""
    reasons: dict[str, list[PageFile]] = {}
    for scan, found in walked:
        if isinstance(found, str):
            reasons.setdefault(found, []).append(scan.file)
    for reason, files in reasons.items():
        yield judge.unwalked_finding(files, reason, is_warning=reason == HOLLOW)


def _unpacked(files: Sequence[FileVerdict]) -> Iterator[PageFinding]:
    """Yield a note for each group with encrypted or compressed pages."""
    for code, name in (("page-encrypted", "encrypted"), ("page-compressed", "compressed")):
        counts: dict[tuple[str, str], int] = {}
        for each in files:
            key = (each.node, each.group)
            counts[key] = counts.get(key, 0) + getattr(each, name)
        for (node, group), pages in counts.items():
            if pages:
                yield PageFinding(code, CODES[code].severity, node, group, pages=pages)
