"""The answer of `erase prove` as tables for people, and as rows of JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, BinaryIO

from je_tools.core.escaping import counted
from je_tools.output.files.output_file import encoding_of
from je_tools.output.views.section_formats import Report
from je_tools.output.views.section_tables import MIN_WIDTH, write_table
from je_tools.output.views.sections import Column, Kind, Section, section_of

if TYPE_CHECKING:
    from je_tools.erase.proof.search_results import Hit, Proof

SHOWN_HITS = 40
"""Largest number of hits in the table for people; JSON has all that were located."""

NEEDLES = (
    Column("number", "no.", Kind.ID),
    Column("origin", "option", Kind.TEXT, 2),
    Column("kind", "kind", Kind.TEXT, 3),
    Column("size", "bytes", Kind.COUNT, 1),
    Column("hit_count", "hits", Kind.COUNT),
    Column("name", "needle", Kind.KEY),
)
_HITS = (
    Column("file", "file", Kind.TEXT),
    Column("offset", "offset", Kind.ID),
    Column("lsn", "LSN", Kind.LSN, 3),
    Column("type", "type", Kind.TEXT, 1),
    Column("where", "where", Kind.TEXT),
    Column("needle", "needle", Kind.ID),
    Column("size", "bytes", Kind.COUNT, 2),
)
_FILES = (
    Column("name", "file", Kind.TEXT),
    Column("kind", "kind", Kind.TEXT),
    Column("size", "bytes", Kind.COUNT),
    Column("read_size", "searched", Kind.COUNT, 2),
    Column("hit_count", "hits", Kind.COUNT),
    Column("change", "change", Kind.TEXT, 1),
    Column("marked_count", "unfinished", Kind.COUNT, 3),
    Column("link_count", "links", Kind.COUNT, 4),
)
_PROBLEMS = (Column("problems", "problems", Kind.TEXTS),)
_PLACES = (
    Column("where", "where", Kind.TEXT, cell=lambda row: row[0]),
    Column("type", "type", Kind.TEXT, cell=lambda row: row[1]),
    Column("hit_count", "hits", Kind.COUNT, cell=lambda row: row[2]),
    Column("file_count", "files", Kind.COUNT, cell=lambda row: row[3]),
)
_UNREAD = (
    Column("name", "file", Kind.TEXT),
    Column("reason", "reason", Kind.TEXT, wraps=True),
    Column("may_hold", "may hold data", Kind.FLAG, 1),
)
GAPS = (
    Column("name", "file", Kind.TEXT, cell=lambda row: row[0]),
    Column("reason", "reason", Kind.TEXT, cell=lambda row: row[1], wraps=True),
)
_TEXT = (Column("text", "what", Kind.TEXT, cell=lambda text: text, wraps=True),)
_FSYNCS = (Column("file", "file", Kind.TEXT), Column("time_ms", "time", Kind.TIME))


def hits_by_place(hits: Sequence[Hit]) -> list[tuple[str, str | None, int, int]]:
    """Return the listed hits by place and type of entry: hits and files of each, most first."""
    counts = Counter((hit.where.value, hit.type) for hit in hits)
    # A set, so that each file counts once.
    in_files = {(hit.where.value, hit.type, hit.file) for hit in hits}
    files = Counter((where, type_) for where, type_, _ in in_files)
    return [(*key, count, files[key]) for key, count in counts.most_common()]


def write_proof(proof: Proof, out: BinaryIO, width: int | None) -> None:
    """Write the answer for people, the verdict first."""
    lines = wrap(proof.verdict_text, max(width, MIN_WIDTH)) if width else [proof.verdict_text]
    out.write(("\n".join(lines) + "\n\n").encode(encoding_of(out), "backslashreplace"))
    shown = [section_of("needles", "", NEEDLES, proof.needles)]
    if proof.hits:
        shown.append(section_of("places", "Left, by place", _PLACES, hits_by_place(proof.hits)))
        more = proof.hit_count - min(len(proof.hits), SHOWN_HITS)
        title = f"The first {SHOWN_HITS:,} hits; {more:,} more are not shown" if more else "Hits"
        shown.append(section_of("hits", title, _HITS, proof.hits[:SHOWN_HITS]))
    shown.append(section_of("files", "Files", _FILES, proof.files))
    if proof.gaps:
        shown.append(section_of("gaps", "Where something may be left unseen", GAPS, proof.gaps))
    if proof.special:
        shown.append(section_of("special", "Not read", _UNREAD[:2], proof.special))
    if proof.gone:
        shown.append(section_of("gone", "Gone since the manifest", _TEXT, proof.gone))
    if proof.run is not None:
        shown.append(_run_section(proof))
    shown.append(section_of("facts", "Found around the files", _TEXT, proof.scope.facts))
    shown.append(section_of("not_looked_at", "Not searched", _TEXT, proof.scope.not_looked_at))
    write_table(shown, out, width)


def _run_section(proof: Proof) -> Section:
    assert proof.run is not None
    texts = [
        f"{counted(proof.run.range_count, 'byte range')} changed, {proof.run.size:,} bytes, "
        f"in {counted(len({each.file for each in proof.run.changed}), 'file')}; "
        f"{counted(len(proof.run.fsyncs), 'fsync')}."
    ]
    return section_of("run", "Reported by the run of the eraser", _TEXT, texts)


def proof_report(proof: Proof) -> Report:
    """Return the answer for JSON."""
    run = proof.run
    sections = [
        section_of("needles", "", NEEDLES, proof.needles),
        section_of("hits", "", _HITS, proof.hits),
        section_of("files", "", _FILES + _PROBLEMS, proof.files),
        section_of("unread", "", _UNREAD, proof.unread),
    ]
    if run is not None:
        sections.append(section_of("fsyncs", "", _FSYNCS, run.fsyncs))
    row = {
        "env": proof.env,
        "verdict": proof.verdict.value,
        "text": proof.verdict_text,
        "hit_count": proof.hit_count,
        "located_hit_count": len(proof.hits),
        "file_count": len(proof.files),
        "searched_size": sum(file.read_size for file in proof.files),
        "started_ms": proof.started_ms,
        "ended_ms": proof.ended_ms,
        "gone": list(proof.gone),
        "facts": list(proof.scope.facts),
        "not_looked_at": list(proof.scope.not_looked_at),
    }
    # One row for each batch: single ranges would be millions of rows.
    batches = [
        {"file": each.file, "what": each.what, "ranges": [list(pair) for pair in each.ranges]}
        for each in (run.changed if run is not None else ())
    ]
    lists = {"changed_ranges": batches} if run is not None else {}
    return Report(row, "proof", {}, sections, lists)
