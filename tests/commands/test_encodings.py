"""Standard output that cannot show every character, for every command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from je_tools.commands.main import COMMANDS
from tests.builders.forked import Forked
from tests.builders.logs import LogFile, packed, write_log
from tests.builders.trees import rooted
from tests.je_tools.dumped import je_tools

TOOLS = Path(sys.executable).parent
NAME_LN, INS_LN = 6, 34
NAME = "Größe \u2713"
ASCII = "Gr\\xf6\\xdfe \\u2713"
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
ENCODINGS = [
    pytest.param({"PYTHONIOENCODING": "latin-1"}, "latin-1", "Größe \\u2713", id="latin-1"),
    pytest.param({"PYTHONIOENCODING": "ascii"}, "ascii", ASCII, id="ascii"),
    pytest.param(C_LOCALE, "ascii", ASCII, id="C"),
    pytest.param({"PYTHONIOENCODING": "utf-8"}, "utf-8", NAME, id="utf-8"),
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a log whose folder and database are called `NAME`."""
    file = LogFile()
    key = packed(len(NAME.encode())) + NAME.encode()
    file.add(INS_LN, bytes(2) + packed(100) + key)
    file.add(NAME_LN, bytes(2) + packed(1) + packed(0) + packed(100) + b"\0" + key + b"\0")
    return write_log(tmp_path / NAME, [rooted(file)])


Run = Callable[..., tuple[int, bytes, bytes]]


@pytest.fixture
def run(environment: dict[str, str], forked: Forked) -> Run:
    """Return a function that runs je-tools with variables of a case.

    A process is new if Python decodes its arguments differently in that case.
    """
    variables = os.environ | environment

    def started(*words: str | Path) -> tuple[int, bytes, bytes]:
        if "LC_ALL" not in environment:
            return forked.run("je-tools", *words, variables=variables)
        command = [TOOLS / "je-tools", *words]
        done = subprocess.run(command, env=variables, capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    return started


@pytest.mark.parametrize(("environment", "encoding", "name"), ENCODINGS)
def test_what_cannot_be_shown_is_spelled(run: Run, encoding: str, name: str, home: Path) -> None:
    for words in (
        ("summary", home, "--by-db"),
        ("explain", "0x0/0x26", "--env", home, "--data", "hide"),
        ("files", home),
        ("verify", home, "--all"),
    ):
        code, out, err = run(*words)
        assert (code, b"Traceback" in err) == (0, False), err
        text = out.decode(encoding)
        assert (name in text) == (words[0] == "summary")


@pytest.mark.parametrize(("environment", "encoding", "name"), ENCODINGS)
def test_data_are_utf8_everywhere(run: Run, encoding: str, name: str, home: Path) -> None:
    code, out, _ = run("summary", home, "--by-db", "--format", "csv")
    assert code == 0
    assert NAME in out.decode("utf-8")


@pytest.mark.parametrize("verb", COMMANDS)
def test_help_is_ascii(verb: str) -> None:
    """Every encoding can show it."""
    done = je_tools(verb, "--help")
    assert (done.code, done.out.isascii(), done.err) == (0, True, "")


@pytest.mark.parametrize(("environment", "encoding", "name"), ENCODINGS[:3])
def test_help_and_errors(run: Run, encoding: str, name: str, home: Path) -> None:
    assert run("dump", "--help")[::2] == (0, b"")
    for words in (
        [NAME],
        ["explain", f"type:{NAME}"],
        ["dump", home / NAME],
        ["dump", home, "--type", NAME],
        ["dump", home, "--db", NAME + "x"],
    ):
        code, out, err = run(*words)
        assert code in (2, 4), words
        assert (out, b"Traceback" in err) == (b"", False), words
