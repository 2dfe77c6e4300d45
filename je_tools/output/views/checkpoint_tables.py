"""Checkpoints, written or planned, as tables and as rows of JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.formats.je.header import NULL_LSN
from je_tools.log.field_texts import null_or_lsn
from je_tools.output.views.recovery_tables import check_facts, check_row
from je_tools.output.views.section_formats import Report
from je_tools.output.views.sections import Column, Kind, Section, fact_section, section_of, unless

if TYPE_CHECKING:
    from je_tools.checkpoint.contents import CheckpointContents
    from je_tools.checkpoint.options import CheckpointResult
    from je_tools.recovery.snapshot import Snapshot

_NODES = (
    Column("db_id", "id", Kind.ID),
    Column("db", "database", Kind.TEXT),
    Column("level", "level", Kind.ID),
    Column("type", "type", Kind.TEXT, rank=2),
    Column("node_count", "nodes"),
    Column("size", "bytes"),
    Column("provisional", "provisional", Kind.TEXT, rank=2),
)
_DESCRIPTORS = (
    Column("db_id", "id", Kind.ID),
    Column("db", "database", Kind.TEXT),
    Column("old_root_lsn", "root", Kind.LSN, rank=2),
    Column("new_root_lsn", "becomes", Kind.LSN, rank=3),
    Column("why", "why", Kind.TEXT, wraps=True),
)
_RECORDS = (
    Column("db", "database", Kind.TEXT),
    Column("written_count", "written"),
    Column("removed_count", "removed"),
)
_ENTRIES = (
    Column("type", "type", Kind.TEXT),
    Column("entry_count", "entries"),
    Column("size", "bytes"),
)


class _NodeRow(Struct, frozen=True):
    db_id: int
    db: str | None
    level: int
    type: str
    node_count: int
    size: int
    provisional: str


class _DescriptorRow(Struct, frozen=True):
    db_id: int
    db: str | None
    old_root_lsn: int | None
    new_root_lsn: int | None
    why: str


class _RecordRow(Struct, frozen=True):
    db: str
    written_count: int
    removed_count: int


class _EntryRow(Struct, frozen=True):
    type: str
    entry_count: int
    size: int


def checkpoint_sections(snapshot: Snapshot, outcome: CheckpointResult) -> list[Section]:
    """Return tables for people, without empty ones."""
    facts = fact_section("checkpoint", _facts(snapshot, outcome))
    tables = [facts, *checkpoint_lists(snapshot, outcome)]
    return [table for table in tables if table.rows]


def checkpoint_lists(snapshot: Snapshot, outcome: CheckpointResult) -> list[Section]:
    """Return the complete lists, or none if no checkpoint is written."""
    checkpoint = outcome.checkpoint
    if checkpoint is None:
        return []
    entries = [_EntryRow(name, *both) for name, both in sorted(checkpoint.entry_counts.items())]
    records = [
        _RecordRow(
            name, sum(each is not None for each in found), sum(each is None for each in found)
        )
        for name, found in ((n, list(r.values())) for n, r in checkpoint.records.items())
        if found
    ]
    return [
        section_of("nodes", "Nodes", _NODES, list(_nodes(snapshot, checkpoint))),
        section_of(
            "descriptors", "Descriptors", _DESCRIPTORS, list(_descriptors(snapshot, checkpoint))
        ),
        section_of("internal_records", "Internal database records", _RECORDS, records),
        section_of("entries", "Entries", _ENTRIES, entries),
    ]


def _nodes(snapshot: Snapshot, checkpoint: CheckpointContents) -> Iterator[_NodeRow]:
    highest: dict[int, int] = {}
    for db_id, level, _ in checkpoint.node_counts:
        highest[db_id] = max(highest.get(db_id, 0), level)
    databases = {**snapshot.databases, **checkpoint.created}
    for key in sorted(checkpoint.node_counts):
        db_id, level, type_ = key
        yield _NodeRow(
            db_id,
            databases[db_id].name,
            level,
            type_,
            checkpoint.node_counts[key],
            checkpoint.node_sizes[key],
            "no" if level == highest[db_id] else "yes",
        )


def _descriptors(snapshot: Snapshot, checkpoint: CheckpointContents) -> Iterator[_DescriptorRow]:
    databases = {**snapshot.databases, **checkpoint.created}
    for db_id, root_lsn in sorted(checkpoint.map_lns.items()):
        database = databases[db_id]
        record = database.record
        old = int(record["root_lsn"]) if record["tree_exists"] & 1 else NULL_LSN
        why = "root" if root_lsn != old else "name"
        if db_id in checkpoint.created:
            why = "new: the log has none"
        roots = (unless(old, NULL_LSN), unless(root_lsn, NULL_LSN))
        yield _DescriptorRow(db_id, database.name, *roots, why)
    for db_id in sorted(checkpoint.removed):
        yield _DescriptorRow(db_id, None, None, None, "removed: no name leads to it")


def _facts(snapshot: Snapshot, outcome: CheckpointResult) -> Iterator[tuple[str, str]]:
    yield from _work_facts(snapshot, outcome)
    yield from check_facts(snapshot)


def _work_facts(snapshot: Snapshot, outcome: CheckpointResult) -> Iterator[tuple[str, str]]:
    if outcome.cut_size:
        last = snapshot.end.files[-1].path.name
        yield "cut off", f"{outcome.cut_size:,} bytes of {last}"
    if outcome.removed:
        yield "moved out of the log", ", ".join(outcome.removed)
    if outcome.set_aside:
        yield "renamed to .bad", ", ".join(outcome.set_aside)
    checkpoint = outcome.checkpoint
    if checkpoint is None:
        yield "nothing to write", "the log already ends with its checkpoint"
        return
    yield "from", null_or_lsn(checkpoint.start_lsn)
    yield "to", null_or_lsn(checkpoint.end_lsn)
    yield "bytes", f"{checkpoint.size:,}"
    new = checkpoint.last_file_no - snapshot.end.files[-1].file_no
    if new:
        yield "new files", f"{new:,}, the last {checkpoint.last_file_no:08x}.jdb"
    yield "first active entry", null_or_lsn(checkpoint.first_active_lsn)
    if snapshot.kept_txns:
        yield "transactions that continue", f"{len(snapshot.kept_txns):,}, of the group"
    compared = outcome.compared
    if compared is not None:
        yield (
            "compared with before",
            f"{compared.record_count:,} records of {compared.database_count:,} databases are "
            f"equal; the trees share {compared.shared_node_count:,} bottom nodes",
        )


def checkpoint_report(snapshot: Snapshot, outcome: CheckpointResult, *, applied: bool) -> Report:
    """Return the whole checkpoint and its complete lists, for JSON."""
    checkpoint, compared = outcome.checkpoint, outcome.compared
    row = {
        "env": snapshot.environment.name,
        "applied": applied,
        "needed": checkpoint is not None,
        "cut_size": outcome.cut_size,
        "set_aside": list(outcome.set_aside),
        "removed": list(outcome.removed),
        "start_lsn": null_or_lsn(checkpoint.start_lsn) if checkpoint else None,
        "end_lsn": null_or_lsn(checkpoint.end_lsn) if checkpoint else None,
        "root_lsn": null_or_lsn(checkpoint.root_lsn) if checkpoint else None,
        "first_active_lsn": null_or_lsn(checkpoint.first_active_lsn) if checkpoint else None,
        "size": checkpoint.size if checkpoint else 0,
        "last_file_no": checkpoint.last_file_no if checkpoint else None,
        "kept_txns": sorted(snapshot.kept_txns),
        "journal_no": outcome.journal_no,
        "compared_database_count": compared.database_count if compared else None,
        "compared_record_count": compared.record_count if compared else None,
        "shared_node_count": compared.shared_node_count if compared else None,
        **check_row(snapshot),
    }
    return Report(row, "checkpoint", sections=checkpoint_lists(snapshot, outcome))
