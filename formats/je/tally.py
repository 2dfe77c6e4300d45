"""Counts and bytes of entries by type, and of the keys and values of user records.

Nothing is kept of an entry: a kernel steps over the declared fields of a record only as far as
its key and value, and adds up. `layout` stays the one place that knows the fields.

What counts is what counts in the engine's own statistics. Source: StatsFileReader.processEntry,
JE 18.3.12 and 25.3.17.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct, field

from je_tools.formats.arrays import Ints, cells_of
from je_tools.formats.je import header as h
from je_tools.formats.je.reader import Rows
from je_tools.formats.je.steps import TYPES, Action, Role, of_users, programs
from je_tools.formats.je.walk import Checksum
from je_tools.formats.kernels import compiled, kernel
from je_tools.formats.packed_kernels import load_i32, read_packed
from je_tools.formats.source import as_plain

COUNT, TOTAL, MIN, MAX, PROVISIONAL = range(5)
"""Columns of a tally: how many, their bytes, the smallest, the largest, how many provisional."""

KEY, DATA, BROKEN = int(Role.KEY), int(Role.DATA), 2
"""Lines of a tally of sizes: keys, values, and records that end inside a field."""

NO_MINIMUM = 1 << 62
"""The smallest of nothing."""

_WIDTH = 5
_BAD = int(Checksum.BAD)
_PROVISIONAL_YES = h.PROVISIONAL_YES
_COUNT, _TOTAL, _MIN, _MAX, _PROVISIONAL = COUNT, TOTAL, MIN, MAX, PROVISIONAL
_KEY, _DATA, _BROKEN = KEY, DATA, BROKEN
_FLAGS, _FIXED, _PACKED = int(Action.FLAGS), int(Action.FIXED), int(Action.PACKED)
_BYTES, _REST = int(Action.BYTES), int(Action.REST)


@kernel
def tally_types(
    start: int, stop: int, types: Any, flags: Any, headers: Any, items: Any, states: Any, out: Any
) -> None:
    """Add rows [start, stop) to `out`, an int64 (256, 5) by type; damaged entries do not count."""
    for row in range(start, stop):
        if states[row] == _BAD:
            continue
        type_no = types[row]
        size = headers[row] + items[row]
        out[type_no, _COUNT] += 1
        out[type_no, _TOTAL] += size
        out[type_no, _MIN] = min(out[type_no, _MIN], size)
        out[type_no, _MAX] = max(out[type_no, _MAX], size)
        if flags[row] & _PROVISIONAL_YES:
            out[type_no, _PROVISIONAL] += 1


@kernel
def tally_sizes(
    buf: Any,
    base: int,
    n: int,
    offsets: Any,
    types: Any,
    headers: Any,
    items: Any,
    states: Any,
    firsts: Any,
    lasts: Any,
    steps: Any,
    out: Any,
) -> None:
    """Add the key and value sizes of `n` rows to `out`, an int64 (3, 5).

    Args:
        buf: bytes of the file from offset `base`; the entries lie in it.
        firsts, lasts: int64 (256,); each type's steps, none for what is not a user record.
        steps: int64 (k, 3); see `steps`.
    """
    for row in range(n):
        type_no = types[row]
        first, last = firsts[type_no], lasts[type_no]
        if first == last or states[row] == _BAD:
            continue
        at = offsets[row] - base + headers[row]
        stop = at + items[row]
        flags = 0
        key_size = -1
        data_size = -1
        for step in range(first, last):
            mask = steps[step, 2]
            if mask != 0 and flags & mask == 0:
                continue
            action = steps[step, 0]
            operand = steps[step, 1]
            size = -1
            if at >= stop and action != _REST:
                at = stop + 1
                break
            if action == _PACKED:
                byte = buf[at] - 0
                at += 1
                if byte > 119:
                    at += byte - 119 if byte < 128 else max(137 - byte, 0)
                continue
            if action == _FLAGS:
                flags |= (buf[at] - 0) << operand
                at += 1
                continue
            if action == _FIXED:
                at += operand
                continue
            if action == _BYTES:
                size = buf[at] - 0
                if size <= 119:
                    at += 1
                else:
                    size, at = read_packed(buf, at, stop)
                    if at < 0 or size < -1:
                        at = stop + 1
                        break
            elif action == _REST:
                size = stop - at
            else:
                if at + 4 > stop:
                    at = stop + 1
                    break
                size = load_i32(buf, at)
                at += 4
                if size < 0:
                    at = stop + 1
                    break
            if size > 0:
                # A wild size would lead out of 64 bits.
                at += min(size, stop + 1 - at)
            if operand == _KEY:
                key_size = size
            elif operand == _DATA:
                data_size = size
        if at > stop:
            out[_BROKEN, _COUNT] += 1
            continue
        if key_size >= 0:
            out[_KEY, _COUNT] += 1
            out[_KEY, _TOTAL] += key_size
            out[_KEY, _MIN] = min(out[_KEY, _MIN], key_size)
            out[_KEY, _MAX] = max(out[_KEY, _MAX], key_size)
        if data_size >= 0:
            out[_DATA, _COUNT] += 1
            out[_DATA, _TOTAL] += data_size
            out[_DATA, _MIN] = min(out[_DATA, _MIN], data_size)
            out[_DATA, _MAX] = max(out[_DATA, _MAX], data_size)


def _empty(lines: int) -> Ints:
    out = np.zeros((lines, _WIDTH), np.int64)
    out[:, MIN] = NO_MINIMUM
    return out


class Tally(Struct):
    """Counts and bytes; tallies of several ranges add up.

    Attributes:
        types: int64 (256, 5) by entry type; columns COUNT, TOTAL, MIN, MAX, PROVISIONAL.
        sizes: int64 (3, 5); lines KEY, DATA, BROKEN. A deleted record has no value to count.
    """

    types: Ints = field(default_factory=lambda: _empty(TYPES))
    sizes: Ints = field(default_factory=lambda: _empty(3))

    def add(self, other: Tally) -> None:
        """Add another tally to this one."""
        for mine, others in ((self.types, other.types), (self.sizes, other.sizes)):
            smallest = np.minimum(mine[:, MIN], others[:, MIN])
            largest = np.maximum(mine[:, MAX], others[:, MAX])
            mine += others
            mine[:, MIN], mine[:, MAX] = smallest, largest


def tally_rows(rows: Rows, *, fast: bool) -> Tally:
    """The tally of some entries; damaged ones do not count."""
    tally = Tally()
    tally.types = count_types(rows, 0, len(rows), fast=fast)
    firsts, lasts, steps = programs(rows.version, of_users)
    arguments = (
        rows.base,
        len(rows),
        rows.offset,
        rows.type,
        rows.header_size,
        rows.item_size,
        rows.checksum,
        firsts,
        lasts,
        steps,
    )
    if fast:
        compiled(tally_sizes)(rows.data, *arguments, tally.sizes)
        return tally
    sizes = cells_of(tally.sizes)
    tally_sizes(as_plain(rows.data), *[*map(_plain, arguments), sizes])
    _fill(tally.sizes, sizes)
    return tally


def count_types(rows: Rows, start: int, stop: int, *, fast: bool) -> Ints:
    """Rows [start, stop) by type, as in `Tally.types`."""
    out = _empty(TYPES)
    arguments = (rows.type, rows.flags, rows.header_size, rows.item_size, rows.checksum)
    if fast:
        compiled(tally_types)(start, stop, *arguments, out)
        return out
    counts = cells_of(out)
    tally_types(start, stop, *[*map(_plain, arguments), counts])
    _fill(out, counts)
    return out


def _plain(argument: Any) -> Any:
    """Lists and dicts, which plain Python reads faster than arrays."""
    if not isinstance(argument, np.ndarray):
        return argument
    return cells_of(argument) if argument.ndim == 2 else argument.tolist()


def _fill(array: Ints, filled: dict[tuple[int, int], int]) -> None:
    array[:] = np.fromiter(filled.values(), np.int64, array.size).reshape(array.shape)
