"""Bytes as hexadecimal digits, sixteen at a time."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from je_tools.formats.kernels import kernel, vector_kernel

STEP = 16
"""Bytes that are spelled at once."""

_ABOVE_NINE = ord("a") - ord("0") - 10


def _step_code() -> Any:
    """`_put_step` for numba, with vectors of LLVM."""
    ir: Any = import_module("llvmlite.ir")
    types: Any = import_module("numba.core.types")
    i8, i32, i64 = (ir.IntType(bits) for bits in (8, 32, 64))
    narrow, wide = ir.VectorType(i8, STEP), ir.VectorType(i8, 2 * STEP)

    def each(kind: Any, value: int) -> Any:
        return ir.Constant(kind, [ir.Constant(i8, value)] * kind.count)

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        source, start, target, at = arguments
        source = context.make_array(signature.args[0])(context, build, source)
        target = context.make_array(signature.args[2])(context, build, target)
        place = build.bitcast(build.gep(source.data, [start]), narrow.as_pointer())
        loaded = build.load(place, align=1)
        high = build.lshr(loaded, each(narrow, 4))
        low = build.and_(loaded, each(narrow, 15))
        order = [lane // 2 + STEP * (lane % 2) for lane in range(2 * STEP)]
        lanes = ir.Constant(
            ir.VectorType(i32, 2 * STEP), [ir.Constant(i32, lane) for lane in order]
        )
        digits = build.shuffle_vector(high, low, lanes)
        letters = build.icmp_unsigned(">", digits, each(wide, 9))
        more = build.select(letters, each(wide, _ABOVE_NINE), each(wide, 0))
        text = build.add(build.add(digits, each(wide, ord("0"))), more)
        into = build.bitcast(build.gep(target.data, [at]), wide.as_pointer())
        build.store(text, into, align=1)
        return build.add(at, i64(2 * STEP))

    def typed(_context: Any, buf: Any, _start: Any, out: Any, _at: Any) -> Any:
        number = types.int64
        return number(buf, number, out, number), generate

    return typed


@vector_kernel(_step_code)
def _put_step(buf: Any, start: int, out: Any, at: int) -> int:
    for i in range(STEP):
        high = buf[start + i] // 16
        low = buf[start + i] & 15
        out[at + 2 * i] = high + (48 if high < 10 else 87)
        out[at + 2 * i + 1] = low + (48 if low < 10 else 87)
    return at + 2 * STEP


@kernel
def put_hex(buf: Any, start: int, size: int, out: Any, at: int) -> int:
    """Write the lower-case digits of buf[start:start + size] to `out` from `at` on.

    Returns:
        Where they end.
    """
    i = 0
    while i + STEP <= size:
        at = _put_step(buf, start + i, out, at)
        i += STEP
    while i < size:
        high = buf[start + i] // 16
        low = buf[start + i] & 15
        out[at] = high + (48 if high < 10 else 87)
        out[at + 1] = low + (48 if low < 10 else 87)
        at += 2
        i += 1
    return at
