"""Numbers taken out of structs of Thrift's compact protocol, and others put in their place.

A number has as many bytes as it needs, so that one cannot be written over another: what lies
between is kept, and where each number stood. A struct is a byte for each field (its type, and its
number counted from the last one), the value, and a zero at the end.
Source: the compact protocol's description, Thrift 0.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.arrays import Ints
from je_tools.formats.kernels import compiled, kernel
from je_tools.formats.source import Bytes, as_plain

BINARY, LIST, STRUCT = 8, 9, 12
"""Types of values, as are 1 to 7: true, false, a byte, whole numbers of three sizes, a float.

There are others (sets, maps, UUIDs), of which Parquet has none: they are taken for damage.
"""

FIELDS = 16
"""Numbers of fields that rules can be for."""

LEFT_OUT, NOTHING = -1, -2
"""Instead of a number: the whole field is left out, or what stands there is no number."""

_DEPTH = 32
_FRAME = 4
_NUMBER_SIZE = 10


class ThriftError(Exception):
    """What should be of the compact protocol is not."""


class Opened(Struct, frozen=True):
    """Bytes from which numbers were taken out.

    Attributes:
        text: uint8, the bytes.
        places: int32 (n,); where in `text` the numbers stood.
        numbers: int64 (n,).
        roles: uint8 (n,); what each is, by the rules; that of an end has no number.
    """

    text: Bytes
    places: npt.NDArray[np.int32]
    numbers: Ints
    roles: npt.NDArray[np.uint8]


@kernel
def _read_varint(buf: Any, at: int, size: int) -> tuple[int, int]:
    """A number without a sign, and what lies behind it; that is -1 where there is none."""
    value = 0
    for i in range(9):
        if at >= size:
            return 0, -1
        byte = buf[at] - 0
        at += 1
        value |= (byte & 127) << (7 * i)
        if byte < 128:
            return value, at
    return 0, -1


@kernel
def _open(
    buf: Any,
    at: int,
    size: int,
    kind: int,
    count: int,
    state: int,
    rules: Any,
    stack: Any,
    text: Any,
    places: Any,
    numbers: Any,
    roles: Any,
) -> tuple[int, int, int]:
    """Go over values; what is told: how many numbers, the length of the text, the end, or -1."""
    n = 0
    length = 0
    kept = at
    # Of what is open: elements that are to come (-1: fields), their type, rules, the last field.
    stack[0] = count
    stack[1] = kind
    stack[2] = state
    top = 0
    while top >= 0:
        base = top * _FRAME
        begun = at
        taken = 0
        rule = -stack[base + 2]
        in_list = stack[base] >= 0
        if in_list:
            if stack[base] == 0:
                top -= 1
                continue
            stack[base] -= 1
            kind = stack[base + 1]
        else:
            if at >= size:
                return n, length, -1
            head = buf[at] - 0
            at += 1
            if head == 0:
                taken = rules[-rule * FIELDS]
                kind = 0
                top -= 1
            else:
                kind = head & 15
                number = stack[base + 3] + (head >> 4)
                if head < 16:
                    number, at = _read_varint(buf, at, size)
                    if at < 0:
                        return n, length, -1
                    number >>= 1
                stack[base + 3] = number
                rule = rules[-rule * FIELDS + number] if 0 < number < FIELDS else 0
        begun = at
        value = 0
        if kind <= 2:
            at += 1 if in_list else 0
        elif kind == 3:
            at += 1
        elif kind == 7:
            at += 8
        elif kind <= 6 or kind == BINARY:
            value, at = _read_varint(buf, at, size)
            if at < 0 or (kind == BINARY and value > size - at):
                return n, length, -1
            if kind == BINARY:
                at += value
            elif rule > 0:
                if value & 1:
                    return n, length, -1
                taken = rule
                value >>= 1
        elif kind in (LIST, STRUCT):
            top += 1
            base = top * _FRAME
            if base >= len(stack):
                return n, length, -1
            stack[base] = -1
            stack[base + 2] = -rule if rule < 0 else 0
            stack[base + 3] = 0
            if kind == LIST:
                if at >= size:
                    return n, length, -1
                head = buf[at] - 0
                at += 1
                value = head >> 4
                if value == 15:
                    value, at = _read_varint(buf, at, size)
                    if at < 0:
                        return n, length, -1
                stack[base] = value
                stack[base + 1] = head & 15
        else:
            return n, length, -1
        if at > size:
            return n, length, -1
        if taken > 0:
            for i in range(kept, begun):
                text[length] = buf[i]
                length += 1
            kept = at
            places[n] = length
            numbers[n] = value
            roles[n] = taken
            n += 1
    for i in range(kept, at):
        text[length] = buf[i]
        length += 1
    return n, length, at


@kernel
def _fill(text: Any, size: int, places: Any, values: Any, n: int, out: Any, ends: Any) -> int:
    at = 0
    done = 0
    for row in range(n):
        for i in range(done, places[row]):
            out[at] = text[i]
            at += 1
        done = places[row]
        value = values[row]
        if value == LEFT_OUT:
            at -= 1
        elif value >= 0:
            value *= 2
            while value > 127:
                out[at] = (value & 127) + 128
                at += 1
                value >>= 7
            out[at] = value
            at += 1
        ends[row] = at
    for i in range(done, size):
        out[at] = text[i]
        at += 1
    return at


def open_values(
    data: Bytes, at: int, kind: int, rules: Ints, state: int, count: int = 1, *, fast: bool
) -> tuple[Opened, int]:
    """Take numbers out of values that lie behind each other, and tell where those end.

    Args:
        data: uint8, what they lie in.
        at: where the first begins.
        kind: of which type they are.
        rules: int64 (states * FIELDS,); what becomes of a field, by the state of its struct and
            its number. 0: nothing. Above 0: the number, which is not negative, is taken out in
            this role. Below 0: the struct, or those of the list, are in that state made positive.
            That of field 0 is a role in which the end of each struct is told.
        state: of the values; in state 0 nothing is taken out.
        count: how many there are.
        fast: use compiled kernels.

    Raises:
        ThriftError: they end behind `data`, or are not of this protocol.
    """
    size = len(data)
    text = np.empty(size, np.uint8)
    places, numbers = np.empty(size, np.int32), np.empty(size, np.int64)
    roles = np.empty(size, np.uint8)
    stack = np.zeros(_DEPTH * _FRAME, np.int64)
    run = compiled(_open) if fast else _open
    buf = data if fast else as_plain(data)
    n, length, end = run(
        buf, at, size, kind, count, state, rules, stack, text, places, numbers, roles
    )
    if end < 0:
        raise ThriftError(f"{size} bytes of Thrift are cut short or damaged")
    opened = Opened(text[:length].copy(), places[:n].copy(), numbers[:n].copy(), roles[:n].copy())
    return opened, end


def fill(opened: Opened, values: Ints, *, fast: bool) -> tuple[Bytes, Ints]:
    """The bytes with other numbers, and where in them each ends.

    Args:
        opened: the bytes, and where numbers are to stand.
        values: int64 (n,); the numbers, not below 0, or LEFT_OUT or NOTHING. Only the last field
            of a struct can be left out, as fields are counted, and one whose head is a byte.
        fast: use compiled kernels.
    """
    n = len(opened.places)
    out = np.empty(len(opened.text) + n * _NUMBER_SIZE, np.uint8)
    ends = np.empty(n, np.int64)
    run = compiled(_fill) if fast else _fill
    size = run(opened.text, len(opened.text), opened.places, values, n, out, ends)
    return out[:size], ends
