"""The diagnosis of an environment as one HTML page that loads nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from msgspec import Struct

from je_tools import __version__
from je_tools.doctor.data_use import used_size
from je_tools.doctor.facts import OpenOutcome, State
from je_tools.log.finding_commands import next_command
from je_tools.output.views.doctor_texts import loss_facts, opening_facts
from je_tools.pages.bars import (
    ROWS_MAX,
    Bar,
    bar_percent,
    counted_as,
    size_bars,
    size_text,
)
from je_tools.pages.log_fields import env_fields, finding_fields
from je_tools.pages.rendering import SHARED, render_page
from je_tools.pages.shown import NAME_MAX, exact, script_json, second_text, shown

if TYPE_CHECKING:
    from je_tools.doctor.data_use import DataUse
    from je_tools.doctor.facts import Diagnosis, LogFacts
    from je_tools.files.listing import FileRow
    from je_tools.findings import Finding
    from je_tools.space.usage import FileSpace

FINDINGS_MAX = 1_000
"""Maximum findings in the page: the worst."""

BARS_MAX = 600
"""Maximum bars of the timeline; neighbouring files of a longer log share one."""

_TONES = {OpenOutcome.OPENS: "ok", OpenOutcome.LOCKED: "warning"}
_STATES = {
    State.OK: "ok",
    State.UNKNOWN: "",
    State.NOTE: "note",
    State.WARNING: "warning",
    State.ERROR: "error",
}


class _Tile(Struct, frozen=True):
    """A number at the top of the page."""

    label: str
    value: str
    note: str = ""
    tone: str = ""


def doctor_page(diagnosis: Diagnosis, use: DataUse | None, now_ms: int) -> Iterator[str]:
    """Yield the page in pieces.

    Args:
        diagnosis: the diagnosis.
        use: use of the log by its data; None if recovery leaves nothing.
        now_ms: time of the diagnosis.
    """
    log = diagnosis.log
    answers = []
    if log is not None:
        answers = [
            ("Will the engine open it?", _shown_facts(opening_facts(diagnosis))),
            ("What would be lost?", _shown_facts(loss_facts(diagnosis))),
        ]
    conditions = [
        {"name": each.name, "state": each.state.value, "text": shown(each.text)}
        | {"tone": _STATES[each.state]}
        for each in diagnosis.conditions
    ]
    steps = [{"why": each.why, "command": shown(each.command, None)} for each in diagnosis.steps]
    tone = _TONES.get(diagnosis.outcome, "error")
    yield from render_page(
        SHARED,
        "doctor.html.j2",
        "doctor.js",
        {
            "outcome": diagnosis.outcome.value,
            "tone": "error" if diagnosis.is_damaged else tone,
            "verdict": shown(diagnosis.verdict, 2_000),
            "made": second_text(now_ms),
            "env": shown(diagnosis.env, NAME_MAX),
            "tiles": [] if log is None else list(_tiles(diagnosis, log)),
            "answered": answers,
            "conditions": conditions,
            "steps": steps,
            "log": log is not None,
            "ROWS_MAX": ROWS_MAX,
            "database_bars": _database_bars(use),
            "age_bars": _age_bars(use),
            "plain": [shown(found.text()) for found in diagnosis.findings[:FINDINGS_MAX]],
            "version": __version__,
            "row": Markup(script_json(None if log is None else _row(diagnosis, log))),
            "more": Markup(script_json(None if log is None else _more(diagnosis, log))),
        },
    )


def _shown_facts(facts: Iterator[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, shown(value)) for name, value in facts]


def _tiles(diagnosis: Diagnosis, log: LogFacts) -> Iterator[_Tile]:
    totals = log.totals
    yield _Tile("Log files", f"{totals.files:,}")
    yield _Tile("Bytes", size_text(totals.size), f"{totals.size:,} bytes")
    yield _Tile("Good entries", f"{totals.entries:,}")
    damaged = totals.damaged_size
    tone = "error" if damaged and totals.errors else ""
    yield _Tile("Bytes damaged", size_text(damaged), f"{damaged:,} bytes", tone)
    counts = Counter(found.severity.value for found in diagnosis.findings)
    listed = ", ".join(f"{counts[name]:,} {name}s" for name in ("error", "warning", "note"))
    yield _Tile("Findings", f"{len(diagnosis.findings):,}", listed)
    state = diagnosis.state
    if state is None:
        return
    commits = len(state.lost.transactions)
    yield _Tile("Commits at stake", f"{commits:,}", "", "error" if commits else "")
    losses = state.missing.losses if state.missing is not None else ()
    keys = [loss.key_count for loss in losses if not loss.is_internal]
    known = state.lost.key_count + sum(key for key in keys if key is not None)
    more = f"{known:,} or more" if known else "unknown"
    value = more if None in keys else f"{known:,}"
    yield _Tile("Keys at stake", value, "", "error" if known or None in keys else "")


def _database_bars(use: DataUse | None) -> list[Bar]:
    named = [
        (shown(each.name, NAME_MAX), each.size, each.record_count)
        for each in (use.databases if use is not None else ())
        if each.size
    ]
    return size_bars(named, "other databases", "record")


def _age_bars(use: DataUse | None) -> list[Bar]:
    ages = use.ages if use is not None else ()
    most = max((each.used_size for each in ages), default=1)
    return [
        Bar(
            each.label,
            size_text(each.used_size),
            f"of {size_text(each.size)}, {counted_as(each.file_count, 'file')}",
            bar_percent(each.used_size, most),
        )
        for each in ages
    ]


def _row(diagnosis: Diagnosis, log: LogFacts) -> list[Any]:
    """Return the environment with the fields of `ENV` in the page's script."""
    severities = Counter(found.severity.value for found in diagnosis.findings)
    created = [ms for row in log.rows if (ms := row.created_ms) is not None]
    numbers = [row.file.file_no for row in log.rows]
    vlsns = [(row.first_vlsn, row.last_vlsn) for row in log.rows if row.first_vlsn is not None]
    worst = next((name for name in ("error", "warning", "note") if severities[name]), "ok")
    values = {
        "severity": worst,
        **{f"{name}_count": severities[name] for name in ("error", "warning", "note")},
        "file_count": len(log.rows),
        "size": log.totals.size,
        "entry_count": log.totals.entries,
        "damaged_size": log.totals.damaged_size,
        "first_file_no": min(numbers, default=None),
        "last_file_no": max(numbers, default=None),
        "first_created_ms": min(created, default=None),
        "last_created_ms": max(created, default=None),
        "first_vlsn": min((first for first, _ in vlsns), default=None),
        "last_vlsn": max((last or 0 for _, last in vlsns), default=None),
        "checkpoint_count": None,
        "last_checkpoint_ms": None,
    }
    versions = sorted({row.version for row in log.rows if row.version is not None})
    counts = Counter((found.code, found.severity.value) for found in diagnosis.findings)
    codes = [(code, severity, count) for (code, severity), count in counts.items()]
    return env_fields(shown(diagnosis.env, NAME_MAX), values, None, versions, codes)


