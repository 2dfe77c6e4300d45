"""The fields of records up to key and value, as steps of a native loop over their bytes.

Steps are for loops over millions of records that keep no columns. `layout` remains the only place
that knows the fields.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from je_tools.formats.je.layout import Coding, Field, Op, layout
from je_tools.formats.je.types import ENTRY_TYPES, EntryType, Family

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints

TYPES = 256
"""Number of values that an entry's type number can have."""


class Action(IntEnum):
    """Effect of a step over a field.

    A step is (action, operand, mask); it is skipped if the mask is not 0 and none of its flags is
    set.
    """

    FLAGS = 0
    """One more byte of flags, shifted by the operand."""
    FIXED = 1
    """As many bytes as the operand says."""
    PACKED = 2
    """A packed number; the operand is a `Role`."""
    BYTES = 3
    """A packed size, then bytes; the operand is a `Role`, also for the next two actions."""
    REST = 4
    BYTES_I32 = 5


class Role(IntEnum):
    """Role of a field in its record."""

    KEY = 0
    DATA = 1
    OTHER = 2
    DB_ID = 3
    EXPIRATION = 4


_ROLES = {
    "key": Role.KEY,
    "data": Role.DATA,
    "db_id": Role.DB_ID,
    "expiration": Role.EXPIRATION,
}
_FIXED_SIZES = {Coding.I32: 4, Coding.U32: 4, Coding.I64: 8}
_WITH_ROLE = {
    Coding.PACKED: Action.PACKED,
    Coding.BYTES: Action.BYTES,
    Coding.TEXT: Action.BYTES,
    Coding.REST: Action.REST,
    Coding.BYTES_I32: Action.BYTES_I32,
}


def of_users(entry_type: EntryType) -> bool:
    """Return True for a type of user records."""
    return entry_type.user_ln


def of_family(entry_type: EntryType) -> bool:
    """Return True for a type of records with key and value, and no payload fields of their own."""
    return entry_type.family is Family.LN


@functools.cache
def programs(version: int, asked: Callable[[EntryType], bool]) -> tuple[Ints, Ints, Ints]:
    """Return the steps of every type of a log version that `asked` accepts.

    Returns:
        Two int64 (256,): the first step of each type, and the one after its last step, which are
        equal for a type without steps. Int64 (k, 3): the steps.
    """
    firsts, lasts = np.zeros(TYPES, np.int64), np.zeros(TYPES, np.int64)
    steps: list[tuple[int, int, int]] = []
    for entry_type in ENTRY_TYPES.values():
        if asked(entry_type) and entry_type.first_version <= version <= entry_type.last_version:
            fields = layout(entry_type.no, version)
            firsts[entry_type.no] = len(steps)
            # Before log version 6 some types are not decoded.
            steps += _steps(fields) if any(each.name == "key" for each in fields) else ()
            lasts[entry_type.no] = len(steps)
    return firsts, lasts, np.array(steps, np.int64).reshape(len(steps), 3)


def _steps(fields: tuple[Field, ...]) -> list[tuple[int, int, int]]:
    names = [declared.name for declared in fields]
    last = max(names.index("key"), names.index("data"))
    shifts: dict[str, int] = {}
    steps = []
    for declared in fields[: last + 1]:
        mask = 0
        for test in declared.when:
            if test.op is not Op.SET or mask:
                raise ValueError(f"{declared.name}: more than one flag decides on it")
            mask = test.operand << shifts[test.field]
        if declared.coding is Coding.U8:
            shifts[declared.name] = 8 * len(shifts)
            steps.append((int(Action.FLAGS), shifts[declared.name], mask))
        else:
            steps.append((*_action(declared), mask))
    return steps


def _action(declared: Field) -> tuple[int, int]:
    if declared.coding in _FIXED_SIZES:
        return int(Action.FIXED), _FIXED_SIZES[declared.coding]
    return int(_WITH_ROLE[declared.coding]), int(_ROLES.get(declared.name, Role.OTHER))
