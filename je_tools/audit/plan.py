"""Plan of an audit: divide a fleet into tasks of about the same number of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from je_tools.verify.judge import RowInspector

if TYPE_CHECKING:
    from je_tools.audit.discover import Fleet
    from je_tools.log.environment import Environment
    from je_tools.log.log_files import LogFile

CUT_SIZE = 256 << 20
"""Bytes above which a file is cut into ranges, each a piece of its own."""

TASK_SIZES = (8 << 20, CUT_SIZE)
"""Minimum and maximum bytes of a task, about: its pieces are left whole."""

TASKS_PER_CORE = 4
"""Tasks per core: enough that the last ones end together, and a whole number for each core."""


class ScanPiece(Struct, frozen=True):
    """A file, or a range of a file that is cut.

    Attributes:
        env_no, env: number of the environment in the fleet, and its name in the tables.
        index: index of the file in `Environment.files`.
        file: the file.
        inspector: inspector of the environment's rows.
        cut: index of the range and number of ranges; (0, 1) for a whole file.
        environment: the environment, with its first piece only: the judge must get it once.
    """

    env_no: int
    env: str
    index: int
    file: LogFile
    inspector: RowInspector
    cut: tuple[int, int]
    environment: Environment | None = None

    @property
    def size(self) -> int:
        """Approximate number of bytes of the piece."""
        return self.file.size // self.cut[1]


Task = tuple[ScanPiece, ...]


def plan_tasks(fleet: Fleet, cores: int) -> list[Task]:
    """Group pieces into tasks by bytes, in the order of the fleet.

    Args:
        fleet: all environments.
        cores: number of tasks that run at once, 1 or more.
    """
    pieces = list(chain.from_iterable(_pieces(fleet, no) for no in range(len(fleet.environments))))
    size = sum(piece.size for piece in pieces)
    least, most = TASK_SIZES
    rounds = max(TASKS_PER_CORE, -(-size // (most * cores)))
    count = min(rounds * cores, max(size // least, 1))
    return [tuple(group) for group in _shares(pieces, max(size / count, 1))]


def cut_count(file: LogFile) -> int:
    """Return the number of ranges into which a file is cut."""
    return max(-(-file.size // CUT_SIZE), 1)


def _pieces(fleet: Fleet, env_no: int) -> Iterator[ScanPiece]:
    environment = fleet.environments[env_no]
    inspector = RowInspector.of(environment)
    for index, file in enumerate(environment.files):
        count = cut_count(file)
        for cut in range(count):
            whole = environment if (index, cut) == (0, 0) else None
            yield ScanPiece(
                env_no, fleet.names[env_no], index, file, inspector, (cut, count), whole
            )


def _shares(pieces: Sequence[ScanPiece], share: float) -> Iterator[Iterator[ScanPiece]]:
    """Group pieces by the share of all bytes that holds their middle: at most a group a share."""
    starts = accumulate(chain([0], (piece.size for piece in pieces)))
    placed = zip(starts, pieces, strict=False)
    for _, group in groupby(placed, lambda each: (each[0] + each[1].size / 2) // share):
        yield (piece for _, piece in group)
