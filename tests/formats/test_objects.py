"""Object files put into memory: those of kernels run, any other is left to who can link."""

from __future__ import annotations

import ctypes
import platform
import struct

import pytest

from je_tools.formats import kernels, machine, objects
from je_tools.formats.kernels import kernel

_IS_KNOWN = platform.machine() == "x86_64" and platform.system() == "Linux"
"""Whether objects are of the form that is put into memory here."""

_SECTION_SIZE = 64


@kernel
def _chosen(number: int) -> int:
    """A table of addresses or of constants is what LLVM makes of it."""
    if number == 1:
        return 1 << 40
    if number == 2:
        return -7
    return number * 3 if number == 3 else number - 1


def _code() -> machine.Code:
    code = machine.build(kernels._for_numba(_chosen), (1,))
    assert code is not None
    return code


def _number_of(code: objects.Placed, argument: int) -> int:
    address = objects.put(code)
    assert address is not None
    result, exception = ctypes.c_int64(), ctypes.c_void_p()
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
        address
    )
    assert function(ctypes.addressof(result), ctypes.addressof(exception), argument) in (0, -2)
    return result.value


def test_code_in_memory_runs() -> None:
    code = _code()
    placed = objects.placed(code.data, code.symbol)
    assert (placed is not None) == _IS_KNOWN
    for number in range(-1, 6) if placed else ():
        assert _number_of(placed, number) == _chosen(number)


def test_without_a_linker_of_its_own_it_runs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "placed", lambda _data, _symbol: None)
    assert [machine.load(_code())((number,)) for number in (1, 3, 9)] == [1 << 40, 9, 8]


def test_where_memory_may_not_run_it_runs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "protect", lambda _address, _size, _protection: False)
    assert machine.load(_code())((2,)) == -7


def test_of_other_objects_nothing_is_made() -> None:
    code = _code()
    assert objects.placed(code.data, "no such function") is None
    assert objects.placed(b"", code.symbol) is None
    for size in range(0, len(code.data), 41):
        # It may still hold all that is needed; it must not fail.
        objects.placed(code.data[:size], code.symbol)
    for at in range(64):
        other = bytearray(code.data)
        other[at] ^= 0x55
        objects.placed(bytes(other), code.symbol)


def test_what_needs_a_linker_is_left_alone() -> None:
    """Data that can be written to, and addresses of other kinds."""
    code = _code()
    at, count = struct.unpack_from("<Q", code.data, 40)[0], 0
    (sections,) = struct.unpack_from("<H", code.data, 60)
    for number in range(sections):
        place = at + number * _SECTION_SIZE
        _, kind, flags, _, offset, size = struct.unpack_from("<IIQQQQ", code.data, place)
        other = bytearray(code.data)
        if flags & 2 and size:
            struct.pack_into("<Q", other, place + 8, flags | 1)
        elif kind == 4 and size:
            (info,) = struct.unpack_from("<Q", code.data, offset + 8)
            struct.pack_into("<Q", other, offset + 8, info & ~0xFFFFFFFF | 2)
        else:
            continue
        count += 1
        assert objects.placed(bytes(other), code.symbol) is None
    assert count or not _IS_KNOWN
