"""Values as JSON: equal to what the engine shows, and bounded for hostile bytes."""

from __future__ import annotations

import json
import struct
from hashlib import sha256
from itertools import pairwise

import numpy as np
import pytest

from je_tools.formats.ignite.record_table import record_tables
from je_tools.formats.ignite.values import (
    DEPTH_MAX,
    TypeMetadata,
    ValueProblem,
    ValueTypes,
    read_metadata,
)
from je_tools.formats.spans import Spans
from je_tools.ignite.values.types import node_types
from tests.corpus import IgniteNode
from tests.je_tools.ignite.reading import each_rows, node_of
from tests.truth.ignite_rows import engine_rows, is_same

PERSON = -61379136


def _texts(types: ValueTypes, values: Spans, kinds: list[int]) -> tuple[list[str], list[int]]:
    found = types.texts(values, np.array(kinds, np.int64))
    whole = found.data.tobytes().decode("ascii")
    edges = found.offsets.tolist()
    texts = [whole[start:stop] for start, stop in pairwise(edges)]
    return texts, found.problems.tolist()


def _text(value: bytes, kind: int = 1) -> tuple[str, int]:
    texts, problems = _texts(ValueTypes(), Spans.of([value]), [kind])
    return texts[0], problems[0]


def test_keys_are_those_that_the_engine_shows(ignite_node: IgniteNode) -> None:
    rows = engine_rows(ignite_node)
    types = node_types(node_of(ignite_node.store, ignite_node.node))
    keys = Spans.of([bytes.fromhex(row.key_bytes) for row in rows])
    texts, problems = _texts(types, keys, [row.key_type for row in rows])
    assert not any(problems)
    for text, row in zip(texts, rows, strict=True):
        assert is_same(text, row.key), row


def test_values_are_those_that_the_engine_shows(ignite_node: IgniteNode) -> None:
    node = node_of(ignite_node.store, ignite_node.node)
    expected = {row.value_sha256: row.value for row in engine_rows(ignite_node)}
    types, seen = node_types(node), set()
    for _, rows in each_rows(node):
        (table,) = record_tables(rows)
        kinds = table.columns["value_type"]
        keep = np.flatnonzero(kinds.valid & (table.value.sizes >= 0))
        spans = table.value.select(keep)
        values = Spans(rows.data, spans.starts, spans.sizes)
        texts, _ = _texts(types, values, kinds.values[keep].tolist())
        for row, text in enumerate(texts):
            digest = sha256(values[row] or b"").hexdigest()
            if digest in expected and digest not in seen:
                seen.add(digest)
                assert is_same(text, expected[digest])
    # Without the key, an encrypted store shows no value; the others show all of them.
    assert len(seen) == (0 if ignite_node.case == "ignite-tde" else len(expected))


def test_metadata_has_names_and_schemas(ignite_node: IgniteNode) -> None:
    path = ignite_node.store / "db" / "binary_meta" / ignite_node.node / f"{PERSON}.bin"
    found = read_metadata(path.read_bytes())
    assert isinstance(found, TypeMetadata)
    assert (found.type_id, found.name) == (PERSON, "demo.Person")
    names = {field_id: name for name, _, field_id in found.fields}
    schemas = [[names[each] for each in ids] for _, ids in found.schemas]
    assert schemas[0][:3] == ["name", "age", "salary"]
    assert found.constants == ()


def test_metadata_that_is_cut_is_none_or_has_less(ignite_node: IgniteNode) -> None:
    path = ignite_node.store / "db" / "binary_meta" / ignite_node.node / f"{PERSON}.bin"
    data = path.read_bytes()
    assert all(read_metadata(data[:size]) is None for size in range(0, len(data), 7))


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (b"\x01\x02", 2, {"bytes": "0102"}),
        (b"\x1c\x05\0\0\0\x02\0\0\0", 101, {"enum": None, "typeId": 5, "ordinal": 2}),
        (b"\x20\0\0\0\0\x09\x01\0\0\0C", 1, {"class": "C"}),
        (
            b"\x19\x01\0\0\0\x02\x65\x07\x41\0",
            1,
            {"map": "LinkedHashMap", "of": [[None, {"char": 65}]]},
        ),
        (b"\x1d\0\0\0\0\x09\x01\0\0\0E\x01\0\0\0\x65", 1, {"array": "E", "of": [None]}),
        (b"\x1b\x02\0\0\0\x08\x01\x00\0\0\0", 1, True),
        (b"\xfe\x01\0\0\0\x70", 1, {"java": None, "bytes": "70"}),
    ],
)
def test_rarer_kinds(value: bytes, kind: int, expected: object) -> None:
    assert json.loads(_text(value, kind)[0]) == expected


def test_a_null_has_no_text_and_damage_has_a_reason() -> None:
    values = Spans.of([None, b"\x03\x01", b"\xfd\x01", b"\x65"])
    texts, problems = _texts(ValueTypes(), values, [1, 1, 1, 1])
    assert texts == ["", '{"undecoded":"damaged"}', '{"undecoded":"transformed"}', "null"]
    wrong = [ValueProblem.GOOD, ValueProblem.DAMAGED, ValueProblem.TRANSFORMED, ValueProblem.GOOD]
    assert problems == wrong


def test_depth_and_size_are_bounded() -> None:
    deep = b"\x18\x01\0\0\0\x01" * (DEPTH_MAX + 1)
    assert _text(deep)[1] == ValueProblem.DEEP
    value = struct.pack("<Bib", 24, 41, 1) + struct.pack("<Bib", 24, 0, 1)
    before = 6
    for _ in range(40):
        start = len(value)
        value += struct.pack("<Bib", 24, 2, 1)
        for _ in range(2):
            value += struct.pack("<Bi", 102, len(value) - before)
        before = start
    assert _text(value)[1] == ValueProblem.LONG
