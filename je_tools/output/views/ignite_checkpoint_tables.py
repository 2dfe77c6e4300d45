"""Tables on checkpoints of Ignite's stores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from je_tools.core.escaping import clean_text
from je_tools.output.views.ignite_tables import NODE, finding_sections, store_section
from je_tools.output.views.sections import Column, Kind, Section

if TYPE_CHECKING:
    from je_tools.ignite.checkpoints.node_checkpoints import Checkpoint, LogNeed
    from je_tools.ignite.checkpoints.reach import GroupReach, PartitionReach
    from je_tools.ignite.node_findings import NodeFinding


def _state(item: Checkpoint) -> str:
    if item.begin is None:
        return "no begin"
    return "unfinished" if item.end is None else "finished"


def _pointer(name: str) -> Any:
    def cell(item: Checkpoint) -> int | None:
        return None if item.pointer is None else getattr(item.pointer, name)

    return cell


def _mark(place: int) -> Any:
    def cell(item: Checkpoint) -> int | None:
        mark = None if item.record is None else item.record.facts.mark
        return None if mark is None else mark[place]

    return cell


def _missing(item: LogNeed) -> str | None:
    ranges = [f"{a}" if b - a == 1 else f"{a}-{b - 1}" for a, b in item.missing]
    return " ".join(ranges) or None


CHECKPOINTS = (
    NODE,
    Column("time_ms", "began", Kind.TIME),
    Column("checkpoint", "checkpoint", Kind.TEXT, rank=2, cell=lambda item: str(item.checkpoint)),
    Column("state", "state", Kind.TEXT, cell=_state),
    Column("segment", "segment", Kind.ID, cell=_pointer("segment")),
    Column("offset", "offset", cell=_pointer("offset")),
    Column("length", "bytes", rank=4, cell=_pointer("length")),
    Column("has_record", "record", Kind.FLAG, rank=1, cell=lambda item: item.record is not None),
    Column("mark_segment", "mark segment", Kind.ID, rank=6, cell=_mark(0)),
    Column("mark_offset", "mark offset", rank=6, cell=_mark(1)),
    Column("recovery_files", "recovery files", rank=7),
)
"""Columns of checkpoints."""

_NEEDS = (
    NODE,
    Column("status", "checkpoint", Kind.TEXT),
    Column("first", "needed from", Kind.ID),
    Column("offset", "offset"),
    Column("last", "last", Kind.ID),
    Column("missing", "missing", Kind.TEXT, cell=_missing),
    Column("marked", "marker points to", Kind.ID, rank=2),
    Column("needed_files", "needed files", rank=1),
    Column("needed_bytes", "bytes needed", rank=3),
    Column("removable_files", "older files", rank=1),
    Column("removable_bytes", "older bytes", rank=3),
)

_GROUP = Column("group", "group", Kind.TEXT, cell=lambda item: clean_text(item.group))

_GROUPS = (
    NODE,
    _GROUP,
    Column("group_id", "id", Kind.ID, rank=4),
    Column("partitions", "partitions", rank=2),
    Column("time_ms", "log reaches back to", Kind.TIME),
    Column("segment", "segment", Kind.ID, rank=3),
    Column("updates", "updates"),
    Column("size", "entries", rank=3),
)

_PARTITIONS = (
    NODE,
    _GROUP,
    Column("group_id", "id", Kind.ID, rank=4),
    Column("partition", "partition", Kind.ID),
    Column("state", "state", Kind.TEXT, rank=3),
    Column("time_ms", "log reaches back to", Kind.TIME, rank=1),
    Column("segment", "segment", Kind.ID, rank=2),
    Column("counter_from", "counter there"),
    Column("counter_to", "counter"),
    Column("size", "entries", rank=2),
)


def checkpoint_sections(
    checkpoints: Iterable[Checkpoint], needs: Iterable[LogNeed], groups: Iterable[GroupReach]
) -> list[Section]:
    """Return the checkpoints, the log that recovery needs, and the reach of cache groups."""
    return [
        store_section("checkpoints", "Checkpoints", CHECKPOINTS, checkpoints),
        store_section("log", "Log that recovery needs", _NEEDS, needs),
        store_section("groups", "Reach of historical rebalance", _GROUPS, groups),
    ]


def partition_section(partitions: Iterable[PartitionReach]) -> Section:
    """Return the reach of partitions."""
    return store_section("partitions", "Partitions", _PARTITIONS, partitions)


def finding_section(findings: Sequence[NodeFinding]) -> Section:
    """Return the findings."""
    (section,) = finding_sections(findings, "json")
    return replace(section, name="findings", title="Findings")
