"""The VLSN index and the state of a node as tables, and as a report that `vlsn compare` reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.je.internal.records import Unreadable
from je_tools.formats.je.internal.replication import RANGE_KEY, GhostBucket, VlsnBucket, VlsnRange
from je_tools.output.views.findings import finding_row
from je_tools.output.views.section_formats import Report
from je_tools.output.views.sections import (
    Cell,
    Column,
    Kind,
    Section,
    fact_section,
    section_of,
    unless,
    utc_text,
)
from je_tools.vlsn.index import NO_VLSN
from je_tools.vlsn.node_report import report_of

if TYPE_CHECKING:
    from je_tools.findings import Finding
    from je_tools.vlsn.group_names import GroupNames
    from je_tools.vlsn.lookup import LsnLookup, VlsnLookup
    from je_tools.vlsn.masters import MasterTerm
    from je_tools.vlsn.node_report import NodeReport
    from je_tools.vlsn.node_state import NodeState
    from je_tools.vlsn.stored_index import IndexRecord

_OFFSET_MASK = (1 << 32) - 1
_LANDMARKS = ("first", "last", "last_sync", "last_txn_end")

_BUCKET = (
    Column("kind", "kind", Kind.TEXT),
    Column("first_vlsn", "first VLSN", Kind.ID),
    Column("last_vlsn", "last VLSN", Kind.ID),
    Column("file_no", "file", Kind.FILE),
    Column("stride", "stride", Kind.ID, rank=4),
    Column("mapping_count", "mappings", rank=1),
    Column("vlsns_per_mapping", "VLSNs/mapping", Kind.PERCENT, rank=5),
    Column("span_size", "bytes", rank=3),
    Column("first_lsn", "first LSN", Kind.LSN, rank=6),
    Column("last_lsn", "last LSN", Kind.LSN, rank=2),
    Column("lsn", "record LSN", Kind.LSN, rank=7),
    Column("problem", "problem", Kind.TEXT, rank=8, wraps=True),
)
_LANDMARK = (
    Column("landmark", "landmark", Kind.TEXT),
    Column("stored_vlsn", "in the index", Kind.ID),
    Column("recovered_vlsn", "after recovery", Kind.ID),
)
_MASTER = (
    Column("master_node_id", "master", Kind.ID),
    Column("master_name", "master name", Kind.TEXT),
    Column("master_term", "term", Kind.ID, rank=2),
    Column("first_vlsn", "first VLSN", Kind.ID),
    Column("last_vlsn", "last VLSN", Kind.ID),
    Column("first_ms", "from (UTC)", Kind.TIME),
    Column("last_ms", "to (UTC)", Kind.TIME, rank=1),
)
_ROLLBACK = (
    Column("start_lsn", "RollbackStart", Kind.LSN),
    Column("end_lsn", "RollbackEnd", Kind.LSN, cell=lambda each: unless(each.end_lsn, NULL_LSN)),
    Column("matchpoint_vlsn", "matchpoint VLSN", Kind.ID),
    Column("matchpoint_lsn", "matchpoint LSN", Kind.LSN),
    Column("time_ms", "time (UTC)", Kind.TIME),
    Column("txn_count", "transactions"),
)
_VLSN_LOOKUP = (
    Column("vlsn", "VLSN", Kind.ID),
    Column("lsn", "LSN", Kind.LSN),
    Column("type", "type", Kind.TEXT),
    Column("floor_vlsn", "floor VLSN", Kind.ID, rank=1),
    Column("floor_lsn", "floor LSN", Kind.LSN, rank=2),
    Column("ceiling_vlsn", "ceiling VLSN", Kind.ID, rank=1),
    Column("ceiling_lsn", "ceiling LSN", Kind.LSN, rank=2),
    Column("is_exact", "exact", Kind.FLAG, rank=3),
    Column("read_count", "entries read", rank=4),
)
_LSN_LOOKUP = (
    Column("lsn", "LSN", Kind.LSN),
    Column("type", "type", Kind.TEXT),
    Column("vlsn", "VLSN", Kind.ID),
    Column("state", "state", Kind.TEXT),
    Column("before_vlsn", "last VLSN so far", Kind.ID),
)


class _BucketRow(Struct, frozen=True):
    """A row of the table of buckets; see `docs/commands/vlsn.md`."""

    kind: str
    lsn: int
    first_vlsn: int | None = None
    last_vlsn: int | None = None
    file_no: int | None = None
    stride: int | None = None
    mapping_count: int | None = None
    vlsns_per_mapping: float | None = None
    span_size: int | None = None
    first_lsn: int | None = None
    last_lsn: int | None = None
    problem: str | None = None


def _bucket_row(each: IndexRecord) -> _BucketRow:
    record = each.record
    if isinstance(record, Unreadable):
        key = None if each.key == RANGE_KEY else each.key
        kind = "range" if each.key == RANGE_KEY else "unreadable"
        return _BucketRow(kind, each.lsn, key, problem=record.reason)
    if isinstance(record, GhostBucket):
        return _BucketRow(
            "ghost",
            each.lsn,
            record.first,
            first_lsn=record.first_possible_lsn,
            last_lsn=record.last_possible_lsn,
        )
    assert isinstance(record, VlsnBucket)
    count = len(record.offsets) - record.offsets.count(0)
    first = record.offsets[0] if record.offsets else None
    is_apart = record.last_lsn >> 32 != record.file_no
    return _BucketRow(
        kind="bucket",
        lsn=each.lsn,
        first_vlsn=record.first,
        last_vlsn=record.last,
        file_no=record.file_no,
        stride=record.stride,
        mapping_count=count,
        vlsns_per_mapping=(record.last - record.first + 1) / count if count else None,
        span_size=None if first is None or is_apart else (record.last_lsn & _OFFSET_MASK) - first,
        first_lsn=None if first is None else record.file_no << 32 | first,
        last_lsn=record.last_lsn,
    )


def bucket_section(state: NodeState, *, for_people: bool = False) -> Section:
    """Return a table with a row for each bucket, ghost bucket and unreadable record.

    Args:
        state: the node.
        for_people: leave out the column of problems if there are none.
    """
    rows = [
        _bucket_row(each)
        for each in state.index.stored.records
        if not isinstance(each.record, VlsnRange)
    ]
    is_whole = all(row.problem is None for row in rows)
    columns = _BUCKET[:-1] if for_people and is_whole else _BUCKET
    return section_of("buckets", "Buckets", columns, rows)


def _landmark_section(state: NodeState) -> Section:
    stored, recovered = state.index.stored.range, state.index.recovered
    after = None if recovered is None else recovered.range
    return Section("landmarks", "Range", _LANDMARK, landmark_rows([stored, after]))


def landmark_rows(ranges: Sequence[VlsnRange | None]) -> list[list[Cell]]:
    """Return a row for each VLSN that a range records: its name, and its number in each range."""
    rows: list[list[Cell]] = []
    for name in _LANDMARKS:
        vlsns = [None if each is None else getattr(each, name) for each in ranges]
        rows.append([name, *(None if vlsn == NO_VLSN else vlsn for vlsn in vlsns)])
    return rows


def _master_section(masters: list[MasterTerm], group: GroupNames) -> Section:
    rows = [
        [
            each.master_node_id,
            group.nodes.get(each.master_node_id),
            each.master_term,
            each.first_vlsn,
            each.last_vlsn,
            each.first_ms,
            each.last_ms,
        ]
        for each in masters
    ]
    return Section("masters", "Masters", _MASTER, rows)


def node_sections(state: NodeState) -> list[Section]:
    """Return tables for people."""
    report = report_of(state)
    facts = fact_section("node", _facts(state, report))
    tables = [_master_section(state.masters, state.group), facts]
    return [bucket_section(state, for_people=True), _landmark_section(state), *tables]


def _facts(state: NodeState, report: NodeReport) -> Iterator[tuple[str, str]]:
    group = state.group
    own = state.own
    if own.name is not None or own.node_type is not None:
        yield "member", f"{own.name or 'unknown'} ({own.node_type or 'type unknown'})"
    yield "group", "unknown" if group.group_id is None else f"{group.name} ({group.group_id})"
    if state.index.refusal is not None:
        yield "the engine", f"would not continue with the index: {state.index.refusal}"
    yield "last VLSN of the log", _vlsn_text(report.facts.last_vlsn)
    commit = report.last_commit
    if commit is not None:
        name = group.nodes.get(commit.master_node_id, "unknown")
        term = "" if commit.master_term is None else f", term {commit.master_term}"
        yield (
            "last Commit",
            f"VLSN {commit.vlsn} of {utc_text(commit.time_ms)}, "
            f"master {commit.master_node_id} ({name}){term}",
        )
    yield "last durable VLSN", _vlsn_text(report.durable_vlsn)
    if state.journal_id is not None:
        yield "last journal id", str(state.journal_id)
    for each in state.tail.rollbacks:
        yield "rollback", f"to VLSN {each.matchpoint_vlsn} on {utc_text(each.time_ms)}"
    share = f"{state.read_size:,} of {state.size:,} bytes"
    if state.read_size < state.size:
        share += ", and samples of the rest for the masters"
    yield "read", share


def _vlsn_text(vlsn: int | None) -> str:
    return "none" if vlsn is None else str(vlsn)


def node_report(state: NodeState, findings: Iterable[Finding] | None = None) -> Report:
    """Return the state of a node as a report; `vlsn compare --from-json` reads it.

    Args:
        state: the node.
        findings: findings to add as a list; None for no list.
    """
    report = report_of(state)
    lists: dict[str, Iterable[dict[str, Any]]] = {"sync_points": report.sync_points()}
    if findings is not None:
        lists["findings"] = map(finding_row, findings)
    stored, recovered = state.index.stored.range, state.index.recovered
    parts = {
        "range": _range_row(stored),
        "recovered_range": _range_row(None if recovered is None else recovered.range),
    }
    return Report(
        report.document(),
        "node",
        parts,
        [
            bucket_section(state),
            _master_section(state.masters, state.group),
            section_of("rollbacks", "Rollbacks", _ROLLBACK, state.tail.rollbacks),
        ],
        lists,
    )


def _range_row(stored: VlsnRange | None) -> dict[str, Any] | None:
    if stored is None:
        return None
    return {name: getattr(stored, name) for name in _LANDMARKS}


def vlsn_section(found: VlsnLookup) -> Section:
    """Return the answer to the lookup of a VLSN."""
    floor, ceiling = found.floor, found.ceiling
    row = [
        found.vlsn,
        found.lsn,
        found.type_name,
        None if floor is None else floor.vlsn,
        None if floor is None else floor.lsn,
        None if ceiling is None else ceiling.vlsn,
        None if ceiling is None else ceiling.lsn,
        found.is_exact,
        found.read_count,
    ]
    return Section("", "", _VLSN_LOOKUP, [row])


def lsn_section(found: LsnLookup) -> Section:
    """Return the answer to the lookup of an LSN."""
    state = None if found.state is None else found.state.label
    row: list[Cell] = [found.lsn, found.type_name, found.vlsn, state, found.before_vlsn]
    return Section("", "", _LSN_LOOKUP, [row])
