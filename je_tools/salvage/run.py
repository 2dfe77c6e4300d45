"""A salvage: the log read once, what comes back chosen, written a database a file, and a ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np

from je_tools.environment import Environment
from je_tools.errors import StoppedError
from je_tools.formats.arrays import Ints
from je_tools.formats.image import Image, Part
from je_tools.names import FIXED_NAMES
from je_tools.salvage.batches import Graded, Reading, graded
from je_tools.salvage.choice import Choice, Confidence, Mode, choose, grade
from je_tools.salvage.content import Content, read_content
from je_tools.salvage.lost import INTERNAL, Lost, find_lost
from je_tools.scan import Scanner
from je_tools.sinks.record_lines import Named
from je_tools.sinks.records import RecordSink, Source, Written, write_files

APART = ".unfinished"
"""In the names of files with records of unfinished transactions, in front of the suffix."""


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What has been done for one database.

    Attributes:
        database: which.
        state: `live`, `removed` or `unnamed`.
        is_internal: of the engine itself.
        kind_known: whether the log says what it is like; else it is written as a plain one.
        has_comparator: an application's code orders it, or tells its keys apart.
        versions: LNs of it in the log.
        counts: records in the output by their confidence.
        deleted: records whose newest version is a deletion.
        written: its file; None where it has none.
        apart: its file with records of unfinished transactions; None where it has none.
    """

    database: Named
    state: str
    is_internal: bool
    kind_known: bool
    has_comparator: bool
    versions: int
    deleted: int
    counts: dict[Confidence, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Salvage:
    """A log, and what comes back of it.

    Attributes:
        environment: the log.
        mode: what is taken.
        content: what the log holds.
        lost: what cannot be read, and what is known of it.
        choice: what is taken.
        fast: compiled kernels are used.
    """

    environment: Environment
    mode: Mode
    content: Content
    lost: Lost
    choice: Choice
    fast: bool

    def databases(self, *, internal: bool) -> list[Salvaged]:
        """Databases that have records or a name in the log, live ones first."""
        content = self.content
        codes = {db_id: code for code, db_id in enumerate(content.db_ids)}
        known = [i for i in content.databases if i not in FIXED_NAMES or i in codes]
        versions = np.bincount(content.lns.db, minlength=len(codes))
        found = []
        for db_id in dict.fromkeys([*sorted(known), *sorted(codes)]):
            code = codes.get(db_id)
            one = self._database(db_id, int(versions[code]) if code is not None else 0)
            is_wanted = one.state != "removed" or self.mode is Mode.EVERYTHING
            if is_wanted and (internal or not one.is_internal):
                found.append(one)
        return sorted(found, key=lambda one: one.state == "removed")

    def _database(self, db_id: int, versions: int) -> Salvaged:
        known = self.content.databases.get(db_id)
        kind = self.content.kinds.get(db_id)
        name = known.name if known is not None else None
        state = "unnamed" if known is None else "removed" if known.removed else "live"
        return Salvaged(
            Named(name, db_id, kind is not None and kind.has_duplicates),
            state,
            db_id in FIXED_NAMES or (name or "").startswith(INTERNAL),
            kind is not None,
            kind is not None and kind.has_comparator,
            versions,
            0,
        )


def salvage(
    environment: Environment, scanner: Scanner, mode: Mode, *, internal: bool = False
) -> Salvage:
    """Read a log, and decide what comes back.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read.
    """
    fast = scanner.is_fast(environment.size)
    content = read_content(environment, scanner)
    grades = grade(content, content.solid.ends)
    choice = choose(content, grades, mode, scanner.thread_count(), fast=fast)
    lost, choice = find_lost(environment, scanner, content, choice, mode, internal=internal)
    return Salvage(environment, mode, content, lost, choice, fast)


def write(
    salvaged: Salvage, databases: list[Salvaged], sink: RecordSink, directory: Path, known: Path
) -> list[tuple[Salvaged, Written]]:
    """Write the records of databases, each into a file of its own.

    Args:
        salvaged: what comes back.
        databases: of `Salvage.databases`.
        sink: the form.
        directory: an existing folder, where they are written.
        known: what that is called when all are there.
    """
    names = [one.database for one in databases]
    image = _image(salvaged)
    sources = _sources(salvaged, databases, image, salvaged.choice.taken)
    written = write_files(sink, sources, names, directory, known)
    return list(zip(databases, written, strict=True))


def _sources(
    salvaged: Salvage, databases: list[Salvaged], image: Image, taken: np.ndarray
) -> Iterator[Source]:
    content, choice = salvaged.content, salvaged.choice
    codes = {db_id: code for code, db_id in enumerate(content.db_ids)}
    for one in databases:
        reading = Reading(image, one.database.has_duplicates, salvaged.fast)
        rows = _rows_of(content, codes.get(one.database.db_id), taken)
        lns = content.lns
        batches = reading.batches(lns.lsn[rows], lns.size[rows], choice.confidence[rows])
        yield Source(one.database, chain(batches, named_batches(salvaged, one.database)))


def named_batches(salvaged: Salvage, database: Named) -> Iterator[Graded]:
    """The records of a database that slots and entries hold, and no entry of their own."""
    lost = salvaged.lost
    index = np.flatnonzero(lost.comes_back & (lost.named.db_id == database.db_id))
    if not len(index):
        return
    records = lost.named.records.take(index)
    yield graded(records, np.full(len(index), Confidence.SLOT_ONLY, np.uint8))


def _rows_of(content: Content, code: int | None, taken: np.ndarray) -> Ints:
    if code is None:
        return np.empty(0, np.int64)
    return np.flatnonzero(taken & (content.lns.db == code))


def _image(salvaged: Salvage) -> Image:
    """The files, as long as they were when they were read."""
    states = salvaged.content.states
    parts = [Part(s.file.path, s.file.file_no, s.file.version, s.size) for s in states]
    try:
        return Image(parts)
    except OSError as error:
        name = error.filename or salvaged.environment.name
        raise StoppedError(f"{name}: {error.strerror}") from error
