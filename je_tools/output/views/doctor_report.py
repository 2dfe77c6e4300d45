"""The diagnosis of an environment as rows of JSON lines, or as one JSON object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from je_tools.core.escaping import clean_text
from je_tools.log.field_texts import null_or_lsn
from je_tools.output.views.findings import finding_row
from je_tools.output.views.missing_tables import lost_text
from je_tools.output.views.recovery_tables import loss_row
from je_tools.output.views.section_formats import Report
from je_tools.output.views.space_tables import space_row
from je_tools.output.views.writing_tables import lock_report

if TYPE_CHECKING:
    from je_tools.doctor.facts import Diagnosis, Replication
    from je_tools.missing.losses import LossReport as Losses
    from je_tools.recovery.lost_content import LostKeys

Row = dict[str, Any]


def doctor_report(diagnosis: Diagnosis) -> Report:
    """Return a diagnosis for JSON: the verdict, single facts, and lists."""
    state = diagnosis.state
    verdict = {
        "env": diagnosis.env,
        "outcome": diagnosis.outcome.value,
        "verdict": diagnosis.verdict,
        "reasons": list(diagnosis.reasons),
        "is_damaged": diagnosis.is_damaged,
    }
    replication = None if state is None else state.replication
    lock = lock_report(Path(diagnosis.env), diagnosis.surroundings.holders)
    space = None if state is None else space_row(state.space)
    parts: dict[str, Mapping[str, Any] | None] = {
        "opening": _opening_row(diagnosis),
        "loss": None if state is None else loss_row(state.lost),
        "space": None if space is None else {k: v for k, v in space.items() if k != "section"},
        "lock": lock.row,
        "node": None if replication is None else _node_row(replication),
    }
    lists: dict[str, Iterable[Mapping[str, Any]]] = {
        "lost_records": () if state is None else map(_lost_row, state.lost.databases),
        "database": () if state is None or state.missing is None else _databases(state.missing),
        "file": () if state is None or state.missing is None else _files(state.missing),
        "journal": () if replication is None else _journals(replication),
        "condition": (
            {"name": each.name, "state": each.state.value, "text": each.text}
            for each in diagnosis.conditions
        ),
        "findings": map(finding_row, diagnosis.findings),
        "step": (
            {"number": number, "command": step.command, "why": step.why, "changes": step.changes}
            for number, step in enumerate(diagnosis.steps, 1)
        ),
    }
    clean = {name: None if part is None else _clean(part) for name, part in parts.items()}
    rows = {name: map(_clean, each) for name, each in lists.items()}
    return Report(_clean(verdict), "verdict", clean, lock.sections, rows)


def _clean(row: Mapping[str, Any]) -> Row:
    return {name: _clean_value(value) for name, value in row.items()}


def _clean_value(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    return [_clean_value(each) for each in value] if isinstance(value, list) else value


def _opening_row(diagnosis: Diagnosis) -> Row | None:
    releases, state = diagnosis.releases, diagnosis.state
    if releases is None:
        return None
    row: Row = {
        "log_versions": list(releases.versions),
        "written_by": releases.written_by,
        "opened_from": releases.opened_from,
        "not_opened_by": list(releases.not_opened_by),
    }
    if state is None:
        return row
    return row | {
        "refusals": [refusal.value for refusal in state.plan.refusals],
        "first_file_no": state.plan.files_needed[0],
        "last_file_no": state.plan.files_needed[1],
        "last_lsn": null_or_lsn(state.end.last_lsn),
        "next_lsn": null_or_lsn(state.end.next_lsn),
        "end_reason": state.end.reason.value,
        "cut_size": state.lost.size,
        "ckpt_end_lsn": null_or_lsn(state.plan.checkpoint.end_lsn),
        "is_clean": state.plan.is_clean,
        "missing": list(state.plan.missing),
    }


def _lost_row(lost: LostKeys) -> Row:
    return {
        "db_id": lost.db_id,
        "db": lost.name,
        "is_lost": "yes" if lost.is_lost else "no",
        "ln_count": lost.ln_count,
        "key_count": lost.key_count,
    }


def _node_row(replication: Replication) -> Row | None:
    """Return the columns of a node of a group; None without one."""
    node = replication.node
    if node is None:
        return None
    end, covered = node.last_end, node.index.usable.range
    return {
        "group": node.group.name,
        "group_id": node.group.group_id,
        "nodes": [name for _, name in sorted(node.group.nodes.items())],
        "first_vlsn": covered.first if covered.first > 0 else None,
        "last_vlsn": node.tail.last_vlsn,
        "index_vlsn": covered.last if covered.last > 0 else None,
        "end_vlsn": None if end is None else int(end.vlsn[0]),
        "end_ms": None if end is None else int(end.time_ms[0]),
        "master_node_id": None if end is None else int(end.master_node_id[0]),
        "durable_vlsn": node.durable_vlsn,
        "open_count": node.open_count,
    }


def _journals(replication: Replication) -> Iterator[Row]:
    journals = replication.journals
    for each in journals.journals.journals if journals is not None else ():
        yield {
            "db": each.name,
            "first_id": each.first_id,
            "last_id": each.last_id,
            "records": each.record_count,
            "missing_count": each.missing_count,
        }


def _databases(missing: Losses) -> Iterator[Row]:
    for loss in missing.losses:
        yield {
            "db": loss.name,
            "db_id": loss.db_id,
            "lost": lost_text(loss),
            "range_count": len(loss.ranges),
            "key_count": loss.key_count,
            "kept_count": loss.kept_count,
        }


def _files(missing: Losses) -> Iterator[Row]:
    for file in missing.files:
        yield {
            "file_no": file.file_no,
            "state": file.state.value,
            "place_count": file.place_count,
            "reason": file.reason,
        }
