"""Encoding nodes from columns, compared with nodes of engines and with single entries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from je_tools.formats.files.source import Bytes
from je_tools.formats.je.btree.nodes import Nodes, read_nodes
from je_tools.formats.je.btree.slots import Slots
from je_tools.formats.je.entry.entries import decode_entry, encode_item
from je_tools.formats.je.layout import layout
from je_tools.formats.je.log.fetch import Entries, fetch
from je_tools.formats.je.types import Family
from je_tools.formats.je.write.node_writer import (
    DELTAS_MIN,
    WRITTEN_MAX,
    WRITTEN_MIN,
    FullVersions,
    encode_deltas,
    encode_nodes,
)
from je_tools.formats.spans import Spans
from tests.builders.nodes import (
    BIN_NO,
    DAY_MS,
    DELTA_NO,
    DIRTY,
    EMBEDDED,
    HOUR_MS,
    HOURS,
    IN_NO,
    NO_DATA,
    NOT_LOGGED,
    PREFIX,
    PlainNode,
    PlainSlot,
    columns_of,
    engine_choices,
    fields_of,
    plain_node,
)
from tests.corpus import Environment, environment, log_files
from tests.formats.je.log.test_fetch import image_of
from tests.formats.logs import log_rows

OF_THE_PAST = {
    "key_prefix",
    "base_file_no",
    "compact_lsns",
    "expiration_base",
    "created_base_ms",
    "modified_base_ms",
    "booleans",
    "slots",
}
"""Fields that an engine leaves as an earlier state of the node made them."""

DUPLICATES = 1
MAP_LNS, DB_TREE_NO = (3, 4), 16
FULL = (IN_NO, BIN_NO)
SAMPLE = 40


def with_duplicates(home: Any) -> set[int]:
    """Return the ids of databases whose descriptors say that they have duplicates."""
    found = set()
    for path in log_files(home):
        for rows in log_rows(path):
            for row in np.flatnonzero(np.isin(rows.type, MAP_LNS)).tolist():
                database = decode_entry(rows.entry_bytes(row), rows.version).fields["database"]
                if database["db_flags"] & DUPLICATES:
                    found.add(database["id"])
    return found


def nodes_of(
    where: Environment, types: tuple[int, ...] = FULL
) -> Iterator[tuple[Entries, bool, bool]]:
    """Yield nodes that engines wrote, and two flags: they have prefixes, and duplicates.

    All nodes of one result have the same log version.
    """
    image = image_of(log_files(where.home))
    lsns = [rows.lsn[np.isin(rows.type, types)]
            for path in log_files(where.home) for rows in log_rows(path)]  # fmt: skip
    entries = fetch(image, np.concatenate(lsns))
    entries = entries.select(np.flatnonzero(entries.version >= WRITTEN_MIN))
    nodes = read_nodes(entries)
    has_prefix = nodes.booleans & PREFIX != 0
    two_part = np.isin(nodes.db_id, list(with_duplicates(where.home)))
    for version in np.unique(entries.version).tolist():
        for prefixing in (False, True):
            for doubled in (False, True):
                rows = (has_prefix == prefixing) & (two_part == doubled)
                some = np.flatnonzero(rows & (entries.version == version))
                if len(some):
                    yield entries.select(some), prefixing, doubled


def read_back(items: Spans, entries: Entries) -> Nodes:
    """Decode items in place of those of `entries`."""
    changed = {"position": items.starts, "size": items.sizes, "data": items.data}
    return read_nodes(replace(entries, header_size=np.zeros(len(items), np.uint8), **changed))


def assert_same(back: Nodes, data: Bytes, nodes: Nodes, bytes_of: Bytes) -> None:
    """Assert that nodes hold the same, except for how they were logged."""
    assert back.good.all()
    is_delta = DIRTY if DELTA_NO in nodes.type else 0
    for name in ("db_id", "node_id", "level", "max_entries", "last_full_lsn", "first", "type"):
        assert (getattr(back, name) == getattr(nodes, name)).all(), name
    own = replace(back.identifier_key, data=data)
    assert strings(own) == strings(nodes.identifier_key)
    assert (back.booleans & 1 == nodes.booleans & 1).all()
    assert (back.slots.state == nodes.slots.state & ~NOT_LOGGED | is_delta).all()
    assert strings(back.slots.key) == strings(nodes.slots.key)
    for column in set(Slots.__struct_fields__) - {"state", "key", "data_start"}:
        assert (getattr(back.slots, column) == getattr(nodes.slots, column)).all(), column
    assert strings(embedded(back, data)) == strings(embedded(nodes, bytes_of))


def strings(spans: Spans) -> list[bytes | None]:
    return [spans[row] for row in range(len(spans))]


def embedded(nodes: Nodes, data: Bytes) -> Spans:
    return Spans(data, nodes.slots.data_start, nodes.slots.data_size)


def test_nodes_of_engines_are_the_same_again(some_environment: Environment) -> None:
    for entries, prefixing, two_part in nodes_of(some_environment):
        nodes = read_nodes(entries)
        data, version = entries.image.data, int(entries.version[0])
        kinds = {"prefixing": prefixing, "two_part": two_part}
        items = encode_nodes(nodes, data, version, **kinds)
        assert_same(read_back(items, entries), items.data, nodes, data)


def fulls_of(entries: Entries) -> FullVersions:
    """Return the fields of deltas that describe their full versions."""
    columns = np.zeros((3, len(entries)), np.int64)
    for rows, decoded in entries.decode(Family.NODE, np.arange(len(entries))):
        for column, name in zip(
            columns, ("last_full_size", "full_slot_count", "full_max_entries"), strict=True
        ):
            column[rows] = decoded.fields.known(name)
    return FullVersions(*columns)


def test_deltas_of_engines_are_the_same_again(some_environment: Environment) -> None:
    for entries, prefixing, two_part in nodes_of(some_environment, (DELTA_NO,)):
        nodes, fulls = read_nodes(entries), fulls_of(entries)
        data, version = entries.image.data, int(entries.version[0])
        kinds = {"prefixing": prefixing, "two_part": two_part}
        items = encode_deltas(nodes, fulls, data, version, **kinds)
        back = read_back(items, entries)
        assert_same(back, items.data, nodes, data)
        assert (back.booleans & HOURS == nodes.booleans & HOURS).all()


def compared(where: Environment, types: tuple[int, ...] = FULL) -> tuple[int, int]:
    """Return the number of nodes that encode to the engine's bytes, and the number compared.

    The others differ from the engine's nodes only in fields of `OF_THE_PAST`.
    """
    same = total = 0
    for entries, prefixing, two_part in nodes_of(where, types):
        entries = entries.select(np.arange(0, len(entries), -(-len(entries) // SAMPLE)))
        version, data = int(entries.version[0]), entries.image.data
        kinds = {"prefixing": prefixing, "two_part": two_part}
        items = encoded(entries, version, **kinds)
        for row, (start, size) in enumerate(zip(entries.position, entries.size, strict=True)):
            logged = dict(decode_entry(data[start : start + size].tobytes(), version).fields)
            type_no = int(entries.type[row])
            expected = fields_of(plain_node(type_no, version, logged), version, **kinds)
            assert items[row] == encode_item(type_no, version, expected)
            choices = engine_choices(logged)
            differ = {name for name in choices if choices[name] != known(expected, choices, name)}
            assert differ <= OF_THE_PAST
            same += items[row] == encode_item(type_no, version, choices)
            total += 1
    return same, total


def encoded(entries: Entries, version: int, *, prefixing: bool, two_part: bool) -> Spans:
    """Encode nodes of one kind."""
    nodes, data = read_nodes(entries), entries.image.data
    if DELTA_NO not in nodes.type:
        return encode_nodes(nodes, data, version, prefixing=prefixing, two_part=two_part)
    return encode_deltas(
        nodes, fulls_of(entries), data, version, prefixing=prefixing, two_part=two_part
    )


def known(expected: dict[str, Any], choices: dict[str, Any], name: str) -> Any:
    """Return the expected value of a field; of slots, only the fields that the engine logged."""
    if name != "slots":
        return expected[name]
    pairs = zip(expected["slots"], choices["slots"], strict=True)
    return [{field: mine[field] for field in its} for mine, its in pairs]


def test_nodes_are_those_of_engines_byte_by_byte(environment: Environment) -> None:
    compared(environment)


def test_deltas_are_those_of_engines_byte_by_byte(some_environment: Environment) -> None:
    compared(some_environment, (DELTA_NO,))


@pytest.mark.parametrize("name", ["v8-basic", "v17-basic", "v26-basic", "v17-dups", "v15-embedded"])
def test_where_nodes_have_no_past_all_bytes_are_the_same(name: str) -> None:
    same, total = compared(environment(name))
    assert same == total > 20


KEYS = st.one_of(st.binary(max_size=6), st.binary(max_size=200))
FILES = st.one_of(st.integers(0, 200), st.integers(3, 5), st.integers(0, (1 << 31) - 1))
OFFSETS = st.one_of(st.integers(38, 0xFFFFFF), st.integers(0, (1 << 32) - 1))
LSNS = st.one_of(st.just(-1), st.builds(lambda f, o: f << 32 | o, FILES, OFFSETS))
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
SMALL = st.one_of(st.just(0), st.integers(0, 1 << 30))
TIMES = st.one_of(st.just(0), st.integers(1_600_000_000_000, 1_800_000_000_000))
HOURS_OF = st.one_of(
    st.just(0),
    st.integers(18_000, 20_000).map(lambda days: 24 * days),
    st.integers(400_000, 500_000),
)


@st.composite
def plain_slots(draw: st.DrawFn, is_bin: bool, prefix: bytes) -> PlainSlot:
    state = draw(st.integers(0, 255)) if is_bin else draw(st.integers(0, 15))
    data = None
    if state & EMBEDDED:
        data = b"" if state & NO_DATA else draw(st.binary(max_size=300))
    expires = draw(HOURS_OF) * HOUR_MS if is_bin else 0
    times = [draw(TIMES) if data is not None else 0 for _ in range(2)]
    vlsn = draw(SMALL) if data is not None else 0
    size = draw(SMALL) if data is None else 0
    key = prefix + draw(KEYS)
    return PlainSlot(key, draw(LSNS), state, data, size, vlsn, expires, *times)


@st.composite
def plain_nodes(draw: st.DrawFn, types: tuple[int, ...] = FULL) -> PlainNode:
    type_no = draw(st.sampled_from(types))
    prefix = draw(st.one_of(st.just(b""), KEYS))
    slots = draw(st.lists(plain_slots(type_no == BIN_NO, prefix), max_size=8))
    numbers = [draw(NUMBERS), draw(NUMBERS), draw(st.integers(0, (1 << 31) - 1))]
    flags = [draw(st.booleans()), draw(st.booleans())]
    last = [draw(SMALL), draw(NUMBERS), draw(KEYS)]
    return PlainNode(type_no, *numbers, *flags, *last, slots)


@st.composite
def plain_deltas(draw: st.DrawFn) -> PlainNode:
    full_lsn = draw(LSNS.filter(lambda lsn: lsn != -1))
    of_full = draw(st.tuples(SMALL, SMALL, SMALL))
    node = draw(plain_nodes((BIN_NO,)))
    return replace(node, type_no=DELTA_NO, is_root=False, last_full_lsn=full_lsn, full=of_full)


def versions_from(first: int) -> Iterator[Any]:
    """Yield the written versions; one whose nodes are like both neighbours' is exhaustive."""

    def is_changed(version: int) -> bool:
        kinds = (IN_NO, BIN_NO, DELTA_NO)
        return any(layout(no, version - 1) != layout(no, version) for no in kinds)

    for version in range(first, WRITTEN_MAX + 1):
        is_like = not is_changed(version) and not is_changed(min(version + 1, WRITTEN_MAX))
        marks = [pytest.mark.exhaustive] if is_like and version != first else []
        yield pytest.param(version, marks=marks)


