"""Entries of a range of a log file as columns, and the summary of those without rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.je import header as h
from je_tools.formats.je.entry.entries import decode_entry
from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.header import EntryError
from je_tools.formats.je.log import walk as w

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.je.log.segments import Segments


def lsns_of(file_no: int, offsets: Ints) -> Ints:
    """Return the LSNs of int64 offsets in a file, int64: negative from file 0x80000000 on."""
    lsns: Ints = offsets | np.int64(file_no) << np.int64(32)
    return lsns


class RangeSummary(Struct, frozen=True):
    """Summary of some entries.

    Attributes:
        counts: int64 (256,); number of entries of each type, including damaged ones.
        bad: number of damaged entries.
        flags: flags that any entry has.
        first, last: offsets of the first and the last good entry, NO_OFFSET for none.
    """

    counts: Ints
    bad: int
    flags: int
    first: int
    last: int

    @property
    def good(self) -> int:
        """Number of entries that are not damaged."""
        return int(self.counts.sum()) - self.bad


class WantedEntries(Struct, frozen=True):
    """Entries that are wanted as rows; the others are only summarized.

    The decision covers some megabytes of log at a time: if an entry in them is wanted or damaged,
    all their rows are returned. Otherwise they are part of `Rows` without a row, which have a
    summary and a tally.

    Attributes:
        types: bool (256,); types that are wanted.
        flags: flags, any of which makes an entry wanted.
        is_tallied: True to tally entries that are not wanted, by type.
        programs: `steps.programs` of user records, to tally their keys and values too.
    """

    types: Mask
    flags: int = 0
    is_tallied: bool = False
    programs: tuple[Ints, Ints, Ints] | None = None


class WatchedEntries(Struct, frozen=True):
    """Entries whose offsets are noted, whether or not they are returned as rows.

    Attributes:
        types: bool (256,); types of which some entries are noted in each batch.
        allowed: uint8 (256,); flags that an entry of each type may have. Every entry with another
            flag is noted.
    """

    types: Mask
    allowed: npt.NDArray[np.uint8]


class Rows(Struct, frozen=True):
    """Entries of one file as columns; element i of each array is the i-th entry.

    Attributes:
        file_no: number in the file's name.
        version: log version of the file.
        data: uint8 array with the bytes of these entries; valid until the thread that read it
            reads again.
        base: offset in the file of data[0].
        offset, prev_offset, stored_checksum: uint32.
        item_size: int32, header not counted.
        vlsn: int64, -1 if none is stored.
        type, flags, header_size, checksum: uint8; `checksum` holds `walk.Checksum`.
        surveyed: value of `survey`, if it is known already.
        tallied: lines of a `tally.Tally`, if they are known already.
        segments: segments of all transactions of a range, if these are its last rows and the
            segments were asked for.

    If its entries are not wanted (`WantedEntries`), it has no rows, and `survey` summarizes entries
    that are not in the columns.
    """

    file_no: int
    version: int
    data: Bytes
    base: int
    offset: npt.NDArray[np.uint32]
    prev_offset: npt.NDArray[np.uint32]
    stored_checksum: npt.NDArray[np.uint32]
    item_size: npt.NDArray[np.int32]
    vlsn: Ints
    type: npt.NDArray[np.uint8]
    flags: npt.NDArray[np.uint8]
    header_size: npt.NDArray[np.uint8]
    checksum: npt.NDArray[np.uint8]
    surveyed: RangeSummary | None = None
    tallied: tuple[Ints, Ints] | None = None
    segments: Segments | None = None

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def survey(self) -> RangeSummary:
        """Summary of the entries."""
        if self.surveyed is not None:
            return self.surveyed
        any_flags = int(np.bitwise_or.reduce(self.flags, initial=0))
        counts = np.bincount(self.type, minlength=256)
        good = self.offset[self.good]
        first, last = good[[0, -1]].tolist() if len(good) else (w.NO_OFFSET, w.NO_OFFSET)
        return RangeSummary(counts, len(self) - len(good), any_flags, first, last)

    @property
    def lsn(self) -> Ints:
        """Log sequence numbers, as `lsns_of`."""
        return lsns_of(self.file_no, self.offset.astype(np.int64))

    def lsn_at(self, offset: int) -> int:
        """Return the LSN of an offset in the file, as in `lsn`."""
        return int(np.int64(self.file_no) << np.int64(32)) | offset

    @property
    def size(self) -> Ints:
        """Size of each entry, header included, int64."""
        return self.item_size.astype(np.int64) + self.header_size

    @property
    def good(self) -> Mask:
        """Mask of the entries that are not known to be damaged."""
        right: Mask = self.checksum != w.Checksum.BAD
        return right

    @property
    def invisible(self) -> Mask:
        """Mask of the entries that a rollback has made invisible."""
        marked: Mask = (self.flags & h.invisible_mask(self.version)) != 0
        return marked

    @property
    def replicated(self) -> Mask:
        """Mask of the entries that are part of the replication stream."""
        marked: Mask = (self.flags & HeaderFlag.REPLICATED.value) != 0
        return marked

    @property
    def has_vlsn(self) -> Mask:
        """Mask of the entries whose header has a VLSN."""
        long: Mask = self.header_size == h.MAX_HEADER_SIZE
        return long

    @property
    def provisional(self) -> npt.NDArray[np.uint8]:
        """Index into `header.PROVISIONAL_NAMES`, uint8."""
        before_end = (self.flags & HeaderFlag.PROVISIONAL_BEFORE_CKPT_END.value) != 0
        whole = (self.flags & HeaderFlag.PROVISIONAL_YES.value) != 0
        return np.where(whole, 2, before_end).astype(np.uint8)

    def select(self, keep: npt.NDArray[Any]) -> Rows:
        """Select rows by a mask, or by an index array in its order."""
        columns = {name: getattr(self, name)[keep] for name in w.COLUMN_NAMES}
        return Rows(self.file_no, self.version, self.data, self.base, **columns)

    def without_damaged(self) -> Rows:
        """Return the entries that are not known to be damaged; the same object if all are."""
        good = self.good
        return self if good.all() else self.select(good)

    def size_of(self, row: int) -> int:
        """Return the size of one entry, header included, without computing the others."""
        return int(self.item_size[row]) + int(self.header_size[row])

    def entry_bytes(self, row: int) -> bytes:
        """Return the bytes of one whole entry."""
        start = int(self.offset[row]) - self.base
        return self.data[start : start + self.size_of(row)].tobytes()

    def fields(self, row: int) -> Mapping[str, Any]:
        """Return the fields of one entry's payload; empty if it does not decode."""
        try:
            return decode_entry(self.entry_bytes(row), self.version).fields
        except EntryError:
            return {}
