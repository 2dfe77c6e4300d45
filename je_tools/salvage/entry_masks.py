"""Masks of entry types by log version: those that hold records, and those of bottom nodes."""

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
"""First log version in which the key of a duplicate includes its data."""

_BIN, _DBIN, _DELTA = BY_NAME["BIN"].no, BY_NAME["DBIN"].no, BY_NAME["NewBINDelta"].no

_BOTTOM_NODES = frozenset((_BIN, _DBIN, _DELTA))


@functools.cache
def records_of(version: int, family: Family = Family.LN) -> Mask:
    """Return a mask of the entry types of a log version that hold records with key and data.

    Args:
        version: log version.
        family: family of the types.
    """
    kinds = _kinds_of(version)
    return mask_of(each.no for each in kinds if each.family is family and each.user_ln)


@functools.cache
def bottom_nodes_of(version: int) -> Mask:
    """Return a mask of the bottom node types of a log version, full and delta."""
    return mask_of(each.no for each in _kinds_of(version) if each.no in _BOTTOM_NODES)


def _kinds_of(version: int) -> list[EntryType]:
    """Return the entry types of a log version whose payloads can be decoded."""
    every = ENTRY_TYPES.values()
    known = [each for each in every if each.first_version <= version <= each.last_version]
    is_old = version < PAYLOAD_VERSION_MIN
    return [each for each in known if each.family is Family.LN] if is_old else known


def pieces_of_rows(rows: Rows, mask: npt.NDArray[np.bool_], most: int = MAX_ROWS) -> Iterator[Rows]:
    """Yield the rows that a mask selects, at most `most` at a time."""
    index = np.flatnonzero(mask)
    for first in range(0, len(index), most):
        yield rows.select(index[first : first + most])
