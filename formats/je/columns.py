"""Payloads in columns: the declared fields of many entries into arrays, by one kernel.

`decode_fields` steps through a `Program` for every entry. No Python object is made per entry: byte
strings stay spans of the source buffer.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.arrays import Ints, Mask, cells_of
from je_tools.formats.je.layout import COMPACT_NULL_OFFSET, SLOTS_MAX
from je_tools.formats.je.programs import (
    BYTES,
    CLEAR,
    COMPACT_LSN,
    I32,
    I64,
    OP_BASE,
    OP_CODING,
    OP_COLUMN,
    OP_HEAD,
    OP_SIZE,
    OP_TESTS,
    OP_WIDTH,
    PACKED,
    REST,
    SET,
    TEST_COLUMN,
    TEST_OP,
    TEST_OPERAND,
    TEST_PARENT,
    TEST_WIDTH,
    U8,
    Program,
    program_of,
    slot_program,
)
from je_tools.formats.je.reader import Rows
from je_tools.formats.je.types import Family
from je_tools.formats.kernels import compiled, kernel
from je_tools.formats.packed import SINGLE_BYTE_MAX
from je_tools.formats.packed_kernels import load_i32, load_i64, load_u32, read_packed
from je_tools.formats.prefetch import ROWS_AHEAD, ask_for
from je_tools.formats.source import Bytes, as_plain

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

_COMPACT_NULL = COMPACT_NULL_OFFSET
_SINGLE_BYTE_MAX = SINGLE_BYTE_MAX
_I32_LIMIT = 1 << 31


@kernel
def _holds(value: int, kind: int, operand: int) -> int:
    """1 where a test on a value holds, else 0."""
    if kind == SET:
        return 1 if value & operand != 0 else 0
    if kind == CLEAR:
        return 1 if value & operand == 0 else 0
    return 1 if value != operand else 0


@kernel
def decode_fields(
    buf: Any,
    n: int,
    at: Any,
    end: Any,
    types: Any,
    counts: Any,
    firsts: Any,
    op_start: Any,
    op_stop: Any,
    ops: Any,
    values: Any,
    sizes: Any,
    present: Any,
    parents: Any,
    by_parents: int,
    active: Any,
    status: Any,
) -> None:
    """Run the programs of `n` entries, each `counts` times, over buf[at:end] of each.

    Args:
        buf: the bytes.
        n: number of entries.
        at: int64 (n,); where each begins to be read, moved behind what was read.
        end: int64 (n,); where each ends.
        types: uint8 (n,); selects the program.
        counts: int64 (n,); how many items of the program follow each other.
        firsts: int64 (n,); output row of an entry's first item.
        op_start, op_stop: int64 (256,); each type's program in `ops`.
        ops: int64 (13 k,), 13 for each operation: coding, value column or -1, size column or -1,
            the parent's column with the base file of compact LSNs, number of tests, and two tests
            of (column, whether it is the parent's, operation, operand), those of parents last.
        values: int64 (columns, rows); numbers, and offsets in `buf` of byte strings.
        sizes: int64 (byte columns, rows); lengths, -1 null.
        present: int64 (rows,); bit c is set where column c holds a value.
        parents: int64 (columns, n); columns of the entries that the items belong to.
        by_parents: not 0 where a test is one of the parent's.
        active: int64 (2 k,); for use in here.
        status: int64 (n,); stays 0, or becomes 1 where an entry ends inside a field.
    """
    used = 0
    known_type = -1
    for row in range(n):
        if row + ROWS_AHEAD < n:
            ask_for(buf, int(at[row + ROWS_AHEAD]), 2)
        if status[row] != 0:
            continue
        cursor = int(at[row])
        stop = int(end[row])
        type_no = int(types[row])
        if by_parents != 0 or type_no != known_type:
            # What the parent decides it decides for all items.
            known_type = type_no
            used = 0
            for op in range(op_start[type_no], op_stop[type_no], OP_WIDTH):
                wanted = True
                own = 0
                for t in range(ops[op + OP_TESTS]):
                    test = op + OP_HEAD + t * TEST_WIDTH
                    if ops[test + TEST_PARENT]:
                        value = parents[ops[test + TEST_COLUMN], row]
                        kind = ops[test + TEST_OP]
                        wanted = wanted and _holds(value, kind, ops[test + TEST_OPERAND]) != 0
                    else:
                        own += 1
                if wanted:
                    active[2 * used] = op
                    active[2 * used + 1] = own
                    used += 1
        for item in range(counts[row]):
            out = firsts[row] + item
            bits = 0
            for place in range(used):
                op = active[2 * place]
                wanted = True
                for t in range(active[2 * place + 1]):
                    test = op + OP_HEAD + t * TEST_WIDTH
                    value = values[ops[test + TEST_COLUMN], out]
                    kind = ops[test + TEST_OP]
                    wanted = wanted and _holds(value, kind, ops[test + TEST_OPERAND]) != 0
                if not wanted:
                    continue
                coding = ops[op + OP_CODING]
                column = ops[op + OP_COLUMN]
                number = 0
                size = 0
                if coding in (PACKED, BYTES):
                    behind = cursor + 1
                    number = buf[cursor] - 0 if cursor < stop else 255
                    if number > _SINGLE_BYTE_MAX:
                        number, behind = read_packed(buf, cursor, stop)
                    if coding == BYTES:
                        size = number
                        number = behind
                        behind = number + (size if size > 0 else 0)
                        if number < 0 or size < -1 or size > stop - number:
                            behind = -1
                elif coding == U8:
                    behind = cursor + 1
                    if behind <= stop:
                        number = buf[cursor] - 0
                elif coding == I64:
                    behind = cursor + 8
                    if behind <= stop:
                        number = load_i64(buf, cursor)
                elif coding == REST:
                    number = cursor
                    size = stop - cursor
                    behind = stop
                elif coding == COMPACT_LSN:
                    behind = cursor + 4
                    if behind <= stop:
                        word = load_u32(buf, cursor)
                        step = word & 255
                        base_file_no = parents[ops[op + OP_BASE], row]
                        number = -1
                        if word >> 8 != _COMPACT_NULL:
                            file_no = base_file_no + (step - 256 if step > 127 else step)
                            # A wild base must not lead out of 64 bits, where Python goes on.
                            file_no = (file_no + _I32_LIMIT) % (2 * _I32_LIMIT) - _I32_LIMIT
                            number = file_no << 32 | word >> 8
                elif coding == I32:
                    behind = cursor + 4
                    if behind <= stop:
                        number = load_i32(buf, cursor)
                else:
                    behind = -1
                    if cursor + 4 <= stop:
                        size = load_i32(buf, cursor)
                        number = cursor + 4
                        if 0 <= size <= stop - number:
                            behind = number + size
                if behind < 0 or behind > stop:
                    status[row] = 1
                    break
                cursor = behind
                if column >= 0:
                    values[column, out] = number
                    bits |= 1 << column
                    if ops[op + OP_SIZE] >= 0:
                        sizes[ops[op + OP_SIZE], out] = size
            present[out] = bits
            if status[row] != 0:
                break
        at[row] = cursor


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


def decode(
    rows: Rows, family: Family, *, fast: bool, wanted: frozenset[str] | None = None
) -> Decoded:
    """Decode entries that are all of one column family.

    Args:
        rows: at most MAX_ROWS entries.
        family: one of COLUMN_FAMILIES, or any that is `in_columns` as far as is wanted.
        fast: use compiled kernels.
        wanted: columns to keep; None, or with `slots` among them, for all. What lies behind the
            last of them is not read, and bytes left over are then not noticed.
    """
    at = rows.offset.astype(np.int64) - rows.base
    items = Items(rows.data, rows.version, rows.type, at + rows.header_size, at + rows.size)
    return decode_items(items, family, fast=fast, wanted=wanted)


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


def decode_items(
    items: Items,
    family: Family,
    *,
    fast: bool,
    wanted: frozenset[str] | None = None,
    of_slots: frozenset[str] | None = None,
) -> Decoded:
    """As `decode`, of payloads wherever they lie.

    Args:
        items: the payloads.
        family: as for `decode`.
        fast: as for `decode`.
        wanted: as for `decode`.
        of_slots: columns of slots to keep; None for all. All of their bytes are read.
    """
    if wanted is not None and "slots" in wanted:
        wanted = None
    head = program_of(family, items.version, "head", wanted)
    n = len(items)
    at, end = items.start.copy(), items.stop
    status = np.zeros(n, np.int64)
    run = _Run(items, at, end, status, fast)
    ones = np.ones(n, np.int64)
    fields = run.columns(head, ones, np.arange(n, dtype=np.int64), n, None)
    no_slots = np.zeros(n + 1, np.int64)
    # Below v6 a node is one field, `item`.
    if family not in _WITH_SLOTS or wanted is not None or not fields.has("slot_count"):
        over = at != end if wanted is None else np.zeros(n, np.bool_)
        return Decoded(fields, None, no_slots, (status != 0) | over)
    # A slot takes at least two bytes, so a wild count cannot size anything by itself.
    counts = np.clip(fields.number("slot_count"), 0, np.minimum((end - at) // 2, SLOTS_MAX))
    status[(counts != fields.number("slot_count")) & (status == 0)] = 1
    counts[status != 0] = 0
    first = np.concatenate(([0], np.cumsum(counts)))
    slots = run.columns(
        slot_program(family, items.version, of_slots), counts, first[:-1], int(first[-1]), fields
    )
    tail = program_of(family, items.version, "tail", None)
    ends = run.columns(tail, ones, np.arange(n, dtype=np.int64), n, fields)
    return Decoded(_joined(fields, ends), slots, first, (status != 0) | (at != end))


def _joined(head: Columns, tail: Columns) -> Columns:
    """The columns of a node in front of its slots and behind them as one table."""
    width, sized = len(head.program.names), len(head.sizes)
    program = Program(
        head.program.names + tail.program.names,
        head.program.sized + tuple(s if s < 0 else s + sized for s in tail.program.sized),
        head.program.op_start,
        head.program.op_stop,
        head.program.ops,
    )
    return Columns(
        program,
        head.data,
        np.concatenate((head.values, tail.values)),
        np.concatenate((head.sizes, tail.sizes)),
        head.present | tail.present << width,
    )


class _Run(Struct, frozen=True):
    """The entries of one `decode`, and how far each has been read."""

    items: Items
    at: Ints
    end: Ints
    status: Ints
    fast: bool

    def columns(
        self,
        program: Program,
        counts: Ints,
        firsts: Ints,
        total: int,
        parent: Columns | None,
    ) -> Columns:
        n = len(self.items)
        values = np.zeros((len(program.names), total), np.int64)
        sizes = np.zeros((max(program.sized, default=-1) + 1, total), np.int64)
        present = np.zeros(total, np.int64)
        parents = np.zeros((1, n), np.int64) if parent is None else parent.values
        run = self._compiled if self.fast else self._plain
        run(program, counts, firsts, values, sizes, present, parents)
        return Columns(program, self.items.data, values, sizes, present)

    def _compiled(
        self,
        program: Program,
        counts: Ints,
        firsts: Ints,
        values: Ints,
        sizes: Ints,
        present: Ints,
        parents: Ints,
    ) -> None:
        compiled(decode_fields)(
            self.items.data,
            len(self.items),
            self.at,
            self.end,
            self.items.type,
            counts,
            firsts,
            program.op_start,
            program.op_stop,
            program.ops,
            values,
            sizes,
            present,
            parents,
            int(program.asks_parents),
            np.empty(2 * len(program.ops) // OP_WIDTH, np.int64),
            self.status,
        )

    def _plain(
        self,
        program: Program,
        counts: Ints,
        firsts: Ints,
        values: Ints,
        sizes: Ints,
        present: Ints,
        parents: Ints,
    ) -> None:
        """The kernel over lists and dicts, which plain Python reads faster than arrays."""
        at, status, bits = self.at.tolist(), self.status.tolist(), present.tolist()
        found: dict[tuple[int, int], int] = {}
        lengths: dict[tuple[int, int], int] = {}
        decode_fields(
            as_plain(self.items.data),
            len(self.items),
            at,
            self.end.tolist(),
            self.items.type.tolist(),
            counts.tolist(),
            firsts.tolist(),
            program.op_start.tolist(),
            program.op_stop.tolist(),
            program.plain_ops,
            found,
            lengths,
            bits,
            cells_of(parents),
            int(program.asks_parents),
            [0] * (2 * len(program.ops) // OP_WIDTH),
            status,
        )
        self.at[:], self.status[:], present[:] = at, status, bits
        for array, cells in ((values, found), (sizes, lengths)):
            if cells:
                where = np.array(list(cells), np.int64)
                array[where[:, 0], where[:, 1]] = list(cells.values())
