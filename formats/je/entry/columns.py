"""Payloads as columns: the declared fields of many entries as arrays.

The extension runs a `Program` over every entry. No Python object is created per entry: byte strings
stay spans of the source buffer.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.je.entry.programs import Program, program_of, slot_program
from je_tools.formats.je.layout import SLOTS_MAX
from je_tools.formats.je.types import Family

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.files.source import Bytes
    from je_tools.formats.je.log.entry_rows import Rows

COLUMN_FAMILIES = (
    Family.LN,
    Family.TXN_END,
    Family.NODE,
    Family.DEL_DUP_LN,
    Family.DUP_COUNT_LN,
    Family.OLD_DELTA,
    Family.IN_DELETE,
    Family.IN_DUP_DELETE,
)
"""Families that are decoded as columns; entries of other families are few."""

_WITH_SLOTS = (Family.NODE, Family.OLD_DELTA)

MAX_ROWS = 1 << 15
"""Largest number of entries decoded at once, which limits a chunk's columns to about 30 MB."""


class Columns(Struct, frozen=True, dict=True):
    """Decoded fields of entries, or of the items of their lists.

    Attributes:
        program: names of the columns.
        data: the buffer of the spans.
        values: int64 (columns, rows).
        sizes: int64 (byte columns, rows).
        present: int64 (rows,), one bit per column.
    """

    program: Program
    data: Bytes
    values: Ints
    sizes: Ints
    present: Ints

    def number(self, name: str) -> Ints:
        """Return the values of a column; they are arbitrary in rows without the field."""
        values: Ints = self.values[self.program.names.index(name)]
        return values

    @functools.cached_property
    def _present_somewhere(self) -> int:
        return int(np.bitwise_or.reduce(self.present))

    @functools.cached_property
    def _present_everywhere(self) -> int:
        return int(np.bitwise_and.reduce(self.present))

    def is_present(self, name: str) -> Mask:
        """Return a mask of the rows that have a field; a null byte string counts as present."""
        if self.is_complete(name):
            return np.ones(len(self.present), np.bool_)
        return (self.present >> self.program.names.index(name) & 1).astype(np.bool_)

    def is_empty(self, name: str) -> bool:
        """Return True if no row has the field."""
        return not self._present_somewhere >> self.program.names.index(name) & 1

    def is_complete(self, name: str) -> bool:
        """Return True if every row has the field."""
        return bool(self._present_everywhere >> self.program.names.index(name) & 1)

    def span(self, name: str) -> tuple[Ints, Ints]:
        """Return offsets into `data` and lengths of a byte column; length -1 if null or absent."""
        column = self.program.names.index(name)
        sizes = self.sizes[self.program.sized[column]]
        if self.is_complete(name):
            return self.values[column], sizes
        return self.values[column], np.where(self.present >> column & 1, sizes, -1)

    def is_bytes(self, name: str) -> bool:
        """Return True if a column holds byte strings."""
        return self.program.sized[self.program.names.index(name)] >= 0

    def known(self, name: str) -> Ints:
        """Return the values of a column; 0 if the row or the log version lacks the field."""
        if not self.has(name) or self.is_empty(name):
            return np.zeros(len(self.present), np.int64)
        if self.is_complete(name):
            return self.number(name)
        return np.where(self.is_present(name), self.number(name), 0)

    def has(self, name: str) -> bool:
        """Return True if there is a column of this name."""
        return name in self.program.names


class Decoded(Struct, frozen=True):
    """Decoded entries of one family: their fields, their slots, and a mask of failures.

    Attributes:
        fields: one row per entry.
        slots: one row per slot of nodes and old deltas, if all fields are decoded; else None.
        slot_first: int64 (entries + 1,); slots of entry i are [slot_first[i], slot_first[i + 1]).
        bad: bool (entries,); True if the entry ends inside a field or has bytes left over.
    """

    fields: Columns
    slots: Columns | None
    slot_first: Ints
    bad: Mask