def assert_as_single_entries(
    nodes: list[PlainNode], version: int, *, prefixing: bool, two_part: bool
) -> None:
    columns, data = columns_of(nodes)
    kinds = {"prefixing": prefixing, "two_part": two_part}
    of_full = np.array([node.full for node in nodes], np.int64).reshape(-1, 3)
    if DELTA_NO in columns.type:
        fulls = FullVersions(*of_full.T)
        items = encode_deltas(columns, fulls, data, version, **kinds)
    else:
        items = encode_nodes(columns, data, version, **kinds)
    assert strings(items) == [
        encode_item(node.type_no, version, fields_of(node, version, **kinds)) for node in nodes
    ]


@pytest.mark.parametrize("version", list(versions_from(WRITTEN_MIN)))
@settings(max_examples=20)
@given(st.lists(plain_nodes(), max_size=4), st.booleans(), st.booleans())
def test_nodes_are_as_single_entries(
    version: int, nodes: list[PlainNode], prefixing: bool, two_part: bool
) -> None:
    assert_as_single_entries(nodes, version, prefixing=prefixing, two_part=two_part)


@pytest.mark.parametrize("version", list(versions_from(DELTAS_MIN)))
@settings(max_examples=8)
@given(st.lists(plain_deltas(), min_size=1, max_size=4), st.booleans(), st.booleans())
def test_deltas_are_as_single_entries(
    version: int, nodes: list[PlainNode], prefixing: bool, two_part: bool
) -> None:
    assert_as_single_entries(nodes, version, prefixing=prefixing, two_part=two_part)


