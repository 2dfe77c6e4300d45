"""Work for a scan: versions of a key, ends of all transactions, number of bad entries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.je.btree.slots import split_two_part_keys
from je_tools.formats.je.entry.columns import MAX_ROWS
from je_tools.formats.je.entry.payloads import PAYLOAD_FAMILIES, payload_of
from je_tools.formats.je.types import ABORT_NO, COMMIT_NO, ENTRY_TYPES, IS_LN, Family, mask_of
from je_tools.formats.spans import Spans, starts_with
from je_tools.log import entry_table as entries
from je_tools.log.records import NO_VLSN
from je_tools.records.version_ends import ScannedTxnEnds, ends_of
from je_tools.records.version_matching import version_digests
from je_tools.records.versions import NON_TRANSACTIONAL, ROLLED_BACK, VersionRows

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.je.entry.identity import Seed
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.parsing import KeyPattern
    from je_tools.recovery.database import Database

_IS_USER_LN = mask_of(
    each.no for each in ENTRY_TYPES.values() if each.family in (Family.LN, Family.DEL_DUP_LN)
)
_HAS_PAYLOAD = mask_of(each.no for each in ENTRY_TYPES.values() if each.family in PAYLOAD_FAMILIES)
_IS_END = mask_of((COMMIT_NO, ABORT_NO))
_KEYS = frozenset({"db_id", "txn_id", "key"})


class RangeVersions(Struct, frozen=True):
    """Result for a range of the log.

    Attributes:
        versions: its versions, each with two digests of LSN and key.
        ends: ends of transactions.
        bad_count: number of entries with a wrong checksum.
    """

    versions: list[tuple[VersionRows, Ints, Ints]]
    ends: ScannedTxnEnds
    bad_count: int


class VersionCollector(Struct, frozen=True):
    """Function that the scan applies to each range.

    Attributes:
        database: the database.
        pattern: the keys.
        next_lsn: LSN after the end of the log.
        seed: secret of the digests.
    """

    database: Database
    pattern: KeyPattern
    next_lsn: int
    seed: Seed

    def __call__(self, rows: Rows) -> RangeVersions:
        """Collect the versions of a range; runs in any thread."""
        types = IS_LN if self.database.is_internal else _IS_USER_LN
        inside = rows.lsn.view(np.uint64) < np.uint64(self.next_lsn)
        counts = rows.good & inside
        chosen = np.flatnonzero(counts & types[rows.type])
        versions: list[tuple[VersionRows, Ints, Ints]] = []
        for first in range(0, len(chosen), MAX_ROWS):
            versions += self._versions(rows.select(chosen[first : first + MAX_ROWS]))
        ends = ends_of(rows, counts & _IS_END[rows.type])
        return RangeVersions(versions, ends, int(np.count_nonzero(inside & ~rows.good)))

    def _versions(self, rows: Rows) -> Iterator[tuple[VersionRows, Ints, Ints]]:
        table = entries.build_table(rows, wanted=_KEYS)
        keys, _ = self._parts(rows, table)
        hits = table.has_db & (table.db_id == self.database.db_id)
        pattern = self.pattern
        hits &= starts_with(keys.data, keys.starts, keys.sizes, pattern.needle, whole=pattern.whole)
        if not hits.any():
            return
        rows = rows.select(np.flatnonzero(hits))
        table = entries.build_table(rows)
        keys, data = self._parts(rows, table)
        first, second = version_digests(rows.lsn, keys, self.seed)
        # Entry positions in the buffer; the results count from the start of each entry.
        start = rows.offset.astype(np.int64) - rows.base
        found = VersionRows(
            lsn=rows.lsn,
            txn_id=np.where(table.has_txn, table.txn_id, 0),
            vlsn=np.where(rows.has_vlsn, rows.vlsn, NO_VLSN),
            time_ms=table.time_ms,
            type=rows.type,
            state=np.where(rows.invisible, ROLLED_BACK, NON_TRANSACTIONAL).astype(np.uint8),
            key_start=(keys.starts - start).astype(np.int32),
            key_size=keys.sizes.astype(np.int32),
            data_start=(data.starts - start).astype(np.int32),
            data_size=data.sizes.astype(np.int32),
        )
        yield found, first, second

    def _parts(self, rows: Rows, table: entries.EntryTable) -> tuple[Spans, Spans]:
        """Return keys and data as an application sees them."""
        keys = Spans(rows.data, table.key_start, table.key_size)
        data = Spans(rows.data, table.data_start, table.data_size)
        if self.database.is_internal:
            return keys, _with_payloads(rows, data)
        if not self.database.has_duplicates or self.database.old_duplicates:
            return keys, data
        first, second = split_two_part_keys(keys)
        deleted = table.data_size < 0
        return first, Spans(second.data, second.starts, np.where(deleted, -1, second.sizes))


def _with_payloads(rows: Rows, data: Spans) -> Spans:
    """Return the data of records; if an entry has fields instead of data, the bytes of these."""
    starts, sizes = data.starts.copy(), data.sizes.copy()
    for row in np.flatnonzero(_HAS_PAYLOAD[rows.type] & (sizes >= 0)).tolist():
        payload = payload_of(rows.entry_bytes(row), rows.version)
        if payload is not None:
            starts[row] = int(rows.offset[row]) - rows.base + payload.start
            sizes[row] = payload.stop - payload.start
    return Spans(data.data, starts, sizes)
