"""A finished salvage: its databases, the records that come back, and the records that are lost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.files.image import Image, ImagePart
from je_tools.formats.je.btree.slots import split_two_part_keys
from je_tools.formats.je.internal.names import INTERNAL_PREFIX
from je_tools.log.images import check_image, map_files
from je_tools.log.names import FIXED_NAMES
from je_tools.log.records import bounded_slices
from je_tools.output.encoders.record_lines import OutputDatabase, Typed
from je_tools.recovery.database import NAME_DB
from je_tools.salvage.batches import GradedRecords, LnReader, graded
from je_tools.salvage.choice import Confidence, LnOutcome, Mode
from je_tools.salvage.dangling_rows import DanglingRows

if TYPE_CHECKING:
    from je_tools.core.pace import Pace
    from je_tools.formats.arrays import Mask
    from je_tools.log.environment import Environment
    from je_tools.log.file_scan import FileState
    from je_tools.log.records import UnreadRecords
    from je_tools.salvage.content import Content
    from je_tools.salvage.dangling import DanglingReferences
    from je_tools.salvage.decision import Decision
    from je_tools.salvage.gaps import LogGap
    from je_tools.salvage.lost import Dangling


LOST_ROWS, LOST_BYTES = 1 << 16, 16 << 20
"""Largest numbers of lost records, and of their bytes, that are in memory at once."""


class SalvagedDatabase(Struct, frozen=True):
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
        undecided: number of records left out only because the end of their transaction was not
            found.
        lost: number of records that the log names and that do not come back as they were.
    """

    database: OutputDatabase
    state: str
    is_internal: bool
    kind: str
    has_comparator: bool
    versions: int
    records: dict[Confidence, int]
    apart: int
    undecided: int
    lost: int


class LostPiece(Struct, frozen=True):
    """Some lost records of a database.

    Attributes:
        dangling: the references.
        comes_back: bool; the record is known nevertheless.
        has_older: bool; an older version comes back in its place.
    """

    dangling: DanglingReferences
    comes_back: Mask
    has_older: Mask


