"""Filters of records of a write-ahead log, and the selection that they make."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.errors import UsageError
from je_tools.formats.ignite.page_ids import PLACE_BITS
from je_tools.formats.ignite.types import DATA_NOS, NUMBERS, RECORD_TYPES, TYPE_COUNT, Purpose
from je_tools.formats.ignite.versions import node_of, unsigned_node
from je_tools.ignite.caches import parse_id
from je_tools.ignite.key_filter import KeyFilter, parse_keys
from je_tools.log.time_filter import parse_time

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.ignite.record_table import RecordTable
    from je_tools.formats.ignite.walk import RecordRows

_GROUPS = {
    "DATA": DATA_NOS,
    "TX": frozenset({NUMBERS["TX_RECORD"], NUMBERS["MVCC_TX_RECORD"]}),
    "PAGE": frozenset(each.no for each in RECORD_TYPES.values() if each.is_of_page),
    **{
        purpose.name: frozenset(e.no for e in RECORD_TYPES.values() if e.purpose is purpose)
        for purpose in Purpose
    },
}
"""Names of several types."""

_HAS_KEYS = np.isin(np.arange(TYPE_COUNT), [*DATA_NOS, NUMBERS["METASTORE_DATA_RECORD"]])
"""Mask of the types whose rows have keys."""

_POINTER = re.compile(r"(\d{1,18}):(\d{1,10})")
_PAGE = re.compile(r"(.+):(?:0x)?([0-9a-fA-F]{1,16})")
_VERSION = re.compile(r"(-?\d{1,10}):(\d{1,9}):(-?\d{1,19})(?::(\d{1,2}))?")


class RecordFilters(Struct, frozen=True, kw_only=True):
    """Filters, all of which a row must pass; one that is None or empty filters nothing.

    Attributes:
        types: names of record types and of groups of them.
        caches: names or ids of caches and groups.
        partitions: numbers of partitions.
        keys: keys of entries, as `parse_keys` takes them.
        pages: `group:page`, the page in hexadecimal.
        transactions: versions, as `topology:node:order`.
        from_pointer, to_pointer: inclusive bounds, as `segment:offset`.
        since, until: inclusive bounds, as `parse_time` takes them.
    """

    types: Sequence[str] = ()
    caches: Sequence[str] = ()
    partitions: Sequence[int] = ()
    keys: Sequence[str] = ()
    pages: Sequence[str] = ()
    transactions: Sequence[str] = ()
    from_pointer: str | None = None
    to_pointer: str | None = None
    since: str | None = None
    until: str | None = None

    def selection(self) -> RecordSelection:
        """Return the selection that these filters make.

        Raises:
            UsageError: a filter cannot be parsed, or two bounds are in the wrong order.
        """
        first = None if self.from_pointer is None else parse_pointer(self.from_pointer)
        last = None if self.to_pointer is None else parse_pointer(self.to_pointer)
        since = None if self.since is None else parse_time(self.since)
        until = None if self.until is None else parse_time(self.until)
        for low, high, what in ((first, last, ("from", "to")), (since, until, ("since", "until"))):
            if low is not None and high is not None and low > high:  # type: ignore[operator]
                raise UsageError(f"--{what[0]} comes after --{what[1]}: nothing can match")
        return RecordSelection(
            types=_types(self.types) if self.types else None,
            ids=np.array([parse_id(text) for text in self.caches], np.int64),
            partitions=np.array(self.partitions, np.int64),
            keys=parse_keys(self.keys),
            pages=tuple(map(_page, self.pages)),
            transactions=tuple(map(_version, self.transactions)),
            first=first,
            last=last,
            since=since,
            until=until,
        )


class RecordSelection(Struct, frozen=True, kw_only=True):
    """Parsed filters; see `RecordFilters`."""

    types: Mask | None
    ids: Ints
    partitions: Ints
    keys: KeyFilter
    pages: tuple[tuple[int, int], ...]
    transactions: tuple[tuple[int, int, int], ...]
    first: tuple[int, int] | None
    last: tuple[int, int] | None
    since: int | None
    until: int | None

    def wants_segment(self, index: int) -> bool:
        """Return True if records of a segment can match."""
        is_late = self.last is not None and index > self.last[0]
        return not is_late and (self.first is None or index >= self.first[0])

    def of_records(self, rows: RecordRows) -> RecordRows:
        """Select records by type and pointer."""
        keep = np.ones(len(rows), np.bool_)
        segment, offsets = rows.header.segment, rows.columns.offset
        if self.types is not None:
            keep &= self.types[rows.columns.type_no]
        if self.keys:
            keep &= _HAS_KEYS[rows.columns.type_no]
        if self.first is not None and segment == self.first[0]:
            keep &= offsets >= self.first[1]
        if self.last is not None and segment == self.last[0]:
            keep &= offsets <= self.last[1]
        return rows if keep.all() else rows.select(keep)

    def of_rows(self, table: RecordTable) -> RecordTable:
        """Select rows by what they hold."""
        keep = np.ones(len(table), np.bool_)
        columns = table.columns
        if len(self.ids):
            caches, groups = columns["cache_id"], columns["group_id"]
            of_cache = caches.valid & np.isin(caches.values, self.ids)
            keep &= of_cache | (groups.valid & np.isin(groups.values, self.ids))
        if len(self.partitions):
            column = columns["partition"]
            keep &= column.valid & np.isin(column.values, self.partitions)
        if self.keys:
            keep &= self.keys.found_in(table.rows.data, table.key.starts, table.key.sizes)
        if self.pages:
            keep &= self._of_pages(table)
        if self.transactions:
            keep &= self._of_transactions(table)
        times = columns["time_ms"]
        if self.since is not None:
            keep &= times.valid & (times.values >= self.since)
        if self.until is not None:
            keep &= times.valid & (times.values <= self.until)
        return table if keep.all() else table.select(keep)

    def _of_pages(self, table: RecordTable) -> Mask:
        groups, pages = table.columns["group_id"], table.columns["page_id"]
        found = np.zeros(len(table), np.bool_)
        for group, page in self.pages:
            found |= (groups.values == group) & (pages.values & PLACE_BITS == page)
        return found & pages.valid

    def _of_transactions(self, table: RecordTable) -> Mask:
        found = np.zeros(len(table), np.bool_)
        for name in ("near", "version"):
            topology, node, order = (
                table.columns[f"{name}_{part}"] for part in ("topology", "node", "order")
            )
            for wanted in self.transactions:
                found |= (
                    order.valid
                    & (topology.values == wanted[0])
                    & (unsigned_node(node.values) == wanted[1])
                    & (order.values == wanted[2])
                )
        return found


def _types(names: Sequence[str]) -> Mask:
    wanted: set[int] = set()
    for name in names:
        found = NUMBERS.get(name.upper())
        if found is None and name.upper() not in _GROUPS:
            raise UsageError(
                f"no record type is named {name}; groups of types are {', '.join(_GROUPS)}"
            )
        wanted |= _GROUPS[name.upper()] if found is None else {found}
    return np.isin(np.arange(TYPE_COUNT), list(wanted))


def parse_pointer(text: str) -> tuple[int, int]:
    """Return segment and offset of a pointer that a user wrote.

    Raises:
        UsageError: it is no pointer.
    """
    found = _POINTER.fullmatch(text)
    if found is None:
        raise UsageError(f"{text}: a pointer is written SEGMENT:OFFSET, such as 7:65535")
    return int(found[1]), int(found[2])


def _page(text: str) -> tuple[int, int]:
    found = _PAGE.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{text}: a page is written GROUP:PAGE, the page in hexadecimal, such as "
            "mycache:0001000500000002"
        )
    return parse_id(found[1]), int(found[2], 16) & PLACE_BITS


def _version(text: str) -> tuple[int, int, int]:
    found = _VERSION.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{text}: a transaction is written as in the output, TOPOLOGY:NODE:ORDER, such as "
            "406698471:1:1795218469159"
        )
    return int(found[1]), node_of(int(found[2]), int(found[4] or 0)), int(found[3])
