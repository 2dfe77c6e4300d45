"""Standard error and the terminal: messages, and the width of lines."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import click

from je_tools.core.escaping import printable

PIPED_WIDTH = 200
"""Characters in a line of entries or records if no terminal gives a width."""


def say(text: str) -> None:
    """Write a line to standard error, with control characters escaped.

    If standard error is closed, the line is dropped.
    """
    try:
        click.echo(printable(text), err=True)
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def terminal_width(output: Path | None) -> int | None:
    """Return the columns of the terminal; None, for no limit, if the output is not a terminal."""
    if "COLUMNS" not in os.environ and (output is not None or not is_terminal(sys.stdout)):
        return None
    import shutil

    return shutil.get_terminal_size((80, 24)).columns


def is_terminal(stream: TextIO | None) -> bool:
    """Return True if a standard stream is a terminal; one that was closed at the start is None."""
    return stream is not None and stream.isatty()


def line_width() -> int:
    """Return the characters in a line of entries or records, which are cut to it."""
    import shutil

    return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns
