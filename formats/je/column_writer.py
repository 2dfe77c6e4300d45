"""Columns to payloads: what `columns` reads, written by the same programs.

One kernel runs twice: first it only counts, and then it writes into an array of the size that was
counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.arrays import Ints, cells_of
from je_tools.formats.je.layout import COMPACT_NULL_OFFSET
from je_tools.formats.je.programs import (
    BYTES,
    CLEAR,
    COMPACT_LSN,
    I64,
    OP_BASE,
    OP_CODING,
    OP_COLUMN,
    OP_HEAD,
    OP_SIZE,
    OP_TESTS,
    OP_WIDTH,
    PACKED,
    SET,
    TEST_COLUMN,
    TEST_OP,
    TEST_OPERAND,
    TEST_PARENT,
    TEST_WIDTH,
    U8,
    Program,
)
from je_tools.formats.kernels import compiled, kernel
from je_tools.formats.packed_kernels import packed_size, write_number, write_packed
from je_tools.formats.source import Bytes, as_plain
from je_tools.formats.spans import Spans

_COMPACT_NULL = COMPACT_NULL_OFFSET


@kernel
def encode_fields(
    buf: Any,
    n: int,
    at: Any,
    types: Any,
    counts: Any,
    firsts: Any,
    op_start: Any,
    op_stop: Any,
    ops: Any,
    values: Any,
    sizes: Any,
    parents: Any,
    writes: int,
    out: Any,
) -> None:
    """Run the programs of `n` entries, each `counts` times: the reverse of `decode_fields`.

    Args:
        buf: the bytes of byte columns.
        n: number of entries.
        at: int64 (n,); where the fields of each begin in `out`, moved behind what was written.
        types: uint8 (n,); selects the program.
        counts: int64 (n,); how many items of the program follow each other.
        firsts: int64 (n,); row of an entry's first item.
        op_start, op_stop, ops: see `columns.decode_fields`.
        values: int64 (columns, rows); numbers, and offsets in `buf` of byte strings.
        sizes: int64 (byte columns, rows); lengths, -1 null.
        parents: int64 (columns, n); columns of the entries that the items belong to.
        writes: 0 to count only.
        out: uint8; looked at only if `writes`.
    """
    for row in range(n):
        cursor = int(at[row])
        type_no = types[row]
        for item in range(counts[row]):
            place = firsts[row] + item
            for op in range(op_start[type_no], op_stop[type_no], OP_WIDTH):
                wanted = True
                for t in range(ops[op + OP_TESTS]):
                    test = op + OP_HEAD + t * TEST_WIDTH
                    tested = ops[test + TEST_COLUMN]
                    operand = ops[test + TEST_OPERAND]
                    kind = ops[test + TEST_OP]
                    of_parent = ops[test + TEST_PARENT]
                    value = parents[tested, row] if of_parent else values[tested, place]
                    if kind == SET:
                        wanted = wanted and value & operand != 0
                    elif kind == CLEAR:
                        wanted = wanted and value & operand == 0
                    else:
                        wanted = wanted and value != operand
                if not wanted:
                    continue
                coding = ops[op + OP_CODING]
                number = values[ops[op + OP_COLUMN], place]
                if coding == PACKED:
                    if writes:
                        cursor = write_packed(out, cursor, number)
                    else:
                        cursor += packed_size(number)
                elif coding == BYTES:
                    size = sizes[ops[op + OP_SIZE], place]
                    length = size if size > 0 else 0
                    if writes:
                        cursor = write_packed(out, cursor, size)
                        for i in range(length):
                            out[cursor + i] = buf[number + i]
                    else:
                        cursor += packed_size(size)
                    cursor += length
                elif coding == U8:
                    if writes:
                        out[cursor] = number & 255
                    cursor += 1
                else:
                    width = 8 if coding == I64 else 4
                    if writes:
                        word = number
                        if coding == COMPACT_LSN:
                            word = _COMPACT_NULL << 8
                            if number != -1:
                                step = (number >> 32) - parents[ops[op + OP_BASE], row]
                                word = (number & _COMPACT_NULL) << 8 | (step & 255)
                        write_number(out, cursor, width, word)
                    cursor += width
        at[row] = cursor


class Part(Struct, frozen=True):
    """What `encode_fields` takes of the fields in front of the slots, of the slots, or behind them.

    Attributes:
        program: which columns there are.
        data: the bytes of byte columns.
        values, sizes: see `encode_fields`.
        counts, firsts: int64 (n,); how many items each entry has, and the row of its first.
    """

    program: Program
    data: Bytes
    values: Ints
    sizes: Ints
    counts: Ints
    firsts: Ints

    @classmethod
    def of(
        cls, program: Program, columns: Mapping[str, Ints | Spans], counts: Ints, firsts: Ints
    ) -> Part:
        """Of columns by name; byte columns lie in one array."""
        values = np.zeros((len(program.names), int(counts.sum())), np.int64)
        sizes = np.full((max(program.sized, default=-1) + 1, values.shape[1]), -1, np.int64)
        data: Bytes = np.frombuffer(b"", np.uint8)
        for place, name in enumerate(program.names):
            column = columns.get(name)
            if isinstance(column, Spans):
                data = column.data
                values[place], sizes[program.sized[place]] = column.starts, column.sizes
            elif column is not None:
                values[place] = column
        return cls(program, data, values, sizes, counts, firsts)


def encode_parts(
    types: npt.NDArray[np.uint8], head: Part, slots: Part, tail: Part, *, fast: bool
) -> Spans:
    """The payloads of entries, behind each other in an array of their own.

    Args:
        types: uint8 (n,); of the entries.
        head: one item an entry.
        slots: what follows it.
        tail: what follows these, one item an entry; maybe of no bytes.
        fast: use compiled kernels.
    """
    ends = np.zeros(len(types), np.int64)
    _run(types, (head, slots, tail), ends, None, fast=fast)
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(ends)))
    out = np.empty(int(starts[-1]), np.uint8)
    _run(types, (head, slots, tail), starts[:-1].copy(), out, fast=fast)
    out.flags.writeable = False
    return Spans(out, starts[:-1], ends)


def _run(
    types: npt.NDArray[np.uint8],
    parts: tuple[Part, Part, Part],
    at: Ints,
    out: Bytes | None,
    *,
    fast: bool,
) -> None:
    """Count, or with `out` write; `at` comes to be behind each entry."""
    run = _compiled if fast else _plain
    into = np.empty(0, np.uint8) if out is None else out
    head = parts[0]
    for part in parts:
        # Fields in front of the slots ask nothing of others.
        parents = np.zeros((1, len(types)), np.int64) if part is head else head.values
        if part.program.names:
            run(types, part, parents, at, int(out is not None), into)


def _compiled(
    types: npt.NDArray[np.uint8], part: Part, parents: Ints, at: Ints, writes: int, out: Bytes
) -> None:
    compiled(encode_fields)(
        part.data,
        len(types),
        at,
        types,
        part.counts,
        part.firsts,
        part.program.op_start,
        part.program.op_stop,
        part.program.ops,
        part.values,
        part.sizes,
        parents,
        writes,
        out,
    )


def _plain(
    types: npt.NDArray[np.uint8], part: Part, parents: Ints, at: Ints, writes: int, out: Bytes
) -> None:
    """The kernel over lists and dicts, which plain Python reads faster than arrays."""
    ends = at.tolist()
    encode_fields(
        as_plain(part.data),
        len(types),
        ends,
        types.tolist(),
        part.counts.tolist(),
        part.firsts.tolist(),
        part.program.op_start.tolist(),
        part.program.op_stop.tolist(),
        part.program.plain_ops,
        cells_of(part.values),
        cells_of(part.sizes),
        cells_of(parents),
        writes,
        as_plain(out),
    )
    at[:] = ends
