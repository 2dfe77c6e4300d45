"""The answer of `erase subject` as tables for people, and as rows of JSON."""

from __future__ import annotations

from collections import Counter
from textwrap import wrap
from typing import TYPE_CHECKING, BinaryIO

from je_tools.core.escaping import counted
from je_tools.output.files.output_file import encoding_of
from je_tools.output.views.proof_tables import GAPS, NEEDLES, SHOWN_HITS
from je_tools.output.views.section_formats import Report
from je_tools.output.views.section_tables import MIN_WIDTH, write_table
from je_tools.output.views.sections import Column, Kind, section_of

if TYPE_CHECKING:
    from je_tools.erase.subject.traces import SubjectReport

_TRACES = (
    Column("file", "file", Kind.TEXT),
    Column("offset", "offset", Kind.ID),
    Column("lsn", "LSN", Kind.LSN, 3),
    Column("type", "type", Kind.TEXT, 2),
    Column("db", "database", Kind.TEXT, 1),
    Column("where", "where", Kind.TEXT, 4),
    Column("state", "state", Kind.TEXT),
    Column("can_erase", "erase", Kind.FLAG),
    Column("needle", "needle", Kind.ID, 1),
)
_DETAILS = (
    Column("size", "bytes", Kind.COUNT),
    Column("reason", "reason", Kind.TEXT),
)
_STATES = (
    Column("state", "state", Kind.TEXT, cell=lambda row: row[0][0]),
    Column("trace_count", "traces", Kind.COUNT, cell=lambda row: row[1]),
    Column("can_erase", "erase", Kind.FLAG, cell=lambda row: row[0][1]),
    Column("reason", "why", Kind.TEXT, cell=lambda row: row[0][2], wraps=True),
)
_OBSTACLES = (
    Column("kind", "obstacle", Kind.TEXT, cell=lambda each: each.kind.value),
    Column("text", "what to do", Kind.TEXT, wraps=True),
)


def subject_text(report: SubjectReport) -> str:
    """Return the answer in a sentence or two."""
    if not report.hit_count:
        text = "No trace was found."
        return f"{text} But something may be unseen, see below." if report.gaps else text
    listed = len(report.traces)
    more = "" if listed == report.hit_count else f", of which {listed:,} are listed"
    return (
        f"{counted(report.hit_count, 'trace')}{more}: {report.erasable_count:,} can be erased now, "
        f"{listed - report.erasable_count:,} cannot."
    )


def search_notes(report: SubjectReport) -> list[str]:
    """Return what the search did beyond what was asked, and what it left out."""
    values = report.values
    counts = [
        (values.searched_count, "value", "also searched for: {} of records with these keys"),
        (
            values.short_count,
            "value",
            "not searched for, because many records have them: {} under 8 bytes",
        ),
        (values.cut_count, "value", "searched for by the first 4,096 bytes: {}"),
        (values.left_count, "value", "not searched for, because there are too many: {} more"),
        (report.other_count, "hit", "not listed: {} of keys in other databases"),
    ]
    return [text.format(counted(count, word)) for count, word, text in counts if count]


def write_subject(report: SubjectReport, out: BinaryIO, width: int | None) -> None:
    """Write the answer for people, its summary first."""
    text = subject_text(report)
    lines = wrap(text, max(width, MIN_WIDTH)) if width else [text]
    out.write(("\n".join(lines) + "\n\n").encode(encoding_of(out), "backslashreplace"))
    states = Counter((each.state.value, each.can_erase, each.reason) for each in report.traces)
    shown = [section_of("needles", "", NEEDLES, report.needles[:SHOWN_HITS])]
    if report.traces:
        shown.append(section_of("states", "Traces by state", _STATES, states.most_common()))
        more = len(report.traces) - SHOWN_HITS
        title = f"The first {SHOWN_HITS} traces; {more:,} more are not shown"
        first = report.traces[:SHOWN_HITS]
        shown.append(section_of("traces", title if more > 0 else "Traces", _TRACES, first))
    if report.obstacles:
        title = "Nothing in the log can be erased now"
        shown.append(section_of("obstacles", title, _OBSTACLES, report.obstacles))
    if report.gaps:
        shown.append(section_of("gaps", "Where a trace may be unseen", GAPS, report.gaps))
    write_table(shown, out, width)


def subject_report(report: SubjectReport) -> Report:
    """Return the answer for JSON."""
    values = report.values
    row = {
        "env": report.env,
        "trace_count": report.hit_count,
        "listed_trace_count": len(report.traces),
        "erasable_count": report.erasable_count,
        "other_db_count": report.other_count,
        "searched_value_count": values.searched_count,
        "short_value_count": values.short_count,
        "cut_value_count": values.cut_count,
        "left_value_count": values.left_count,
    }
    sections = [
        section_of("needles", "", NEEDLES, report.needles),
        section_of("traces", "", _TRACES + _DETAILS, report.traces),
        section_of("obstacles", "", _OBSTACLES, report.obstacles),
        section_of("gaps", "", GAPS, report.gaps),
    ]
    return Report(row, "subject", {}, sections)
