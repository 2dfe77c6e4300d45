"""Signals while a command is being loaded: no traceback, and the exit code of a stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from je_tools.commands.main import run
from tests.corpus import ROOT

CASES = [(signal.SIGINT, 130, "interrupted\n"), (signal.SIGTERM, 143, "")]
SENDING = "import os, signal; os.kill(os.getpid(), signal.{}); raise SystemExit('it came too late')"

each_signal = pytest.mark.parametrize(("number", "code", "said"), CASES)


@each_signal
@pytest.mark.parametrize("entry", ["main", "db_dump", "db_recover"])
def test_while_modules_are_loaded(
    entry: str, number: signal.Signals, code: int, said: str, tmp_path: Path
) -> None:
    """The first third-party module that is imported sends the signal."""
    (tmp_path / "click.py").write_text(SENDING.format(number.name))
    start = f"from je_tools.commands.start import {entry}; {entry}()"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", start, "--help"]
    # Shells start background jobs with SIGINT ignored.
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "", said)


def test_that_is_where_commands_start() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert {name.replace("je-tools", "main").replace("-", "_") for name in scripts} == {
        place.removeprefix("je_tools.commands.start:") for place in scripts.values()
    }


@each_signal
def test_while_a_command_loads_more(
    number: signal.Signals, code: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Python wraps an exception from `__set_name__` in a RuntimeError."""

    class Interrupted:
        def __set_name__(self, owner: type, name: str) -> None:
            raise KeyboardInterrupt if number is signal.SIGINT else SystemExit(code)

    @click.command("loading")
    def loading() -> None:
        type("Made", (), {"field": Interrupted()})

    assert run(loading, []) == code
    assert capfd.readouterr() == ("", said)


def test_what_else_is_raised_there_is_a_bug() -> None:
    class Wrong:
        def __set_name__(self, owner: type, name: str) -> None:
            raise ValueError("a bug")

    @click.command("loading")
    def loading() -> None:
        type("Made", (), {"field": Wrong()})

    with pytest.raises((RuntimeError, ValueError)):
        run(loading, [])
