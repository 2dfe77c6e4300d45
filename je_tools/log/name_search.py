"""Name search: names of the databases of a few entries, without reading the whole log."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.log.names import FIXED_NAMES, NamePart, collect_names, resolve, settled_ids

if TYPE_CHECKING:
    from je_tools.log.entry_table import EntryTable
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner

LAST_SIZE = 16 << 20
"""Bytes at the end of the log that are read for names before any are requested."""

_LOCK = threading.Lock()


class NameSearch(Struct):
    """Search for database names that reads the log backward, only as far as needed.

    It finds the same names as the whole log holds: checkpoints write the names of databases anew,
    and of several names the last one counts.

    Attributes:
        environment: the log.
        scanner: options of the scan.
        names: names found so far, by id.
    """

    environment: Environment
    scanner: Scanner
    names: dict[int, str] = field(default_factory=lambda: dict(FIXED_NAMES))
    _unread: int = -1
    _step: int = 1
    _parts: list[NamePart] = field(default_factory=list)
    _settled: set[int] = field(default_factory=lambda: set(FIXED_NAMES))

    def __post_init__(self) -> None:
        self._unread = len(self.environment.files)

    def look_up(self, table: EntryTable) -> None:
        """Find the names of the databases that some entries belong to."""
        is_sure = table.has_db & table.rows.good
        self.look_up_ids(set(np.unique(table.db_id[is_sure]).tolist()))

    def look_up_ids(self, wanted: set[int]) -> None:
        """Find the names of databases by id; ids that the log does not name stay unnamed."""
        while self._unread and not wanted <= self._settled:
            with _LOCK, ThreadPoolExecutor(1) as pool:
                # In another thread: reading here would overwrite rows that this one works on.
                pool.submit(self._read_more).result()

    def read_last(self) -> None:
        """Find the names at the end of the log, where most names that will be requested are."""
        size = 0
        while self._unread and size < LAST_SIZE:
            before = self._unread
            self._read_more()
            size += sum(file.size for file in self.environment.files[self._unread : before])

    def _read_more(self) -> None:
        """Read the names in the files before those read, twice as many files each time.

        A pool of threads costs as much as a small file.
        """
        if not self._unread:
            return
        start = max(self._unread - self._step, 0)
        files = self.environment.files[start : self._unread]
        self._unread, self._step = start, self._step * 2

        some = replace(self.environment, files=files)
        parts = replace(self.scanner, wide=True).scan(some, collect_names)
        self._parts = [each for part in parts for each in part.results] + self._parts
        self.names.update(resolve(self._parts))
        self._settled = settled_ids(self._parts)
