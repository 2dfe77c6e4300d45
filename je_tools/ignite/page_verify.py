"""Verifying the page stores of nodes: every page of every file, and a verdict on each file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.findings import Severity
from je_tools.formats.ignite.pages import page_type_name
from je_tools.ignite.page_files import PageFolder, page_folder
from je_tools.ignite.page_findings import CODES, PageFinding
from je_tools.ignite.page_judge import FileVerdict, PageJudge
from je_tools.ignite.page_recovery import page_recovery
from je_tools.ignite.page_scan import scan_files

if TYPE_CHECKING:
    from je_tools.ignite.store import Node, Store
    from je_tools.log.scan_options import Progress


class TypeCount(Struct, frozen=True):
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
    """

    files: list[FileVerdict]
    findings: list[PageFinding]
    types: list[TypeCount]

    @property
    def wrong(self) -> int:
        """Number of errors and warnings."""
        return sum(each.severity is not Severity.NOTE for each in self.findings)

    def verdict(self, name: str) -> str:
        """Return the totals in one line."""
        pages = sum(each.pages for each in self.files)
        what = "error or warning" if self.wrong == 1 else "errors or warnings"
        return f"{name}: {self.wrong or 'no'} {what} in {len(self.files):,} files, {pages:,} pages"


def page_bytes(store: Store) -> int:
    """Return the bytes of all files of pages."""
    return sum(each.size for node in store.nodes for each in page_folder(node).files)


def verify_pages(store: Store, threads: int, progress: Progress | None = None) -> PageReport:
    """Read every page of the nodes of a store.

    Args:
        store: the nodes.
        threads: number of blocks of pages to read at once.
        progress: called with the bytes of each block that was read; None for nothing.

    Raises:
        InputError: a node has no folder of caches.
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    report = PageReport([], [], [])
    for node in store.nodes:
        _verify_node(report, node, page_folder(node), threads, str(store.roots[0]), progress)
    return report


def _verify_node(
    report: PageReport,
    node: Node,
    folder: PageFolder,
    threads: int,
    root: str,
    progress: Progress | None,
) -> None:
    judge = PageJudge(node.name, root, page_recovery(node, threads))
    types: Counter[int] = Counter()
    before = len(report.files)
    report.findings += judge.of_node()
    for scan in scan_files(folder.files, threads, progress):
        verdict, findings = judge.judge(scan)
        report.files.append(verdict)
        report.findings += findings
        types += scan.types
    report.findings += _unpacked(report.files[before:])
    for missing, finding in judge.of_folder(folder):
        if missing is not None:
            report.files.append(missing)
        report.findings.append(finding)
    report.types += [
        TypeCount(node.name, page_type_name(no), pages) for no, pages in sorted(types.items())
    ]


def _unpacked(files: Sequence[FileVerdict]) -> Iterator[PageFinding]:
    """Yield a note for each group with pages whose content is encrypted or compressed."""
    for code, name in (("page-encrypted", "encrypted"), ("page-compressed", "compressed")):
        counts: dict[tuple[str, str], int] = {}
        for each in files:
            key = (each.node, each.group)
            counts[key] = counts.get(key, 0) + getattr(each, name)
        for (node, group), pages in counts.items():
            if pages:
                yield PageFinding(code, CODES[code].severity, node, group, pages=pages)
