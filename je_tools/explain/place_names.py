"""Names of places in stores of Ignite, as users and messages write them.

A pointer is written `SEGMENT:OFFSET`, as `ignite wal dump` shows it, and a page `GROUP:PAGE` with
the 16 hexadecimal digits of its id, or the id alone.
"""

from __future__ import annotations

import re

from msgspec import Struct

from je_tools.ignite.caches import parse_id

_POINTER = re.compile(r"(\d{1,18}):(\d{1,10})")
_PAGE = re.compile(r"(?:(.+):)?(?:0x)?([0-9a-fA-F]{16})")


class StorePlace(Struct, frozen=True):
    """A place that a user named.

    Attributes:
        text: the place as written.
        pointer: segment and offset; None for a page.
        group: id of the group of a page; None if it was not named.
        page_id: id of a page; None for a pointer.
    """

    text: str
    pointer: tuple[int, int] | None = None
    group: int | None = None
    page_id: int | None = None


def parse_store_place(text: str) -> StorePlace | None:
    """Return the place that a text is; None if it is none.

    Raises:
        UsageError: the group is a number outside of 32 bits.
    """
    found = _PAGE.fullmatch(text)
    if found is not None:
        group = None if found[1] is None else parse_id(found[1])
        return StorePlace(text, group=group, page_id=int(found[2], 16))
    found = _POINTER.fullmatch(text)
    return None if found is None else StorePlace(text, (int(found[1]), int(found[2])))
