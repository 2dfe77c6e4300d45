"""Reads of a data source: options that all sources have, and tasks sized by bytes and cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from je_tools.core.shares import share_of, shares_of, task_count
from je_tools.errors import UsageError
from je_tools.spark.places import Log, LogPlaces

if TYPE_CHECKING:
    import pyarrow as pa

    from je_tools.spark.option_texts import OptionTexts

PLACES: Mapping[str, str] = {
    "path": "What is read: an environment's directory, a directory with environments below it, a "
    "log file, or a pattern (`/data/*/bdb`), also as a URI (`s3://logs/fe1`). `load(path)` "
    "sets it.",
    "paths": "Several paths, as a list. `load([…])` sets it.",
    "env": "Environments to read, by the column `env` or a pattern of it, as a list.",
}
COLUMNS = {"columns": "Columns to read, as a list; nothing else is decoded. The default is all."}
TASKS = {"tasks": "Approximate number of tasks. The default follows from the bytes and the cores."}
UNREADABLE = {
    "unreadable": "What cannot be opened: `fail` (the default) ends the query with the reason, "
    "`skip` leaves it out."
}
COMMON: Mapping[str, str] = {**PLACES, **COLUMNS, **TASKS, **UNREADABLE}
"""Options that sources share, and their descriptions."""

MASKS = {
    "data": "What is shown of keys and values: `show`, `hide`, `length`, `hash`, `salted-hash`."
}


class Task(Protocol):
    """Input of one task; it pickles."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in the columns that were asked for and Spark's types."""


class Query(Protocol):
    """Parsed options of a read, which pickle."""

    @property
    def common(self) -> CommonOptions:
        """Options that all sources have."""

    def tasks(self, columns: tuple[str, ...], cores: int) -> list[Task]:
        """Return tasks that together yield every row once.

        Args:
            columns: names of the columns, in order.
            cores: number of tasks that run at once; 0 if unknown.
        """


class Relation(Struct, frozen=True):
    """A data source, apart from Spark's classes.

    Attributes:
        name: name of the format.
        options: all options with their descriptions.
        schema: returns all columns, in Spark's types.
        parse: parses the options.
    """

    name: str
    options: Mapping[str, str]
    schema: Callable[[], pa.Schema]
    parse: Callable[[OptionTexts], Query]


class CommonOptions(Struct, frozen=True):
    """Options that all sources have.

    Attributes:
        places: where the logs are.
        columns: names of the wanted columns, in order; None for all.
        task_count: number of tasks that was asked for; None without one.
    """

    places: LogPlaces
    columns: tuple[str, ...] | None = None
    task_count: int | None = None

    def share(self, size: int, cores: int) -> int:
        """Return the number of bytes that a task should read, of `size` bytes in all."""
        count = self.task_count or task_count(size, cores or os.cpu_count() or 1)
        return share_of(size, count)

    def by_log(self, logs: Sequence[Log], cores: int) -> Iterator[tuple[Log, ...]]:
        """Group environments into tasks; each is left whole."""
        share = self.share(sum(log.size for log in logs), cores)
        return map(tuple, shares_of(logs, lambda log: log.size, share))


def parse_common(texts: OptionTexts) -> CommonOptions:
    """Parse the options that all sources have.

    Raises:
        UsageError: a value is not valid, or nothing is named.
    """
    one = texts.texts.get("path")
    names = (*([] if one is None else [one]), *texts.listed("paths", str))
    if not names:
        raise UsageError("name an environment's directory or log files: load(path)")
    count = texts.number("tasks")
    if count is not None and count < 1:
        raise UsageError(f"option tasks: {count} is not 1 or more")
    return CommonOptions(
        LogPlaces(
            names,
            texts.listed("env", str),
            texts.word("unreadable", ("fail", "skip")) == "skip",
        ),
        texts.listed("columns", str) or None,
        count,
    )
