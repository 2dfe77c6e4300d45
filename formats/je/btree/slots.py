"""Slots of B-tree nodes as columns: keys, separated from embedded data.

Source: je-log.md "Nodes"; DupKeyData, IN.getEmbeddedData, JE 7.5.11.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import astuple

from je_tools.formats import _native
from je_tools.formats.je.flags import SlotState
from je_tools.formats.je.header import NULL_LSN
from je_tools.formats.spans import Spans, joined_spans

if TYPE_CHECKING:
    from je_tools.formats.arrays import Ints, Mask
    from je_tools.formats.je.entry.columns import Columns


class Slots(Struct, frozen=True):
    """Slots of nodes.

    Attributes:
        key: whole key without embedded data; a two-part key in a database with duplicates.
        lsn: int64; NULL_LSN for none.
        state: int64; bits of the slot's state.
        logged_size: int64; size of the child's entry, 0 if not stored.
        vlsn: int64; 0 if not stored.
        data_start, data_size: int64; span of embedded data in the image, size -1 if not embedded.
        expires_ms, created_ms, modified_ms: int64; 0 if not stored.
    """

    key: Spans
    lsn: Ints
    state: Ints
    logged_size: Ints
    vlsn: Ints
    data_start: Ints
    data_size: Ints
    expires_ms: Ints
    created_ms: Ints
    modified_ms: Ints

    @classmethod
    def of_keys(cls, key: Spans) -> Slots:
        """Return slots with keys and empty columns, to be filled."""
        columns = {name: np.zeros(len(key), np.int64) for name in _SLOT_NUMBERS}
        columns["lsn"][:] = NULL_LSN
        columns["data_size"][:] = -1
        return cls(key, **columns)

    def __len__(self) -> int:
        return len(self.lsn)

    def select(self, keep: npt.NDArray[Any] | slice) -> Slots:
        """Select slots by a mask, by an index array in its order, or by a slice."""
        return Slots(*(_selected(column, keep) for column in astuple(self)))

    @property
    def deleted(self) -> Mask:
        """Mask of the slots that are known to be deleted or pending deletion."""
        gone: Mask = self.state & (SlotState.KNOWN_DELETED | SlotState.PENDING_DELETED) != 0
        return gone


_SLOT_NUMBERS = tuple(name for name in Slots.__struct_fields__ if name != "key")


def _selected(column: Any, keep: npt.NDArray[Any] | slice) -> Any:
    return column.select(keep) if isinstance(column, Spans) else column[keep]


def joined_slots(parts: Sequence[Slots]) -> Slots:
    """Concatenate slots."""
    if len(parts) == 1:
        return parts[0]
    columns = {
        name: np.concatenate([np.empty(0, np.int64), *(getattr(p, name) for p in parts)])
        for name in _SLOT_NUMBERS
    }
    return Slots(key=joined_spans([part.key for part in parts]), **columns)


def split_embedded(slots: Columns) -> tuple[Ints, Ints, Ints, Ints]:
    """Return keys and embedded data of slots: (key starts, key sizes, data starts, data sizes).

    Each is int64 (slots,). If a two-part key is malformed, all its bytes are the key.
    """
    starts, sizes = slots.span("key")
    keys, data = _native.split_keys(Spans(slots.data, starts, sizes), slots.number("state"))
    return starts, keys, starts + keys, data


def split_two_part_keys(keys: Spans) -> tuple[Spans, Spans]:
    """Return keys and data of the two-part keys of a database with duplicates.

    If a two-part key is malformed, all its bytes are the key, and its data is null.
    """
    sizes, data = _native.split_keys(keys, None)
    return Spans(keys.data, keys.starts, sizes), Spans(keys.data, keys.starts + sizes, data)
