"""A salvage: the log read once, what comes back chosen, written a database a file, and a ledger."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import cast

import numpy as np
from msgspec import Struct

from je_tools.environment import Environment, check_numbers
from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.image import Image, Part
from je_tools.formats.je.slots import split_two_part_keys
from je_tools.images import check_image, map_files, unchanged
from je_tools.memory import give_back_memory
from je_tools.names import FIXED_NAMES
from je_tools.records import Coming
from je_tools.salvage.batches import Graded, Reading, graded
from je_tools.salvage.choice import Choice, Confidence, Mode, choose, grade
from je_tools.salvage.content import DELETED, Content, read_content
from je_tools.salvage.lost import INTERNAL, Lost, find_lost
from je_tools.scan import FileState, Scanner
from je_tools.sinks.record_lines import Marks, Named, Typed
from je_tools.sinks.records import RecordSink, Source, Written, stems_of, write_files

APART = ".unfinished"
"""In the names of files with records of unfinished transactions, in front of the suffix."""

LEDGER, SUMMARY = "ledger.jsonl", "summary.txt"
"""Names of the files beside those of the databases."""

LOOKED_AT = 1000
"""How many records say what a database is like whose descriptor is lost."""


class Described(Struct, frozen=True):
    """A database of which something may come back.

    Attributes:
        database: which.
        state: `live`, `removed` or `unnamed`.
        is_internal: of the engine itself.
        kind: `known` where the log says what it is like, `inferred` where its records do, `guessed`
            where it is taken for one without duplicates.
        has_comparator: an application's code orders it, or tells its keys apart.
        versions: LNs of it in the log.
        records: in the output, by their confidence.
        apart: of unfinished transactions, in a file of their own.
        undecided: those whose transaction may have been committed, and are left out.
        lost: how many are named and do not come back as they were.
    """

    database: Named
    state: str
    is_internal: bool
    kind: str
    has_comparator: bool
    versions: int
    records: dict[Confidence, int]
    apart: int
    undecided: int
    lost: int


class Salvage(Struct, frozen=True, dict=True):
    """A log, and what comes back of it.

    Attributes:
        environment: the log.
        mode: what is taken.
        content: what the log holds.
        lost: what cannot be read, and what is known of it.
        choice: what is taken.
        now_ms: what has expired by then is left out when records are read; None for nothing.
    """

    environment: Environment
    mode: Mode
    content: Content
    lost: Lost
    choice: Choice
    now_ms: int | None = None

    @cached_property
    def image(self) -> Image:
        """The files, as long as they were when they were read.

        Raises:
            StoppedError: one is not what it was.
        """
        return map_files(
            [Part(s.file.path, s.file.file_no, s.file.version, s.size) for s in self.states]
        )

    def check_files(self) -> None:
        """Make sure that all files are as long as they were.

        Raises:
            StoppedError: one is not, or its device failed, so that records may be lacking.
        """
        check_image(self.image)

    @property
    def states(self) -> tuple[FileState, ...]:
        """Of the files, as they were read."""
        return self.content.states

    @cached_property
    def codes(self) -> dict[int, int]:
        """Index by id of those databases of which there are LNs."""
        return {db_id: code for code, db_id in enumerate(self.content.db_ids)}

    @cached_property
    def undecided(self) -> Mask:
        """LNs that are left out, and would not be if the end of their transaction were known."""
        open_ = self.choice.confidence == Confidence.END_NOT_FOUND
        left_out: Mask = open_ & ~self.choice.taken & ~self.choice.apart
        return left_out

    @property
    def lost_count(self) -> int:
        """Records that are named and do not come back as they were, names of databases among them.

        Nobody misses what an eraser has overwritten, of which nothing was needed.
        """
        is_gone = self.content.solid.is_lost(self.lost.named.records.lsn)
        return int(np.count_nonzero(is_gone & ~self.lost.comes_back))

    def databases(self, *, internal: bool = False) -> list[Described]:
        """Databases that have records or a name in the log, live ones first."""
        content = self.content
        named = [i for i in content.databases if i not in FIXED_NAMES or i in self.codes]
        described = [self._described(i) for i in sorted({*named, *self.codes})]
        wanted = [
            one
            for one in described
            if (one.state != "removed" or self.mode is Mode.EVERYTHING)
            and (internal or not one.is_internal)
        ]
        return sorted(wanted, key=lambda one: one.state == "removed")

    def _described(self, db_id: int) -> Described:
        rows = self.rows_of(db_id)
        choice, lost = self.choice, self.lost
        known, kind = self.content.databases.get(db_id), self.content.kinds.get(db_id)
        name = known.name if known is not None else None
        state = "unnamed" if known is None else "removed" if known.removed else "live"
        records = np.bincount(choice.confidence[rows[choice.taken[rows]]], minlength=6)
        is_here = lost.named.db_id == db_id
        records[Confidence.SLOT_ONLY] = np.count_nonzero(is_here & lost.comes_back)
        is_double = kind.has_duplicates if kind is not None else self._looks_double(rows)
        is_internal = db_id in FIXED_NAMES or (name or "").startswith(INTERNAL)
        return Described(
            Named(name, db_id, is_double, self._typed(db_id, name) if is_internal else None),
            state,
            is_internal,
            "known"
            if kind is not None or db_id in FIXED_NAMES
            else "inferred"
            if is_double
            else "guessed",
            kind is not None and kind.has_comparator,
            len(rows),
            {grade: int(records[grade]) for grade in Confidence if records[grade]},
            int(np.count_nonzero(choice.apart[rows])),
            int(np.count_nonzero(self.undecided[rows])),
            int(np.count_nonzero(is_here & ~lost.comes_back)),
        )

    def _typed(self, db_id: int, name: str | None) -> Typed | None:
        """What makes objects of the records of one of the engine's own databases."""
        from je_tools.sinks.typed_records import typed_of

        return typed_of(FIXED_NAMES.get(db_id, name), lambda records, row: self.image)

    def _looks_double(self, rows: Ints) -> bool:
        """Whether records of which nothing is known are those of a database with duplicates.

        They have no data, and their keys end as two-part keys do.
        """
        rows = rows[(self.content.lns.marks[rows] & DELETED) == 0][:LOOKED_AT]
        if not len(rows):
            return False
        plain = Reading(self.image, False)
        grades = self.choice.confidence[rows]
        records = plain.read(self.content.lns.lsn[rows], grades)
        _, data = split_two_part_keys(records.key)
        return bool((records.data.sizes == 0).all() and (data.sizes >= 0).all())

    @cached_property
    def _grouped(self) -> tuple[Ints, Ints]:
        """Index of all LNs by database, and where each database begins in it."""
        db = self.content.lns.db
        # Short numbers are sorted several times faster, and few logs have so many databases.
        codes = db.astype(np.uint16) if len(self.codes) <= 1 << 16 else db
        counts = np.bincount(db, minlength=len(self.codes))
        return np.argsort(codes, kind="stable"), np.concatenate(([0], np.cumsum(counts)))

    def rows_of(self, db_id: int) -> Ints:
        """Index of the LNs of a database, in log order."""
        code = self.codes.get(db_id)
        if code is None:
            return np.empty(0, np.int64)
        rows, first = self._grouped
        return rows[first[code] : first[code + 1]]

    def batches(self, one: Described, mask: Mask) -> Iterator[Coming[Graded]]:
        """The LNs of a database that a mask takes, in log order, as `Graded`."""
        lns = self.content.lns
        rows = self.rows_of(one.database.db_id)
        rows = rows[mask[rows]]
        reading = Reading(self.image, one.database.has_duplicates, self.now_ms)
        return reading.batches(lns.lsn[rows], lns.size[rows], self.choice.confidence[rows])

    def named_batches(self, one: Described) -> Iterator[Graded]:
        """The records of a database that others name and hold, without an entry of their own."""
        named = self.lost.named
        index = np.flatnonzero(self.lost.comes_back & (named.db_id == one.database.db_id))
        if len(index):
            grades = np.full(len(index), Confidence.SLOT_ONLY, np.uint8)
            yield graded(named.records.take(index), grades).alive_at(self.now_ms)


