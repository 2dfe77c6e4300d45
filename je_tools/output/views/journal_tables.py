"""Journals of front ends, and their records, as result tables and reports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from je_tools.core.escaping import clean_text, counted
from je_tools.core.masking import DataMode, Masking
from je_tools.formats.je.header import NULL_LSN
from je_tools.journal.group_facts import node_type_of
from je_tools.journal.op_codes import op_name
from je_tools.journal.payload import PayloadForm
from je_tools.log.records import NO_VLSN
from je_tools.output.views.key_tables import HIDDEN, LOST
from je_tools.output.views.section_formats import Report
from je_tools.output.views.sections import Cell, Column, Kind, Section, section_of, unless, utc_text

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.journal.lookup import JournalRecord
    from je_tools.journal.op_codes import Product
    from je_tools.journal.report import JournalReport

EPOCHS_SHOWN = 10
"""Largest number of epochs in a table for people."""

JOURNAL_COLUMNS = (
    Column("db", "journal", Kind.TEXT, cell=lambda each: each.name),
    Column("first_id", "first id", Kind.ID),
    Column("last_id", "last id", Kind.ID),
    Column("records", "records", cell=lambda each: each.record_count),
    Column("missing_count", "missing", rank=1),
    Column("unreadable_count", "unreadable", rank=2),
    Column("undecodable_count", "undecodable", rank=3),
    Column("data_size", "bytes", rank=4),
    Column("db_id", "id", Kind.ID, rank=5, cell=lambda each: each.journal.database.db_id),
)

HOLE_COLUMNS = (
    Column("db", "journal", Kind.TEXT, cell=lambda each: each.hole.journal.name),
    Column("first_id", "first id", Kind.ID, cell=lambda each: each.hole.first_id),
    Column("last_id", "last id", Kind.ID, cell=lambda each: each.hole.last_id),
    Column("missing_count", "missing", cell=lambda each: each.hole.missing_count),
    Column("place", "place", Kind.TEXT, rank=3, cell=lambda each: each.hole.place.value),
    Column("logged_count", "in the log", rank=2),
    Column("record_lsn", "record", Kind.LSN, rank=1),
    Column("deletion_lsn", "deletion", Kind.LSN, rank=1),
)


def _op_texts(each: Any) -> Cell:
    return [f"{code}: {count:,}" for code, count in each.op_counts.items()]


CUT_OFF_COLUMNS = (
    Column("db", "journal", Kind.TEXT, cell=lambda each: each.journal.name),
    Column("first_id", "first id", Kind.ID),
    Column("last_id", "last id", Kind.ID),
    Column("records", "records", cell=lambda each: each.id_count),
    Column("lsn", "LSN", Kind.LSN, rank=1),
    Column("op_counts", "op codes", Kind.TEXTS, rank=2, wraps=True, cell=_op_texts),
)

EPOCH_COLUMNS = (
    Column("epoch", "epoch", Kind.ID),
    Column("vlsn", "VLSN", Kind.ID),
    Column("lsn", "LSN", Kind.LSN),
)

OP_COLUMNS = (
    Column("db", "journal", Kind.TEXT),
    Column("op_code", "op code", Kind.ID),
    Column("op_name", "operation", Kind.TEXT),
    Column("records", "records"),
)

RECORD_COLUMNS = (
    Column("db", "journal", Kind.TEXT),
    Column("journal_id", "id", Kind.ID),
    Column("op_code", "op code", Kind.ID),
    Column("op_name", "operation", Kind.TEXT),
    Column("form", "form", Kind.TEXT, rank=3),
    Column("vlsn", "VLSN", Kind.ID, rank=2),
    Column("lsn", "LSN", Kind.LSN, rank=1),
)

PAYLOAD_COLUMN = Column("payload", "payload", Kind.DATA)
_FACT_COLUMNS = (Column("fact", "fact", Kind.TEXT), Column("value", "value", Kind.TEXT, wraps=True))


def journal_report(report: JournalReport, findings: Iterable[Finding] | None) -> Report:
    """Return a report on journals for JSON and JSON lines.

    Args:
        report: the report.
        findings: findings to add as a list; None to leave them out.
    """
    lists: dict[str, Iterable[Any]] = {}
    if findings is not None:
        lists["findings"] = [each.row() for each in findings]
    sections = journal_sections(report)
    return Report(front_end_row(report), "front_end", sections=sections, lists=lists)


def journal_sections(report: JournalReport) -> list[Section]:
    """Return the tables of a report, without its facts; empty ones have no rows."""
    return [
        section_of("journals", "", JOURNAL_COLUMNS, report.journals.journals),
        section_of("holes", "holes", HOLE_COLUMNS, report.holes),
        section_of("cut_off", "cut off by recovery", CUT_OFF_COLUMNS, report.cut_off),
        section_of("epochs", "epochs", EPOCH_COLUMNS, report.journals.epochs),
        Section("operations", "operations", OP_COLUMNS, _op_rows(report)),
    ]


def journal_tables(report: JournalReport) -> list[Section]:
    """Return the tables of a report for people."""
    row = front_end_row(report)
    known = {name: value for name, value in row.items() if value not in (None, [], {})}
    rows = [[name, _fact_text(value)] for name, value in known.items()]
    journals, holes, cut_off, epochs, operations = journal_sections(report)
    kept = [journals]
    kept += [each for each in (holes, cut_off) if each.rows]
    count = report.journals.epoch_count
    newest = epochs.rows[-EPOCHS_SHOWN:]
    title = f"epochs, the newest {len(newest)} of {count:,}" if len(newest) < count else "epochs"
    if newest:
        kept.append(Section(epochs.name, title, EPOCH_COLUMNS, newest))
    return [Section("front_end", "", _FACT_COLUMNS, rows), *kept, operations]


def front_end_row(report: JournalReport) -> dict[str, Any]:
    """Return what is known of the front end, for JSON."""
    front_end, group = report.front_end, report.group
    node = group.nodes.get(front_end.node_name or "")
    last_ids = {
        each.journal.series: each.last_id
        for each in report.journals.journals
        if each.last_id is not None
    }
    return {
        "home": clean_text(str(front_end.home)),
        "product": None if report.product is None else report.product.value,
        "group": None if group.name is None else clean_text(group.name),
        "members": [clean_text(name) for name in group.members],
        "node_name": _clean(front_end.node_name),
        "role": _clean(front_end.role),
        "node_type": None if node is None else node_type_of(node),
        "cluster_id": _clean(front_end.cluster_id),
        "run_mode": _clean(front_end.run_mode),
        "image_ids": dict(front_end.image_ids),
        "last_ids": {clean_text(series): number for series, number in last_ids.items()},
        "journal_count": len(report.journals.journals),
        "records": report.journals.record_count,
        "hole_count": report.continuity.hole_count,
        "missing_count": report.continuity.missing_count,
        "epoch_count": report.journals.epoch_count,
    }


def record_sections(
    records: Sequence[JournalRecord], product: Product | None, masking: Masking
) -> list[Section]:
    """Return records as rows for machines, each with its payload on one line."""
    rows = [[*_record_cells(each, product), _payload_text(each, masking)] for each in records]
    return [Section("records", "", (*RECORD_COLUMNS, PAYLOAD_COLUMN), rows)]


def record_tables(
    records: Sequence[JournalRecord], product: Product | None, masking: Masking
) -> list[Section]:
    """Return records for people: one table of all, then the lines of each payload."""
    rows = [_record_cells(each, product) for each in records]
    sections = [Section("records", "", RECORD_COLUMNS, rows)]
    for each in records:
        lines = _payload_lines(each, masking)
        title = f"payload of {each.journal_id}, {counted(len(each.value.payload), 'byte')}"
        column = Column("payload", title, Kind.DATA)
        sections.append(Section("payload", "", (column,), [[line] for line in lines]))
    return sections


def _record_cells(record: JournalRecord, product: Product | None) -> list[Any]:
    value = record.value
    name = None if value.op_code is None else op_name(value.op_code, product)
    return [
        record.database,
        record.journal_id,
        value.op_code,
        name,
        value.form.value,
        unless(record.vlsn, NO_VLSN),
        unless(record.lsn, NULL_LSN),
    ]


def _payload_text(record: JournalRecord, masking: Masking) -> str | None:
    """Return a payload as text if it is text, else as a number or in hexadecimal; or masked."""
    value = record.value
    if masking.mode is not DataMode.SHOW or value.form is PayloadForm.BYTES:
        return masking.text_of(value.payload)
    if value.form is PayloadForm.NONE:
        return None
    return str(value.time_ms) if value.form is PayloadForm.TIME else value.text()


def _payload_lines(record: JournalRecord, masking: Masking) -> list[str]:
    """Return a payload for people: JSON is indented, a time is a date."""
    value = record.value
    text = _payload_text(record, masking)
    if text is None:
        return [LOST if masking.mode is DataMode.SHOW else HIDDEN]
    if masking.mode is not DataMode.SHOW:
        return [text]
    if value.time_ms is not None:
        return [utc_text(value.time_ms)]
    if value.form is PayloadForm.JSON:
        with suppress(RecursionError):
            return json.dumps(json.loads(text), indent=2, ensure_ascii=False).split("\n")
    return text.split("\n")


def _op_rows(report: JournalReport) -> list[list[Any]]:
    return [
        [each.name, code, op_name(code, report.product), count]
        for each in report.journals.journals
        for code, count in each.op_counts.items()
    ]


def _clean(text: str | None) -> str | None:
    return None if text is None else clean_text(text)


def _fact_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{series}{number}" for series, number in value.items())
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
