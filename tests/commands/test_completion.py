"""Completion scripts, checked by the shells that they are for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from je_tools.formats.je.types import BY_NAME, Group
from tests.builders.forked import Forked
from tests.corpus import FIXTURES
from tests.je_tools.dump.test_formats import HOSTILE, hostile_log

TOOLS = Path(sys.executable).parent
PROGRAMS = ("je-tools", "db-dump", "db-recover")
PATH = f"{TOOLS}{os.pathsep}{os.environ['PATH']}"


def script(program: str, shell: str, forked: Forked) -> str:
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    environment = {**os.environ, variable: f"{shell}_source", "PATH": PATH}
    done = forked.run(program, variables=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_name_their_program(program: str, shell: str, forked: Forked) -> None:
    text = script(program, shell, forked)
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    assert f"{variable}={shell}_complete" in text
    assert f" {program}" in text
    if shutil.which(shell):
        done = subprocess.run(
            [shell, "-n"], input=text, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("program", "words", "completed"),
    [
        ("je-tools", "je-tools ver", "verify"),
        ("je-tools", "je-tools dump --form", "--format"),
        ("db-dump", "db-dump --form", "--format"),
        ("db-dump", "db-dump --data sal", "salted-hash"),
    ],
)
def test_bash_completes_by_the_script(program: str, words: str, completed: str) -> None:
    count = len(words.split()) - 1
    lines = (
        f'eval "$(_{program.replace("-", "_").upper()}_COMPLETE=bash_source {program})"\n'
        f"COMP_WORDS=({words}) COMP_CWORD={count}\n"
        f"_{program.replace('-', '_')}_completion {program}\n"
        'echo "${COMPREPLY[*]}"\n'
    )
    done = subprocess.run(
        ["bash", "-c", lines],
        env={**os.environ, "PATH": PATH},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"{completed}\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_into_a_closed_pipe(shell: str, forked: Forked) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "_JE_TOOLS_COMPLETE": f"{shell}_source", "PATH": PATH}
    done = forked.run("je-tools", variables=environment, stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


SHELLS = ["bash", "zsh", "fish"]
each_program = pytest.mark.parametrize(
    ("shell", "program"),
    [
        ("bash", ("je-tools", "dump")),
        ("zsh", ("db-dump",)),
        ("fish", ("je-tools", "dump")),
        pytest.param("bash", ("db-dump",), marks=pytest.mark.exhaustive),
        pytest.param("zsh", ("je-tools", "dump"), marks=pytest.mark.exhaustive),
        pytest.param("fish", ("db-dump",), marks=pytest.mark.exhaustive),
    ],
)
DBOPS = FIXTURES / "v8-dbops" / "env"
INTERNAL = {"_jeIdMap", "_jeNameMap", "_jeUtilization", "_jeBeforeImagesDb"}


Offered = Callable[..., list[str]]


@pytest.fixture
def offered(forked: Forked) -> Offered:
    """Return a function that takes a shell and words, and returns the values for the last one."""
    return partial(values_for, forked)


def values_for(forked: Forked, shell: str, *words: str | Path) -> list[str]:
    """Return the values that a shell is offered for the last word, by click's protocol."""
    program, *others = map(str, words)
    # zsh and bash pass the index of the word, fish its text.
    at = others[-1] if shell == "fish" else str(len(others))
    environment = {
        **os.environ,
        f"_{program.replace('-', '_').upper()}_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": " ".join([program, *(word for word in others if word)]),
        "COMP_CWORD": at,
    }
    done = forked.run(program, variables=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines() if done.stdout.strip() else []
    if shell == "zsh":
        assert len(lines) % 3 == 0
        return lines[1::3]
    return [line.removeprefix("plain,").partition("\t")[0] for line in lines]


@each_program
def test_types_and_groups(shell: str, program: tuple[str, ...], offered: Offered) -> None:
    every = set(offered(shell, *program, "--type", ""))
    assert every == BY_NAME.keys() | {group.value for group in Group}
    some = offered(shell, *program, "--type", "CKPT", "--type", "ckpt")
    assert some == ["CKPT", "CkptEnd", "CkptStart"]


@pytest.mark.parametrize("shell", SHELLS)
def test_formats(shell: str, offered: Offered) -> None:
    assert offered(shell, "je-tools", "dump", "--format", "") == [
        "table",
        "jsonl",
        "csv",
        "parquet",
    ]
    assert offered(shell, "je-tools", "verify", "--format", "j") == ["jsonl"]


@each_program
def test_databases_of_the_log_on_the_line(
    shell: str, program: tuple[str, ...], offered: Offered
) -> None:
    found = offered(shell, *program, DBOPS, "--db", "")
    assert set(found[-4:]) == INTERNAL
    assert "people" in found
    assert len(found) == len(set(found)) > 5
    assert offered(shell, *program, DBOPS, "--limit", "3", "-d", "x", "-d", "peo") == ["people"]
    assert offered(shell, *program, "--db", "") == []


def test_the_home_is_spelled_as_people_type_it(
    monkeypatch: pytest.MonkeyPatch, offered: Offered
) -> None:
    monkeypatch.setenv("HOME", str(DBOPS.parent))
    monkeypatch.setenv("LOGS", str(DBOPS))
    assert len(offered("bash", "db-dump", "~/env", "--db", "")) > len(INTERNAL)
    assert len(offered("bash", "db-dump", "$LOGS", "--db", "")) > len(INTERNAL)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_name_that_is_no_word_is_offered_by_its_id(
    shell: str, tmp_path: Path, offered: Offered
) -> None:
    home = hostile_log(tmp_path / "env")
    found = offered(shell, "db-dump", home, "--db", "")
    plain = {text.decode("ascii") for text in HOSTILE if text.isalnum()}
    assert {"+1", "-1"} | plain <= set(found)
    assert all(re.fullmatch(r"[\w.%+@/-]+", name) for name in found)
    assert str(100 + HOSTILE.index(b"comma,semi;tab\tline\nfeed\rreturn")) in found


@pytest.mark.parametrize(
    ("shell", "content"),
    [("bash", b""), ("bash", b"\0" * 5000), ("zsh", b"\xff" * 5000), ("fish", None)],
)
def test_nothing_is_offered_of_what_is_no_log(
    shell: str, content: bytes | None, tmp_path: Path, offered: Offered
) -> None:
    if content is not None:
        (tmp_path / "00000000.jdb").write_bytes(content)
    found = offered(shell, "je-tools", "dump", tmp_path, "--db", "")
    assert set(found) <= INTERNAL
    assert offered(shell, "je-tools", "dump", tmp_path / "none", "--db", "") == []