def salvage(
    environment: Environment,
    scanner: Scanner,
    mode: Mode,
    *,
    internal: bool = False,
    now_ms: int | None = None,
) -> Salvage:
    """Read a log, and decide what comes back.

    Args:
        environment: the log; files of it that cannot be opened are holes.
        scanner: how it is read.
        mode: what is taken.
        internal: ask for lost records of the engine's own databases too.
        now_ms: leave out what has expired by then; None to leave out nothing.

    Raises:
        StoppedError: a file shrank, vanished or was replaced meanwhile.
        InputError: a file cannot be read, or two have the same number.
    """
    check_numbers(environment)
    content = read_content(environment, scanner, internal=internal)
    give_back_memory()
    grades = grade(content, _where_ends_may_be(environment, content))
    choice = choose(content, grades, mode, scanner.thread_count())
    lost, choice = find_lost(environment, scanner, content, choice, mode, internal=internal)
    return Salvage(environment, mode, content, lost, choice, now_ms)


def _where_ends_may_be(environment: Environment, content: Content) -> Ints:
    """Where places begin that could not be read, and may hold ends of transactions; sorted."""
    closed = np.array([file.file_no for file in environment.unreadable], np.uint64)
    starts = (closed << np.uint64(32)).view(np.int64)
    return np.sort(np.concatenate((content.solid.ends, starts)))


class Output(Struct, frozen=True):
    """Files of a salvage.

    Attributes:
        records: of each database, in the order of `Salvage.databases`.
        apart: with records of unfinished transactions, of those databases that have any.
    """

    records: list[Written]
    apart: list[Written]


def write(
    salvaged: Salvage, databases: list[Described], sink: RecordSink, directory: Path, known: Path
) -> Output:
    """Write the records of databases, each into a file of its own.

    Args:
        salvaged: what comes back.
        databases: of `Salvage.databases`.
        sink: the form.
        directory: an existing folder, where they are written.
        known: what that is called when all are there.

    Raises:
        RefusedError: a file cannot be written.
        StoppedError: a file of the log is not what it was.
    """
    with unchanged(salvaged.check_files):
        return _write(salvaged, databases, sink, directory, known)


def _write(
    salvaged: Salvage, databases: list[Described], sink: RecordSink, directory: Path, known: Path
) -> Output:
    marks = ["", APART] if any(one.apart for one in databases) else [""]
    stems = stems_of(sink, (one.database for one in databases), marks, (LEDGER, SUMMARY))
    choice = salvaged.choice
    sources = (
        Source(
            one.database,
            chain(salvaged.batches(one, choice.taken), salvaged.named_batches(one)),
        )
        for one in databases
    )
    records = write_files(sink, sources, stems, directory, known)
    unfinished = (
        Source(one.database, salvaged.batches(one, choice.apart))
        for one in databases
        if one.apart
    )
    return Output(records, write_files(sink, unfinished, stems, directory, known, APART))


def confidence_marks() -> Marks:
    """The column that says how sure a record is."""
    labels = tuple(grade.label for grade in Confidence)
    return Marks("confidence", labels, lambda records: cast(Graded, records).confidence)
