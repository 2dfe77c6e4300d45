"""Tables on page stores of Ignite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from je_tools.ignite.page_check.judge import PageFileState
from je_tools.output.views.ignite_tables import NODE, store_section
from je_tools.output.views.sections import Column, Kind, Section

if TYPE_CHECKING:
    from je_tools.ignite.page_check.verify import PageReport
    from je_tools.ignite.pages.space import SpaceReport


def _value(name: str) -> Any:
    def cell(item: Any) -> str:
        return str(getattr(item, name).value)

    return cell


_GROUP = Column("group", "group", Kind.TEXT, rank=4)
_PARTITION = Column("partition", "partition", Kind.ID, rank=7)

FILES = (
    NODE,
    _GROUP,
    Column("file", "file", Kind.PATH),
    Column("kind", "kind", Kind.TEXT, rank=6, cell=_value("kind")),
    _PARTITION,
    Column("pages", "pages", rank=2),
    Column("zeros", "zeros", rank=5),
    Column("encrypted", "encrypted", rank=8),
    Column("compressed", "compressed", rank=8),
    Column("torn", "torn", rank=3),
    Column("bad", "bad"),
    Column("rows", "rows", rank=5),
    Column("state", "state", Kind.TEXT, cell=_value("state")),
    Column("advice", "advice", Kind.TEXT, wraps=True),
)
"""Columns of verdicts on files."""

FINDINGS = (
    Column("severity", "severity", Kind.TEXT, cell=_value("severity")),
    Column("code", "finding", Kind.TEXT),
    NODE,
    _GROUP,
    Column("file", "file", Kind.PATH),
    _PARTITION,
    Column("page", "page", Kind.ID),
    Column("pages", "pages", rank=3),
    Column("offset", "offset", Kind.COUNT, rank=2),
    Column("length", "bytes", Kind.COUNT, rank=4),
    Column("type", "type", Kind.TEXT, rank=2),
    Column("expected", "expected", Kind.TEXT, rank=6, wraps=True),
    Column("found", "found", Kind.TEXT, wraps=True),
)
"""Columns of findings on a page store."""


def report_sections(report: PageReport, *, everything: bool) -> list[Section]:
    """Return a verification as tables.

    Args:
        report: the verification.
        everything: also show good files, and pages by type.
    """
    files = [each for each in report.files if everything or each.state is not PageFileState.GOOD]
    types = report.types if everything else []
    columns = (NODE, Column("type", "type", Kind.TEXT), Column("pages", "pages"))
    return [
        store_section("files", "Files", FILES, files),
        store_section("findings", "Findings", FINDINGS, report.findings),
        store_section("types", "Pages by type", columns, types),
    ]


def space_section(report: SpaceReport) -> Section:
    """Return the space in files as a table."""
    columns = (
        NODE,
        _GROUP,
        Column("file", "file", Kind.PATH),
        Column("kind", "kind", Kind.TEXT, rank=9, cell=_value("kind")),
        _PARTITION,
        Column("size", "bytes", rank=4),
        Column("pages", "pages"),
        Column("data_pages", "data", rank=1),
        Column("tree_pages", "tree", rank=2),
        Column("list_pages", "list", rank=2),
        Column("other_pages", "other", rank=3),
        Column("zero_pages", "zeros", rank=6),
        Column("tail_pages", "tail", rank=1),
        Column("uncounted", "uncounted", rank=5),
        Column("packed_pages", "packed", rank=8),
        Column("entries", "entries", rank=6),
        Column("rows", "rows", rank=7),
        Column("free", "free bytes"),
        Column("empty_pages", "empty", rank=5),
        Column("fill_percent", "fill", Kind.PERCENT),
    )
    return store_section("files", "", columns, report.files)


def type_section(report: SpaceReport) -> Section:
    """Return pages by type as a table."""
    columns = (
        NODE,
        Column("type", "type", Kind.TEXT),
        Column("pages", "pages"),
        Column("size", "bytes"),
        Column("items", "items", rank=2),
        Column("free", "free bytes", rank=1),
    )
    return store_section("types", "", columns, report.types)
