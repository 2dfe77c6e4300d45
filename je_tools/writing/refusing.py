"""Errors of commands that write, with the state of the log in their messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from je_tools.core.escaping import quoted
from je_tools.errors import RefusedError


def undo_command(home: Path, words: str = "") -> str:
    """Return the command that undoes the last operation, for messages.

    Args:
        home: home of the environment.
        words: more options, each after a space.
    """
    return f"`je-tools undo {quoted(str(home))}{words} --apply`"


def changed_since(path: Path, what: str) -> RefusedError:
    """Return the error for a file that has changed since the log was read.

    Args:
        path: path of the file.
        what: how it was before, in words, such as `existed`.
    """
    return RefusedError(f"{path}: {what} when the log was read; run the command again")


def unlike_written(path: Path, offset: int) -> RefusedError:
    """Return the error for bytes that are not read as they were written."""
    return RefusedError(
        f"{path} @{offset:#x}: the bytes read differ from the bytes written: the disk is unreliable"
    )


@contextmanager
def refusing(state_text: Callable[[], str] = str) -> Iterator[None]:
    """Convert `OSError` into `RefusedError`, and append the state of the log to messages.

    Args:
        state_text: returns the state, as the end of a message.

    Raises:
        RefusedError: the body raised `OSError` or `RefusedError`.
    """
    try:
        yield
    except OSError as error:
        name = f"{error.filename}: " if error.filename is not None else ""
        raise RefusedError(f"{name}{error.strerror}{state_text()}") from error
    except RefusedError as error:
        raise RefusedError(f"{error}{state_text()}") from error


@contextmanager
def reporting_state(state_text: Callable[[], str]) -> Iterator[None]:
    """Do as `refusing`, and add a note with the state of the log to all other errors."""
    try:
        with refusing(state_text):
            yield
    except RefusedError:
        raise
    except BaseException as error:
        error.add_note(state_text().removeprefix("; "))
        raise
