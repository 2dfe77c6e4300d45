"""Payloads in columns: the declared fields of many entries into arrays, by one kernel.

A `Program` is `layout` of one family and log version turned into a table of numbers that
`decode_fields` steps through for every entry, so the declaration is the only place that knows a
field. No Python object is made per entry: byte strings stay spans of the source buffer.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from je_tools.formats.arrays import Ints, Mask, cells_of
from je_tools.formats.je.layout import COMPACT_NULL_OFFSET, SLOTS_MAX, Coding, Field, Op, layout
from je_tools.formats.je.reader import Rows
from je_tools.formats.je.types import ENTRY_TYPES, Family
from je_tools.formats.kernels import compiled, kernel
from je_tools.formats.packed import load_i32, load_i64, load_u32, read_packed
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

_U8, _I32, _I64 = int(Coding.U8), int(Coding.I32), int(Coding.I64)
_PACKED, _BYTES, _REST = int(Coding.PACKED), int(Coding.BYTES), int(Coding.REST)
_COMPACT_LSN, _BYTES_I32 = int(Coding.COMPACT_LSN), int(Coding.BYTES_I32)
_SET, _CLEAR = int(Op.SET), int(Op.CLEAR)
_COMPACT_NULL = COMPACT_NULL_OFFSET
_I32_LIMIT = 1 << 31

# One operation of a program: these, then for each test _TEST_WIDTH more.
_OP_CODING, _OP_COLUMN, _OP_SIZE, _OP_BASE, _OP_TESTS, _OP_HEAD = range(6)
_TEST_COLUMN, _TEST_PARENT, _TEST_OP, _TEST_OPERAND, _TEST_WIDTH = range(5)
_MAX_TESTS = 2
_OP_WIDTH = _OP_HEAD + _MAX_TESTS * _TEST_WIDTH


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
            of (column, whether it is the parent's, operation, operand).
        values: int64 (columns, rows); numbers, and offsets in `buf` of byte strings.
        sizes: int64 (byte columns, rows); lengths, -1 null.
        present: int64 (rows,); bit c is set where column c holds a value.
        parents: int64 (columns, n); columns of the entries that the items belong to.
        status: int64 (n,); stays 0, or becomes 1 where an entry ends inside a field.
    """
    for row in range(n):
        if row + ROWS_AHEAD < n:
            ask_for(buf, int(at[row + ROWS_AHEAD]), 2)
        if status[row] != 0:
            continue
        cursor = int(at[row])
        stop = int(end[row])
        type_no = types[row]
        for item in range(counts[row]):
            out = firsts[row] + item
            bits = 0
            for op in range(op_start[type_no], op_stop[type_no], _OP_WIDTH):
                wanted = True
                for t in range(ops[op + _OP_TESTS]):
                    test = op + _OP_HEAD + t * _TEST_WIDTH
                    tested = ops[test + _TEST_COLUMN]
                    operand = ops[test + _TEST_OPERAND]
                    kind = ops[test + _TEST_OP]
                    if ops[test + _TEST_PARENT]:
                        value = parents[tested, row]
                    else:
                        value = values[tested, out]
                    if kind == _SET:
                        wanted = wanted and value & operand != 0
                    elif kind == _CLEAR:
                        wanted = wanted and value & operand == 0
                    else:
                        wanted = wanted and value != operand
                if not wanted:
                    continue
                coding = ops[op + _OP_CODING]
                column = ops[op + _OP_COLUMN]
                number = 0
                size = 0
                if coding == _PACKED:
                    number, behind = read_packed(buf, cursor, stop)
                elif coding == _BYTES:
                    size, number = read_packed(buf, cursor, stop)
                    behind = number + (size if size > 0 else 0)
                    if number < 0 or size < -1 or size > stop - number:
                        behind = -1
                elif coding == _U8:
                    behind = cursor + 1
                    if behind <= stop:
                        number = buf[cursor] - 0
                elif coding == _I64:
                    behind = cursor + 8
                    if behind <= stop:
                        number = load_i64(buf, cursor)
                elif coding == _REST:
                    number = cursor
                    size = stop - cursor
                    behind = stop
                elif coding == _COMPACT_LSN:
                    behind = cursor + 4
                    if behind <= stop:
                        word = load_u32(buf, cursor)
                        step = word & 255
                        base_file_no = parents[ops[op + _OP_BASE], row]
                        number = -1
                        if word >> 8 != _COMPACT_NULL:
                            file_no = base_file_no + (step - 256 if step > 127 else step)
                            # A wild base must not lead out of 64 bits, where Python goes on.
                            file_no = (file_no + _I32_LIMIT) % (2 * _I32_LIMIT) - _I32_LIMIT
                            number = file_no << 32 | word >> 8
                elif coding == _I32:
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
                    if ops[op + _OP_SIZE] >= 0:
                        sizes[ops[op + _OP_SIZE], out] = size
            present[out] = bits
            if status[row] != 0:
                break
        at[row] = cursor


