"""Filters by key: each form is the key that `key_json` shows, and only its rows match."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from je_tools.core.masking import SHOWN
from je_tools.errors import UsageError
from je_tools.formats.spans import Spans
from je_tools.ignite.key_filter import parse_keys
from je_tools.ignite.store import open_store
from je_tools.ignite.values.texts import value_texts
from je_tools.ignite.values.types import node_types
from tests.builders import ignite as build
from tests.builders import ignite_pages as pages
from tests.je_tools.dumped import je_tools

FORMS = {
    "alice": '"alice"',
    "str:int:5": '"int:5"',
    '"\\u00e4"': '"\\u00e4"',
    "int:-5": '{"int":-5}',
    "long:5000000000": '{"long":5000000000}',
    "short:5": '{"short":5}',
    "byte:-128": '{"byte":-128}',
    "bool:true": "true",
    "uuid:00000000-0000-0001-0000-000000000002": '{"uuid":"00000000-0000-0001-0000-000000000002"}',
    "hex:0305000000": '{"int":5}',
    **{
        text: text
        for text in (
            '{"long":-1}',
            '{"char":65}',
            '{"floatBits":"3f800000"}',
            '{"doubleBits":"3ff0000000000000"}',
            '{"date":1700000000000}',
            '{"time":5}',
            '{"timestamp":[1700000000000,7]}',
        )
    },
}
WRONG = (
    "int:",
    "int:2147483648",
    "byte:x",
    "hex:0",
    "uuid:1",
    "bool:1",
    '{"map":1}',
    "{",
    '{"int":1,"a":2}',
)


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_the_key_that_is_shown(form: str, tmp_path: Path) -> None:
    ((needle, whole),) = parse_keys([form]).needles
    assert whole
    store = open_store([build.write_exported_store(tmp_path / "store")])
    (text,) = value_texts(
        node_types(store.nodes[0]), Spans.of([needle]), np.ones(1, np.int64), SHOWN
    ).to_pylist()
    assert json.loads(text) == json.loads(FORMS[form])


@pytest.mark.parametrize("form", WRONG)
def test_wrong_forms_are_refused(form: str) -> None:
    with pytest.raises(UsageError, match="no key has this form"):
        parse_keys([form])


def test_a_filter_finds_equal_keys_and_beginnings() -> None:
    keys = Spans.of([b"\x03\x05\0\0\0", b"\x03\x06\0\0\0", None, b"", b"\x03\x05\0\0\0\0"])

    def found(*texts: str) -> list[int]:
        mask = parse_keys(texts).found_in(keys.data, keys.starts, keys.sizes)
        return np.flatnonzero(mask).tolist()

    assert found("int:5") == [0]
    assert found("int:5", "int:6") == [0, 1]
    assert found("hex:0305*") == [0, 4]


def _dumped(store: Path, *words: str) -> list[dict[str, Any]]:
    done = je_tools("ignite", "wal", "dump", store, *words, "--format", "jsonl")
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def test_a_dump_shows_what_happened_to_a_key(tmp_path: Path) -> None:
    store = build.write_exported_store(tmp_path / "store")
    rows = _dumped(store, "--key", "carol")
    assert [(each["op"], each.get("value_json")) for each in rows] == [
        ("UPDATE", "gone"),
        ("DELETE", None),
    ]
    both = _dumped(store, "--key", "bob", "--key", "dave")
    assert [each["value_json"] for each in both] == ["old", "new", "open"]
    hashed = _dumped(store, "--key", "bob", "--data", "hash")
    assert len(hashed) == 2
    assert "626f62" not in json.dumps(hashed)
    none = je_tools("ignite", "wal", "dump", store, "--key", "5")
    assert (none.code, none.err) == (
        0,
        "je-tools: no record matches; --key 5 is a text, int:5 a number\n",
    )


def test_pages_are_those_with_the_row_of_a_key(tmp_path: Path) -> None:
    store = pages.write_page_store(tmp_path / "store")
    words = ("ignite", "pages", "dump", store, "--key", "int:2", "--format", "jsonl")
    page, row = (json.loads(line) for line in je_tools(*words).out.splitlines())
    assert (page["page"], page["type"], row["page"]) == (5, "data", 5)
    assert row["key"] == "0302000000"
    many = je_tools("ignite", "pages", "dump", store, "--key", "hex:03*", "--format", "jsonl")
    assert len(many.out.splitlines()) == 6
    first = je_tools(*words[:4], "--key", "hex:03*", "--limit", "1", "--format", "jsonl")
    assert len(first.out.splitlines()) == 2
    for options in (("--key", "long:2"), ("--page", str(10**20))):
        assert je_tools(*words[:4], *options).err == "je-tools: no page matches\n"
