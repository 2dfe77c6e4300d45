"""Adler-32, as a kernel that is fast on entries of some hundred bytes.

Of n bytes b it needs their sum and the sum of (n - i) * b[i]. Both are taken in rows of ROW bytes,
a lane for each place in a row: a lane adds up its bytes, and its own sums before each row. What
the lanes come to is told once a block, so that no row costs a look across the lanes.

Source: RFC 1950, section 8.2.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from je_tools.formats.kernels import kernel, vector_kernel

ROW = 32
"""Bytes that are added at once."""

ROWS_MAX = 23
"""Rows of a block: lanes have 16 bits, and 255 * (0 + 1 + … + 22) is the most that fits."""

_BLOCK = ROW * ROWS_MAX
_ROW_SHIFT = ROW.bit_length() - 1
_BASE = 65521


def _row_sums_code() -> Any:
    """`_row_sums` for numba, with vectors of LLVM: their width is that of no processor."""
    ir: Any = import_module("llvmlite.ir")
    types: Any = import_module("numba.core.types")
    insert: Any = import_module("numba.core.cgutils").get_or_insert_function
    i8, i16, i32, i64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
    row8, row16, row32 = (ir.VectorType(kind, ROW) for kind in (i8, i16, i32))

    def each(kind: Any, values: Any) -> Any:
        return ir.Constant(kind, [ir.Constant(kind.element, value) for value in values])

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        array, start, rows, skipped = arguments
        array = context.make_array(signature.args[0])(context, build, array)

        def row_at(offset: Any) -> Any:
            place = build.bitcast(build.gep(array.data, [offset]), row8.as_pointer())
            return build.load(place, align=1)

        def across(lanes: Any) -> Any:
            name = f"llvm.vector.reduce.add.v{ROW}i32"
            add = insert(build.module, ir.FunctionType(i32, [row32]), name)
            return build.zext(build.call(add, [lanes]), i64)

        none = ir.Constant(row8, ir.Undefined)
        lone = build.insert_element(none, build.trunc(skipped, i8), i32(0))
        from_lane = build.shuffle_vector(lone, none, each(row32, [0] * ROW))
        counts = build.icmp_unsigned(">=", each(row8, range(ROW)), from_lane)
        first = build.select(counts, row_at(start), ir.Constant(row8, None))
        before, head = build.block, build.append_basic_block("rows")
        body, behind = build.append_basic_block("row"), build.append_basic_block("sums")
        first_sums = build.zext(first, row16)
        build.branch(head)

        build.position_at_end(head)
        row_no, sums, prefixes = build.phi(i64), build.phi(row16), build.phi(row16)
        build.cbranch(build.icmp_signed("<", row_no, rows), body, behind)

        build.position_at_end(body)
        offset = build.add(start, build.shl(row_no, i64(_ROW_SHIFT)))
        next_sums = build.add(sums, build.zext(row_at(offset), row16))
        for phi, at_first, then in (
            (row_no, i64(1), build.add(row_no, i64(1))),
            (sums, first_sums, next_sums),
            (prefixes, ir.Constant(row16, None), build.add(prefixes, sums)),
        ):
            phi.add_incoming(at_first, before)
            phi.add_incoming(then, body)
        build.branch(head)

        build.position_at_end(behind)
        wide = build.zext(sums, row32)
        in_row = build.mul(wide, each(row32, range(ROW, 0, -1)))
        of_rows = build.shl(build.zext(prefixes, row32), each(row32, [_ROW_SHIFT] * ROW))
        result = [across(wide), across(build.add(in_row, of_rows))]
        return context.make_tuple(build, signature.return_type, result)

    def typed(_context: Any, buf: Any, _start: Any, _rows: Any, _skipped: Any) -> Any:
        number = types.int64
        return types.UniTuple(number, 2)(buf, number, number, number), generate

    return typed


@vector_kernel(_row_sums_code)
def _row_sums(buf: Any, start: int, rows: int, skipped: int) -> tuple[int, int]:
    """Sum of the bytes of up to ROWS_MAX rows, and the sum of each times its place from the end.

    The first `skipped` bytes of the first row do not count; they are loaded all the same.
    """
    total = 0
    weighted = 0
    for i in range(rows * ROW):
        byte = buf[start + i]
        if i >= skipped:
            total += byte
            weighted += (rows * ROW - i) * byte
    return total, weighted


@kernel
def adler32(buf: Any, start: Any, stop: Any, first_masked: int) -> Any:
    """Adler-32 of the two bytes or more of buf[start:stop].

    Args:
        buf: uint8 array or memoryview.
        start, stop: the span, inside `buf`.
        first_masked: mask through which the second byte is taken before it is summed.
    """
    low = 1 + buf[start]
    high = low
    low += buf[start + 1] & first_masked
    high += low
    at = start + 2
    while at < stop:
        n = min(stop - at, _BLOCK)
        rows = (n + ROW - 1) >> _ROW_SHIFT
        # Rows end with the block, so the first may begin with bytes in front of it.
        skipped = rows * ROW - n
        if at >= skipped:
            total, weighted = _row_sums(buf, at - skipped, rows, skipped)
        else:
            total = 0
            weighted = 0
            for i in range(at, at + n):
                total += buf[i]
                weighted += total
        high = (high + n * low + weighted) % _BASE
        low = (low + total) % _BASE
        at += n
    return high << 16 | low
