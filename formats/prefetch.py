"""Bytes asked for before they are needed.

Entries that are read in the order of keys lie anywhere in the log, and it takes longer to get at
them than to read them. A kernel that knows where it will read has them on their way meanwhile.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from je_tools.formats.kernels import vector_kernel

LINE = 64
"""Bytes that come from memory at once."""

LINES_MAX = 8
"""Most lines of an entry to ask for: by then the processor sees by itself how reading goes on."""

ROWS_AHEAD = 3
"""How many rows ahead to ask: enough for the way, and no more than can be under way at once."""


def _ask_for_code() -> Any:
    """`ask_for` for numba, by LLVM's prefetch, which loads nothing and faults nowhere."""
    ir: Any = import_module("llvmlite.ir")
    types: Any = import_module("numba.core.types")
    cgutils: Any = import_module("numba.core.cgutils")
    i32, i64 = ir.IntType(32), ir.IntType(64)
    reading, keeping, data = i32(0), i32(3), i32(1)

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        array, start, lines = arguments
        array = context.make_array(signature.args[0])(context, build, array)
        kind = ir.FunctionType(ir.VoidType(), [array.data.type, i32, i32, i32])
        ask = cgutils.get_or_insert_function(build.module, kind, "llvm.prefetch.p0")
        with cgutils.for_range(build, lines) as loop:
            place = build.gep(array.data, [build.add(start, build.mul(loop.index, i64(LINE)))])
            build.call(ask, [place, reading, keeping, data])
        return i64(0)

    def typed(_context: Any, buf: Any, _start: Any, _lines: Any) -> Any:
        number = types.int64
        return number(buf, number, number), generate

    return typed


@vector_kernel(_ask_for_code)
def ask_for(_buf: Any, _start: int, _lines: int) -> int:
    """Have lines from a place on come near; nothing is loaded, be the place outside of `buf`."""
    return 0
