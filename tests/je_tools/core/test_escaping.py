"""Texts that terminals, spreadsheets and shells must not obey."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from je_tools.core.escaping import printable, quoted, safe_cell


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("=1+1", "'=1+1"),
        ("  =1+1", "'  =1+1"),
        ("@sum", "'@sum"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("a=1", "a=1"),
        ("\t=1", "\\t=1"),
    ],
)
def test_a_cell_is_never_a_formula(text: str, expected: str) -> None:
    assert safe_cell(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ärger", "Ärger"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb", "a\\nb"),
        ("\udcff", "\\xff"),
        ("\u202e", "\\u202e"),
    ],
)
def test_a_terminal_obeys_nothing(text: str, expected: str) -> None:
    assert printable(text) == expected


@pytest.mark.parametrize("path", ["a b", "it's", "-rf", "a\nb", "\\x", "$HOME", "ü", "\udcff"])
def test_a_shell_gets_the_path_itself(path: str) -> None:
    word = quoted(path)
    done = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
    own = path.encode("utf-8", "surrogateescape")
    assert done.stdout.removeprefix(b"./") == own
    assert len(shlex.split(word.removeprefix("$"))) == 1
