"""Inputs and results of a search for a person's data; they travel between processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from je_tools.audit.discover import FoundEnvironment
    from je_tools.erase.proof.file_tree import FoundFile


class FindTask(Struct, frozen=True):
    """An environment to search, or some of its files.

    Attributes:
        found: the environment.
        files: files to search; None for all.
        number: place of the files among those of the environment.
    """

    found: FoundEnvironment
    files: tuple[FoundFile, ...] | None = None
    number: int = 0


class PartHits(Struct, frozen=True):
    """Result of a task.

    Attributes:
        env: name of the environment.
        hit_count: number of hits.
        size: bytes that were searched.
        gaps: files and reasons why something may be unseen, as reports show them.
    """

    env: str
    hit_count: int
    size: int
    gaps: list[tuple[str, str]]


class FoundTrace(Struct, frozen=True):
    """A trace, as `erase subject` lists it.

    `can_erase` is None if that could not be judged. `needle` is the name of the needle in reports.
    """

    env: str
    file: str
    offset: int | None
    size: int
    lsn: int | None
    type: str | None
    db: str | None
    where: str
    state: str
    can_erase: bool | None
    reason: str
    needle: str


class EnvironmentHits(Struct):
    """Hits in one environment.

    Attributes:
        env: its name.
        shown: its name in reports, masked if a needle is in it.
        hit_count: number of all hits.
        traces: the first of them.
        gaps: files and reasons why something may be unseen.
        obstacles: kinds of what prevents any erasure in the log now.
    """

    env: str
    shown: str
    hit_count: int = 0
    traces: list[FoundTrace] = field(default_factory=list)
    gaps: list[tuple[str, str]] = field(default_factory=list)
    obstacles: list[str] = field(default_factory=list)