@dataclass(frozen=True)
class Program:
    """The fields of a family in one log version, as numbers for `decode_fields`.

    Attributes:
        names: columns, in the order of their numbers.
        sized: for each column its row in `sizes`, or -1 where it holds a number.
        op_start, op_stop, ops: see `decode_fields`.
    """

    names: tuple[str, ...]
    sized: tuple[int, ...]
    op_start: Ints
    op_stop: Ints
    ops: Ints

    @functools.cached_property
    def plain_ops(self) -> list[int]:
        """`ops` for plain Python."""
        numbers: list[int] = self.ops.tolist()
        return numbers


@dataclass(frozen=True)
class Columns:
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


@dataclass(frozen=True)
class Decoded:
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


@dataclass(frozen=True, slots=True)
class Items:
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
    head = _program(family, items.version, "head", wanted)
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
        _slot_program(family, items.version, of_slots), counts, first[:-1], int(first[-1]), fields
    )
    tail = _program(family, items.version, "tail", None)
    ends = run.columns(tail, ones, np.arange(n, dtype=np.int64), n, fields)
    return Decoded(_joined(fields, ends), slots, first, (status != 0) | (at != end))


@functools.cache
def in_columns(family: Family, version: int, wanted: frozenset[str]) -> bool:
    """Whether `decode` gives these fields of a family: numbers or spans at the front of an entry.

    So it is with the ids of most families, of which only COLUMN_FAMILIES decode as a whole.
    """
    parts = _heads(family, version)
    kept = _kept(parts.values(), wanted)
    used = [f for fields in parts.values() for f in _up_to_last(fields, kept)]
    tests = {test.op for f in used for test in f.when}
    codings = {f.coding for f in used}
    return wanted <= set(kept) and codings <= _KNOWN_CODINGS and tests <= _KNOWN_TESTS


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


@dataclass(frozen=True)
class _Run:
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
            status,
        )
        self.at[:], self.status[:], present[:] = at, status, bits
        for array, cells in ((values, found), (sizes, lengths)):
            if cells:
                where = np.array(list(cells), np.int64)
                array[where[:, 0], where[:, 1]] = list(cells.values())


@functools.cache
def _program(family: Family, version: int, part: str, wanted: frozenset[str] | None) -> Program:
    """The program of the head (all before a list), the slots or the tail (all behind) of a family.

    A field that a condition asks for is kept even when it is not wanted.
    """
    parts = {no: fields[part] for no, fields in _family_parts(family, version).items()}
    kept = _kept(parts.values(), wanted)
    read = {no: _up_to_last(fields, kept) for no, fields in parts.items()}
    return _assembled(read, kept, _parent_columns(family, version) if part != "head" else {})


@functools.cache
def _slot_program(family: Family, version: int, wanted: frozenset[str] | None) -> Program:
    """The program of slots, which are read to their ends whatever is kept of them."""
    if wanted is None:
        return _program(family, version, "slots", None)
    parts = {no: fields["slots"] for no, fields in _family_parts(family, version).items()}
    tested = {test.field for fields in parts.values() for f in fields for test in f.when}
    every = _kept(parts.values(), None)
    kept = tuple(name for name in every if name in wanted or name in tested)
    return _assembled(parts, kept, _parent_columns(family, version))


