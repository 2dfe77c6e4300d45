"""The suggested next command is one line that a shell reads as intended."""

from __future__ import annotations

import os
import subprocess

import pytest
from click.testing import CliRunner

from je_tools.commands.main import group
from je_tools.core.escaping import quoted
from je_tools.findings import CODES
from je_tools.log.finding_commands import next_command
from tests.builders.fleets import HOSTILE


@pytest.mark.parametrize("name", [*HOSTILE, "--output=x", "it's", "a\\b", "\x85\u202e'\\"])
def test_a_shell_gives_back_the_path(name: str) -> None:
    path = f"-{name}" if name.startswith("-") else name or "."
    word = quoted(path)
    assert word.isprintable()
    told = subprocess.run(
        ["bash", "-c", f"printf %s {word}"], capture_output=True, check=True
    ).stdout
    expected = f"./{path}" if path.startswith("-") else path
    raw = os.fsencode(expected.replace("\x00", ""))
    if "spelled" in name:
        raw = raw.replace(b"\\xff\\x80", b"\xff\x80")
    if "\x00" in name:
        return  # neither a path nor a shell word can hold NUL
    assert told == raw


@pytest.mark.parametrize("code", [*CODES, "something-new"])
@pytest.mark.parametrize("lsn", [None, 5 << 32 | 0x1A2F])
def test_the_command_is_one_of_ours(code: str, lsn: int | None) -> None:
    words = next_command(code, "some/env", lsn).split(" ")
    assert words[0] == "je-tools"
    told = CliRunner().invoke(group, [words[1], "--help"], prog_name="je-tools")
    assert told.exit_code == 0
    for option in (word for word in words if word.startswith("--")):
        assert option in told.output
    assert "some/env" in words
    if words[1] == "explain":
        assert "0x5/0x1a2f" in words


def test_a_file_that_cannot_be_opened_is_for_a_command_that_goes_on_without_it() -> None:
    """`verify` reads the whole log or nothing."""
    assert next_command("unreadable-file", "env", None) == "je-tools missing env"
