"""Numbers taken out of structs of Thrift's compact protocol, and others put in their place.

A number has as many bytes as it needs, so that one cannot be written over another: what lies
between is kept, and where each number stood. A struct is a byte for each field (its type, and its
number counted from the last one), the value, and a zero at the end.
Source: the compact protocol's description, Thrift 0.21.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats import _native
from je_tools.formats.arrays import Ints
from je_tools.formats.source import Bytes

BINARY, LIST, STRUCT = 8, 9, 12
"""Types of values, as are 1 to 7: true, false, a byte, whole numbers of three sizes, a float.

There are others (sets, maps, UUIDs), of which Parquet has none: they are taken for damage.
"""

FIELDS = 16
"""Numbers of fields that rules can be for."""

LEFT_OUT, NOTHING = -1, -2
"""Instead of a number: the whole field is left out, or what stands there is no number."""


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


def open_values(
    data: Bytes, at: int, kind: int, rules: Ints, state: int, count: int = 1
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

    Raises:
        ThriftError: they end behind `data`, or are not of this protocol.
    """
    found = _native.open_thrift(data, at=at, kind=kind, count=count, rules=rules, state=state)
    if found is None:
        raise ThriftError(f"{len(data)} bytes of Thrift are cut short or damaged")
    text, places, numbers, roles, end = found
    return Opened(text, places, numbers, roles), end


def fill(opened: Opened, values: Ints) -> tuple[Bytes, Ints]:
    """The bytes with other numbers, and where in them each ends.

    Args:
        opened: the bytes, and where numbers are to stand.
        values: int64 (n,); the numbers, not below 0, or LEFT_OUT or NOTHING. Only the last field
            of a struct can be left out, as fields are counted, and one whose head is a byte.
    """
    filled = _native.fill_thrift(opened.text, opened.places, values)
    if filled is None:
        raise ValueError("there are not as many numbers as places for them")
    return filled
