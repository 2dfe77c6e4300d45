"""Cuts a fleet into tasks of about the same number of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from je_tools.audit.discover import Fleet
from je_tools.environment import Environment, LogFile
from je_tools.verify import Look

CUT_SIZE = 256 << 20
"""Bytes from which on a file is cut into ranges, each read by a task of its own."""

TASK_SIZES = (8 << 20, CUT_SIZE)
"""The fewest and the most bytes that a task is given, files that are not cut left whole."""

TASKS_PER_CORE = 4
"""Enough that the last tasks end together."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A file, or a range of one that is cut.

    Attributes:
        env_no, env: number of the environment in the fleet, and its name in the tables.
        index: of the file in `Environment.files`.
        file: which.
        look: what is looked for in the environment.
        cut: which of the file's ranges, and how many it has; (0, 1) for a whole file.
        environment: all of it, with its first piece: who judges it must have it once.
    """

    env_no: int
    env: str
    index: int
    file: LogFile
    look: Look
    cut: tuple[int, int]
    environment: Environment | None = None

    @property
    def size(self) -> int:
        """Bytes of the piece, about."""
        return self.file.size // self.cut[1]


Task = tuple[Piece, ...]


def plan_tasks(fleet: Fleet, cores: int) -> list[Task]:
    """Pieces in the order of the fleet, grouped by bytes.

    Args:
        fleet: all environments.
        cores: how many tasks run at once.
    """
    wanted = fleet.size // max(cores * TASKS_PER_CORE, 1)
    size = min(max(wanted, TASK_SIZES[0]), TASK_SIZES[1])
    pieces = chain.from_iterable(_pieces(fleet, no) for no in range(len(fleet.environments)))
    return list(_grouped(pieces, size))


def cut_count(file: LogFile) -> int:
    """Into how many ranges a file is cut."""
    return max(-(-file.size // CUT_SIZE), 1)


def _pieces(fleet: Fleet, env_no: int) -> Iterator[Piece]:
    environment = fleet.environments[env_no]
    look = Look.of(environment, fast=True)
    for index, file in enumerate(environment.files):
        count = cut_count(file)
        for cut in range(count):
            whole = environment if (index, cut) == (0, 0) else None
            yield Piece(env_no, fleet.names[env_no], index, file, look, (cut, count), whole)


def _grouped(pieces: Iterable[Piece], wanted: int) -> Iterator[Task]:
    group: list[Piece] = []
    size = 0
    for piece in pieces:
        if group and size + piece.size > wanted:
            yield tuple(group)
            group, size = [], 0
        group.append(piece)
        size += piece.size
    if group:
        yield tuple(group)
