"""References: the database and the transaction of each entry, in columns.

Unlike `entry_table`, which decodes whole payloads, this reads only a few fields.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.formats.je.entry.columns import decode
from je_tools.formats.je.entry.programs import in_columns
from je_tools.formats.je.layout import layout
from je_tools.formats.je.types import ENTRY_TYPES, Family

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.log.entry_rows import Rows

_RECORDS = (Family.LN, Family.DEL_DUP_LN)
_FAMILIES = tuple(Family)
_FAMILY_OF = np.full(256, -1, np.int8)
for _entry_type in ENTRY_TYPES.values():
    _FAMILY_OF[_entry_type.no] = _FAMILIES.index(_entry_type.family)


class References(Struct, frozen=True):
    """Fields that entries share, by row.

    Attributes:
        numbers: int64 columns of numbers, 0 where absent.
        present: bool columns; True if the entry has the field.
        sizes: int64 columns with the lengths of byte fields, -1 if null or absent.
    """

    numbers: dict[str, Ints]
    present: dict[str, Mask]
    sizes: dict[str, Ints]


def read_references(
    rows: Rows, types: Mask, numbers: tuple[str, ...], sizes: tuple[str, ...] = ()
) -> References:
    """Read fields of the entries of some types.

    Args:
        rows: entries of one file; damaged ones are left out.
        types: bool (256,); the entry types to read.
        numbers: names of fields that hold numbers.
        sizes: names of byte fields; only of records of the families LN and DEL_DUP_LN.
    """
    n = len(rows)
    found = References(
        {name: np.zeros(n, np.int64) for name in numbers},
        {name: np.zeros(n, np.bool_) for name in numbers},
        {name: np.full(n, -1, np.int64) for name in sizes},
    )
    chosen = types[rows.type] & rows.good
    families = np.where(chosen, _FAMILY_OF[rows.type], np.int8(-1))
    for code in np.flatnonzero(np.bincount(families + 1, minlength=1)[1:]).tolist():
        family = _FAMILIES[code]
        index = np.flatnonzero(families == code)
        named = frozenset(numbers) | (frozenset(sizes) if family in _RECORDS else frozenset())
        wanted = named & _names_of(family, rows.version)
        if not wanted:
            continue
        if in_columns(family, rows.version, wanted):
            _read_columns(found, rows, index, family, wanted)
        else:
            _read_singles(found, rows, index, wanted)
    return found


@functools.cache
def _names_of(family: Family, version: int) -> frozenset[str]:
    """Return the fields of a family in this log version, without those of lists and groups."""
    return frozenset(
        declared.name
        for entry_type in ENTRY_TYPES.values()
        if entry_type.family is family
        and entry_type.first_version <= version <= entry_type.last_version
        for declared in layout(entry_type.no, version)
    )


def _read_columns(
    found: References, rows: Rows, index: Ints, family: Family, wanted: frozenset[str]
) -> None:
    some = rows if len(index) == len(rows) else rows.select(index)
    decoded = decode(some, family, wanted=wanted)
    good = ~decoded.bad
    index = index[good]
    for name in wanted & found.numbers.keys():
        found.numbers[name][index] = decoded.fields.number(name)[good]
        found.present[name][index] = decoded.fields.is_present(name)[good]
    for name in wanted & found.sizes.keys():
        found.sizes[name][index] = decoded.fields.span(name)[1][good]


def _read_singles(found: References, rows: Rows, index: Ints, wanted: frozenset[str]) -> None:
    """Read entries one by one whose fields have no columns: rare types, or old versions."""
    for row in index.tolist():
        fields = rows.fields(row)
        for name in wanted & found.numbers.keys() & fields.keys():
            found.numbers[name][row] = fields[name]
            found.present[name][row] = True
        for name in wanted & found.sizes.keys() & fields.keys():
            value = fields[name]
            found.sizes[name][row] = -1 if value is None else len(value)
