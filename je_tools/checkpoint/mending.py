"""What engines have lost of slots, and a checkpoint finds again in the entries themselves.

An expiration that was taken for days too often is far off, and the record stays while the cleaner,
which asks the entry, takes its file away.

Source: IN.getLastLoggedSize, BIN.setExpiration, BIN.applyDelta, JE 7.5.11 and 18.3.12.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from je_tools.btree.tree import Tree
from je_tools.formats.arrays import Mask
from je_tools.formats.je.expirations import HOUR_MS, expiration_ms
from je_tools.formats.je.fetch import fetch
from je_tools.formats.je.nodes import Slots
from je_tools.formats.je.types import Family

FAR_MS = 1_000_000 * HOUR_MS
"""An expiration behind is looked up in the entry: hours since 1970 up to the year 2084."""


def lack_sizes(slots: Slots) -> Mask:
    """Which slots do not know how large their entries are."""
    lacking: Mask = (slots.logged_size <= 0) & (slots.data_size < 0)
    return lacking


def expire_far(slots: Slots) -> Mask:
    """Which slots expire so late that it cannot be right."""
    far: Mask = slots.expires_ms > FAR_MS
    return far


def mended(tree: Tree, slots: Slots) -> Slots:
    """Slots with what engines up to 18.3 have lost: sizes of entries, units of expirations."""
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
