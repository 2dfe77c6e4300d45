"""Slot repair: sizes and expirations that engines have lost are restored from the LNs.

Engines up to 18.3 may convert the expiration of a slot from days to hours twice, which puts it far
into the future. The record then stays in the tree, although the cleaner, which reads the LN,
removes the file with the LN.

Source: IN.getLastLoggedSize, BIN.setExpiration, BIN.applyDelta, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from je_tools.formats.je.expirations import HOUR_MS, expiration_ms
from je_tools.formats.je.log.fetch import fetch
from je_tools.formats.je.types import Family

if TYPE_CHECKING:
    from je_tools.btree.tree import Tree
    from je_tools.formats.arrays import Mask
    from je_tools.formats.je.btree.slots import Slots

FAR_MS = 1_000_000 * HOUR_MS
"""Expirations after this time, in the year 2084, are looked up in the LN."""


def lack_sizes(slots: Slots) -> Mask:
    """Return a mask of the slots that need the size of their entry and lack it."""
    lacking: Mask = (slots.logged_size <= 0) & (slots.data_size < 0)
    return lacking


def expire_far(slots: Slots) -> Mask:
    """Return a mask of the slots that expire implausibly late."""
    far: Mask = slots.expires_ms > FAR_MS
    return far


def repair_slots(tree: Tree, slots: Slots) -> Slots:
    """Return slots with the sizes and expirations of their LNs where engines have lost these."""
    sizes, expires = slots.logged_size.copy(), slots.expires_ms.copy()
    lacking = np.flatnonzero(lack_sizes(slots))
    found = fetch(tree.image, slots.lsn[lacking], check=False)
    sizes[lacking] = np.where(found.good, found.size, 0)
    far = np.flatnonzero(expire_far(slots))
    entries = fetch(tree.image, slots.lsn[far])
    for some, decoded in entries.decode(
        Family.LN, np.flatnonzero(entries.is_family(Family.LN)), wanted=frozenset({"expiration"})
    ):
        expires[far[some]] = expiration_ms(decoded.fields.known("expiration"))
    return replace(slots, logged_size=sizes, expires_ms=expires)
