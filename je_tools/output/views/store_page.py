"""The report of `doctor` on a store of Ignite as one HTML page that loads nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from je_tools import __version__
from je_tools.ignite.examination import store_verdict, worst_outcome
from je_tools.output.views.sections import Kind, cell_texts, time_text, without_empty_columns
from je_tools.output.views.store_report import UNKNOWN, store_sections
from je_tools.pages.rendering import SHARED, render_page
from je_tools.pages.shown import NAME_MAX, shown

if TYPE_CHECKING:
    from je_tools.ignite.examination import StoreExamination
    from je_tools.output.views.sections import Section

ROWS_MAX = 1_000
"""Largest number of rows of a table of the page."""

_NUMBERS = (Kind.COUNT, Kind.ID)


def store_page(examination: StoreExamination, name: str, now_ms: int) -> Iterator[str]:
    """Yield the page in pieces.

    Args:
        examination: the state of the store.
        name: the store as named by the user.
        now_ms: time of the examination.
    """
    sections = [each for each in store_sections(examination, name, everything=True) if each.rows]
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
            "made": f"{time_text(now_ms)} UTC",
            "tables": [_table(without_empty_columns(each)) for each in sections],
            "has_next": any(each.name == "next" for each in sections),
            "version": __version__,
        },
    )


def _table(section: Section) -> dict[str, Any]:
    limit = None if section.name == "next" else NAME_MAX
    some = section.rows[:ROWS_MAX]
    rows = [[shown(text, limit) for text in cell_texts(section.columns, row)] for row in some]
    return {
        "name": section.name,
        "title": section.title,
        "head": [(column.title, column.kind in _NUMBERS) for column in section.columns],
        "rows": rows,
        "more": len(section.rows) - len(rows),
    }
