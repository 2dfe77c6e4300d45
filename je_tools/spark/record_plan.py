"""Tasks of a read of records: whole environments, or ranges of keys of their databases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.btree.key_cuts import NODES_PER_CUT, UpperLevel, upper_level
from je_tools.core.shares import shares_of
from je_tools.log.scan import Scanner
from je_tools.recovery.opening import NoTreeError, held_snapshot
from je_tools.spark.record_reading import (
    RecordOptions,
    RecordPart,
    RecordTask,
    wanted_databases,
)

if TYPE_CHECKING:
    from je_tools.btree.key_ranges import KeyRange
    from je_tools.recovery.snapshot import Snapshot
    from je_tools.spark.places import Log

CUT_RATIO = 2
"""Size, in shares of a task, above which an environment is cut: planning the cuts opens it."""


class _Piece(Struct, frozen=True):
    """Records of an environment, and about how many bytes of the log they take.

    Attributes:
        log: the environment.
        size: the bytes.
        range: id of a database, and a range of its keys (None for all); None for all databases.
    """

    log: Log
    size: int
    range: tuple[int, KeyRange | None] | None = None


class RecordPlanner(Struct, frozen=True):
    """A planner of tasks.

    Attributes:
        options: records to read.
        share: approximate number of bytes that a task should read.
        must_exist: refuse a database that an environment does not have.
        is_exact: False to make fewer tasks if opening an environment costs more than a share.
    """

    options: RecordOptions
    share: int
    must_exist: bool
    is_exact: bool

    def tasks(self, logs: Sequence[Log], columns: tuple[str, ...]) -> Iterator[RecordTask]:
        """Yield tasks that together read every record once; see `RecordQuery.tasks`."""
        pieces = [piece for log in logs for piece in self._pieces(log)]
        for group in shares_of(pieces, lambda piece: piece.size, self.share):
            by_env = groupby(group, lambda piece: piece.log.env)
            parts = tuple(_part(list(own)) for _, own in by_env)
            yield RecordTask(parts, columns, self.options, self.must_exist)

    def _pieces(self, log: Log) -> list[_Piece]:
        whole = [_Piece(log, log.size)]
        if log.size <= CUT_RATIO * self.share:
            return whole
        try:
            scanner = Scanner(wide=True, pinned=True)
            with held_snapshot(log.environment, scanner, now_ms=self.options.now_ms) as snapshot:
                return self._cut(log, snapshot)
        except NoTreeError:
            # The task fails, or leaves it out.
            return whole

    def _cut(self, log: Log, snapshot: Snapshot) -> list[_Piece]:
        databases = wanted_databases(snapshot, self.options, self.must_exist)
        # Each task opens the environment again, and reads what recovery replays.
        share = self.share if self.is_exact else max(self.share, _replayed_size(snapshot))
        least = NODES_PER_CUT * -(-log.size // share)
        levels = [upper_level(snapshot.tree(each), least) for each in databases]
        bins = max(sum(level.bin_count for level in levels), 1)
        pieces: list[_Piece] = []
        for database, level in zip(databases, levels, strict=True):
            size = log.size * level.bin_count / bins
            ranges = list(self._ranges(level, max(round(size / share), 1)))
            pieces += [_Piece(log, round(size / len(ranges)), (database.db_id, r)) for r in ranges]
        # Without databases, the task still reports what damage may have cost.
        return pieces or [_Piece(log, log.size)]

    def _ranges(self, level: UpperLevel, count: int) -> Iterator[KeyRange | None]:
        """Yield the wanted part of each of `count` ranges; at least one."""
        wanted = self.options.inside
        ranges = level.ranges(count)
        if len(ranges) == 1:
            yield wanted
            return
        for each in ranges:
            common = each if wanted is None else each.intersection(wanted)
            if not common.is_empty:
                yield common


def _part(pieces: Sequence[_Piece]) -> RecordPart:
    ranges = tuple(piece.range for piece in pieces if piece.range is not None)
    return RecordPart(pieces[0].log, ranges or None)


def _replayed_size(snapshot: Snapshot) -> int:
    """Return the number of bytes of the log that recovery reads."""
    first = snapshot.first_lsn
    files = [file for file in snapshot.end.files if file.file_no >= first >> 32]
    return max(sum(file.size for file in files) - (first & 0xFFFFFFFF), 0)
