"""Utilization: the obsolete bytes of each file, as in the engine's utilization database.

The engine counts entries as they become obsolete, and logs the counts with each checkpoint. If it
does not know the size of a record, it takes the average. Sizes are computed in 32-bit floats, as
in the engine.

Source: je-log.md "Utilization"; FileSummary.getObsoleteSize and utilization,
UtilizationProfile.populateCache, JE 7.5.11 and 25.3.17.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import asdict

from je_tools.formats.je.internal.cleaner import Expirations, FileSummaryKey, ReservedFile
from je_tools.formats.je.internal.names import EXPIRATION_DB, RESERVED_FILES_DB, UTILIZATION_DB
from je_tools.formats.je.internal.records import InternalRecord, Unreadable, read_record
from je_tools.formats.je.log.summaries import Summaries, read_summaries
from je_tools.formats.je.tuples import TupleError
from je_tools.formats.je.types import IS_LN, IS_NODE

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.recovery.snapshot import Snapshot

_FLOAT = np.float32


class FileSummary(Struct, frozen=True):
    """The engine's counts of a file, in the order of SUMMARY_TOTALS.

    Attributes:
        total_count, total_size: all entries except the file header.
        total_in_count, total_in_size: nodes, including deltas.
        total_ln_count, total_ln_size: records, including those of internal databases.
        max_ln_size: size of the largest record; 0 if unknown.
        obsolete_in_count, obsolete_ln_count: nodes and records that nothing needs any more.
        obsolete_ln_size: bytes of the obsolete records whose size is known.
        obsolete_ln_size_counted: number of these records.
    """

    total_count: int = 0
    total_size: int = 0
    total_in_count: int = 0
    total_in_size: int = 0
    total_ln_count: int = 0
    total_ln_size: int = 0
    max_ln_size: int = 0
    obsolete_in_count: int = 0
    obsolete_ln_count: int = 0
    obsolete_ln_size: int = 0
    obsolete_ln_size_counted: int = 0

    @classmethod
    def of_entries(cls, types: npt.NDArray[np.uint8], sizes: Ints) -> FileSummary:
        """Return the counts of entries of which none is known to be obsolete.

        Args:
            types: uint8; type number of each entry.
            sizes: int64; bytes of each entry.
        """
        is_in, is_ln = IS_NODE[types], IS_LN[types]
        return cls(
            total_count=len(sizes),
            total_size=int(sizes.sum()),
            total_in_count=int(np.count_nonzero(is_in)),
            total_in_size=int(sizes[is_in].sum()),
            total_ln_count=int(np.count_nonzero(is_ln)),
            total_ln_size=int(sizes[is_ln].sum()),
            max_ln_size=int(sizes[is_ln].max(initial=0)),
        )

    def __add__(self, other: FileSummary) -> FileSummary:
        """Return the counts of the entries of both."""
        mine, others = asdict(self), asdict(other)
        sums = {name: mine[name] + others[name] for name in mine}
        return FileSummary(**sums | {"max_ln_size": max(self.max_ln_size, other.max_ln_size)})

    @property
    def counted(self) -> int:
        """Number of entries plus number of obsolete ones; it never decreases."""
        return self.total_count + self.obsolete_in_count + self.obsolete_ln_count

    @property
    def obsolete_size(self) -> int:
        """Bytes that nothing needs, as the engine estimates them.

        Entries that are neither nodes nor records always count as obsolete.
        """
        if self.total_size <= 0:
            return 0
        others = self.total_size - self.total_in_size - self.total_ln_size
        return min(self._obsolete_lns() + self._obsolete_nodes() + others, self.total_size)

    def _obsolete_lns(self) -> int:
        count = min(self.obsolete_ln_count, self.total_ln_count)
        size = min(self.obsolete_ln_size, self.total_ln_size)
        counted = min(self.obsolete_ln_size_counted, count)
        if self.total_ln_count == 0:
            return 0
        rest, of = self.total_ln_size - size, self.total_ln_count - counted
        if count > counted and rest > 0 and of > 0:
            average = _FLOAT(rest) / _FLOAT(of)
            size += int(_FLOAT(count - counted) * average)
        return min(size, self.total_ln_size)

    def _obsolete_nodes(self) -> int:
        if self.total_in_count <= 0:
            return 0
        count = min(self.obsolete_in_count, self.total_in_count)
        return int(_FLOAT(count) * (_FLOAT(self.total_in_size) / _FLOAT(self.total_in_count)))


class Utilization(Struct, frozen=True):
    """Utilization of some bytes, in percent.

    Attributes:
        total_size: number of bytes.
        obsolete_size: bytes of these that nothing needs.
        expired_size: bytes of these that have expired; some of them are obsolete too.
    """

    total_size: int
    obsolete_size: int
    expired_size: int

    @property
    def least(self) -> int:
        """Utilization if no expired bytes are obsolete."""
        return _percent(min(self.obsolete_size + self.expired_size, self.total_size), self)

    @property
    def most(self) -> int:
        """Utilization if all expired bytes are obsolete."""
        return _percent(max(self.obsolete_size, self.expired_size), self)

    @property
    def average(self) -> int:
        """Mean of `least` and `most`."""
        return (self.least + self.most) // 2


def _percent(unused: int, of: Utilization) -> int:
    if of.total_size == 0:
        return 0
    share = _FLOAT(100) * _FLOAT(of.total_size - unused) / _FLOAT(of.total_size)
    return math.floor(float(share) + 0.5)


class StoredSummaries(Struct, frozen=True):
    """File summaries as the utilization database has them.

    Attributes:
        key: key of each record.
        lsn: int64; LSN of each record's entry.
        summaries: summaries that can be read; `row` indexes `key` and `lsn`.
    """

    key: list[bytes]
    lsn: Ints
    summaries: Summaries

    def newest(self) -> Iterator[tuple[int, int, FileSummary]]:
        """Yield number, LSN and newest summary of each file: its first one in key order."""
        known = set()
        for row, totals in zip(self.summaries.row, self.summaries.totals, strict=True):
            try:
                file_no = FileSummaryKey.decode(self.key[row]).file_no
            except TupleError:
                continue
            if file_no not in known:
                known.add(file_no)
                yield file_no, int(self.lsn[row]), FileSummary(*totals.tolist())


def stored_summaries(snapshot: Snapshot) -> StoredSummaries:
    """Read the utilization database; add unreadable nodes and records to `snapshot.faults`."""
    records = list(record_places(snapshot, UTILIZATION_DB))
    lsns = np.array([lsn for _, lsn in records], np.int64)
    summaries = read_summaries(snapshot.image, lsns)
    return StoredSummaries([key for key, _ in records], lsns, summaries)


def file_summaries(snapshot: Snapshot) -> dict[int, FileSummary]:
    """Return the newest summary of each file that has one, by file number.

    Unreadable summaries are left out, and added to `snapshot.faults`.
    """
    return {file_no: summary for file_no, _, summary in stored_summaries(snapshot).newest()}


def reserved_files(snapshot: Snapshot) -> dict[int, ReservedFile]:
    """Return files that have been cleaned and wait for deletion, by number, ascending."""
    typed = internal_records(snapshot, RESERVED_FILES_DB)
    return {each.file_no: each for each in typed if isinstance(each, ReservedFile)}


def expirations(snapshot: Snapshot) -> dict[int, Expirations]:
    """Return the expirations of each file, by file number."""
    typed = internal_records(snapshot, EXPIRATION_DB)
    return {each.file_no: each for each in typed if isinstance(each, Expirations)}


def internal_records(snapshot: Snapshot, name: str) -> Iterator[InternalRecord | Unreadable]:
    """Yield the records of an internal database in key order; none if it is absent."""
    for database in snapshot.databases.values():
        if database.name != name:
            continue
        for batch in snapshot.records(database):
            for row in range(len(batch)):
                data = batch.data[row]
                if data is not None:
                    yield read_record(name, batch.key[row] or b"", data)


def record_places(snapshot: Snapshot, name: str) -> Iterator[tuple[bytes, int]]:
    """Yield keys of an internal database's records, ascending, and the LSNs of their entries."""
    for database in snapshot.databases.values():
        if database.name == name:
            for batch in snapshot.records(database, with_data=False):
                for row, lsn in enumerate(batch.lsn.tolist()):
                    yield batch.key[row] or b"", lsn


def missing_in_use(snapshot: Snapshot) -> list[int]:
    """Return the numbers of files that are missing or empty although the log uses them.

    A file is in use if the engine's counts say so, or if a slot or a fault leads into it.
    """
    there = {file.file_no for file in snapshot.environment.files if file.is_begun}
    expected = there | reserved_files(snapshot).keys()
    stored = stored_summaries(snapshot)
    counted = {
        file_no
        for file_no, _, summary in stored.newest()
        if summary.obsolete_size < summary.total_size
    }
    # The counts themselves may lie in a missing file, and the nodes on the way to them.
    lsns = [*stored.lsn.tolist(), *(fault.lsn for fault in snapshot.faults.damage)]
    last_no = snapshot.end.files[-1].file_no
    places = {lsn >> 32 for lsn in lsns if 0 <= lsn >> 32 < last_no}
    return sorted(counted - expected | places - there)
