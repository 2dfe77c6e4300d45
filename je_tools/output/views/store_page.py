"""The report of `doctor` on a store of Ignite as one HTML page that loads nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from je_tools import __version__
from je_tools.ignite.examination import next_steps, store_verdict, worst_outcome
from je_tools.output.views.sections import Kind, cell_texts, utc_text, without_empty_columns
from je_tools.output.views.store_report import UNKNOWN, store_sections
from je_tools.pages.rendering import SHARED, render_page
from je_tools.pages.shown import NAME_MAX, shown

if TYPE_CHECKING:
    from je_tools.ignite.examination import StoreExamination
    from je_tools.output.views.sections import Column, Section

ROWS_MAX = 1_000
"""Largest number of rows of a table of the page."""

_NUMBERS = (Kind.COUNT, Kind.ID)
_TEXTS = ("not_checked", "next")
"""Sections that the page shows as lists."""

_CELL_MAX = 2_000
_SHORT_MAX = 24


def store_page(examination: StoreExamination, name: str, now_ms: int) -> Iterator[str]:
    """Yield the page in pieces.

    Args:
        examination: the state of the store.
        name: the store as named by the user.
        now_ms: time of the examination.
    """
    sections = store_sections(examination, name, everything=True)
    tables = [each for each in sections if each.rows and each.name not in _TEXTS]
    outcome = worst_outcome(examination)
    yield from render_page(
        SHARED,
        "store.html.j2",
        "proof.js",
        {
            "outcome": UNKNOWN if outcome is None else outcome.value,
            "tone": "error" if examination.is_damaged else "ok",
            "verdict": shown(store_verdict(examination), 2_000),
            "store": shown(name, NAME_MAX),
            "made": f"{utc_text(now_ms)} UTC",
            "tables": [_table(without_empty_columns(each)) for each in tables],
            "not_checked": [shown(text, None) for text in examination.not_checked],
            "steps": [
                {"command": shown(step.command, None), "why": step.why}
                for step in next_steps(examination, name)
            ],
            "version": __version__,
        },
    )


def _table(section: Section) -> dict[str, Any]:
    some = section.rows[:ROWS_MAX]
    texts = [cell_texts(section.columns, row) for row in some]
    longest = [max(map(len, cells)) for cells in zip(*texts, strict=True)]
    columns = [
        {"title": column.title, "name": column.name, "kind": _layout(column, size)}
        for column, size in zip(section.columns, longest, strict=True)
    ]
    return {
        "title": section.title,
        "columns": columns,
        "rows": [[shown(text, _CELL_MAX) for text in row] for row in texts],
        "more": len(section.rows) - len(some),
    }


def _layout(column: Column, size: int) -> str:
    """Return the class of a column whose longest cell has this size."""
    if column.kind in _NUMBERS:
        return "number"
    return "short" if size <= _SHORT_MAX else "wide"