class Salvage(Struct, frozen=True, dict=True):
    """A log, and the choice of what comes back from it.

    Attributes:
        environment: the log.
        mode: extent of the salvage.
        internal: True if lost records of internal databases were searched, too.
        content: contents of the log.
        dangling: what the log names and does not hold; None if that was not searched.
        decision: what comes back, and what is lost.
        now_ms: time in ms since 1970; records that have expired by then are left out. None leaves
            out none.
        pace: limit of bytes per second; None for none.
    """

    environment: Environment
    mode: Mode
    internal: bool
    content: Content
    dangling: Dangling | None
    decision: Decision
    now_ms: int | None = None
    pace: Pace | None = None

    @cached_property
    def image(self) -> Image:
        """The files, mapped at the sizes that they had in the scan.

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
            StoppedError: a size differs, or a device failed, so that records may be missing.
        """
        check_image(self.image)

    @property
    def states(self) -> tuple[FileState, ...]:
        """States of the files as they were read."""
        return self.content.states

    @property
    def gaps(self) -> list[LogGap]:
        """Gaps of the log, in log order."""
        return self.decision.gaps

    @cached_property
    def codes(self) -> dict[int, int]:
        """Numbers in `Content.db_ids`, by id, of the databases that have LNs."""
        return {db_id: code for code, db_id in enumerate(self.content.db_ids)}

    @property
    def lost_count(self) -> int:
        """Number of lost records that do not come back as they were.

        Records in erased places are not counted, since an eraser overwrites only obsolete entries.
        Database names are counted only if internal databases are salvaged; otherwise the report
        lists the names whose database is unknown.
        """
        missed = self.decision.lost_counts.missed
        return missed.total() - (0 if self.internal else missed[NAME_DB])

    def databases(self, *, internal: bool = False) -> list[SalvagedDatabase]:
        """Return the databases that have records, lost records or a name in the log.

        Databases that were removed come last, and only in the mode `everything`.

        Args:
            internal: True to include internal databases.
        """
        named = {i for i in self.content.databases if i not in FIXED_NAMES}
        known = named | self.codes.keys() | self.decision.lost.groups()
        described = [self._described(i) for i in sorted(known)]
        wanted = [
            one
            for one in described
            if (one.state != "removed" or self.mode is Mode.EVERYTHING)
            and (internal or not one.is_internal)
        ]
        return sorted(wanted, key=lambda one: one.state == "removed")

    def _described(self, db_id: int) -> SalvagedDatabase:
        counts, lost = self.decision.ln_counts, self.decision.lost_counts
        code = self.codes.get(db_id)
        known, kind = self.content.databases.get(db_id), self.content.kinds.get(db_id)
        name = known.name if known is not None else None
        state = "unnamed" if known is None else "removed" if known.removed else "live"
        records = [0] * len(Confidence) if code is None else counts.records[code].tolist()
        records[Confidence.SLOT_ONLY] = lost.held[db_id]
        has_duplicates = (
            kind.has_duplicates if kind is not None else self._looks_like_duplicates(code)
        )
        is_internal = db_id in FIXED_NAMES or (name or "").startswith(INTERNAL_PREFIX)
        return SalvagedDatabase(
            database=OutputDatabase(
                name, db_id, has_duplicates, self._typed(db_id, name) if is_internal else None
            ),
            state=state,
            is_internal=is_internal,
            kind="known"
            if kind is not None or db_id in FIXED_NAMES
            else "inferred"
            if has_duplicates
            else "guessed",
            has_comparator=kind is not None and kind.has_comparator,
            versions=0 if code is None else int(counts.versions[code]),
            records={grade: records[grade] for grade in Confidence if records[grade]},
            apart=0 if code is None else int(counts.apart[code]),
            undecided=0 if code is None else int(counts.undecided[code]),
            lost=lost.lost[db_id],
        )

    def _typed(self, db_id: int, name: str | None) -> Typed | None:
        """Return the decoder for the records of an internal database."""
        from je_tools.output.encoders.typed_records import typed_of

        return typed_of(FIXED_NAMES.get(db_id, name), lambda records, row: self.image)

    def _looks_like_duplicates(self, code: int | None) -> bool:
        """Return True if the records of a database without descriptor look like duplicates.

        Such records have no data, and their keys end like two-part keys.
        """
        sample = None if code is None else self.decision.samples.get(code)
        if sample is None:
            return False
        grades = np.zeros(len(sample), np.uint8)
        records = LnReader(self.image, False).read(sample.view(np.int64), grades)
        _, data = split_two_part_keys(records.key)
        return bool((records.data.sizes == 0).all() and (data.sizes >= 0).all())

    def batches(
        self,
        one: SalvagedDatabase,
        outcome: LnOutcome,
        confidence: Confidence | None = None,
        *,
        has_duplicates: bool | None = None,
    ) -> Iterator[UnreadRecords[GradedRecords]]:
        """Return batches of the LNs of a database that have an outcome, in log order.

        Args:
            one: the database.
            outcome: the outcome.
            confidence: only LNs with this confidence; None for all.
            has_duplicates: True to split keys as in a database with duplicates; None to do as the
                database is described.

        Raises:
            RefusedError: a temporary file cannot be read.
        """
        code = self.codes.get(one.database.db_id)
        if code is None:
            return
        if has_duplicates is None:
            has_duplicates = one.database.has_duplicates
        reader = LnReader(self.image, has_duplicates, self.now_ms)
        for lsn, size, outcomes in self.decision.chosen.rows(code):
            grades = outcomes & np.uint8(LnOutcome.CONFIDENCE)
            keep = (outcomes & np.uint8(outcome)) != 0
            if confidence is not None:
                keep &= grades == confidence
            yield from reader.batches(lsn.view(np.int64)[keep], size[keep], grades[keep])

    def lost_records(self, db_id: int) -> Iterator[LostPiece]:
        """Yield the lost records of a database, in the order in which they were found.

        Raises:
            RefusedError: a temporary file cannot be read.
        """
        if self.dangling is None:
            return
        for columns in self.decision.lost.rows(db_id):
            *numbers, comes_back, has_older = columns
            rows = DanglingRows(*numbers)
            sizes = np.maximum(rows.stored_size, 0) + np.maximum(rows.data_size, 0)
            for cut in bounded_slices(sizes, LOST_ROWS, LOST_BYTES):
                references = self.dangling.records.references(rows.select(cut))
                yield LostPiece(references, comes_back[cut], has_older[cut])

    def dangling_batches(self, one: SalvagedDatabase) -> Iterator[GradedRecords]:
        """Yield the records of a database that come back from dangling references alone."""
        for piece in self.lost_records(one.database.db_id):
            index = np.flatnonzero(piece.comes_back)
            if len(index):
                grades = np.full(len(index), Confidence.SLOT_ONLY, np.uint8)
                records = piece.dangling.records.select(index)
                yield graded(records, grades).alive_at(self.now_ms)
