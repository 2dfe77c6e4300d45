"""The report of `doctor` on a store of Ignite, for people and as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from je_tools.core.escaping import clean_text
from je_tools.ignite.examination import StoreExamination, next_steps, store_verdict
from je_tools.output.views.ignite_tables import NODE, store_section
from je_tools.output.views.section_formats import Report
from je_tools.output.views.sections import Column, Kind, Section, without_empty_columns

if TYPE_CHECKING:
    from je_tools.ignite.examination import NodeExamination
    from je_tools.ignite.recovery.steps import StoreStep

UNKNOWN = "unknown"
"""Outcome of a node whose start was not predicted."""


def outcome_text(node: NodeExamination) -> str:
    """Return the outcome of the next start of a node, in words."""
    return UNKNOWN if node.outcome is None else node.outcome.value


_NODES = (
    Column("node", "node", Kind.TEXT),
    Column("outcome", "next start", Kind.TEXT, cell=outcome_text),
    Column("lock", "lock", Kind.TEXT, rank=2, cell=lambda item: item.lock and item.lock.state),
    Column("segment_files", "segments"),
    Column("records", "records", rank=3),
    Column("page_files", "page files"),
    Column("pages", "pages", rank=3),
    Column("last_checkpoint_ms", "last checkpoint", Kind.TIME, rank=4),
    Column("errors", "errors"),
    Column("warnings", "warnings"),
    Column("notes", "notes", rank=1),
)

_FINDINGS = (
    Column("severity", "severity", Kind.TEXT, cell=lambda item: str(item.severity.value)),
    Column("code", "finding", Kind.TEXT),
    NODE,
    Column("file", "file", Kind.PATH),
    Column("segment", "segment", Kind.ID),
    Column("group", "group", Kind.TEXT, rank=8),
    Column("partition", "partition", Kind.ID, rank=8),
    Column("page", "page", Kind.ID),
    Column("offset", "offset"),
    Column("length", "bytes", rank=4),
    Column("expected", "expected", Kind.TEXT, rank=7, wraps=True),
    Column("found", "found", Kind.TEXT, wraps=True),
    Column("hint", "hint", Kind.TEXT, wraps=True),
)


def store_sections(examination: StoreExamination, name: str, *, everything: bool) -> list[Section]:
    """Return the tables of the report.

    Args:
        examination: the state of the store.
        name: the store as named by the user.
        everything: also notes.
    """
    shown = [each for each in examination.findings if everything or each.severity.value != "note"]
    predicted = [each for each in shown if each.is_prediction]
    others = [each for each in shown if not each.is_prediction]
    steps = list(next_steps(examination, name))
    start = store_section("start", "The next start", _FINDINGS, predicted)
    found = store_section("findings", "Findings", _FINDINGS, others)
    return [
        store_section("nodes", "Nodes", _NODES, examination.nodes),
        *([start, found] if everything else map(without_empty_columns, (start, found))),
        _texts("not_checked", "Not checked", examination.not_checked),
        step_section(steps),
    ]


def _texts(name: str, title: str, texts: list[str]) -> Section:
    column = Column("text", "what", Kind.TEXT, wraps=True)
    return Section(name, title, (column,), [[clean_text(text)] for text in texts])


def step_section(steps: list[StoreStep]) -> Section:
    """Return commands to run next as a table."""
    columns = (
        Column("command", "command", Kind.COMMAND),
        Column("why", "it", Kind.TEXT, wraps=True),
    )
    rows = [[step.command, step.why] for step in steps]
    return Section("next", "What to run next", columns, rows, folds=True)


def store_report(examination: StoreExamination, name: str) -> Report:
    """Return the report as one thing with its parts."""
    row: dict[str, Any] = {
        "env": clean_text(name),
        "kind": "ignite",
        "verdict": clean_text(store_verdict(examination)),
        "damaged": examination.is_damaged,
    }
    return Report(row, "store", sections=store_sections(examination, name, everything=True))
