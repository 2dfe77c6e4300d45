"""Values of the records whose keys were found, which are searched for as well."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set
from typing import TYPE_CHECKING

from je_tools.erase.proof.hit_places import EntryFields
from je_tools.erase.proof.needles import Needle, NeedleKind
from je_tools.erase.subject.traces import ValueFacts
from je_tools.formats.je.btree.keys import NotTwoPartError, slot_parts, split_two_part
from je_tools.formats.je.log.walk import NO_OFFSET

if TYPE_CHECKING:
    from je_tools.erase.proof.log_search import LogSearch
    from je_tools.erase.proof.run import FileSearch, SearchedTree

VALUE_SIZE_MIN = 8
"""Shorter values are not searched for: they belong to many records."""

VALUE_SIZE_MAX = 4096
"""Longer values are searched for by their first bytes."""

VALUES_MAX = 5_000
"""Largest number of values that are searched for."""

ORIGIN = "value"
"""Origin of the needles of values."""


def value_needles(
    found: SearchedTree, db_ids: Collection[int] | None
) -> tuple[list[Needle], ValueFacts]:
    """Return the values of all versions of records whose keys were found, as needles.

    Args:
        found: the search for the keys.
        db_ids: databases whose records count; None for all.
    """
    facts = ValueFacts()
    needles: dict[bytes, Needle] = {}
    seen: set[bytes] = set()
    for value in _values(found, db_ids):
        if value in seen:
            continue
        if len(seen) >= 2 * VALUES_MAX:
            facts.left_count += 1
            continue
        seen.add(value)
        cut = value[:VALUE_SIZE_MAX]
        if len(value) < VALUE_SIZE_MIN:
            facts.short_count += 1
        elif cut not in needles and len(needles) >= VALUES_MAX:
            facts.left_count += 1
        else:
            facts.cut_count += len(cut) < len(value)
            needles.setdefault(cut, Needle(NeedleKind.LITERAL, ORIGIN, cut, len(cut)))
    facts.searched_count = len(needles)
    return list(needles.values()), facts


def _values(found: SearchedTree, db_ids: Collection[int] | None) -> Iterator[bytes]:
    for each in found.files:
        if each.log is not None and each.hit_count:
            yield from _values_in(found, each, each.log, db_ids)


def _values_in(
    found: SearchedTree, each: FileSearch, log: LogSearch, db_ids: Collection[int] | None
) -> Iterator[bytes]:
    fields = EntryFields(log.log, found.duplicates)
    raw, joined = each.raw, log.joined
    places = [
        *zip(log.hit_entry.tolist(), raw.start.tolist(), raw.needle.tolist(), strict=True),
        *zip(
            joined.entry_offset.tolist(),
            joined.offset.tolist(),
            joined.needle.tolist(),
            strict=True,
        ),
    ]
    try:
        for entry, start, number in places:
            needle = found.search.needles[number]
            if entry == NO_OFFSET or not needle.is_key:
                continue
            fields.load(entry)
            if db_ids is None or fields.value_of("db_id") in db_ids:
                has_duplicates = fields.value_of("db_id") in found.duplicates
                yield from _values_of(fields, start, needle, has_duplicates)
    finally:
        fields.close()


def key_at(fields: EntryFields, start: int, duplicates: Set[int]) -> bytes:
    """Return the key of the record at an offset of the last entry: that of a slot, or its own.

    Args:
        fields: the entry.
        start: the offset, in the file.
        duplicates: databases with duplicates.
    """
    return _record_at(fields, start, fields.value_of("db_id") in duplicates)[0]


def _values_of(
    fields: EntryFields, start: int, needle: Needle, has_duplicates: bool
) -> Iterator[bytes]:
    """Yield the values of the record at an offset, if its key is that of the needle."""
    key, *values = _record_at(fields, start, has_duplicates)
    if _is_key(key, needle):
        yield from (bytes(each) for each in values if each)


def _record_at(
    fields: EntryFields, start: int, has_duplicates: bool
) -> tuple[bytes, *tuple[bytes | None, ...]]:
    """Return the key of the slot at an offset, or of the entry, and all its values."""
    slot = fields.slot_at(start)
    if slot is not None:
        rest, data = slot_parts(slot)
        key, value = _parts((fields.value_of("key_prefix") or b"") + rest, has_duplicates)
        return key, value, data
    key, value = _parts(fields.value_of("key") or b"", has_duplicates)
    names = ("data", "abort_data", "data_as_key")
    return key, value, *map(fields.value_of, names)


def _parts(key: bytes, has_duplicates: bool) -> tuple[bytes, bytes | None]:
    """Return key and data of a two-part key; other keys have no data."""
    if has_duplicates:
        try:
            return split_two_part(key)
        except NotTwoPartError:
            pass
    return key, None


def _is_key(key: bytes, needle: Needle) -> bool:
    return key.startswith(needle.value) if needle.is_prefix else key == needle.value
