"""Traces of a person: what each is, whether it can be erased now, and what prevents it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from je_tools.erase.preconditions import ErasureObstacle
    from je_tools.erase.proof.hit_places import Where
    from je_tools.erase.proof.needles import NeedleSearch
    from je_tools.erase.proof.search_results import NeedleFacts


class TraceState(StrEnum):
    """Kind of a trace, by the entry or file in which it lies."""

    LIVE_RECORD = "live record"
    OLD_RECORD = "old record"
    """An entry of a record that no tree needs: an old version, a deletion, or an embedded one."""
    ABORT_VERSION = "abort version"
    """An earlier version of a record, in the entry of a later one."""
    BEFORE_IMAGE = "before-image"
    SLOT = "slot in use"
    """A slot of a BIN of the present trees, or of the full version below a BIN-delta."""
    DELETED_SLOT = "deleted slot in use"
    ROUTING_KEY = "routing key"
    """A slot of an upper node of the present trees."""
    NODE_KEY = "key of a node in use"
    """Identifier key or prefix of a node of the present trees."""
    OLD_NODE = "old node"
    DATABASE_NAME = "database name"
    TRACE_TEXT = "trace text"
    UNFINISHED = "unfinished erasure"
    OTHER_ENTRY = "other entry"
    DAMAGED = "damaged entry"
    NO_ENTRY = "no entry"
    PUT_ASIDE = "file put aside"
    ELSEWHERE = "log elsewhere"
    JOURNAL = "undo journal"
    OTHER_FILE = "other file"
    FILE_NAME = "file name"


IN_NODES = frozenset(
    {TraceState.SLOT, TraceState.DELETED_SLOT, TraceState.ROUTING_KEY, TraceState.NODE_KEY}
)
"""States of traces in nodes of the present trees."""


class Trace(Struct, frozen=True):
    """A trace.

    Attributes:
        file: name of the file, as reports show it.
        offset: offset in the file; None for the name of a file.
        size: bytes.
        lsn: LSN of the entry; None for none.
        type: type of the entry; None for none.
        db: name of the database, as reports show it; None if unknown.
        where: kind of the place.
        state: kind of the trace.
        can_erase: True if `erase run` would erase it now.
        reason: reason to erase it, or what prevents that.
        needle: number of the needle.
    """

    file: str
    offset: int | None
    size: int
    lsn: int | None
    type: str | None
    db: str | None
    where: Where
    state: TraceState
    can_erase: bool
    reason: str
    needle: int


class ValueFacts(Struct):
    """Values of records that were found by their keys, and searched for too.

    Attributes:
        searched_count: distinct values that were searched for.
        short_count: distinct values that are too short to be searched for.
        cut_count: distinct values of which only the first bytes were searched for.
        left_count: distinct values beyond the largest number.
    """

    searched_count: int = 0
    short_count: int = 0
    cut_count: int = 0
    left_count: int = 0


class SubjectReport(Struct):
    """Answer of `erase subject`.

    Attributes:
        env: name of the directory, as reports show it.
        needles: the needles, and the values of records.
        traces: the first traces.
        hit_count: number of all hits of the search, also of those that are not listed.
        other_count: hits of keys in databases that were not asked for.
        values: values that were searched for.
        obstacles: reasons not to erase anything in the log.
        gaps: names and reasons of everything in which a trace may have been missed.
        search: the search, with the values of records; no output shows them.
        db_ids: databases with traces in their present nodes.
    """

    env: str
    needles: Sequence[NeedleFacts]
    traces: Sequence[Trace]
    hit_count: int
    other_count: int
    values: ValueFacts
    obstacles: Sequence[ErasureObstacle]
    gaps: Sequence[tuple[str, str]]
    search: NeedleSearch
    db_ids: frozenset[int]

    @property
    def erasable_count(self) -> int:
        """Number of the listed traces that `erase run` would erase now."""
        return sum(trace.can_erase for trace in self.traces)
