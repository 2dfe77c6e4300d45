"""Masks of the entry types that hold records, or are bottom nodes, in a log version."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from je_tools.formats.je.entry.columns import MAX_ROWS
from je_tools.formats.je.types import (
    BY_NAME,
    ENTRY_TYPES,
    PAYLOAD_VERSION_MIN,
    EntryType,
    Family,
    mask_of,
)

if TYPE_CHECKING:
    from je_tools.formats.arrays import Mask
    from je_tools.formats.je.log.entry_rows import Rows

KEYED_VERSION = 8
"""First log version in which a duplicate's key includes its data; both together identify it."""

_BIN, _DBIN, _DELTA = BY_NAME["BIN"].no, BY_NAME["DBIN"].no, BY_NAME["NewBINDelta"].no

_LEAVES = frozenset((_BIN, _DBIN, _DELTA))


@functools.cache
def records_of(version: int, family: Family = Family.LN) -> Mask:
    """Return a mask of the entry types that write application records or records of the same form.

    Only types that this log version has: the payload of any other type is unknown.
    """
    kinds = _kinds_of(version)
    return mask_of(each.no for each in kinds if each.family is family and each.user_ln)


@functools.cache
def leaves_of(version: int) -> Mask:
    """Return a mask of the bottom node types of a log version, full and delta."""
    return mask_of(each.no for each in _kinds_of(version) if each.no in _LEAVES)


def _kinds_of(version: int) -> list[EntryType]:
    every = ENTRY_TYPES.values()
    known = [each for each in every if each.first_version <= version <= each.last_version]
    is_old = version < PAYLOAD_VERSION_MIN
    return [each for each in known if each.family is Family.LN] if is_old else known


def pieces_of_rows(rows: Rows, mask: npt.NDArray[np.bool_], most: int = MAX_ROWS) -> Iterator[Rows]:
    """Yield the rows that a mask selects, at most `most` at a time."""
    index = np.flatnonzero(mask)
    for first in range(0, len(index), most):
        yield rows.select(index[first : first + most])
