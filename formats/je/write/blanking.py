"""Blank entries: the same entries without what records hold, for engines before log version 17.

Those engines know no erased entries. In a blank entry all byte strings are zeros: keys, prefixes,
data, embedded data, those of the version before, and Bloom filters. Type, sizes, flags, LSNs, ids,
counts and times stay, so every reader finds the same entries, and the checksum is right.

Source: je-log.md "Logs before version 17"; LNLogEntry, IN.writeToLog, DupKeyData, JE 7.5.11.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.je.entry.columns import MAX_ROWS, EntryPayloads, decode_items
from je_tools.formats.je.entry.programs import slot_program
from je_tools.formats.je.header import invisible_mask
from je_tools.formats.je.types import ENTRY_TYPES, Family, mask_of
from je_tools.formats.spans import Spans, are_zero

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.entry.columns import Columns
    from je_tools.formats.je.log.entry_rows import Rows

_FAMILIES = {
    family: mask_of(each.no for each in ENTRY_TYPES.values() if each.family is family)
    for family in (Family.LN, Family.NODE, Family.OLD_DELTA)
}
"""Families whose entries can be blank, with their types: the only fields that are byte strings in
them hold keys or data."""

_KEYS = frozenset({"key", "identifier_key", "abort_key"})
"""Byte strings that are two-part keys in a database with duplicates."""

_NONE = np.empty(0, np.int64)


class Blanking(Struct, frozen=True, dict=True):
    """Byte ranges of entries that hold keys or data.

    Attributes:
        rows: the entries.
        ranges: the ranges, ascending, none of them empty; of `rows.data`.
        first: int64 (n + 1,); the ranges of entry i are [first[i], first[i + 1]).
        is_unknown: bool (n,); entries whose payload does not decode, and which have no ranges.
    """

    rows: Rows
    ranges: Spans
    first: Ints
    is_unknown: Mask

    @functools.cached_property
    def is_blank(self) -> Mask:
        """Mask of the entries all of whose ranges are zeros."""
        shown = np.concatenate((np.zeros(1, np.int64), np.cumsum(~are_zero(self.ranges))))
        blank: Mask = (shown[self.first[1:]] == shown[self.first[:-1]]) & ~self.is_unknown
        return blank

    def checksums(self) -> npt.NDArray[np.uint32]:
        """Return the checksums of the entries as they will be when their ranges hold zeros."""
        return blank_checksums(
            Spans(self.rows.data, _starts(self.rows), self.rows.size),
            self.rows.version,
            self.ranges,
            self.first,
        )


def blank_checksums(
    entries: Spans, version: int, ranges: Spans | None = None, first: Ints = _NONE
) -> npt.NDArray[np.uint32]:
    """Return the checksum of each entry as it will be when its ranges hold zeros.

    Args:
        entries: whole entries.
        version: log version.
        ranges: ranges of the same buffer; None for none, which gives the present checksums.
        first: as in `Blanking`.

    Raises:
        ValueError: a range leaves its entry.
    """
    summed_flags = 0xFF & ~invisible_mask(version)
    if ranges is None:
        ranges = Spans(entries.data, _NONE, _NONE)
    return _native.blank_sums(entries, ranges, first, summed_flags=summed_flags)


def are_blank_keys(keys: Spans, *, two_part: bool) -> Mask:
    """Return a mask of the keys that are as in blank entries: zeros, except for a length.

    Args:
        keys: keys of records; none is null.
        two_part: True for keys of a database with duplicates.
    """
    sizes = keys.sizes.copy()
    if two_part:
        _drop_split(keys, None, sizes, np.arange(len(sizes)))
    return are_zero(Spans(keys.data, keys.starts, sizes))


def blanking_of(rows: Rows, duplicates_ids: Ints) -> Blanking:
    """Return the byte ranges of entries that hold keys or data.

    A two-part key ends with the length of its first part, which is not in its range: it stays.

    Args:
        rows: LNs of records, INs, BINs and BIN-deltas with right checksums, in the order of a file.
        duplicates_ids: int64, ascending; ids of the databases with duplicates. Keys of others
            count as having one part, unless data is embedded with them.
    """
    unknown = np.zeros(len(rows), np.bool_)
    parts: list[tuple[Ints, Ints]] = [(_NONE, _NONE)]
    for family, is_family in _FAMILIES.items():
        wanted = np.flatnonzero(is_family[rows.type])
        for start in range(0, len(wanted), MAX_ROWS):
            at = wanted[start : start + MAX_ROWS]
            found, bad = _ranges(rows.select(at), family, duplicates_ids)
            parts += found
            unknown[at] = bad
    starts = np.concatenate([start for start, _ in parts])
    sizes = np.concatenate([size for _, size in parts])
    order = np.argsort(starts, kind="stable")
    starts, sizes = starts[order], sizes[order]
    ends = _starts(rows) + rows.size
    first = np.concatenate((np.zeros(1, np.int64), np.searchsorted(starts, ends)))
    return Blanking(rows, Spans(rows.data, starts, sizes), first, unknown)


def _starts(rows: Rows) -> Ints:
    """Return offsets of entries in `rows.data`."""
    starts: Ints = rows.offset.astype(np.int64) - rows.base
    return starts


def _ranges(
    rows: Rows, family: Family, duplicates_ids: Ints
) -> tuple[list[tuple[Ints, Ints]], Mask]:
    """Return the ranges of entries of one family, and a mask of entries that do not decode."""
    at = _starts(rows)
    decoded = decode_items(
        EntryPayloads(rows.data, rows.version, rows.type, at + rows.header_size, at + rows.size),
        family,
        of_slots=_slot_columns(family, rows.version),
    )
    two_part = np.isin(decoded.fields.number("db_id"), duplicates_ids)
    found = list(_of_columns(decoded.fields, two_part, ~decoded.bad))
    if decoded.slots is not None:
        counts = np.diff(decoded.slot_first)
        of_slots = np.repeat(two_part, counts), np.repeat(~decoded.bad, counts)
        found += _of_columns(decoded.slots, *of_slots)
    return found, decoded.bad


@functools.cache
def _slot_columns(family: Family, version: int) -> frozenset[str] | None:
    """Return the columns of slots that decide what to blank; None for a family without slots."""
    if family is Family.LN:
        return None
    every = slot_program(family, version, None)
    texts = {name for name, size in zip(every.names, every.sized, strict=True) if size >= 0}
    return frozenset({*texts, "state"})


def _of_columns(columns: Columns, two_part: Mask, wanted: Mask) -> Iterator[tuple[Ints, Ints]]:
    """Yield starts and sizes of the byte strings of some rows, column by column."""
    for name in columns.program.names:
        if not columns.is_bytes(name) or columns.is_empty(name):
            continue
        starts, sizes = columns.span(name)
        if name in _KEYS:
            sizes = sizes.copy()
            if columns.has("state"):
                _drop_lengths(columns, starts, sizes, np.flatnonzero(~two_part), with_states=True)
            _drop_lengths(columns, starts, sizes, np.flatnonzero(two_part), with_states=False)
        kept = np.flatnonzero((sizes > 0) & wanted)
        yield starts[kept], sizes[kept]


def _drop_lengths(
    columns: Columns, starts: Ints, sizes: Ints, rows: Ints, *, with_states: bool
) -> None:
    """Take the length at the end of two-part keys out of their sizes.

    Args:
        columns: columns of entries or slots.
        starts, sizes: the keys; `sizes` is changed.
        rows: rows to check.
        with_states: True if the state of a slot says whether its key has two parts.
    """
    keys = Spans(columns.data, starts[rows], sizes[rows])
    _drop_split(keys, columns.known("state")[rows] if with_states else None, sizes, rows)


def _drop_split(keys: Spans, states: Ints | None, sizes: Ints, rows: Ints) -> None:
    """Set the sizes of keys that have two parts to those of both parts together."""
    key, data = _native.split_keys(keys, states)
    is_split = data >= 0
    sizes[rows[is_split]] = key[is_split] + data[is_split]
