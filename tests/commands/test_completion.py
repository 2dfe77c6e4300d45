"""Completion scripts, checked by the shells that they are for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(sys.executable).parent
PROGRAMS = ("je-tools", "db-dump")
PATH = f"{TOOLS}{os.pathsep}{os.environ['PATH']}"


def script(program: str, shell: str) -> str:
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    environment = {**os.environ, variable: f"{shell}_source", "PATH": PATH}
    done = subprocess.run(
        [TOOLS / program], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_name_their_program(program: str, shell: str) -> None:
    text = script(program, shell)
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
def test_a_completion_into_a_closed_pipe(shell: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "_JE_TOOLS_COMPLETE": f"{shell}_source", "PATH": PATH}
    done = subprocess.run(
        [TOOLS / "je-tools"], env=environment, stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