@pytest.mark.parametrize("version", range(WRITTEN_MIN, WRITTEN_MAX + 1))
def test_where_the_form_changes(version: int) -> None:
    """LSNs and expirations on both sides of the limits of the compact forms."""
    lsns = [
        [5 << 32 | 38, 5 + far << 32 | offset] for far in (127, 128) for offset in (38, 0xFFFFFE)
    ]
    lsns += [[5 << 32 | 0xFFFFFF], [-1, 7 << 32 | 38], [-1, -1], [-1], []]
    days = [[0], [0, 100_000, 99_999], [100_001], [20_000]]
    expirations = [[day * DAY_MS for day in row] for row in days]
    expirations += [[20_000 * DAY_MS, 500_001 * HOUR_MS], [480_000 * HOUR_MS, 0]]
    nodes = [
        PlainNode(no, identifier_key=b"k", slots=[PlainSlot(b"k%d" % i, lsn) for i, lsn in row])
        for no in (IN_NO, BIN_NO)
        for row in map(list, map(enumerate, lsns))
    ]
    nodes += [
        PlainNode(
            BIN_NO,
            in_hours=in_hours,
            slots=[PlainSlot(b"k%d" % i, 38, expires_ms=ms) for i, ms in enumerate(row)],
        )
        for row in expirations
        for in_hours in (False, True)
    ]
    for two_part in (False, True):
        assert_as_single_entries(nodes, version, prefixing=False, two_part=two_part)


