"""Names of the databases that a few entries belong to, without reading the whole log for them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from je_tools.entries import EntryTable
from je_tools.environment import Environment
from je_tools.formats.je.reader import Rows
from je_tools.names import FIXED_NAMES, NamePart, collect_names, resolve, settled_ids
from je_tools.scan import Scanner

LAST_SIZE = 16 << 20
"""Bytes of the end of the log that are read for names before any are asked for."""

_LOCK = threading.Lock()


class NameSearch(Struct):
    """Reads the log from its last file backwards, no further than names are asked for.

    What it finds is what the whole log tells: checkpoints write the names of databases anew, and
    of several names the last one counts.

    Attributes:
        environment: the log.
        scanner: how it is read.
        names: by id, those that were found; grows.
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
        """Find the names of some databases; those that the log does not tell stay away."""
        while self._unread and not wanted <= self._settled:
            with _LOCK, ThreadPoolExecutor(1) as pool:
                # In a thread of its own: this one may be in the middle of a range it has read.
                pool.submit(self._read_more).result()

    def read_last(self) -> None:
        """Find what the end of the log tells, and so, mostly, all that will be asked for."""
        size = 0
        while self._unread and size < LAST_SIZE:
            before = self._unread
            self._read_more()
            size += sum(file.size for file in self.environment.files[self._unread : before])

    def _read_more(self) -> None:
        """Twice as many files each time: a pool of threads costs as much as a small file."""
        if not self._unread:
            return
        start = max(self._unread - self._step, 0)
        files = self.environment.files[start : self._unread]
        self._unread, self._step = start, self._step * 2

        def collect(rows: Rows) -> NamePart:
            return collect_names(rows)

        some = replace(self.environment, files=files)
        parts = replace(self.scanner, wide=True).scan(some, collect)
        self._parts = [told for part in parts for told in part.results] + self._parts
        self.names.update(resolve(self._parts))
        self._settled = settled_ids(self._parts)
