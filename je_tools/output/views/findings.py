"""Findings in each format of rows, written as they are found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, BinaryIO

from je_tools.core.escaping import clean_text, is_lsn
from je_tools.output.views.sections import Column, Kind, Section, section_of, write_csv

if TYPE_CHECKING:
    from je_tools.findings import Finding


ROWS_AT_ONCE = 10_000
"""Number of findings in memory at once, for CSV and Parquet."""


def _cell(name: str) -> Callable[[Finding], Any]:
    """Return a function for a cell: LSNs are numbers, which each format writes in its own way."""
    if name == "parent_lsn":
        return lambda found: found.tree.parent_lsn if found.tree is not None else None
    if is_lsn(name):
        return attrgetter(name)
    return lambda found: found.row().get(name)


FINDING_COLUMNS = tuple(
    Column(name, name, kind, cell=_cell(name))
    for name, kind in (
        ("code", Kind.TEXT),
        ("severity", Kind.TEXT),
        ("env", Kind.TEXT),
        ("file_no", Kind.FILE),
        ("offset", Kind.COUNT),
        ("length", Kind.COUNT),
        ("lsn", Kind.LSN),
        ("resume_lsn", Kind.LSN),
        ("expected", Kind.TEXT),
        ("found", Kind.TEXT),
        ("hint", Kind.TEXT),
        ("db", Kind.TEXT),
        ("parent_lsn", Kind.LSN),
        ("slot", Kind.COUNT),
        ("lost_from", Kind.TEXT),
        ("lost_to", Kind.TEXT),
        ("is_one_key", Kind.FLAG),
    )
)
"""Columns of findings; those from `db` on are null unless a tree is damaged."""


def finding_row(found: Finding) -> dict[str, Any]:
    """Return a finding as a JSON object."""
    return {
        name: clean_text(value) if isinstance(value, str) else value
        for name, value in found.row().items()
    }


def with_findings(document: Mapping[str, Any], findings: Iterable[Finding]) -> dict[str, Any]:
    """Return a JSON object with findings as its list `findings`."""
    return {**document, "findings": [finding_row(found) for found in findings]}


def write_jsonl(findings: Iterable[Finding], out: BinaryIO, section: str = "") -> None:
    """Write each finding as a line of strict JSON, with its `section` if it has a name."""
    import json

    named = {"section": section} if section else {}
    for found in findings:
        out.write(json.dumps(named | finding_row(found)).encode() + b"\n")


def write_rows(findings: Iterable[Finding], out: BinaryIO, form: str) -> None:
    """Write findings as JSON lines, CSV or Parquet; the last two with all columns."""
    if form == "jsonl":
        write_jsonl(findings, out)
    elif form == "csv":
        write_csv(_pieces(findings), out)
    else:
        from je_tools.output.views.section_formats import write_parquet

        write_parquet(_pieces(findings), out)


def _pieces(findings: Iterable[Finding]) -> Iterator[Section]:
    """Yield findings as sections of some rows each, the last one possibly without any."""
    left = iter(findings)
    while True:
        section = section_of("", "", FINDING_COLUMNS, islice(left, ROWS_AT_ONCE))
        yield section
        if len(section.rows) < ROWS_AT_ONCE:
            return


def write_table(findings: Iterator[Finding], out: BinaryIO, width: int | None) -> None:
    """Write findings for people, then the meanings of their codes; without findings, nothing.

    Args:
        findings: findings in output order.
        out: stream to write to; colours only on a terminal.
        width: columns of the terminal; None if it is not one.
    """
    first = next(findings, None)
    if first is None:
        return
    # rich takes longer to import than a small log to read.
    from je_tools.output.views.finding_texts import write_texts

    write_texts(chain([first], findings), out, width)
