"""Salvage runs: read the log, and choose the records that come back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.core.memory import give_back_memory
from je_tools.formats.files.image import Image, ImagePart
from je_tools.formats.je.btree.slots import split_two_part_keys
from je_tools.log.environment import Environment, check_numbers
from je_tools.log.images import check_image, map_files
from je_tools.log.names import FIXED_NAMES
from je_tools.output.encoders.record_lines import Named, Typed
from je_tools.salvage.batches import Graded, LnReader, graded
from je_tools.salvage.choice import Confidence, Mode, RecordChoice, choose, grade
from je_tools.salvage.content import Content, read_content
from je_tools.salvage.lost import INTERNAL, LostEntries, find_lost
from je_tools.salvage.record_versions import DELETED

if TYPE_CHECKING:
    from je_tools.core.pace import Pace
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.log.file_scan import FileState
    from je_tools.log.records import Coming
    from je_tools.log.scan import Scanner


LOOKED_AT = 1000
"""Largest number of records examined to infer the kind of a database whose descriptor is lost."""


class Described(Struct, frozen=True):
    """A database of which something may come back.

    Attributes:
        database: its name, id and kind.
        state: `live`, `removed` or `unnamed`.
        is_internal: True if it is an internal database of the engine.
        kind: `known` if the log describes it, `inferred` if its records show that it has
            duplicates, `guessed` if it is assumed to have none.
        has_comparator: True if application code orders its keys or compares its duplicates.
        versions: number of its LNs in the log.
        records: number of records in the output, by confidence.
        apart: number of records of unfinished transactions, in a file of their own.
        undecided: number of records left out although their transaction may have been committed.
        lost: number of records that are named and do not come back as they were.
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
    """A log, and the choice of what comes back from it.

    Attributes:
        environment: the log.
        mode: extent of the salvage.
        content: contents of the log.
        lost: gaps, and the records that are missing because of them.
        choice: the LNs that come back.
        now_ms: leave out records that have expired by then; None leaves out nothing.
        pace: limit of bytes per second; None for none.
    """

    environment: Environment
    mode: Mode
    content: Content
    lost: LostEntries
    choice: RecordChoice
    now_ms: int | None = None
    pace: Pace | None = None

    @cached_property
    def image(self) -> Image:
        """Map the files at the sizes that they had in the scan.

        Raises:
            StoppedError: a file has changed since.
        """
        image = map_files(
            [ImagePart(s.file.path, s.file.file_no, s.file.version, s.size) for s in self.states]
        )
        image.before_fetch = self.pace.settle if self.pace is not None else None
        return image

    def check_files(self) -> None:
        """Check that all files still have the sizes that they had in the scan.

        Raises:
            StoppedError: one has not, or its device failed, so that records may be missing.
        """
        check_image(self.image)

    @property
    def states(self) -> tuple[FileState, ...]:
        """States of the files as they were read."""
        return self.content.states

    @cached_property
    def codes(self) -> dict[int, int]:
        """Index in `Content.db_ids` by id, of the databases that have LNs."""
        return {db_id: code for code, db_id in enumerate(self.content.db_ids)}

    @cached_property
    def undecided(self) -> Mask:
        """Mask of records left out only because the end of their transaction was not found."""
        open_ = self.choice.confidence == Confidence.END_NOT_FOUND
        is_record = (self.content.lns.marks & DELETED) == 0
        left_out: Mask = open_ & is_record & ~self.choice.taken & ~self.choice.apart
        return left_out

    @property
    def lost_count(self) -> int:
        """Number of named records, database names included, that do not come back as they were.

        Erased places are not counted: an eraser overwrites only obsolete entries.
        """
        is_gone = self.content.readable.is_lost(self.lost.dangling.records.lsn)
        return int(np.count_nonzero(is_gone & ~self.lost.comes_back))

    def databases(self, *, internal: bool = False) -> list[Described]:
        """Return the databases that have records or a name in the log, live ones first."""
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
        is_here = lost.dangling.db_id == db_id
        records[Confidence.SLOT_ONLY] = np.count_nonzero(is_here & lost.comes_back)
        is_double = kind.has_duplicates if kind is not None else self._looks_double(rows)
        is_internal = db_id in FIXED_NAMES or (name or "").startswith(INTERNAL)
        return Described(
            database=Named(
                name, db_id, is_double, self._typed(db_id, name) if is_internal else None
            ),
            state=state,
            is_internal=is_internal,
            kind="known"
            if kind is not None or db_id in FIXED_NAMES
            else "inferred"
            if is_double
            else "guessed",
            has_comparator=kind is not None and kind.has_comparator,
            versions=len(rows),
            records={grade: int(records[grade]) for grade in Confidence if records[grade]},
            apart=int(np.count_nonzero(choice.apart[rows])),
            undecided=int(np.count_nonzero(self.undecided[rows])),
            lost=int(np.count_nonzero(is_here & ~lost.comes_back)),
        )

    def _typed(self, db_id: int, name: str | None) -> Typed | None:
        """Return the decoder for the records of an internal database."""
        from je_tools.output.encoders.typed_records import typed_of

        return typed_of(FIXED_NAMES.get(db_id, name), lambda records, row: self.image)

    def _looks_double(self, rows: Ints) -> bool:
        """Return True if the records of a database without descriptor look like duplicates.

        Such records have no data, and their keys end like two-part keys.
        """
        rows = rows[(self.content.lns.marks[rows] & DELETED) == 0][:LOOKED_AT]
        if not len(rows):
            return False
        plain = LnReader(self.image, False)
        grades = self.choice.confidence[rows]
        records = plain.read(self.content.lns.lsn[rows], grades)
        _, data = split_two_part_keys(records.key)
        return bool((records.data.sizes == 0).all() and (data.sizes >= 0).all())

    @cached_property
    def _grouped(self) -> tuple[Ints, Ints]:
        """Index of all LNs sorted by database, and the start of each database in it."""
        db = self.content.lns.db
        # uint16 is sorted several times faster, and few logs have more than 65536 databases.
        codes = db.astype(np.uint16) if len(self.codes) <= 1 << 16 else db
        counts = np.bincount(db, minlength=len(self.codes))
        return np.argsort(codes, kind="stable"), np.concatenate(([0], np.cumsum(counts)))

    def rows_of(self, db_id: int) -> Ints:
        """Return the index of the LNs of a database, in log order."""
        code = self.codes.get(db_id)
        if code is None:
            return np.empty(0, np.int64)
        rows, first = self._grouped
        return rows[first[code] : first[code + 1]]

    def batches(self, one: Described, mask: Mask) -> Iterator[Coming[Graded]]:
        """Return batches of the LNs of a database that a mask selects, in log order."""
        lns = self.content.lns
        rows = self.rows_of(one.database.db_id)
        rows = rows[mask[rows]]
        reader = LnReader(self.image, one.database.has_duplicates, self.now_ms)
        return reader.batches(lns.lsn[rows], lns.size[rows], self.choice.confidence[rows])

    def dangling_batches(self, one: Described) -> Iterator[Graded]:
        """Yield the records of a database that come back from dangling references alone."""
        named = self.lost.dangling
        index = np.flatnonzero(self.lost.comes_back & (named.db_id == one.database.db_id))
        if len(index):
            grades = np.full(len(index), Confidence.SLOT_ONLY, np.uint8)
            yield graded(named.records.select(index), grades).alive_at(self.now_ms)


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
        environment: the log; files that cannot be opened count as gaps.
        scanner: reads the files.
        mode: extent of the salvage.
        internal: also search for lost records of internal databases.
        now_ms: leave out records that have expired by then; None leaves out nothing.

    Raises:
        StoppedError: a file shrank, vanished or was replaced while it was read.
        InputError: a file cannot be read, or two have the same number.
    """
    check_numbers(environment)
    content = read_content(environment, scanner, internal=internal)
    give_back_memory()
    grades = grade(content, _where_ends_may_be(environment, content))
    choice = choose(content, grades, mode, scanner.thread_count())
    lost, choice = find_lost(environment, scanner, content, choice, mode, internal=internal)
    return Salvage(environment, mode, content, lost, choice, now_ms, scanner.pace)


def _where_ends_may_be(environment: Environment, content: Content) -> Ints:
    """Return starts of unreadable places that may hold ends of transactions, sorted."""
    closed = np.array([file.file_no for file in environment.unreadable], np.uint64)
    starts = (closed << np.uint64(32)).view(np.int64)
    return np.sort(np.concatenate((content.readable.ends, starts)))
