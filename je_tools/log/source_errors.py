"""Errors of files that cannot be read any more, turned into errors that end a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from je_tools.errors import InputError, StoppedError
from je_tools.formats.files.source import SourceChangedError, SourceError


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn errors of a source into `StoppedError` and `InputError`."""
    try:
        yield
    except SourceChangedError as error:
        raise StoppedError(str(error)) from error
    except SourceError as error:
        raise InputError(str(error)) from error
