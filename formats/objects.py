"""Object files put into memory as code that runs, without a linker.

What LLVM makes of a kernel is one relocatable object. Where it has no more than code, constants and
absolute addresses, as LLVM's large code model for x86-64 has it, there is little to do: sections go
behind each other, and each address has where they are added. Of any other object `placed` makes
nothing, and who asked for it has to find another way.

Source: System V ABI, ELF-64 object files; its AMD64 supplement, relocations.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import struct

from msgspec import Struct

from je_tools.formats.mapping import ANONYMOUS, map_at, protect, unmap

LIBRARY_CALLS = ("memcpy", "memset", "memmove")
"""What code may call that is not its own: every process has it."""

_MAGIC = b"\x7fELF\x02\x01\x01"
_RELOCATABLE, _X86_64 = 1, 62
_PROGRAM, _SYMBOLS, _ADDENDS, _ZEROS, _NO_ADDENDS = 1, 2, 4, 8, 9
_WRITABLE, _LOADED, _OF_THREADS = 0x1, 0x2, 0x400
_ABSOLUTE_64 = 1
_ELSEWHERE = 0

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ADDEND = struct.Struct("<QQq")
_ADDRESS = struct.Struct("<Q")


class Placed(Struct, frozen=True):
    """Code and constants as they are to be in memory, but for addresses.

    Attributes:
        content: bytes from the beginning of a page on.
        entry: where in them the function begins that was asked for.
        inside: places of 8-byte addresses, and what they point at in `content`.
        calls: places of 8-byte addresses, and the function of LIBRARY_CALLS that is meant.
    """

    content: bytes
    entry: int
    inside: tuple[tuple[int, int], ...]
    calls: tuple[tuple[int, str], ...]


class _OtherObjectError(Exception):
    """An object of which nothing can be made here."""


def placed(data: bytes, symbol: str) -> Placed | None:
    """An object's sections behind each other.

    Args:
        data: of the object file.
        symbol: name of the function that is to be called.

    Returns:
        None for another form of object, one for another machine, or one that needs a linker.
    """
    try:
        return _Object(data).placed(symbol.encode())
    except (_OtherObjectError, struct.error, IndexError, ValueError):
        return None


def put(code: Placed) -> int | None:
    """Code in memory of its own, for good.

    Returns:
        The address of its function; None where the system does not let it run.
    """
    size = len(code.content)
    base = map_at(0, size, mmap.PROT_READ | mmap.PROT_WRITE, ANONYMOUS)
    if base is None:
        return None
    content = bytearray(code.content)
    for at, target in code.inside:
        _ADDRESS.pack_into(content, at, base + target)
    for at, name in code.calls:
        _ADDRESS.pack_into(content, at, _address_of(name))
    ctypes.memmove(base, bytes(content), size)
    if not protect(base, size, mmap.PROT_READ | mmap.PROT_EXEC):
        unmap(base, size)
        return None
    return base + code.entry


@functools.cache
def _address_of(name: str) -> int:
    return int(ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0)


class _Object:
    """An object file, as far as it has been read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        magic, kind, machine, _, _, _, at, _, _, _, _, size, count, _ = _HEADER.unpack_from(data)
        if not magic.startswith(_MAGIC) or (kind, machine) != (_RELOCATABLE, _X86_64):
            raise _OtherObjectError
        if size != _SECTION.size:
            raise _OtherObjectError
        self.sections = [_SECTION.unpack_from(data, at + size * i) for i in range(count)]
        self.starts: dict[int, int] = {}

    def placed(self, symbol: bytes) -> Placed:
        content = self._loaded()
        entry = None
        for number in self._of_kind(_SYMBOLS):
            names = self.sections[number][6]
            for name, _, _, section, value, _ in self._records(number, _SYMBOL):
                if section in self.starts and self._name(names, name) == symbol:
                    entry = self.starts[section] + value
        if entry is None:
            raise _OtherObjectError
        inside: list[tuple[int, int]] = []
        calls: list[tuple[int, str]] = []
        for number in self._of_kind(_ADDENDS):
            if self.sections[number][7] in self.starts:
                self._relocate(number, len(content), inside, calls)
        if any(self.sections[number][7] in self.starts for number in self._of_kind(_NO_ADDENDS)):
            raise _OtherObjectError
        return Placed(bytes(content), entry, tuple(inside), tuple(calls))

    def _loaded(self) -> bytearray:
        """The bytes of all sections that are to be in memory."""
        content = bytearray()
        for number, section in enumerate(self.sections):
            _, kind, flags, _, offset, size, _, _, alignment, _ = section
            if not flags & _LOADED:
                continue
            if size and (kind not in (_PROGRAM, _ZEROS) or flags & (_WRITABLE | _OF_THREADS)):
                raise _OtherObjectError
            if alignment > mmap.PAGESIZE or (kind == _PROGRAM and offset + size > len(self.data)):
                raise _OtherObjectError
            content += bytes(-len(content) % max(alignment, 1))
            self.starts[number] = len(content)
            content += self.data[offset : offset + size] if kind == _PROGRAM else bytes(size)
        return content

    def _relocate(
        self,
        number: int,
        size: int,
        inside: list[tuple[int, int]],
        calls: list[tuple[int, str]],
    ) -> None:
        _, _, _, _, _, _, link, target, _, _ = self.sections[number]
        symbols, names = list(self._records(link, _SYMBOL)), self.sections[link][6]
        for offset, info, addend in self._records(number, _ADDEND):
            at = self.starts[target] + offset
            if info & 0xFFFFFFFF != _ABSOLUTE_64 or at + _ADDRESS.size > size:
                raise _OtherObjectError
            name, _, _, section, value, _ = symbols[info >> 32]
            if section in self.starts:
                inside.append((at, self.starts[section] + value + addend))
                continue
            called = self._name(names, name).decode(errors="replace")
            if section != _ELSEWHERE or called not in LIBRARY_CALLS or addend:
                raise _OtherObjectError
            calls.append((at, called))

    def _of_kind(self, kind: int) -> list[int]:
        return [i for i, section in enumerate(self.sections) if section[1] == kind]

    def _records(self, number: int, form: struct.Struct) -> list[tuple[int, ...]]:
        offset, size = self.sections[number][4:6]
        return list(form.iter_unpack(self.data[offset : offset + size]))

    def _name(self, names: int, at: int) -> bytes:
        offset, size = self.sections[names][4:6]
        start = offset + at
        return self.data[start : self.data.index(b"\0", start, offset + size)]
