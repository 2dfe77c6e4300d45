"""Payloads in columns: the declared fields of many entries as arrays.

The extension runs a `Program` over every entry. No Python object is made per entry: byte strings
stay spans of the source buffer.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.arrays import Ints, Mask
from je_tools.formats.je.layout import SLOTS_MAX
from je_tools.formats.je.programs import Program, program_of, slot_program
from je_tools.formats.je.reader import Rows
from je_tools.formats.je.types import Family
from je_tools.formats.source import Bytes

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
"""Families that are decoded in columns; entries of the others are few."""

_WITH_SLOTS = (Family.NODE, Family.OLD_DELTA)

MAX_ROWS = 1 << 15
"""Entries decoded at once, so that the columns of a chunk stay within some 30 MB."""


class Columns(Struct, frozen=True, dict=True):
    """Decoded fields of some entries, or of the items of their lists.

    Attributes:
        program: what the columns are.
        data: the bytes that spans point into.
        values: int64 (columns, rows).
        sizes: int64 (byte columns, rows).
        present: int64 (rows,), a bit for each column.
    """

    program: Program
    data: Bytes
    values: Ints
    sizes: Ints
    present: Ints

    def number(self, name: str) -> Ints:
        """The values of a column; where it is absent, anything."""
        values: Ints = self.values[self.program.names.index(name)]
        return values

    @functools.cached_property
    def _present_somewhere(self) -> int:
        return int(np.bitwise_or.reduce(self.present))

    @functools.cached_property
    def _present_everywhere(self) -> int:
        return int(np.bitwise_and.reduce(self.present))

    def is_present(self, name: str) -> Mask:
        """Where a column holds a value; of a byte column also null counts as one."""
        if self.is_complete(name):
            return np.ones(len(self.present), np.bool_)
        return (self.present >> self.program.names.index(name) & 1).astype(np.bool_)

    def is_empty(self, name: str) -> bool:
        """Whether a column holds no value at all."""
        return not self._present_somewhere >> self.program.names.index(name) & 1

    def is_complete(self, name: str) -> bool:
        """Whether a column holds a value in every row."""
        return bool(self._present_everywhere >> self.program.names.index(name) & 1)

    def span(self, name: str) -> tuple[Ints, Ints]:
        """Offsets into `data` and lengths of a byte column; length -1 where null or absent."""
        column = self.program.names.index(name)
        sizes = self.sizes[self.program.sized[column]]
        if self.is_complete(name):
            return self.values[column], sizes
        return self.values[column], np.where(self.present >> column & 1, sizes, -1)

    def is_bytes(self, name: str) -> bool:
        """Whether a column holds byte strings."""
        return self.program.sized[self.program.names.index(name)] >= 0

    def known(self, name: str) -> Ints:
        """The values of a column; 0 where it is absent, also in all of this log version."""
        if not self.has(name) or self.is_empty(name):
            return np.zeros(len(self.present), np.int64)
        if self.is_complete(name):
            return self.number(name)
        return np.where(self.is_present(name), self.number(name), 0)

    def has(self, name: str) -> bool:
        """Whether this log version has such a field."""
        return name in self.program.names


class Decoded(Struct, frozen=True):
    """Entries of one family: their fields, their slots, and which could not be decoded.

    Attributes:
        fields: one row an entry.
        slots: for nodes and old deltas, one row a slot; else None.
        slot_first: int64 (entries + 1,): slots of entry i are [slot_first[i], slot_first[i + 1]).
        bad: bool (entries,): ends inside a field, or bytes are left over.
    """

    fields: Columns
    slots: Columns | None
    slot_first: Ints
    bad: Mask


def decode(rows: Rows, family: Family, *, wanted: frozenset[str] | None = None) -> Decoded:
    """Decode entries that are all of one column family.

    Args:
        rows: at most MAX_ROWS entries.
        family: one of COLUMN_FAMILIES, or any that is `in_columns` as far as is wanted.
        wanted: columns to keep; None, or with `slots` among them, for all. What lies after the
            last of them is not read, and bytes left over are then not noticed.
    """
    at = rows.offset.astype(np.int64) - rows.base
    items = Items(rows.data, rows.version, rows.type, at + rows.header_size, at + rows.size)
    return decode_items(items, family, wanted=wanted)


class Items(Struct, frozen=True):
    """Payloads of entries of one log version, wherever they lie.

    Attributes:
        data: the bytes.
        version: log version of their files.
        type: uint8 (n,).
        start, stop: int64 (n,); where each payload begins in `data`, and where its entry ends.
    """

    data: Bytes
    version: int
    type: npt.NDArray[np.uint8]
    start: Ints
    stop: Ints

    def __len__(self) -> int:
        return len(self.type)


class ListPrograms(Struct, frozen=True):
    """How the lists of a family are read, and what is after them.

    Attributes:
        item, tail: programs of the extension.
        count_column: column of the head that says how many items there are.
        count_max: most of them.
    """

    item: _native.Program
    tail: _native.Program
    count_column: int
    count_max: int


class _Programs(Struct, frozen=True):
    """How a family is decoded.

    Attributes:
        head: of the fields before a list, or of all.
        fields: what the columns of entries are: those of the head, then those after the list.
        slots: of the list; None where none is decoded.
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
    """Return the columns of a node in front of its slots and after them as those of one table."""
    sized = max(head.sized, default=-1) + 1
    return Program(
        head.names + tail.names,
        head.sized + tuple(s if s < 0 else s + sized for s in tail.sized),
        head.op_start,
        head.op_stop,
        head.ops,
    )


def decode_items(
    items: Items,
    family: Family,
    *,
    wanted: frozenset[str] | None = None,
    of_slots: frozenset[str] | None = None,
) -> Decoded:
    """Decode payloads wherever they lie.

    Args:
        items: the payloads.
        family: as for `decode`.
        wanted: as for `decode`.
        of_slots: columns of slots to keep; None for all. All of their bytes are read.
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
