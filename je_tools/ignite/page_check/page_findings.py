"""Findings on the page stores of Ignite: damage as rows."""

from __future__ import annotations

from msgspec import Struct

from je_tools.findings import Code, Severity
from je_tools.ignite.caches import CACHE_LOST

_ADVICE = (
    "If it is a note, do nothing. Otherwise `ignite recover` rebuilds a partition from the log, "
    "and sets a damaged index aside, so that the node rebuilds it. If the log does not have "
    "enough, load the partition from another node that owns it, or from a backup. `ignite pages "
    "verify` has advice for each file."
)

_TABLE: tuple[tuple[str, Severity, str, str], ...] = (
    (
        "page-checksum",
        Severity.ERROR,
        "The checksum of a page is wrong. The node halts or refuses to start when it reads the "
        "page, unless it finds the page in its log.",
        _ADVICE,
    ),
    (
        "page-zero",
        Severity.ERROR,
        "A page is zeros, and a page after it was written. It is a warning if a checkpoint did not "
        "end: the page may not be written yet.",
        _ADVICE,
    ),
    (
        "page-cut",
        Severity.ERROR,
        "The file ends inside a page.",
        _ADVICE,
    ),
    (
        "page-misplaced",
        Severity.ERROR,
        "The checksum of a page is right, but its id belongs to another place: the page was "
        "written to the wrong place, or the file is a mix of two.",
        _ADVICE,
    ),
    (
        "page-unknown",
        Severity.WARNING,
        "The checksum of a page is right, but no engine up to 2.18 writes its type, layout version "
        "or compression. A node may halt when it reads the page, or not notice. It is an error for "
        "the first page of a partition: the node takes the partition for a new one and loses its "
        "rows, or halts.",
        "Compare the version of the node with those that je-tools reads. `ignite recover` rebuilds "
        "the page if the log has its whole history.",
    ),
    (
        "page-unreadable",
        Severity.ERROR,
        "The device did not deliver the bytes of a page, or the file cannot be read.",
        "Copy the file from a healthy device, or from a backup.",
    ),
    (
        "page-file-header",
        Severity.ERROR,
        "The header of a file is damaged, and the node refuses it. The pages are read with the "
        "page size of another file.",
        _ADVICE,
    ),
    (
        "page-file-missing",
        Severity.ERROR,
        "The newest checkpoint counted rows in a partition, but its file does not exist, or has no "
        "pages. The node starts without these rows, and reports nothing.",
        "Look for the file in a backup of the same node before it starts.",
    ),
    (
        "page-torn",
        Severity.NOTE,
        "A page is damaged or zeros, and was written by a checkpoint that did not end. Recovery "
        "writes the page anew from the log.",
        "Keep the markers and the log: the node repairs the page when it starts.",
    ),
    (
        "page-mixed",
        Severity.NOTE,
        "The newest checkpoint did not end, or the markers do not show whether it did. Some pages "
        "may be from that checkpoint, and others from the one before. Recovery writes them anew "
        "from the log when the node starts.",
        "Keep the markers and the log. `ignite recover` shows what the start does.",
    ),
    (
        "page-unwritten",
        Severity.NOTE,
        "The pages at the end of a file are zeros: they were allocated and not written, or the "
        "file has no header yet. Lost pages would look the same.",
        "Nothing to do.",
    ),
    (
        "page-unsummed",
        Severity.NOTE,
        "No page of a file has a checksum (IGNITE_PDS_SKIP_CRC): je-tools cannot see damage in "
        "them.",
        "Nothing to do.",
    ),
    (
        "page-encrypted",
        Severity.NOTE,
        "Pages of a group are encrypted. Their checksums are right; types, places and content "
        "were not judged.",
        "Nothing to do.",
    ),
    (
        "page-compressed",
        Severity.NOTE,
        "Pages of a group are compressed. They were unpacked.",
        "Nothing to do.",
    ),
    (
        "page-lost",
        Severity.ERROR,
        "A tree, a list or a row leads to a page that is zeros at the end of the file, or after "
        "its end: the file was cut.",
        _ADVICE,
    ),
    (
        "page-link",
        Severity.ERROR,
        "A link leads to a page that does not belong there: of another type, in another partition, "
        "with more items than it has room for, or named twice.",
        _ADVICE,
    ),
    (
        "tree-chain",
        Severity.ERROR,
        "The pages of a level of a tree are not in the order in which the level above names them: "
        "the node finds some rows by one way and not by the other.",
        _ADVICE,
    ),
    (
        "tree-order",
        Severity.ERROR,
        "The items of a tree page are not in order, or outside the range that its parent gives it: "
        "the node does not find some of their rows.",
        _ADVICE,
    ),
    (
        "row-lost",
        Severity.ERROR,
        "An item of a tree does not lead to a row, or its bytes do not decode.",
        _ADVICE,
    ),
    (
        "data-items",
        Severity.ERROR,
        "The rows of a data page overlap or lie outside it, or its count of free bytes is wrong: "
        "the node may overwrite rows.",
        _ADVICE,
    ),
    (
        "list-pages",
        Severity.ERROR,
        "A list of free pages and the pages that it names do not agree: the node may halt when "
        "it looks for a page.",
        _ADVICE,
    ),
    (
        "row-unnamed",
        Severity.WARNING,
        "A data page has a row that no tree leads to: the node does not find it.",
        "If a row is missing, look for it with `ignite pages dump`.",
    ),
    (
        "expiry-unnamed",
        Severity.WARNING,
        "An item of the tree of expiring rows has no row.",
        "Nothing to do: the node skips it when its time comes.",
    ),
    (
        "row-count",
        Severity.WARNING,
        "The number of rows in the first page of a partition, or in the page of the sizes of its "
        "caches, differs from that in its tree.",
        "Compare the partition with its copy on another node (`idle_verify`).",
    ),
    (
        "row-misplaced",
        Severity.WARNING,
        "By the hashes of their keys, some rows belong to another partition, while nearly all "
        "other rows of the cache are in the right one: the node does not find these rows.",
        "If the cache has an affinity function of its own, do nothing. Otherwise compare the "
        "partition with its copy on another node.",
    ),
    (
        "cache-unconfigured",
        Severity.ERROR,
        "A cache has partitions or rows, and no configuration (`cache_data.dat`). The node starts "
        "without it, and reports nothing.",
        CACHE_LOST,
    ),
    (
        "page-unnamed",
        Severity.NOTE,
        "Nothing leads to a page that was written: its space is lost.",
        "Nothing to do.",
    ),
    (
        "rows-cut-off",
        Severity.NOTE,
        "Rows cannot be read because of damaged pages. The expected number is that in the "
        "partition's first page.",
        _ADVICE,
    ),
    (
        "page-unwalked",
        Severity.NOTE,
        "Only the pages of files were checked, one by one, and not their trees, lists and rows. It "
        "is a warning for files that are mostly holes.",
        "The column `found` has the reason.",
    ),
    (
        "page-file-unread",
        Severity.NOTE,
        "A file beside the partitions was not read, because its name is not that of a partition or "
        "an index.",
        "Nothing to do.",
    ),
)

CODES = {row[0]: Code(*row) for row in _TABLE}
"""Every finding code, in the order of the documentation."""


class PageFinding(Struct, frozen=True):
    """One finding on consecutive pages; the same columns in every output.

    Attributes:
        code: a key of CODES.
        severity: severity of this finding.
        node: name of the node.
        group: name of the cache group, or of the cache if it has none.
        file: path below the store.
        partition: partition; 65535 for an index.
        page: index of the first page; None for the file.
        pages: number of pages.
        offset, length: byte range in the file.
        type: type of the first page, as its header names it.
        expected, found: expected and actual content of the first page.
    """

    code: str
    severity: Severity
    node: str
    group: str | None = None
    file: str | None = None
    partition: int | None = None
    page: int | None = None
    pages: int | None = None
    offset: int | None = None
    length: int | None = None
    type: str | None = None
    expected: str | None = None
    found: str | None = None
