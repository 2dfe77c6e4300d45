"""Arguments of the API: Python values as texts that commands take, for the same parsers.

A value of a type that the argument does not accept raises a `TypeError`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from je_tools.core.masking import DataMode, Masking
from je_tools.errors import InputError, UsageError
from je_tools.formats.files.remote_path import RemotePath, located
from je_tools.formats.files.uris import URIError

Lsn = str | int
"""An LSN: `0xFILE/0xOFFSET`, or the number in the columns `lsn`."""

Time = str | datetime
"""A time: text as commands take it, or a datetime; UTC if it names no zone."""

DatabaseId = str | int
"""A database: its name, `id:7`, or its id as a number."""

Key = str | bytes
"""A key, or bytes to search for: text as commands take it, or the bytes themselves."""

Paths = str | os.PathLike[str]
"""A path on this host, or a `file:` URI."""

T = TypeVar("T")

_NAMES = (
    *("type", "db", "txn", "key", "grep", "replicated", "limit", "backward", "ignore-checksum"),
    *("from-lsn", "to-lsn", "from-vlsn", "to-vlsn", "since", "until", "to-time", "now", "data"),
    *("key-range", "show-expired", "internal", "tree", "utilization", "threads", "node", "cache"),
    *("group", "partition", "page", "items", "transaction"),
)
"""Options that are arguments here."""

_RENAMED = {"from": "from_pointer", "to": "to_pointer"}
"""Options whose arguments have other names."""

_OPTION = re.compile(rf"(?<![\w-])--({'|'.join((*_NAMES, *_RENAMED))})(?![\w-])")


@contextmanager
def named_arguments() -> Iterator[None]:
    """Let the texts of errors name arguments of Python instead of options of commands."""
    try:
        yield
    except (UsageError, InputError) as error:
        text = _OPTION.sub(_argument, str(error))
        error.args = (text,)
        raise


def _argument(found: re.Match[str]) -> str:
    return _RENAMED.get(found[1], found[1].replace("-", "_"))


def local_paths(values: Paths | Iterable[Paths]) -> list[Path]:
    """Return one or several paths on this host.

    Raises:
        UsageError: one is the URI of an object store; its text has credentials masked.
    """
    named = [values] if isinstance(values, str | os.PathLike) else values
    return [_local_path(each) for each in named]


def _local_path(value: Paths) -> Path:
    try:
        place = located(value) if isinstance(value, str) else Path(value)
    except URIError as error:
        raise UsageError(str(error)) from None
    if isinstance(place, RemotePath):
        raise UsageError(
            f"{place}: expected a path on this host: copy what the URI names first, or read it "
            "with a command or a format of Spark"
        )
    return place


def several(values: object) -> list[Any]:
    """Return one or several values as a list; empty for None. `str` and `bytes` are one value."""
    if values is None:
        return []
    is_list = isinstance(values, Iterable) and not isinstance(values, str | bytes)
    return list(values) if is_list else [values]  # type: ignore[call-overload]


def type_text(name: str) -> str:
    """Return the name of an entry type or of a group."""
    return _checked("type", name, str)


def txn_number(number: int) -> int:
    """Return a transaction id."""
    return _checked("txn", number, int)


def numbers(name: str, values: object) -> tuple[int, ...]:
    """Return one or several whole numbers."""
    return tuple(_checked(name, each, int) for each in several(values))


def texts(name: str, values: object) -> tuple[str, ...]:
    """Return one or several texts."""
    return tuple(_checked(name, each, str) for each in several(values))


def cache_texts(name: str, values: object) -> tuple[str, ...]:
    """Return one or several caches or groups of Ignite, by name or id, as `--cache` takes them."""
    named = (str(each) if isinstance(each, int) else each for each in several(values))
    return tuple(_checked(name, each, str) for each in named)


def database_text(name: DatabaseId) -> str:
    """Return a database as `--db` takes it."""
    return f"id:{name}" if isinstance(name, int) else _checked("db", name, str)


def key_text(key: Key) -> str:
    """Return a key as `--key` takes it."""
    return f"hex:{key.hex()}" if isinstance(key, bytes) else _checked("key", key, str)


def grep_text(needle: Key) -> str:
    """Return bytes to search for as `--grep` takes them."""
    return f"hex:{needle.hex()}" if isinstance(needle, bytes) else _checked("grep", needle, str)


def lsn_argument(name: str, lsn: Lsn | None) -> str | None:
    """Return an LSN as options take it.

    Raises:
        UsageError: a number that is not an LSN.
    """
    if lsn is None or isinstance(lsn, str):
        return lsn
    if not 0 <= _checked(name, lsn, int) < 1 << 64:
        raise UsageError(f"{name}: {lsn} is not an LSN, a 64-bit number")
    return f"0x{lsn >> 32:x}/0x{lsn & 0xFFFFFFFF:x}"


def time_argument(name: str, moment: Time | None) -> str | None:
    """Return a time as options take it."""
    if moment is None or isinstance(moment, str):
        return moment
    return _checked(name, moment, datetime).isoformat()


def masking_argument(data: str) -> Masking:
    """Return the masking of this name.

    Raises:
        UsageError: there is none.
    """
    if data not in list(DataMode):
        raise UsageError(f"data: {data!r} is none of {', '.join(DataMode)}")
    return Masking(DataMode(data))


def at_least(name: str, number: int | None, least: int) -> int | None:
    """Return a number after checking it.

    Raises:
        UsageError: it is less than `least`.
    """
    if number is not None and _checked(name, number, int) < least:
        raise UsageError(f"{name}: {number} is less than {least}")
    return number


def _checked(name: str, value: T, kind: type) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{name}: expected {kind.__name__}, found {type(value).__name__}")
    return value
