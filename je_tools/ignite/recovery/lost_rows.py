"""Records that a repaired node does not have, as rows: one for each entry that is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from je_tools.core.escaping import clean_text
from je_tools.formats.spans import Spans
from je_tools.ignite.caches import cache_names
from je_tools.ignite.values.texts import key_texts
from je_tools.ignite.values.types import node_types

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.ignite.repairs.lost_records import LostEntry, LostLogRecords
    from je_tools.ignite.store import Node


class LostRow(Struct, frozen=True):
    """An entry of lost records, or all of them.

    Attributes:
        node: name of the node.
        lost: the records.
        text: what is lost, in words.
        entry: the entry; None if none is known.
        cache: name of its cache; None if no folder has it.
        key: its key as JSON, or what masks it.
    """

    node: str
    lost: LostLogRecords
    text: str
    entry: LostEntry | None = None
    cache: str | None = None
    key: str | None = None


def lost_rows(node: Node, records: Sequence[LostLogRecords], masking: Masking) -> Iterator[LostRow]:
    """Yield the rows on the lost records of a node.

    Raises:
        InputError: a folder cannot be read.
    """
    names = cache_names(node).caches if records else {}
    types = node_types(node) if any(each.entries for each in records) else None
    for lost in records:
        if types is None or not lost.entries:
            yield LostRow(node.name, lost, lost.text)
            continue
        keys = Spans.of([each.key for each in lost.entries])
        kinds = np.array([each.key_type for each in lost.entries], np.int64)
        texts = key_texts(types, keys, kinds, masking)
        for entry, text in zip(lost.entries, texts, strict=True):
            name = names.get(entry.cache_id)
            name = None if name is None else clean_text(name)
            yield LostRow(node.name, lost, lost.text, entry, name, text)
        if lost.more_entries:
            text = f"{lost.more_entries:,} more of its entries"
            yield LostRow(node.name, lost, text)
