"""Keys are printed in a form in which they can be given; given so, they are printed the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from je_tools.core.key_forms import key_form, value_form
from je_tools.log.parsing import parse_key
from tests.builders.trees import simple
from tests.je_tools.dumped import je_tools

NUMBERS = st.integers(-(1 << 47), 1 << 47).map(lambda n: (n + (1 << 63)).to_bytes(8))
SHORTS = st.integers(-(1 << 15), 1 << 15).map(lambda n: (n + (1 << 31)).to_bytes(4))
TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
PREFIXED = st.tuples(st.sampled_from(["hex:", "long:", "int:", "str:", "hex"]), TEXTS)
KEYS = st.one_of(
    st.binary(max_size=12),
    NUMBERS,
    SHORTS,
    TEXTS.map(str.encode),
    TEXTS.map(lambda text: text.encode() + b"\0"),
    PREFIXED.map(lambda both: "".join(both).encode()),
)


@given(KEYS)
@example(b"")
@example(b"long:5")
@example(b"a ")
def test_the_form_of_a_key_is_the_key(key: bytes) -> None:
    form = key_form(key)
    found = parse_key(form)
    assert (found.needle, found.whole) == (key, True)
    assert key_form(found.needle) == form


@given(st.integers(-(1 << 47), (1 << 47) - 1))
def test_numbers_are_numbers(number: int) -> None:
    assert key_form(parse_key(f"long:{number}").needle) == f"long:{number}"


KEPT = [
    *(f"long:{number}" for number in (5485, 0, -1, 1 << 47)),
    *(f"int:{number}" for number in (7, -7)),
    *("plain", "two words", "str:name", "hex:00ff", "hex:", "k=1"),
    *("hex:6c6f6e673a35", "hex:2061", "hex:6120", "hex:d0ba"),
]
"""Forms as they are printed; the last ones are of the texts `long:5`, ` a`, `a ` and a letter."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = {parse_key(form).needle: b"data" for form in KEPT if form != "hex:"}
    log = simple(records)
    for key in records:
        log.ln(key, b"changed")
    return log.write(tmp_path_factory.mktemp("keys") / "env")


@pytest.mark.parametrize("form", [form for form in KEPT if form != "hex:"])
def test_get_prints_what_it_takes(form: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = je_tools("get", home, "--db", "db", form)
    assert done.code == 0
    _, line = done.out.decode().splitlines()
    assert line.startswith(f"{form}  ")
    history = je_tools("get", home, "--db", "db", form, "--history").out.decode()
    assert all(f"  {form}  " in line for line in history.splitlines()[1:])


def test_dump_prints_what_get_takes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for form in KEPT:
        if form == "hex:":
            continue
        lines = je_tools("dump", home, "--key", form).out.decode().splitlines()[1:]
        assert lines
        assert all(f" {form} " in line for line in lines), lines


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (b"plain text", "plain text"),
        ("ключ".encode(), "ключ"),
        (b"\x80\0\0\0\0\0\0\5", "hex:8000000000000005"),
        (b"a\nb", "hex:610a62"),
        (b"", "hex:"),
        (b"hex:00", "hex:6865783a3030"),
    ],
)
def test_values_that_are_text_are_printed_as_text(value: bytes, form: str) -> None:
    assert value_form(value) == form
