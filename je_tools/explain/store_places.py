"""Places in stores of Ignite: what lies at a pointer of the log, and what a page is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from je_tools.core.escaping import clean_text, counted
from je_tools.errors import InputError
from je_tools.formats.files.source import Source, SourceError
from je_tools.formats.ignite.ids import cache_id
from je_tools.formats.ignite.page_ids import (
    PLACE_BITS,
    PageFlag,
    flag_of,
    index_of,
    item_of,
    page_file_name,
    partition_of,
)
from je_tools.formats.ignite.pages import PageState, page_rules, page_type_name, read_pages
from je_tools.formats.ignite.segments import SEGMENT_HEADER_SIZE
from je_tools.formats.ignite.types import type_name
from je_tools.ignite.checkpoints.node_checkpoints import node_checkpoints
from je_tools.ignite.pages.files import page_folder
from je_tools.ignite.wal.dump import RecordDump
from je_tools.ignite.wal.dump_columns import record_texts
from je_tools.ignite.wal.record_filters import RecordFilters
from je_tools.ignite.wal.segment_judge import judge_of
from je_tools.ignite.wal.segment_reading import copies_of, read_segment

if TYPE_CHECKING:
    from je_tools.core.masking import Masking
    from je_tools.explain.place_names import StorePlace
    from je_tools.ignite.pages.files import PageFile
    from je_tools.ignite.segment_files import SegmentFile
    from je_tools.ignite.store import Node, Store

_FLAGS = {int(flag): flag.name.lower() for flag in PageFlag}

_FINE = (PageState.GOOD, PageState.ENCRYPTED, PageState.UNSUMMED, PageState.ZERO)

_SHOWN = (
    "time_ms",
    "group",
    "cache",
    "page_id",
    "partition",
    "op",
    "state",
    "transaction",
    "version",
    "counter",
    "key",
    "value",
    "fields",
)


_VALUE_MAX = 200
"""Largest number of characters of a value; `ignite wal dump` has all."""


class PlaceFacts(Struct, frozen=True):
    """Facts about a place on one node, in words.

    Attributes:
        place: the place as written.
        node: name of the node; None if no store was read.
        facts: names and values.
        is_damaged: True if the bytes there are damaged, or a record should be there.
    """

    place: str
    node: str | None
    facts: tuple[tuple[str, str], ...]
    is_damaged: bool = False


def page_facts(place: StorePlace) -> PlaceFacts:
    """Return what the bits of a page id say.

    Source: PageIdUtils, PageIdAllocator, Ignite 2.18.0.
    """
    assert place.page_id is not None
    page_id = place.page_id
    flag = flag_of(page_id)
    partition = partition_of(page_id)
    return PlaceFacts(
        place.text,
        None,
        (
            ("page id", f"{page_id:016x}"),
            ("partition", f"{partition} ({page_file_name(partition)})"),
            ("page", f"{index_of(page_id):,}"),
            ("kind", _FLAGS.get(flag, f"flag {flag}")),
            ("rotation, or item of a link", f"{item_of(page_id)}"),
        ),
    )


def explain_store_place(
    place: StorePlace, store: Store, masking: Masking, threads: int
) -> Iterator[PlaceFacts]:
    """Yield the facts about a place, by node.

    Args:
        place: a pointer, or a page of a group.
        store: the nodes.
        masking: masking of keys and values.
        threads: number of threads that read segments.

    Raises:
        InputError: a file cannot be read.
        StoppedError: a file shrank, vanished or was replaced while it was read.
    """
    for node in store.nodes:
        if place.pointer is not None:
            yield _pointer_facts(place, place.pointer, store, node, masking, threads)
        else:
            yield _page_facts(place, store, node, threads)


class _RecordsBeside(Struct):
    """Records before and after an offset, as (offset, length, type); None for none."""

    before: tuple[int, int, int] | None = None
    after: tuple[int, int, int] | None = None


def _pointer_facts(
    place: StorePlace,
    pointer: tuple[int, int],
    store: Store,
    node: Node,
    masking: Masking,
    threads: int,
) -> PlaceFacts:
    segment, offset = pointer
    judge = judge_of(store, node)
    copies = next((each for each in copies_of(node) if each.index == segment), None)
    if copies is None:
        indexes = [each.index for each in copies_of(node)]
        known = f"segments {indexes[0]} to {indexes[-1]} are" if indexes else "no segment is"
        what = f"no file has segment {segment}; {known} there"
        return PlaceFacts(place.text, node.name, (("what", what),), is_damaged=True)
    facts: list[tuple[str, str]] = []
    is_damaged = False
    for file in copies.files:
        what, is_bad = _what_at(file, offset)
        facts += [("file", judge.path(file)), ("what", what)]
        is_damaged |= is_bad
    facts += _record(place, store, node, masking)
    facts.append(("recovery", _in_recovery(node, pointer, threads)))
    return PlaceFacts(place.text, node.name, tuple(facts), is_damaged)


def _what_at(file: SegmentFile, offset: int) -> tuple[str, bool]:
    """Return a text on the bytes at an offset of a segment, and whether they are damage."""
    look = _RecordsBeside()
    with read_segment(file) as (windows, end):
        for rows in windows:
            offsets = rows.columns.offset.astype(np.int64)
            at = int(np.searchsorted(offsets, offset, side="right"))
            sides = (("before", at - 1), ("after", at))
            for name, row in sides:
                is_new = name == "before" or look.after is None
                if 0 <= row < len(offsets) and is_new:
                    numbers = (rows.columns.length[row], rows.columns.type_no[row])
                    setattr(look, name, (int(offsets[row]), *map(int, numbers)))
    if look.before is not None:
        start, length, type_no = look.before
        if start == offset:
            return f"{type_name(type_no)}, {length:,} bytes, with a right checksum", False
        if offset < start + length:
            return f"inside of the {type_name(type_no)} that begins at {start}", False
    if look.after is not None:
        begin = SEGMENT_HEADER_SIZE if look.before is None else look.before[0] + look.before[1]
        stop = look.after[0]
        lost = f"no record: bytes {begin} to {stop} are damaged, and records follow at {stop}"
        return lost, True
    stop = SEGMENT_HEADER_SIZE if look.before is None else look.before[0] + look.before[1]
    tail = "" if end.tail is None else f", after the end of the records at {stop}"
    return f"no record{tail}", False


def _record(
    place: StorePlace, store: Store, node: Node, masking: Masking
) -> Iterator[tuple[str, str]]:
    """Yield the columns of the first entry of the record at a pointer."""
    selection = RecordFilters(from_pointer=place.text, to_pointer=place.text).selection()

    def encode(table: Any, where: Any) -> dict[str, Any]:
        texts = record_texts(table, where, masking)
        return {name: texts[name][0].as_py() for name in _SHOWN} | {"rows": len(table)}

    dump = RecordDump(selection, encode, threads=1)
    for found in dump.run(replace(store, nodes=(node,))):
        for name in _SHOWN:
            if found[name] is not None:
                text = clean_text(str(found[name]))
                more = f"... ({len(text):,} characters)" if len(text) > _VALUE_MAX else ""
                yield name, text[:_VALUE_MAX] + more
        if found["rows"] > 1:
            yield "entries", f"{found['rows']:,}; the first is shown"


def _in_recovery(node: Node, pointer: tuple[int, int], threads: int) -> str:
    """Return a text that says whether recovery reads a place, by the markers."""
    try:
        need = node_checkpoints(node, threads).need
    except InputError as error:
        return f"unknown: {error}"
    if need.first is None or need.offset is None:
        return "unknown: the newest markers do not point to a place; see `ignite checkpoints`"
    start = f"{need.first}:{need.offset}"
    if pointer < (need.first, need.offset):
        return f"does not read it: it reads from {start} on"
    return f"reads it: it reads from {start} on (the newest checkpoint: {need.status})"


def _page_facts(place: StorePlace, store: Store, node: Node, threads: int) -> PlaceFacts:
    assert place.page_id is not None
    page_id = place.page_id
    facts = list(page_facts(place).facts)
    partition, index = partition_of(page_id), index_of(page_id)
    is_damaged = False
    files = page_folder(node).files if node.db is not None else ()
    chosen = [
        each
        for each in files
        if each.partition == partition and place.group in (None, cache_id(each.group))
    ]
    for file in chosen:
        what, is_bad = _what_page(file, index)
        path = store.below(file.path)
        facts += [("file", path), ("what", what)]
        is_damaged |= is_bad
    if not chosen:
        facts.append(("what", f"the node has no such {page_file_name(partition)}"))
    if place.group is not None:
        facts.append(("log", _in_log(place.group, page_id, store, node, threads)))
    return PlaceFacts(place.text, node.name, tuple(facts), is_damaged)


def _what_page(file: PageFile, index: int) -> tuple[str, bool]:
    header = file.header
    if header is None:
        return f"the file cannot be read as pages: {file.problem}", not file.is_empty
    if index >= file.pages:
        return f"not in the file, which has {file.pages:,} pages", False
    start = header.size + index * header.page_size
    try:
        with Source(file.path) as source:
            data = source.read(start, min(start + header.page_size, file.size))
            columns = read_pages(data, page_rules(header, file.partition), index)
            is_lost = bool(source.unreadable)
    except SourceError as error:
        raise InputError(str(error)) from error
    state = PageState.UNREADABLE if is_lost else PageState(int(columns.state[0]))
    if state in (PageState.ZERO, PageState.UNREADABLE):
        words = {
            PageState.ZERO: "zeros: never written, or lost; `ignite pages verify` shows which",
            PageState.UNREADABLE: "the device does not deliver it",
        }
        return words[state], state is PageState.UNREADABLE
    kind = page_type_name(int(columns.type_no[0]))
    stored, computed = int(columns.stored[0]), int(columns.computed[0])
    sums = f"checksum {stored:08x}"
    if state is PageState.CHECKSUM:
        sums = f"stored checksum {stored:08x}, computed {computed:08x}"
    return f"{kind}, {state.name.lower()}, {sums}", state not in _FINE


def _in_log(group: int, page_id: int, store: Store, node: Node, threads: int) -> str:
    """Return how many records name a page, and the newest of them."""
    filters = RecordFilters(pages=[f"{group}:{page_id & PLACE_BITS:016x}"])

    def encode(table: Any, _: Any) -> tuple[int, str]:
        columns = table.rows.columns
        row = int(table.index[-1])
        where = f"{table.rows.header.segment}:{int(columns.offset[row])}"
        return len(table), f"{type_name(int(columns.type_no[row]))} at {where}"

    dump = RecordDump(filters.selection(), encode, threads)
    found = list(dump.run(replace(store, nodes=(node,))))
    if not found:
        return "no record names it"
    number = counted(sum(count for count, _ in found), "record")
    return f"named by {number}, the newest {found[-1][1]}"
