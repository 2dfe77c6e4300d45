"""The examples of docs/python.md run as they are, and print what the page says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import je_tools
from tests.corpus import FIXTURES, ROOT
from tests.pages import played

PAGE = ROOT / "docs" / "python.md"


def test_examples_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """After an intended change, run this with `--rewrite-golden`."""
    (tmp_path / "fixtures").symlink_to(FIXTURES)
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    made, count = played(text)
    assert count >= 8
    if request.config.getoption("--rewrite-golden"):
        PAGE.write_text(made, encoding="utf-8")
    else:
        assert made == text


def test_every_method_argument_and_error_is_documented() -> None:
    text = PAGE.read_text(encoding="utf-8")
    reader = je_tools.EnvironmentReader
    names = [name for name in dir(reader) if not name.startswith("_") and name != "name"]
    for name in names:
        assert name in text, name
        assert getattr(reader, name).__doc__, name
    for call in (reader.entries, je_tools.open):
        for argument in inspect.signature(call).parameters.keys() - {"self"}:
            assert re.search(rf"\b{argument}\b", text), argument
    for name, value in vars(je_tools.errors).items():
        if inspect.isclass(value):
            assert f"`{name}`" in text or f".{name}`" in text, name
