"""Tables on the recovery of Ignite's nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from je_tools.ignite.recovery.plan import change_counts, file_changes, left_out
from je_tools.output.views.ignite_tables import FINDING_COLUMNS, NODE, store_section
from je_tools.output.views.sections import Cell, Column, Kind, Section

if TYPE_CHECKING:
    from je_tools.ignite.recovery.lost_rows import LostRow
    from je_tools.ignite.recovery.plan import NodePlan
    from je_tools.ignite.repairs.edits import StoreEdit


def _plan_cell(get: Callable[[NodePlan], Any]) -> Callable[[Any], Cell]:
    def cell(plan: NodePlan) -> Cell:
        value = get(plan)
        return value if value is None or isinstance(value, int) else str(value)

    return cell


_NODE = Column("node", "node", Kind.TEXT, rank=5, cell=_plan_cell(lambda plan: plan.node.name))


def _pointer(name: str, part: str) -> Callable[[Any], Cell]:
    def cell(plan: NodePlan) -> Cell:
        pointer = getattr(plan.physical, name)
        return None if pointer is None else int(getattr(pointer, part))

    return cell


def _finished(plan: NodePlan) -> str | None:
    """Return the id of the last checkpoint that has both markers."""
    both = [each for each in plan.checkpoints.checkpoints if each.begin and each.end]
    last = max(both, key=lambda each: each.time_ms, default=None)
    return None if last is None else str(last.checkpoint)


_STARTS = (
    _NODE,
    Column("outcome", "outcome", Kind.TEXT, cell=_plan_cell(lambda plan: plan.outcome.value)),
    Column("status", "newest checkpoint", Kind.TEXT, cell=_plan_cell(lambda p: p.physical.status)),
    Column(
        "checkpoint",
        "checkpoint",
        Kind.TEXT,
        rank=1,
        cell=_plan_cell(lambda p: p.physical.checkpoint),
    ),
    Column("finished", "last finished", Kind.TEXT, rank=2, cell=_finished),
)

_PHYSICAL = (
    _NODE,
    Column(
        "source", "pages from", Kind.TEXT, cell=_plan_cell(lambda plan: plan.physical.source.value)
    ),
    Column("from_segment", "from segment", Kind.ID, rank=2, cell=_pointer("start", "segment")),
    Column("from_offset", "offset", Kind.COUNT, rank=3, cell=_pointer("start", "offset")),
    Column("to_segment", "to segment", Kind.ID, rank=2, cell=_pointer("stop", "segment")),
    Column("to_offset", "offset", Kind.COUNT, rank=3, cell=_pointer("stop", "offset")),
    Column("snapshots", "images", cell=_plan_cell(lambda plan: plan.physical.snapshots)),
    Column("deltas", "changes", cell=_plan_cell(lambda plan: plan.physical.deltas)),
    Column(
        "pages", "pages", cell=_plan_cell(lambda plan: sum(e.pages for e in file_changes(plan)))
    ),
    Column("files", "files", cell=_plan_cell(lambda plan: len(file_changes(plan)))),
    Column(
        "problem",
        "problem",
        Kind.TEXT,
        wraps=True,
        cell=_plan_cell(lambda plan: plan.physical.problem),
    ),
)


def _logical(get: Callable[[Any], Any]) -> Callable[[Any], Cell]:
    return _plan_cell(lambda plan: None if plan.logical is None else get(plan.logical))


_LOGICAL = (
    _NODE,
    Column(
        "from_segment", "from segment", Kind.ID, rank=4, cell=_logical(lambda e: e.start.segment)
    ),
    Column("from_offset", "offset", Kind.COUNT, rank=5, cell=_logical(lambda e: e.start.offset)),
    Column("updates", "updates", cell=_logical(lambda e: e.entry_count)),
    Column("keys", "keys", rank=3, cell=_logical(lambda e: len(e.updates))),
    Column("left_out", "left out", rank=2, cell=_logical(lambda e: e.left_out)),
    Column(
        "transactions", "open transactions", rank=3, cell=_logical(lambda e: len(e.uncommitted))
    ),
    Column("end_segment", "end segment", Kind.ID, cell=_logical(lambda e: e.end.segment)),
    Column("end_offset", "offset", Kind.COUNT, cell=_logical(lambda e: e.end.offset)),
    Column("end_reason", "reason", Kind.TEXT, cell=_logical(lambda e: e.end.reason.value)),
    Column("lost_records", "records after it", rank=1, cell=_logical(lambda e: e.end.lost_records)),
)

_CHANGES = (NODE, Column("type", "type", Kind.TEXT), Column("records", "records"))

_FILES = (
    NODE,
    Column("group", "group", Kind.TEXT),
    Column("partition", "partition", Kind.ID),
    Column("pages", "pages"),
    Column("exists", "exists", Kind.FLAG),
)

_LEFT_OUT = (NODE, Column("transaction", "transaction", Kind.TEXT))


def recovery_sections(plans: Sequence[NodePlan], *, everything: bool) -> list[Section]:
    """Return recovery as tables.

    Args:
        plans: the nodes.
        everything: also show changes of pages by type, and files.
    """
    sections = [
        store_section("starts", "Next start", _STARTS, plans),
        store_section("physical", "Physical part: pages", _PHYSICAL, plans),
        store_section("logical", "Logical part: rows", _LOGICAL, plans),
    ]
    changes = [each for plan in plans for each in change_counts(plan)] if everything else []
    files = [each for plan in plans for each in file_changes(plan)] if everything else []
    transactions = [each for plan in plans for each in left_out(plan)]
    findings = [each for plan in plans for each in plan.findings]
    return [
        *sections,
        store_section("changes", "Changes of pages by type", _CHANGES, changes),
        store_section("files", "Files of pages", _FILES, files),
        store_section("transactions", "Open transactions", _LEFT_OUT, transactions),
        store_section("findings", "Findings", FINDING_COLUMNS, findings),
    ]


_LOST = (
    NODE,
    Column("segment", "segment", Kind.ID, cell=lambda row: row.lost.segment),
    Column("offset", "offset", cell=lambda row: row.lost.offset),
    Column("size", "bytes", rank=1, cell=lambda row: row.lost.size),
    Column("text", "what", Kind.TEXT, wraps=True),
    Column("cache_id", "id", Kind.ID, rank=2, cell=lambda row: row.entry and row.entry.cache_id),
    Column("cache", "cache", Kind.TEXT),
    Column("op", "operation", Kind.TEXT, cell=lambda row: row.entry and row.entry.op),
    Column("key", "key", Kind.KEY),
)


def lost_section(rows: Iterable[LostRow]) -> Section:
    """Return what repaired nodes do not have."""
    return store_section("lost", "What the repaired store does not have", _LOST, rows)


class FileEdits(Struct, frozen=True):
    """Edits of one kind and reason in a file.

    Attributes:
        kind: kind of the edits.
        file: path below the store.
        edits: number of edits.
        size: bytes that they write.
        reason: why.
    """

    kind: str
    file: str
    edits: int
    size: int
    reason: str


def edit_section(edits: Iterable[StoreEdit], root: Path, *, everything: bool) -> Section:
    """Return edits as a table, with paths below a folder.

    Args:
        edits: the edits, in order.
        root: the folder.
        everything: show each edit, and not only those of each file together.
    """

    def file(edit: Any) -> str:
        path: Path = edit.path
        return str(path.relative_to(root) if path.is_relative_to(root) else path)

    kind = Column("kind", "edit", Kind.TEXT, cell=lambda edit: str(edit.kind))
    reason = Column("reason", "reason", Kind.TEXT, wraps=True)
    size = Column("size", "bytes")
    if everything:
        place = (
            Column("file", "file", Kind.PATH, cell=file),
            Column("offset", "offset"),
        )
        return store_section("edits", "Edits", (kind, *place, size, reason), edits)
    sums: dict[tuple[str, str, str], list[int]] = {}
    for edit in edits:
        sums.setdefault((str(edit.kind), file(edit), edit.reason), []).append(edit.size)
    rows = [
        FileEdits(what, name, len(sizes), sum(sizes), why)
        for (what, name, why), sizes in sums.items()
    ]
    columns = (
        kind,
        Column("file", "file", Kind.PATH),
        Column("edits", "edits"),
        size,
        reason,
    )
    return store_section("edits", "Edits", columns, rows)


def text_section(name: str, title: str, texts: Iterable[str]) -> Section:
    """Return sentences as a table of one column."""
    columns = (Column("text", "", Kind.TEXT, wraps=True),)
    return Section(name, title, columns, [[text] for text in texts])
