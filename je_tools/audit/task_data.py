"""Inputs and results of the tasks of an audit; they travel between processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from je_tools.audit.discover import FoundEnvironment

Written = list[tuple[str, str]]
"""Finished files: the name of the table, and the path."""


class Opened(Struct, frozen=True):
    """A large environment that was opened.

    Every task of it gets a copy, so what grows with the number of files is in the file.

    Attributes:
        found: the environment.
        path: file with the `Environment`, and the tuple of its slices.
        slice_count: number of tasks that scan it.
        signature: its signature before it was read; None if its rows are not kept.
    """

    found: FoundEnvironment
    path: str
    slice_count: int
    signature: bytes | None


class SliceTask(Struct, frozen=True):
    """A slice of a large environment; `number` is its place among the slices."""

    opened: Opened
    number: int


class SliceResult(Struct, frozen=True):
    """A slice that was scanned: the file with the results, and files with transactions."""

    name: str
    number: int
    path: str
    written: Written


class TakenOver(Struct, frozen=True):
    """Environments of an earlier run: their files, and the names of those that may have changed."""

    written: Written
    left: frozenset[str]


class JudgeTask(Struct, frozen=True):
    """A large environment of which all slices are scanned; `paths` has their results, in order."""

    opened: Opened
    paths: tuple[str, ...]
