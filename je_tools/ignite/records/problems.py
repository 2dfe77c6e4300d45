"""Records of a store that could not be read, with the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.core.escaping import counted
from je_tools.findings import Code, Severity

if TYPE_CHECKING:
    from je_tools.ignite.logical.log_range import WalEnd


class RecordProblem(StrEnum):
    """Reason why records are missing from a result, or are not those that recovery would leave."""

    ROWS = "rows-unreadable"
    """Rows of a partition cannot be read."""
    TREE = "tree-unreadable"
    """Pages of a partition's tree cannot be read, so rows may be missing."""
    ENCRYPTED = "encrypted"
    """Pages or entries of a group are encrypted."""
    FILE = "file-unreadable"
    """A page file is missing, has no header, or cannot be read."""
    PAGES_MIXED = "pages-mixed"
    """A checkpoint is unfinished, and the log does not have the pages that it was writing."""
    UNLOGGED = "wal-disabled"
    """Changes of a group were not logged, so recovery does not repair its pages."""
    UNCONFIGURED = "cache-unconfigured"
    """The configuration of a cache is missing, so the node does not start the cache."""
    TYPES = "types-damaged"
    """A description of a type or a name of a class is damaged, so that names may be wrong."""
    LOG_DAMAGED = "log-damaged"
    """The log ends at damage, or at a missing segment."""
    LOG_UNDECODABLE = "log-undecodable"
    """Records of the log with right checksums do not decode."""


NOT_CHECKED = (
    "rows that no tree leads to, the numbers of rows that partitions count, indexes, and copies "
    "of the log that recovery does not read: `je-tools ignite pages verify` and `wal verify` check "
    "them",
    "whether other nodes have newer records: `je-tools ignite diff` compares two nodes",
)
"""Properties of a store that an export does not check."""

_PAGES = "`ignite pages verify` reports the pages, and `ignite recover` what can be repaired."

_TABLE: tuple[tuple[RecordProblem, str, str], ...] = (
    (
        RecordProblem.ROWS,
        "Rows do not decode, or are on pages that cannot be read.",
        _PAGES,
    ),
    (
        RecordProblem.TREE,
        "Pages of a partition's tree cannot be read, so rows may be missing.",
        _PAGES,
    ),
    (
        RecordProblem.ENCRYPTED,
        "Pages or entries of the log are encrypted, and their records are left out.",
        "Read them with a node that has the key.",
    ),
    (
        RecordProblem.FILE,
        "A page file is missing, has no header, or cannot be read.",
        "Look for it in a backup of the same node. `ignite recover` shows whether the log has it.",
    ),
    (
        RecordProblem.PAGES_MIXED,
        "A checkpoint is unfinished, and its pages could not be recovered from the log. The files "
        "have pages of two checkpoints, so records may be missing, old, or written twice.",
        "`ignite recover` shows why, and what can be repaired.",
    ),
    (
        RecordProblem.UNLOGGED,
        "The log was turned off for a group when the node stopped: its pages may be of several "
        "states, and recovery does not change them.",
        "Load the group from other nodes, or from the source of its data.",
    ),
    (
        RecordProblem.UNCONFIGURED,
        "A cache has partitions, rows or log records, but no configuration (`cache_data.dat`). A "
        "node starts without it, unless another node has the configuration. Its records are left "
        "out.",
        "Copy the file from another node or a backup. If the cache was destroyed, do nothing.",
    ),
    (
        RecordProblem.TYPES,
        "The description of a type or the name of a class is damaged or cannot be read. Names of "
        "types and fields may be wrong or missing. No record is missing.",
        "Copy the file from another node: all nodes of a cluster have the same types.",
    ),
    (
        RecordProblem.LOG_DAMAGED,
        "The log ends at damage or at a missing segment, or has no record at the place where "
        "recovery begins. Records after it are not applied.",
        "`ignite wal verify` shows the damage, and `ignite recover` what can be repaired.",
    ),
    (
        RecordProblem.LOG_UNDECODABLE,
        "Records of the log with right checksums do not decode, and are not applied.",
        "`ignite wal dump` shows them: `undecodable` is true.",
    ),
)

CODES = {row[0].value: Code(row[0].value, Severity.ERROR, *row[1:]) for row in _TABLE}
"""Every problem by its code, in the order of the documentation."""


class MissingRecords(Struct, frozen=True):
    """One reason, and how much it concerns.

    Attributes:
        problem: the reason.
        node: name of the node.
        group: name of the cache group; None for all.
        partition: number; None for all.
        count: number of rows, pages or records.
        detail: what was found, in words.
    """

    problem: RecordProblem
    node: str
    group: str | None
    partition: int | None
    count: int
    detail: str

    def text(self) -> str:
        """Return a line for people."""
        where = "" if self.group is None else f" {self.group}"
        where += "" if self.partition is None else f" partition {self.partition}"
        return f"{self.node or 'log'}{where}: {self.detail} ({self.problem.value})"


def log_problem(node: str, end: WalEnd) -> MissingRecords | None:
    """Return the problem of a log that does not end where its records end; None for none."""
    if end.reason.value == "end" and not end.lost_records:
        return None
    place = f"{end.segment}:{end.offset}"
    if end.reason.value == "rolled":
        text = f"segment {end.segment + 1} of the log is missing; the node starts without it"
        return MissingRecords(RecordProblem.LOG_DAMAGED, node, None, None, 0, text)
    what = {
        "damage": f"the log cannot be read at {place}",
        "missing": f"segment {end.segment} of the log is missing",
        "no start": f"the log has no record at {place}, from which recovery reads",
    }.get(end.reason.value, f"the log ends at {place}")
    after = f"whole records after it, which are not applied: {end.lost_records:,}"
    answer = "the node does not start" if end.is_refused else "the node starts, and loses them"
    return MissingRecords(
        RecordProblem.LOG_DAMAGED,
        node,
        None,
        None,
        end.lost_records,
        f"{what}; {after}; {answer}",
    )


def merged(problems: Iterable[MissingRecords]) -> list[MissingRecords]:
    """Return the problems, with those of a group's encrypted partitions merged into the first."""
    found: dict[tuple[object, ...], list[MissingRecords]] = {}
    for place, each in enumerate(problems):
        is_group = each.problem is RecordProblem.ENCRYPTED and each.partition is not None
        key = (each.problem, each.node, each.group) if is_group else (place,)
        found.setdefault(key, []).append(each)
    return [_merged(some) for some in found.values()]


def _merged(some: Sequence[MissingRecords]) -> MissingRecords:
    if len(some) == 1:
        return some[0]
    first, count = some[0], sum(each.count for each in some)
    pages = f"the pages of {counted(len(some), 'partition')}"
    text = f"{pages} are encrypted, and their records are left out"
    return MissingRecords(first.problem, first.node, first.group, None, count, text)