def test_nodes_that_cannot_be_written_are_refused() -> None:
    slot = PlainSlot(b"a", 38, EMBEDDED, b"data")
    columns, data = columns_of([PlainNode(BIN_NO, slots=[slot])])
    encode_nodes(columns, data, 17, prefixing=True, two_part=False)
    slots = columns.slots
    no_data = replace(slots, data_size=np.array([-1]))
    lost_data = replace(slots, state=np.array([0]))
    odd = replace(slots, expires_ms=np.array([1]))
    for refused, version in (
        (columns, WRITTEN_MIN - 1),
        (columns, WRITTEN_MAX + 1),
        (replace(columns, good=np.array([False])), 17),
        (replace(columns, type=np.array([37], np.uint8)), 17),
        *((replace(columns, slots=wrong), 17) for wrong in (no_data, lost_data, odd)),
    ):
        with pytest.raises(ValueError, match=r"not|only|agree|within"):
            encode_nodes(refused, data, version, prefixing=True, two_part=False)


def test_deltas_that_cannot_be_written_are_refused() -> None:
    delta = PlainNode(DELTA_NO, last_full_lsn=38, slots=[PlainSlot(b"a", 38)])
    columns, data = columns_of([delta])
    fulls = FullVersions(*np.ones((3, 1), np.int64))
    encode_deltas(columns, fulls, data, DELTAS_MIN, prefixing=True, two_part=False)
    for refused, version in (
        (columns, DELTAS_MIN - 1),
        (replace(columns, last_full_lsn=np.array([-1])), 17),
        (replace(columns, type=np.array([BIN_NO], np.uint8)), 17),
    ):
        with pytest.raises(ValueError, match=r"not|only"):
            encode_deltas(refused, fulls, data, version, prefixing=True, two_part=False)
