"""Findings on the page stores of Ignite: damage as rows."""

from __future__ import annotations

from msgspec import Struct

from je_tools.findings import Code, Severity

_ADVICE = (
    "If it is a note, nothing. Else `ignite recover` rebuilds a partition from the log, and sets a "
    "damaged index aside, so that the node rebuilds it. If the log does not have enough, load the "
    "partition from another node that owns it, or from a backup. `ignite pages verify` has advice "
    "for each file."
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
        "A page is zeros, and a page after it was written. It is a warning if a checkpoint did "
        "not end: the page may not have been written yet.",
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
        "The checksum of a page is right, and its id is that of another place: it was written to "
        "the wrong place, or the file is a mix of two.",
        _ADVICE,
    ),
    (
        "page-unknown",
        Severity.WARNING,
        "The checksum of a page is right, and no engine up to 2.18 writes its type, the version "
        "of its layout or its compression. A node may halt when it reads the page, or not notice. "
        "It is an error for the first page of a partition: the node takes the partition for a new "
        "one, and its rows are lost, or it halts.",
        "Compare the version of the node with those that this program reads. `ignite recover` "
        "rebuilds the page if the log has its whole history.",
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
        "The newest checkpoint counted rows in a partition, and its file does not exist, or has no "
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
        "The newest checkpoint did not end, or the markers do not tell whether it did. Then some "
        "pages are as of that checkpoint and others as of the one before. Recovery writes them "
        "anew from the log when the node starts.",
        "Keep the markers and the log. `ignite recover` shows what the start does.",
    ),
    (
        "page-unwritten",
        Severity.NOTE,
        "The pages at the end of a file are zeros: they were allocated and not written, or the "
        "file has no header yet. It cannot be told from pages that were lost.",
        "Nothing.",
    ),
    (
        "page-unsummed",
        Severity.NOTE,
        "No page of a file has a checksum (IGNITE_PDS_SKIP_CRC): damage in them is not seen.",
        "Nothing.",
    ),
    (
        "page-encrypted",
        Severity.NOTE,
        "Pages of a group are encrypted. Their checksums are right; types, places and content "
        "were not judged.",
        "Nothing.",
    ),
    (
        "page-compressed",
        Severity.NOTE,
        "Pages of a group are compressed. They were unpacked.",
        "Nothing.",
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
        "A link leads to a page that does not belong there: of another type, in another "
        "partition, with more items than it has place for, or named twice.",
        _ADVICE,
    ),
    (
        "tree-chain",
        Severity.ERROR,
        "The pages of a level of a tree do not follow each other as the level above names them: "
        "rows are found by one way and not by the other.",
        _ADVICE,
    ),
    (
        "tree-order",
        Severity.ERROR,
        "The items of a page of a tree are not in order, or not between those beside the link to "
        "the page: the node does not find some of their rows.",
        _ADVICE,
    ),
    (
        "row-lost",
        Severity.ERROR,
        "An item of a tree leads to no row, or to bytes that do not decode to one.",
        _ADVICE,
    ),
    (
        "data-items",
        Severity.ERROR,
        "The rows of a data page overlap or lie outside of it, or its free bytes are not those "
        "that it counts: the node may overwrite rows.",
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
        "Look for the row with `ignite pages dump`, if it may be one that is missed.",
    ),
    (
        "expiry-unnamed",
        Severity.WARNING,
        "An item of the tree of rows that expire has no row.",
        "Nothing: the node passes it when its time comes.",
    ),
    (
        "row-count",
        Severity.WARNING,
        "The first page of a partition, or the page of the sizes of its caches, counts other rows "
        "than its tree has.",
        "Compare the partition with its copy on another node (`idle_verify`).",
    ),
    (
        "row-misplaced",
        Severity.WARNING,
        "The hashes of keys belong to another partition, while those of nearly all other rows of "
        "the cache belong to theirs: the node does not find these rows.",
        "Compare the partition with its copy on another node, unless the cache has an affinity "
        "function of its own.",
    ),
    (
        "page-unnamed",
        Severity.NOTE,
        "Nothing leads to a page that was written: its space is lost.",
        "Nothing.",
    ),
    (
        "rows-cut-off",
        Severity.NOTE,
        "Damaged pages keep rows from being read. The expected number is that of the partition's "
        "first page.",
        _ADVICE,
    ),
    (
        "page-unwalked",
        Severity.NOTE,
        "Trees, lists and rows of files were not checked, only pages one by one. It is a warning "
        "for files that are holes for the most part.",
        "The column `found` has the reason.",
    ),
    (
        "page-file-unread",
        Severity.NOTE,
        "A file beside the partitions has no name of a partition or an index, and was not read.",
        "Nothing.",
    ),
)

CODES = {row[0]: Code(*row) for row in _TABLE}
"""Every finding code, in the order of the documentation."""


class PageFinding(Struct, frozen=True):
    """One finding on pages that follow each other; the same columns in every output.

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
