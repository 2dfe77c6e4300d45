"""The answer of `erase prove` as one HTML page that loads nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from je_tools import __version__
from je_tools.erase.proof.search_results import SearchVerdict
from je_tools.formats.je.header import lsn_text
from je_tools.output.views.proof_tables import hits_by_place
from je_tools.output.views.sections import utc_text
from je_tools.pages.bars import size_text
from je_tools.pages.rendering import SHARED, render_page
from je_tools.pages.shown import NAME_MAX, shown

if TYPE_CHECKING:
    from je_tools.erase.proof.search_results import Hit, Proof

ROWS_MAX = 1_000
"""Largest number of rows of a table of the page."""

_TONES = {
    SearchVerdict.NOTHING_LEFT: "ok",
    SearchVerdict.LEFT: "error",
    SearchVerdict.INCOMPLETE: "warning",
}


def proof_page(proof: Proof) -> Iterator[str]:
    """Yield the page in pieces."""
    run = proof.run
    yield from render_page(
        SHARED,
        "proof.html.j2",
        "proof.js",
        {
            "verdict": shown(proof.verdict_text, None),
            "outcome": proof.verdict.value,
            "tone": _TONES[proof.verdict],
            "env": shown(proof.env, NAME_MAX),
            "started": utc_text(proof.started_ms),
            "ended": utc_text(proof.ended_ms),
            "tiles": [
                ("Needles", f"{len(proof.needles):,}"),
                ("Hits", f"{proof.hit_count:,}"),
                ("Files searched", f"{len(proof.files):,}"),
                ("Bytes searched", size_text(sum(file.read_size for file in proof.files))),
                ("Reasons for doubt", f"{len(proof.gaps):,}"),
            ],
            "needles": proof.needles[:ROWS_MAX],
            "places": hits_by_place(proof.hits),
            "hits": [_hit(hit) for hit in proof.hits[:ROWS_MAX]],
            "hit_count": proof.hit_count,
            "gaps": [(shown(name, NAME_MAX), shown(reason)) for name, reason in proof.gaps],
            "special": [(shown(each.name, NAME_MAX), each.reason) for each in proof.special],
            "files": [
                (shown(file.name, NAME_MAX), file.kind, file.size, file.hit_count, file.change)
                for file in proof.files[:ROWS_MAX]
            ],
            "file_count": len(proof.files),
            "gone": [shown(name, NAME_MAX) for name in proof.gone],
            "range_count": 0 if run is None else run.range_count,
            "range_size": 0 if run is None else run.size,
            "fsync_count": 0 if run is None else len(run.fsyncs),
            "facts": proof.scope.facts,
            "not_looked_at": proof.scope.not_looked_at,
            "version": __version__,
        },
    )


def _hit(hit: Hit) -> dict[str, Any]:
    return {
        "file": shown(hit.file, NAME_MAX),
        "offset": hit.offset,
        "lsn": None if hit.lsn is None else lsn_text(hit.lsn),
        "type": hit.type,
        "where": hit.where.value,
        "needle": hit.needle,
    }
