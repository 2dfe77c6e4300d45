"""Reading a single log file once more: its bytes, and the fields of an entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from je_tools.errors import InputError, StoppedError
from je_tools.formats.files.open_source import open_source
from je_tools.formats.files.source import Source, SourceChangedError
from je_tools.formats.je.header import MAX_HEADER_SIZE, EntryError, read_header


@contextmanager
def reopened(path: Path, size: int = 0) -> Iterator[Source]:
    """Reopen a file that has been read before.

    Args:
        path: path of the file.
        size: bytes that it had then.

    Raises:
        StoppedError: it has vanished or is shorter now, or changes during the body.
        InputError: it cannot be read any more.
    """
    try:
        with open_source(path) as source:
            if source.size < size:
                raise StoppedError(
                    f"{path}: shrank from {size} to {source.size} bytes while the log was read"
                )
            yield source
    except SourceChangedError as error:
        raise StoppedError(str(error)) from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def fields_at(source: Source, offset: int, version: int) -> Mapping[str, Any]:
    """Return the fields of the entry at an offset; empty if it is no entry or does not decode."""
    from je_tools.formats.je.entry.entries import decode_entry

    try:
        header = read_header(source.read_bytes(offset, offset + MAX_HEADER_SIZE), version)
        size = header.size + max(header.item_size, 0)
        return decode_entry(source.read_bytes(offset, offset + size), version).fields
    except EntryError:
        return {}


def reason_of(error: InputError) -> str:
    """Return the operating system's reason why a file cannot be opened."""
    cause = error.__cause__
    return (cause.strerror if isinstance(cause, OSError) else None) or str(error)
