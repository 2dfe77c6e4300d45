"""Survivors: keys that a salvage of some files of a log would bring back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from je_tools.formats.spans import joined_spans
from je_tools.log.names import FIXED_NAMES, NamedDatabase
from je_tools.log.scan_options import WIDE_RANGE
from je_tools.output.files.outputs import scratch_directory
from je_tools.salvage.choice import LnOutcome, Mode
from je_tools.salvage.run import salvage

if TYPE_CHECKING:
    from je_tools.formats.spans import Spans
    from je_tools.log.environment import Environment
    from je_tools.log.scan import Scanner
    from je_tools.salvage.salvaged import Salvage, SalvagedDatabase


GROUP_SIZE = 32 << 20
"""Number of bytes from which a group of keys is complete."""

_KEY_COST = 16
"""Number of bytes in memory for a key besides its own: those of its start and its size."""


class Survivors(Struct, frozen=True):
    """A salvage of the committed records of all databases.

    Attributes:
        salvaged: the salvage.
        described: descriptions of the databases, by id.
    """

    salvaged: Salvage
    described: dict[int, SalvagedDatabase]

    def database(self, db_id: int) -> NamedDatabase | None:
        """Return a database as the entries that name databases describe it; None if none does."""
        return self.salvaged.content.databases.get(db_id)

    def live(self) -> dict[int, NamedDatabase]:
        """Return the databases that no entry shows as removed, except those with fixed names."""
        databases = self.salvaged.content.databases
        return {
            db_id: each
            for db_id, each in databases.items()
            if not each.removed and db_id not in FIXED_NAMES
        }

    def keys(self, db_id: int, *, two_part: bool) -> Iterator[Spans]:
        """Yield the surviving keys of a database, each once and in no order, in groups.

        Args:
            db_id: id of the database.
            two_part: True for the keys of a database with duplicates as they are stored.
        """
        pieces: list[Spans] = []
        size = 0
        for keys in self._pieces(db_id, two_part):
            if not len(keys):
                continue
                # The batches are parts of large buffers, which a copy frees.
            pieces.append(keys.packed())
            size += len(pieces[-1].data) + _KEY_COST * len(keys)
            if size > GROUP_SIZE:
                yield joined_spans(pieces)
                pieces, size = [], 0
        if pieces:
            yield joined_spans(pieces)

    def _pieces(self, db_id: int, two_part: bool) -> Iterator[Spans]:
        one = self.described.get(db_id)
        if one is None:
            return
        salvaged = self.salvaged
        # Keys that `LnReader` does not split are as stored.
        splits = one.database.has_duplicates and not two_part
        for batch in salvaged.batches(one, LnOutcome.TAKEN, has_duplicates=splits):
            yield batch.read().key
        for lost in salvaged.lost_records(db_id):
            keys = lost.dangling.stored if two_part else lost.dangling.records.key
            yield keys.select(lost.comes_back)


def find_survivors(
    environment: Environment,
    scanner: Scanner,
    without: frozenset[int],
    cut: tuple[int, int] | None = None,
    directory: Callable[[], Path] | None = None,
) -> Survivors:
    """Salvage a log without some of its files.

    Args:
        environment: the log.
        scanner: options of the scan.
        without: numbers of the files to leave out.
        cut: number of the last file, and the offset in it where the log ends; None for all of it.
        directory: see `salvage`.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
    """
    files = [file for file in environment.files if file.file_no not in without]
    scanner = replace(scanner, progress=None)
    if cut is not None:
        last, size = cut
        files = [file for file in files if file.file_no <= last]
        files = [replace(f, size=size) if f.file_no == last else f for f in files]
        # Without `cuts` the scan reads a file to its real end, whatever `size` says.
        scanner = replace(scanner, cuts=_cuts([file.size for file in files]))
    found = salvage(
        replace(environment, files=tuple(files)),
        scanner,
        Mode.COMMITTED,
        internal=True,
        directory=directory or scratch_directory(None, environment),
    )
    described = {one.database.db_id: one for one in found.databases(internal=True)}
    return Survivors(found, described)


def _cuts(sizes: Sequence[int]) -> int:
    return max(-(-max(sizes, default=0) // WIDE_RANGE), 1)
