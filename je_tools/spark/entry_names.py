"""Names of databases and times of entries, which only the whole log has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from je_tools.dump.entries import ResolvedSelection, read_names_and_times
from je_tools.log.scan import Scanner
from je_tools.log.selection import database_ids
from je_tools.spark.option_texts import as_option

if TYPE_CHECKING:
    from je_tools.log.environment import Environment
    from je_tools.log.selection import Selection


class NameResolver(Struct, frozen=True):
    """Names and times of logs, as far as a read needs them; it pickles.

    Attributes:
        selection: the selection, without ids of databases and without times.
        databases: names and ids of the wanted databases; empty for all.
        shows_names: True if names are shown.
        check: True to verify the checksum of every entry.
        must_exist: refuse a wanted database that a log does not have.
    """

    selection: Selection
    databases: tuple[str, ...]
    shows_names: bool
    check: bool
    must_exist: bool

    @property
    def is_needed(self) -> bool:
        """True if a log must be read for its names or times."""
        return self.shows_names or bool(self.databases) or self.selection.needs_times

    def resolve(self, environment: Environment, threads: int = 0) -> ResolvedSelection:
        """Read a whole log; return its names to show, and the selection with ids and times.

        Raises:
            UsageError: the log does not have a database that must exist.
            StoppedError: a file shrank, vanished or was replaced meanwhile.
            InputError: a file cannot be read.
        """
        scanner = Scanner(check=self.check, threads=threads)
        prepared = read_names_and_times(environment, self.selection, scanner)
        return self.with_names(prepared.selection, prepared.names)

    def with_names(self, selection: Selection, names: Mapping[int, str]) -> ResolvedSelection:
        """Return the names to show, and a selection with the ids of the wanted databases."""
        if self.databases:
            with as_option("db"):
                ids = database_ids(self.databases, names, must_exist=self.must_exist)
            selection = replace(selection, db_ids=ids)
        return ResolvedSelection(names if self.shows_names else {}, selection)
