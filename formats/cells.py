"""Rows of cells as lines of text: byte strings spelled, numbers and LSNs between fixed words.

A line is its cells behind each other. Whole lines are written at once, each byte of them once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.arrays import Ints
from je_tools.formats.hexes import put_hex
from je_tools.formats.kernels import compiled, kernel
from je_tools.formats.prefetch import LINE, LINES_MAX, ROWS_AHEAD, ask_for
from je_tools.formats.source import Bytes, as_plain
from je_tools.formats.spans import Spans


class Spelling(IntEnum):
    """How the value of a cell is written."""

    HEX = 0
    """Each byte as two lower-case hexadecimal digits."""
    PRINT = 1
    r"""As DbDump prints: `\\` for a backslash, `\` and two digits for what is not visible."""
    TEXT = 2
    """The bytes, which are text as the line has it."""
    DECIMAL = 3
    LSN = 4
    """0x… / 0x…, file and offset."""
    WORD = 5
    """The bytes, as TEXT, out of a short table of words."""


_HEX, _PRINT = int(Spelling.HEX), int(Spelling.PRINT)
_DECIMAL, _LSN = int(Spelling.DECIMAL), int(Spelling.LSN)

_DECIMAL_MAX = len(str(-(1 << 63)))
_LSN_MAX = len("0xffffffff/0xffffffff")


class Cell(Struct, frozen=True):
    """One column of the lines.

    Attributes:
        values: byte strings, where a size below 0 is null, or int64 numbers.
        spelling: HEX, PRINT, TEXT for byte strings; DECIMAL, LSN for numbers.
        before, after: fixed bytes around a value.
        instead: what stands in the place of all three where the value is null.
        valid: bool (n,): where a number is not null; everywhere without.
    """

    values: Spans | Ints
    spelling: Spelling
    before: bytes = b""
    after: bytes = b""
    instead: bytes = b""
    valid: npt.NDArray[np.bool_] | None = None


class Room:
    """An array to write lines into, used again: fresh ones cost a fault of the system a page."""

    def __init__(self) -> None:
        self._array: Bytes = np.empty(0, np.uint8)

    @property
    def size(self) -> int:
        """Bytes that it has."""
        return len(self._array)

    def of(self, size: int) -> Bytes:
        """The first `size` bytes, whatever stands there."""
        if len(self._array) < size:
            self._array = np.empty(size + size // 8, np.uint8)
        return self._array[:size]


class _Lowered(Struct, frozen=True):
    """Cells as a kernel takes them.

    Attributes:
        spellings, sources: int64 (cells,); the buffer of a cell's byte strings is 0, 1, or 2 for
            `words`.
        starts: int64 (cells, n): where a byte string begins, or a number itself.
        sizes: int64 (cells, n): bytes of a byte string, 0 of a number, below 0 for null.
        words: uint8, `before`, `after` and `instead` of each cell behind each other, then tables.
        edges: int64 (3 * cells + 1,): where each of them begins in `words`.
        buffers: two, of which some may be empty.
    """

    spellings: Ints
    sources: Ints
    starts: Ints
    sizes: Ints
    words: Bytes
    edges: Ints
    buffers: tuple[Bytes, Bytes]


BUFFERS_MAX = 2
"""Most different buffers that the byte strings of one line lie in, tables of words aside."""

_WORDS = BUFFERS_MAX


@kernel
def _print_size(buf: Any, start: int, size: int) -> int:
    total = size
    for i in range(size):
        byte = buf[start + i]
        if byte == 92:
            total += 1
        elif byte <= 32 or byte >= 127:
            total += 2
    return total


@kernel
def _cell_size(spelling: int, buf: Any, start: int, size: int) -> int:
    if spelling == _HEX:
        return 2 * size
    if spelling == _PRINT:
        return _print_size(buf, start, size)
    if spelling == _DECIMAL:
        return _DECIMAL_MAX
    return _LSN_MAX if spelling == _LSN else size


@kernel
def _lines_size(
    a: Any, b: Any, words: Any, spellings: Any, sources: Any, starts: Any, sizes: Any, edges: Any
) -> int:
    """Bytes in which all lines have room; exact but for numbers."""
    total = 0
    cells, n = sizes.shape
    for cell in range(cells):
        spelling = spellings[cell]
        source = sources[cell]
        around = edges[3 * cell + 2] - edges[3 * cell]
        instead = edges[3 * cell + 3] - edges[3 * cell + 2]
        for row in range(n):
            start = starts[cell, row]
            size = sizes[cell, row]
            if size < 0:
                total += instead
            elif source == 0:
                total += around + _cell_size(spelling, a, start, size)
            elif source == 1:
                total += around + _cell_size(spelling, b, start, size)
            else:
                total += around + _cell_size(spelling, words, start, size)
    return total


@kernel
def _put(buf: Any, start: int, size: int, out: Any, at: int) -> int:
    for i in range(size):
        out[at + i] = buf[start + i]
    return at + size


@kernel
def _put_printed(buf: Any, start: int, size: int, out: Any, at: int) -> int:
    for i in range(size):
        byte = buf[start + i]
        if 32 < byte < 127:
            if byte == 92:
                out[at] = 92
                at += 1
            out[at] = byte
            at += 1
        else:
            out[at] = 92
            at = put_hex(buf, start + i, 1, out, at + 1)
    return at


@kernel
def _put_decimal(number: int, out: Any, at: int) -> int:
    last = number % 10
    rest = number // 10
    if number < 0:
        out[at] = 45
        at += 1
        # The smallest number has no positive twin: its last digit goes first.
        last = (10 - last) % 10
        rest = -((number + last) // 10)
    end = at + 1
    scale = rest
    while scale > 0:
        end += 1
        scale //= 10
    out[end - 1] = 48 + last
    place = end - 2
    while place >= at:
        out[place] = 48 + rest % 10
        rest //= 10
        place -= 1
    return end


@kernel
def _put_lsn(lsn: int, out: Any, at: int) -> int:
    for half in range(2):
        number = (lsn >> 32 if half == 0 else lsn) & 4294967295
        if half == 1:
            out[at] = 47
            at += 1
        out[at] = 48
        out[at + 1] = 120
        at += 2
        shift = 28
        while shift > 0 and number >> shift == 0:
            shift -= 4
        while shift >= 0:
            digit = number >> shift & 15
            out[at] = digit + (48 if digit < 10 else 87)
            at += 1
            shift -= 4
    return at


@kernel
def _put_bytes(spelling: int, buf: Any, start: int, size: int, out: Any, at: int) -> int:
    if spelling == _HEX:
        return put_hex(buf, start, size, out, at)
    if spelling == _PRINT:
        return _put_printed(buf, start, size, out, at)
    return _put(buf, start, size, out, at)


@kernel
def _write_lines(
    a: Any,
    b: Any,
    words: Any,
    spellings: Any,
    sources: Any,
    starts: Any,
    sizes: Any,
    edges: Any,
    out: Any,
) -> int:
    at = 0
    cells, n = sizes.shape
    for row in range(n):
        if row + ROWS_AHEAD < n:
            for cell in range(cells):
                if spellings[cell] < _DECIMAL and sources[cell] < _WORDS:
                    lines = min(sizes[cell, row + ROWS_AHEAD] // LINE + 1, LINES_MAX)
                    if sources[cell] == 0:
                        ask_for(a, starts[cell, row + ROWS_AHEAD], lines)
                    else:
                        ask_for(b, starts[cell, row + ROWS_AHEAD], lines)
        for cell in range(cells):
            first = edges[3 * cell]
            middle = edges[3 * cell + 1]
            last = edges[3 * cell + 2]
            start = starts[cell, row]
            size = sizes[cell, row]
            if size < 0:
                at = _put(words, last, edges[3 * cell + 3] - last, out, at)
                continue
            at = _put(words, first, middle - first, out, at)
            spelling = spellings[cell]
            source = sources[cell]
            if spelling == _DECIMAL:
                at = _put_decimal(start, out, at)
            elif spelling == _LSN:
                at = _put_lsn(start, out, at)
            elif source == 0:
                at = _put_bytes(spelling, a, start, size, out, at)
            elif source == 1:
                at = _put_bytes(spelling, b, start, size, out, at)
            else:
                at = _put_bytes(spelling, words, start, size, out, at)
            at = _put(words, middle, last - middle, out, at)
    return at


def lines_of(cells: Sequence[Cell], room: Room | None = None, *, fast: bool) -> Bytes:
    """The lines of all rows behind each other: uint8.

    Args:
        cells: of one length each; the byte strings of all but those that are WORDs lie in at most
            BUFFERS_MAX buffers.
        room: where they may be written, so that they last until it is used again.
        fast: use the compiled kernel.
    """
    if not fast:
        columns = [_plain_texts(cell) for cell in cells]
        return np.frombuffer(b"".join(map(b"".join, zip(*columns, strict=True))), np.uint8)
    low = _lowered(cells)
    program = (low.spellings, low.sources, low.starts, low.sizes)
    size = compiled(_lines_size)(*low.buffers, low.words, *program, low.edges)
    out = (room or Room()).of(size)
    end = compiled(_write_lines)(*low.buffers, low.words, *program, low.edges, out)
    return read_only(out[:end])


def _lowered(cells: Sequence[Cell]) -> _Lowered:
    n = len(cells[0].values)
    starts = np.empty((len(cells), n), np.int64)
    sizes = np.zeros((len(cells), n), np.int64)
    sources = np.zeros(len(cells), np.int64)
    buffers: list[Bytes] = []
    pieces = [piece for cell in cells for piece in (cell.before, cell.after, cell.instead)]
    edges = np.zeros(len(pieces) + 1, np.int64)
    edges[1:] = np.cumsum([len(piece) for piece in pieces])
    words = b"".join(pieces)
    for i, cell in enumerate(cells):
        if not isinstance(cell.values, Spans):
            starts[i] = cell.values
            if cell.valid is not None:
                sizes[i] = cell.valid - np.int64(1)
            continue
        data = cell.values.data
        starts[i], sizes[i] = cell.values.starts, cell.values.sizes
        if cell.spelling is Spelling.WORD:
            sources[i] = _WORDS
            starts[i] += len(words)
            words += data.tobytes()
            continue
        found = [no for no, known in enumerate(buffers) if known is data]
        sources[i] = found[0] if found else len(buffers)
        buffers += [] if found else [data]
    buffers += [np.empty(0, np.uint8)] * (BUFFERS_MAX - len(buffers))
    first, second = (read_only(data) for data in buffers)
    table = read_only(np.frombuffer(words, np.uint8))
    spellings = np.array([int(cell.spelling) for cell in cells], np.int64)
    return _Lowered(spellings, sources, starts, sizes, table, edges, (first, second))


def read_only(data: Bytes) -> Bytes:
    """The same bytes, of which kernels have one specialisation."""
    if data.flags.writeable:
        data = data.view()
        data.flags.writeable = False
    return data


def _plain_texts(cell: Cell) -> list[bytes]:
    """What the kernel makes of one cell in each row."""
    if isinstance(cell.values, Spans):
        view = as_plain(cell.values.data)
        spans = zip(cell.values.starts.tolist(), cell.values.sizes.tolist(), strict=True)
        spell = _PLAIN_BYTES[cell.spelling]
        values = (None if size < 0 else spell(bytes(view[at : at + size])) for at, size in spans)
    else:
        valid = [True] * len(cell.values) if cell.valid is None else cell.valid.tolist()
        is_lsn = cell.spelling is Spelling.LSN
        numbers = zip(cell.values.tolist(), valid, strict=True)
        values = ((_plain_number(v, is_lsn) if known else None) for v, known in numbers)
    return [cell.instead if v is None else cell.before + v + cell.after for v in values]


def _plain_number(number: int, is_lsn: bool) -> bytes:
    if is_lsn:
        return b"0x%x/0x%x" % (number >> 32 & 0xFFFFFFFF, number & 0xFFFFFFFF)
    return b"%d" % number


def _plain_print(value: bytes) -> bytes:
    return b"".join(map(_PRINTED.__getitem__, value))


def _printed(byte: int) -> bytes:
    if byte == ord("\\"):
        return rb"\\"
    return bytes([byte]) if ord(" ") < byte < 127 else b"\\%02x" % byte


_PRINTED = [_printed(byte) for byte in range(256)]
_PLAIN_BYTES: dict[Spelling, Callable[[bytes], bytes]] = {
    Spelling.HEX: lambda value: value.hex().encode(),
    Spelling.PRINT: _plain_print,
    Spelling.TEXT: lambda value: value,
    Spelling.WORD: lambda value: value,
}
