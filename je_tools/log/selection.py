"""Selection of entries: filters on headers first, then on payloads if needed.

A filter on payloads decodes only the fields it needs, and only of entries that pass the filters
on headers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.errors import UsageError
from je_tools.formats.je.internal.names import INTERNAL_PREFIX
from je_tools.formats.je.types import mask_of
from je_tools.formats.spans import contains
from je_tools.log.entry_table import EntryTable, build_table
from je_tools.log.time_filter import TIME_COLUMNS, TimeIndex, Window

if TYPE_CHECKING:
    from je_tools.formats.arrays import Mask
    from je_tools.formats.je.log.entry_rows import Rows
    from je_tools.log.parsing import KeyPattern

_KEY_FIELDS = TIME_COLUMNS | {"key", "data"}
_EARLIER_FIELDS = ("abort_key", "abort_data", "data_as_key")
"""Fields with an earlier version of a record or a duplicate's value; searches include them."""

NAMED = 12
"""Largest number of databases that an error names."""


class Selection(Struct, frozen=True):
    """Filters, all of which an entry must pass; one that is None or empty filters nothing.

    Attributes:
        types: entry type numbers.
        from_lsn, to_lsn, from_vlsn, to_vlsn: inclusive bounds.
        replicated: only entries of the replication stream.
        db_ids, txn_ids: databases and transactions.
        keys: patterns of which an LN's key must match one.
        greps: byte strings of which one must be in an LN's key or data, current or earlier; in
            other entries, anywhere in the item.
        window: time of writing, which needs `times`.
        times: times of the whole log.
    """

    types: frozenset[int] | None = None
    from_lsn: int | None = None
    to_lsn: int | None = None
    from_vlsn: int | None = None
    to_vlsn: int | None = None
    replicated: bool = False
    db_ids: frozenset[int] | None = None
    txn_ids: frozenset[int] | None = None
    keys: tuple[KeyPattern, ...] = ()
    greps: tuple[bytes, ...] = ()
    window: Window | None = None
    times: TimeIndex | None = None

    @property
    def needs_times(self) -> bool:
        """True if `times` must be given."""
        return self.window is not None

    @property
    def bounds_lsns(self) -> bool:
        """True if some files may hold nothing that is selected."""
        return self.from_lsn is not None or self.to_lsn is not None

    @property
    def needs_payloads(self) -> bool:
        """True if headers alone cannot decide."""
        has_ids = self.db_ids is not None or self.txn_ids is not None
        return has_ids or self.needs_times or bool(self.keys or self.greps)

    def file_is_wanted(self, file_no: int) -> bool:
        """Return whether any LSN of a file can pass."""
        first, last = file_no << 32, file_no << 32 | 0xFFFFFFFF
        too_early = self.from_lsn is not None and last < self.from_lsn
        return not too_early and (self.to_lsn is None or first <= self.to_lsn)

    def of_headers(self, rows: Rows) -> Rows:
        """Return the rows that pass the filters on headers."""
        mask = np.ones(len(rows), np.bool_)
        if self.types is not None:
            mask &= mask_of(self.types)[rows.type]
        if self.replicated:
            mask &= rows.replicated
        lsn = rows.lsn.view(np.uint64)
        for bound, values, at_least in (
            (self.from_lsn, lsn, True),
            (self.to_lsn, lsn, False),
            (self.from_vlsn, rows.vlsn, True),
            (self.to_vlsn, rows.vlsn, False),
        ):
            if bound is not None:
                mask &= values >= bound if at_least else values <= bound
        if self.from_vlsn is not None or self.to_vlsn is not None:
            mask &= rows.has_vlsn
        return rows if mask.all() else rows.select(np.flatnonzero(mask))

    def of_payloads(self, rows: Rows) -> Rows:
        """Return the rows that pass the filters on payloads."""
        if not self.needs_payloads or not len(rows):
            return rows
        wanted = _KEY_FIELDS.union(_EARLIER_FIELDS) if self.greps else _KEY_FIELDS
        table = build_table(rows, wanted=wanted)
        mask = self._ids(table)
        if self.keys:
            mask &= _any_of(key.found_in(table) for key in self.keys)
        if self.greps:
            mask &= _any_of(_grep(table, needle) for needle in self.greps)
        if self.needs_times:
            if self.times is None:
                raise ValueError("a selection by time needs the times of the log")
            mask &= self.times.is_inside(table)
        return rows if mask.all() else rows.select(np.flatnonzero(mask))

    def _ids(self, table: EntryTable) -> Mask:
        mask = np.ones(len(table), np.bool_)
        if self.db_ids is not None:
            mask &= table.has_db & np.isin(table.db_id, list(self.db_ids))
        if self.txn_ids is not None:
            mask &= table.has_txn & np.isin(table.txn_id, list(self.txn_ids))
        return mask


def _any_of(masks: Iterable[Mask]) -> Mask:
    found: Mask = np.logical_or.reduce(list(masks))
    return found


def _grep(table: EntryTable, needle: bytes) -> Mask:
    rows = table.rows
    found = contains(rows.data, table.key_start, table.key_size, needle)
    found |= contains(rows.data, table.data_start, table.data_size, needle)
    found |= _grep_earlier(table, needle)
    others = (table.key_size < 0) & (table.data_size < 0)
    start = rows.offset.astype(np.int64) - rows.base + rows.header_size
    size = np.where(others, rows.item_size, -1).astype(np.int64)
    return found | contains(rows.data, start, size, needle)


def _grep_earlier(table: EntryTable, needle: bytes) -> Mask:
    """Return a mask of the entries with `needle` in an earlier version or a duplicate's value."""
    found = np.zeros(len(table), np.bool_)
    for part in table.parts:
        columns = part.decoded.fields
        for name in filter(columns.has, _EARLIER_FIELDS):
            starts, sizes = columns.span(name)
            sizes = np.where(part.decoded.bad, -1, sizes)
            found[part.index] |= contains(columns.data, starts, sizes, needle)
    return found


def database_ids(
    wanted: Iterable[str], names: Mapping[int, str], *, must_exist: bool = True
) -> frozenset[int]:
    """Return ids of databases given by name, by id, or as `id:7` if a name is a number too.

    Raises:
        UsageError: the log has no such database, and one `must_exist`; the message names those
            that it has.
    """
    ids: set[int] = set()
    for text in wanted:
        found = {id_ for id_, name in names.items() if name == text}
        number = re.fullmatch(r"(?:id:)?(-?[0-9]+)", text)
        if not found and number:
            found = {int(number[1])}
        if not found and must_exist:
            known = sorted(
                {name for name in names.values() if not name.startswith(INTERNAL_PREFIX)}
            )
            more = f" and {len(known) - NAMED:,} more" if len(known) > NAMED else ""
            listed = ", ".join(known[:NAMED]) + more or "none by name"
            raise UsageError(f"--db {text}: not in this log, which has: {listed}")
        ids |= found
    return frozenset(ids)
