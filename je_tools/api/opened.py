"""An opened log: its paths, its findings so far, and the batches that are still being read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from je_tools.api import arguments as a
from je_tools.api.calls import Call
from je_tools.api.open_batches import OpenBatches
from je_tools.errors import NoLogError, UsageError
from je_tools.log.opening import open_environment

if TYPE_CHECKING:
    from je_tools.findings import Finding


def _opened_name(paths: Sequence[Path]) -> str:
    """Open a log, and return its name.

    Raises:
        NoLogError: there is none; the text names the function for a store of Ignite.
    """
    try:
        return open_environment(paths).name
    except NoLogError as error:
        from je_tools.ignite.store_search import is_of_store

        if error.path is None or not is_of_store(error.path):
            raise
        text = (
            f"{error.path}: a store of Apache Ignite, not a log of JE; je_tools.open_store opens "
            "it, and `je-tools ignite --help` lists the commands"
        )
        raise NoLogError(text, error.path) from error


class OpenedLog(OpenBatches):
    """State that all calls on an opened log share; a context manager."""

    def __init__(
        self, paths: a.Paths | Iterable[a.Paths], *, threads: int = 0, data: str = "show"
    ) -> None:
        self._paths = a.local_paths(paths)
        self._threads = a.at_least("threads", threads, 0) or 0
        self._masking = a.masking_argument(data)
        self._found: dict[Finding, None] = {}
        super().__init__()
        self._name = _opened_name(self._paths)

    @property
    def name(self) -> str:
        """Name of the environment: its path as it was given."""
        return self._name

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings that calls on this object have reported so far, each once, oldest first.

        They cover only what was read: an empty tuple before `verify` does not say that
        the log is intact. `entries` reports while its batches are taken, and judges the whole log
        as `verify` does. With `limit`, `backward` or bounds of LSNs it judges only the files that
        are read to their end, unless `db`, `since` or `until` reads all of the log in advance.
        `records` reports when its batches are exhausted or closed, the other methods when they
        return.
        """
        return tuple(self._found)

    def __repr__(self) -> str:
        return f"<je_tools.EnvironmentReader {self._name!r}>"

    def _call(self) -> Call:
        if self._is_closed:
            raise UsageError(f"{self._name}: this environment is closed; open it again")
        environment = open_environment(self._paths)
        found = self._found
        return Call(environment, self._threads, self._masking, lambda each: found.setdefault(each))
