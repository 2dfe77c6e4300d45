"""Summaries of rows of one file, made in the threads and processes that read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.verify.judge import InspectedRows, RowInspector


class RowSummary(Struct, frozen=True):
    """Summary of some rows in plain numbers; offsets NO_OFFSET and VLSNs 0 if there are none."""

    first_offset: int
    last_offset: int
    first_vlsn: int
    last_vlsn: int
    judged: InspectedRows


def summarize_rows(rows: Rows, inspector: RowInspector) -> RowSummary:
    """Return a summary of some rows; runs in any thread or process, keeps no view of them."""
    survey = rows.survey
    vlsns = rows.vlsn[rows.good & rows.replicated & ~rows.invisible & (rows.vlsn > 0)]
    return RowSummary(
        survey.first,
        survey.last,
        int(vlsns.min()) if len(vlsns) else 0,
        int(vlsns.max()) if len(vlsns) else 0,
        inspector(rows),
    )