def _assembled(
    parts: dict[int, tuple[Field, ...]], kept: tuple[str, ...], parents: dict[str, int]
) -> Program:
    """The program that reads these fields of each type and keeps some columns."""
    sized = _sized(parts.values(), kept)
    starts, stops = np.zeros(256, np.int64), np.zeros(256, np.int64)
    ops: list[int] = []
    for type_no, fields in parts.items():
        starts[type_no] = len(ops)
        for declared in fields:
            ops += _operation(declared, kept, sized, parents)
        stops[type_no] = len(ops)
    return Program(kept, sized, starts, stops, np.array(ops, np.int64))


@functools.cache
def _family_parts(family: Family, version: int) -> dict[int, dict[str, tuple[Field, ...]]]:
    """Head, slots and tail of each entry type of a family that this log version has."""
    return {
        entry_type.no: _parts(layout(entry_type.no, version))
        for entry_type in ENTRY_TYPES.values()
        if entry_type.family is family
        and entry_type.first_version <= version <= entry_type.last_version
    }


def _heads(family: Family, version: int) -> dict[int, tuple[Field, ...]]:
    return {no: parts["head"] for no, parts in _family_parts(family, version).items()}


def _up_to_last(fields: tuple[Field, ...], kept: tuple[str, ...]) -> tuple[Field, ...]:
    """The fields up to the last one that is kept: what lies behind is not read."""
    last = max((i for i, f in enumerate(fields) if _column_name(f) in kept), default=-1)
    return fields[: last + 1]


def _parts(fields: tuple[Field, ...]) -> dict[str, tuple[Field, ...]]:
    lists = [i for i, declared in enumerate(fields) if declared.coding is Coding.LIST]
    if not lists:
        return {"head": fields, "slots": (), "tail": ()}
    at = lists[0]
    return {"head": fields[:at], "slots": fields[at].fields, "tail": fields[at + 1 :]}


def _column_name(declared: Field) -> str:
    """Compact LSNs become plain ones in columns."""
    return "lsn" if declared.coding is Coding.COMPACT_LSN else declared.name


def _kept(parts: Iterable[tuple[Field, ...]], wanted: frozenset[str] | None) -> tuple[str, ...]:
    names = dict.fromkeys(_column_name(f) for fields in parts for f in fields)
    if wanted is None:
        return tuple(names)
    # What lies behind the last wanted field is not read, so what it depends on is not needed.
    read = [f for fields in parts for f in _up_to_last(fields, tuple(wanted))]
    tested = {test.field for f in read for test in f.when}
    return tuple(n for n in names if n in wanted or n in tested)


def _sized(parts: Iterable[tuple[Field, ...]], kept: tuple[str, ...]) -> tuple[int, ...]:
    with_bytes = {f.name for fields in parts for f in fields if f.coding in _WITH_SIZE}
    sized = [name for name in kept if name in with_bytes]
    return tuple(sized.index(name) if name in with_bytes else -1 for name in kept)


def _parent_columns(family: Family, version: int) -> dict[str, int]:
    names = _program(family, version, "head", None).names
    return {name: column for column, name in enumerate(names)}


def _operation(
    declared: Field, kept: tuple[str, ...], sized: tuple[int, ...], parents: dict[str, int]
) -> list[int]:
    name = _column_name(declared)
    column = kept.index(name) if name in kept else -1
    tests: list[int] = []
    for test in declared.when:
        own = test.field in kept
        at = kept.index(test.field) if own else parents[test.field]
        tests += [at, int(not own), int(test.op), test.operand]
    tests += [0] * (_MAX_TESTS * _TEST_WIDTH - len(tests))
    coding = Coding.BYTES if declared.coding is Coding.TEXT else declared.coding
    size = sized[column] if column >= 0 else -1
    base = parents.get("base_file_no", 0)
    return [int(coding), column, size, base, len(declared.when), *tests]


_WITH_SIZE = (Coding.BYTES, Coding.TEXT, Coding.REST, Coding.BYTES_I32)
_KNOWN_CODINGS = {
    Coding.U8,
    Coding.I32,
    Coding.I64,
    Coding.PACKED,
    Coding.COMPACT_LSN,
    *_WITH_SIZE,
}
_KNOWN_TESTS = {Op.SET, Op.CLEAR, Op.NOT}