def _more(diagnosis: Diagnosis, log: LogFacts) -> dict[str, Any]:
    """Return the files and findings that the page draws."""
    state = diagnosis.state
    spaces = {each.file.path: each for each in state.space.files} if state is not None else {}
    in_bar = max(-(-len(log.rows) // BARS_MAX), 1)
    groups = [log.rows[at : at + in_bar] for at in range(0, len(log.rows), in_bar)]
    return {
        "bars": [_bar(group, [spaces.get(row.file.path) for row in group]) for group in groups],
        "findings": [_finding(diagnosis.env, found) for found in diagnosis.findings[:FINDINGS_MAX]],
    }


def _bar(group: Sequence[FileRow], spaces: Sequence[FileSpace | None]) -> list[Any]:
    """Return the bar of one or several files, with the fields of `BAR` in the page's script."""
    versions = [row.version for row in group if row.version is not None]
    vlsns = [(row.first_vlsn, row.last_vlsn) for row in group if row.first_vlsn is not None]
    used = [used_size(each) for each in spaces if each is not None]
    states = dict.fromkeys(each.state.value for each in spaces if each is not None)
    reasons = dict.fromkeys(reason.value for each in spaces if each for reason in each.reasons)
    texts = [", ".join(part) for part in (states, reasons) if part]
    return [
        group[0].file.file_no,
        group[-1].file.file_no,
        len(group),
        sum(row.file.size for row in group),
        sum(row.entry_count for row in group),
        sum(row.damage_count for row in group),
        min(versions, default=None),
        max(versions, default=None),
        exact(group[0].created_ms),
        exact(min((first for first, _ in vlsns), default=None)),
        exact(max((last or 0 for _, last in vlsns), default=None)),
        None,
        None,
        sum(row.old_delta_count for row in group),
        "" if len(group) > 1 else shown(group[0].name, NAME_MAX),
        None if not used or None in used else sum(size or 0 for size in used),
        ": ".join(texts) if texts else None,
    ]


def _finding(env: str, found: Finding) -> list[Any]:
    row = found.row() | {"lsn": found.lsn, "resume_lsn": found.resume_lsn}
    if found.tree is not None:
        lost = f"; lost {found.tree.lost}" if found.tree.lost else ""
        row["found"] = f"{found.found or ''} in {found.tree.path}{lost}"
    return finding_fields(row, next_command(found.code, env, found.lsn))