def decode(rows: Rows, family: Family, *, wanted: frozenset[str] | None = None) -> Decoded:
    """Decode entries of one family.

    Args:
        rows: at most MAX_ROWS entries.
        family: one of COLUMN_FAMILIES, or any family whose wanted fields are `in_columns`.
        wanted: columns to keep; None, or a set that contains `slots`, for all. Bytes after the
            last of these columns are not read, so bytes left over are not detected.
    """
    at = rows.offset.astype(np.int64) - rows.base
    items = EntryPayloads(rows.data, rows.version, rows.type, at + rows.header_size, at + rows.size)
    return decode_items(items, family, wanted=wanted)


class EntryPayloads(Struct, frozen=True):
    """Payloads of entries of one log version, anywhere in a buffer.

    Attributes:
        data: the buffer.
        version: log version of their files.
        type: uint8 (n,).
        start, stop: int64 (n,); offsets in `data` of each payload and of the end of its entry.
    """

    data: Bytes
    version: int
    type: npt.NDArray[np.uint8]
    start: Ints
    stop: Ints

    def __len__(self) -> int:
        return len(self.type)

    def select(self, index: Ints) -> EntryPayloads:
        """Select payloads by an index array."""
        return EntryPayloads(
            self.data, self.version, self.type[index], self.start[index], self.stop[index]
        )


class ListPrograms(Struct, frozen=True):
    """Programs for the list of a family and for the fields after it.

    Attributes:
        item, tail: programs of the extension.
        count_column: column of the head with the number of items.
        count_max: largest number of items.
    """

    item: _native.Program
    tail: _native.Program
    count_column: int
    count_max: int


class _Programs(Struct, frozen=True):
    """Programs for a family.

    Attributes:
        head: program of the fields before a list, or of all fields.
        fields: columns of entries: those of the head, then those after the list.
        slots: program of the list; None if no list is decoded.
        lists: the same for the extension.
    """

    head: Program
    fields: Program
    slots: Program | None = None
    lists: ListPrograms | None = None


@functools.cache
def _programs(
    family: Family, version: int, wanted: frozenset[str] | None, of_slots: frozenset[str] | None
) -> _Programs:
    head = program_of(family, version, "head", wanted)
    # Below v6 a node is one field, `item`.
    if family not in _WITH_SLOTS or wanted is not None or "slot_count" not in head.names:
        return _Programs(head, head)
    slots = slot_program(family, version, of_slots)
    tail = program_of(family, version, "tail", None)
    count = head.names.index("slot_count")
    lists = ListPrograms(slots.native, tail.native, count, SLOTS_MAX)
    return _Programs(head, _joined(head, tail), slots, lists)


def _joined(head: Program, tail: Program) -> Program:
    """Return one program with the columns of a node before and after its slots."""
    sized = max(head.sized, default=-1) + 1
    return Program(
        head.names + tail.names,
        head.sized + tuple(s if s < 0 else s + sized for s in tail.sized),
        head.op_start,
        head.op_stop,
        head.ops,
    )


def decode_items(
    items: EntryPayloads,
    family: Family,
    *,
    wanted: frozenset[str] | None = None,
    of_slots: frozenset[str] | None = None,
) -> Decoded:
    """Decode payloads anywhere in a buffer.

    Args:
        items: the payloads.
        family: as for `decode`.
        wanted: as for `decode`.
        of_slots: columns of slots to keep; None for all. All bytes of slots are read.
    """
    if wanted is not None and "slots" in wanted:
        wanted = None
    programs = _programs(family, items.version, wanted, of_slots)
    fields, slots, first, bad = _native.decode_columns(
        items, head=programs.head.native, slots=programs.lists, is_whole=wanted is None
    )
    of_slot = None
    if programs.slots is not None and slots is not None:
        of_slot = Columns(programs.slots, items.data, *slots)
    return Decoded(Columns(programs.fields, items.data, *fields), of_slot, first, bad)
