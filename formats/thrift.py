"""Numbers in structs of Thrift's compact protocol, extracted and replaced.

A number takes as many bytes as it needs, so it cannot be overwritten in place. Instead, the bytes
between the numbers are kept, with the place of each number. A field of a struct is a byte (its
type, and the difference from the number of the field before) and a value; a zero ends the struct.
Source: the compact protocol's description, Thrift 0.21.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats import _native

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints
    from je_tools.formats.files.source import Bytes

BINARY, LIST, STRUCT = 8, 9, 12
"""Types of values. Types 1 to 7 are true, false, a byte, integers of three sizes and a float.

Parquet uses no other types (sets, maps, UUIDs), so they count as damage.
"""

FIELDS = 16
"""Number of rules per state, one for each field number from 0."""

LEFT_OUT, NOTHING = -1, -2
"""Values in place of a number: the whole field is omitted, or no number is written."""


class ThriftError(Exception):
    """Bytes that are not valid in the compact protocol."""


class Extracted(Struct, frozen=True):
    """Bytes from which numbers were extracted.

    Attributes:
        text: uint8, the bytes without the numbers.
        places: int32 (n,); offset in `text` of each number.
        numbers: int64 (n,); 0 for the end of a struct.
        roles: uint8 (n,); role of each number or end, by the rules.
    """

    text: Bytes
    places: npt.NDArray[np.int32]
    numbers: Ints
    roles: npt.NDArray[np.uint8]


def open_values(
    data: Bytes, at: int, kind: int, rules: Ints, state: int, count: int = 1
) -> tuple[Extracted, int]:
    """Extract numbers from consecutive values; return them and the offset after the last value.

    Args:
        data: uint8, the bytes that contain the values.
        at: offset of the first value.
        kind: type of the values.
        rules: int64 (states * FIELDS,); the rule for each field, by the state of its struct and by
            its number. 0: keep the field. Above 0: extract its number, which must not be negative,
            in this role. Below 0: the struct, or each struct of the list, has the negated rule as
            its state. The rule for field 0 is the role of the end of each struct, if above 0.
        state: state of the values; in state 0 nothing is extracted.
        count: number of values.

    Raises:
        ThriftError: the values end after `data`, or are not valid in this protocol.
    """
    found = _native.open_thrift(data, at=at, kind=kind, count=count, rules=rules, state=state)
    if found is None:
        raise ThriftError(f"{len(data)} bytes of Thrift are cut short or damaged")
    text, places, numbers, roles, end = found
    return Extracted(text, places, numbers, roles), end


def fill(opened: Extracted, values: Ints) -> tuple[Bytes, Ints]:
    """Return the bytes with other numbers, and the offset after each number.

    Args:
        opened: the bytes, and the places of the numbers.
        values: int64 (n,); the numbers, not negative, or LEFT_OUT or NOTHING. A field can only be
            left out if it is the last of its struct, since field numbers are relative, and if its
            head is one byte.
    """
    filled = _native.fill_thrift(opened.text, opened.places, values)
    if filled is None:
        raise ValueError("there are not as many numbers as places for them")
    return filled
