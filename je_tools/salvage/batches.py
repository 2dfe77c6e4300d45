"""Batches of records with a confidence each: chosen entries, read a second time and decoded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.errors import StoppedError
from je_tools.formats.je.btree.slots import split_two_part_keys
from je_tools.formats.je.entry.payloads import PAYLOAD_FAMILIES, payload_of
from je_tools.formats.je.expirations import expiration_ms
from je_tools.formats.je.flags import LnFlag2
from je_tools.formats.je.header import lsn_text
from je_tools.formats.je.log.fetch import Entries, fetch
from je_tools.formats.je.types import Family
from je_tools.formats.spans import Spans
from je_tools.log.records import NO_TIME, Note, Records, UnreadRecords, bounded_slices, no_records
from je_tools.salvage.entry_masks import KEYED_VERSION

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.files.image import Image
    from je_tools.formats.je.entry.columns import Columns
    from je_tools.salvage.choice import Grades

_FIELDS = frozenset({"key", "data", "expiration", "modified_ms", "created_ms", "flags2"})


class GradedRecords(Records, frozen=True):
    """Records with a confidence each.

    Attributes:
        confidence: uint8 (n,); a `Confidence`.
    """

    confidence: Grades

    def select(self, keep: npt.NDArray[np.bool_] | Ints | slice) -> GradedRecords:
        """Return the records of a mask, of an index array in its order, or of a slice."""
        return graded(Records.select(self, keep), self.confidence[keep])

    def alive_at(self, now_ms: int | None) -> GradedRecords:
        """Return the records that have not expired at `now_ms`; all records if it is None."""
        if now_ms is None:
            return self
        return self.select((self.expires_ms == NO_TIME) | (self.expires_ms >= now_ms))


def graded(records: Records, confidence: Grades) -> GradedRecords:
    """Return records with a confidence each, uint8 (n,)."""
    return GradedRecords(
        key=records.key,
        data=records.data,
        lsn=records.lsn,
        vlsn=records.vlsn,
        modified_ms=records.modified_ms,
        created_ms=records.created_ms,
        expires_ms=records.expires_ms,
        tombstone=records.tombstone,
        confidence=confidence,
    )


class LnReader(Struct, frozen=True):
    """Reader of the records of one database at given LSNs.

    Attributes:
        image: the log.
        has_duplicates: True if the database has duplicates, so that its keys are split.
        now_ms: time in ms since 1970; records that have expired by then are left out. None leaves
            out none.
    """

    image: Image
    has_duplicates: bool
    now_ms: int | None = None

    def batches(
        self, lsns: Ints, sizes: npt.NDArray[np.int32], confidence: Grades
    ) -> Iterator[UnreadRecords[GradedRecords]]:
        """Yield the records at some LSNs in batches, each of which is read on demand.

        Args:
            lsns: int64 (n,); LSNs of LNs of the database that are records.
            sizes: int32 (n,); size of each entry in bytes.
            confidence: uint8 (n,); a `Confidence` of each record.
        """
        for cut in bounded_slices(sizes):
            read = partial(self._alive, lsns[cut], confidence[cut])
            yield UnreadRecords(read, cut.stop - cut.start, int(sizes[cut].sum()))

    def _alive(self, lsns: Ints, confidence: Grades, _: Note) -> GradedRecords:
        return self.read(lsns, confidence).alive_at(self.now_ms)

    def read(self, lsns: Ints, confidence: Grades) -> GradedRecords:
        """Return the records at LSNs without verifying their checksums, which the scan has done.

        Args:
            lsns: int64 (n,); as for `batches`.
            confidence: uint8 (n,); as for `batches`.

        Raises:
            StoppedError: an LSN no longer has a record entry.
        """
        entries = fetch(self.image, lsns, check=False)
        is_ln = entries.is_family(Family.LN)
        is_there = is_ln if is_ln.all() else entries.is_family(Family.LN, *PAYLOAD_FAMILIES)
        if not is_there.all():
            lsn = int(lsns[np.argmin(is_there)])
            raise StoppedError(
                f"{lsn_text(lsn)}: the entry changed while the log was read: run the command again"
            )
        rows = np.flatnonzero(is_ln)
        found = [
            (some, self._records(entries, some, decoded.fields))
            for some, decoded in entries.decode(Family.LN, rows, wanted=_FIELDS)
        ]
        found += _fielded(entries, np.flatnonzero(~is_ln))
        pieces = [records for _, records in found]
        if not pieces:
            return graded(no_records(), confidence[:0])
        if len(pieces) == 1:
            return graded(pieces[0], confidence[found[0][0]])
        index = np.concatenate([some for some, _ in found])
        return graded(joined(pieces), confidence[index]).select(np.argsort(index))

    def _records(self, entries: Entries, rows: Ints, fields: Columns) -> Records:
        n, version = len(rows), int(entries.version[rows[0]])
        key, data = (
            Spans(fields.data, *fields.span("key")),
            Spans(fields.data, *fields.span("data")),
        )
        if self.has_duplicates and version >= KEYED_VERSION:
            key, data = split_two_part_keys(key)
        flags = fields.known("flags2") if version >= 19 else np.zeros(n, np.int64)
        return Records(
            key,
            data,
            entries.lsn[rows],
            entries.vlsn[rows],
            fields.known("modified_ms"),
            fields.known("created_ms"),
            expiration_ms(fields.known("expiration")),
            (flags & LnFlag2.TOMBSTONE) != 0,
        )


def _fielded(entries: Entries, rows: Ints) -> list[tuple[Ints, Records]]:
    """Return the internal database records that have fields instead of data, one by one."""
    found = []
    for row in rows.tolist():
        at, size = int(entries.position[row]), int(entries.size[row])
        data = entries.image.data
        payload = payload_of(data[at : at + size].tobytes(), int(entries.version[row]))
        if payload is None:
            continue
        some, none = np.array([row]), np.zeros(1, np.int64)
        records = Records(
            Spans(data, none + (at + payload.key_start), none + payload.key_size),
            Spans(data, none + (at + payload.start), none + (payload.stop - payload.start)),
            entries.lsn[some],
            entries.vlsn[some],
            none,
            none,
            none,
            np.zeros(1, np.bool_),
        )
        found.append((some, records))
    return found


def joined(pieces: list[Records]) -> Records:
    """Return batches whose keys and data lie in the same buffers as one batch."""
    numbers = ("lsn", "vlsn", "modified_ms", "created_ms", "expires_ms", "tombstone")
    return Records(
        _joined_spans([piece.key for piece in pieces]),
        _joined_spans([piece.data for piece in pieces]),
        *(np.concatenate([getattr(piece, name) for piece in pieces]) for name in numbers),
    )


def _joined_spans(pieces: list[Spans]) -> Spans:
    return Spans(
        pieces[0].data,
        np.concatenate([piece.starts for piece in pieces]),
        np.concatenate([piece.sizes for piece in pieces]),
    )
