"""Options of the format `jelog`, and their parsing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from je_tools.core.masking import DataMode
from je_tools.errors import UsageError
from je_tools.log.selection import Selection, parse_bytes, parse_key, parse_lsn, parse_types
from je_tools.log.time_filter import Window, parse_time

T = TypeVar("T")

_PUSHDOWN = (
    "option pushdown: there is none any more, because Spark up to 4.3 returns wrong rows with it; "
    "give the conditions as options of the read (type, from_lsn, db, txn, key)"
)

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

OPTIONS: Mapping[str, str] = {
    "path": "What is read: an environment's directory, or a log file. `load(path)` sets it.",
    "paths": "Several log files of one environment, as a list. `load([…])` sets it.",
    "columns": "Columns to read, as a list; nothing else is decoded. Otherwise all.",
    "type": "Entry types by the engine's names, or groups, as a list.",
    "db": "Databases by name or id (`id:7`), as a list.",
    "txn": "Transaction ids, as a list.",
    "key": "Key of an LN: text, `hex:0a1b`, `hex:0a*` (prefix), `long:5485`, `int:7`, `str:name`.",
    "grep": "Bytes in a key or value: text, or `hex:0a1b`.",
    "from_lsn": "First LSN, `0xFILE/0xOFFSET`.",
    "to_lsn": "Last LSN, inclusive.",
    "from_vlsn": "First VLSN.",
    "to_vlsn": "Last VLSN, inclusive.",
    "since": "First time, UTC: `2026-11-20T10:00:00`, or since 1970: `1795168800s`, `…ms`.",
    "until": "Last time, UTC, inclusive.",
    "replicated": "`true`: only entries of the replication stream.",
    "data": "What is shown of keys and values: `show`, `hide`, `length`, `hash`, `salted-hash`.",
    "ignore_checksum": "`true`: entries are not summed.",
}
"""Every option, and its description."""


class SourceOptions(Struct, frozen=True):
    """Parsed options of a read.

    Attributes:
        paths: absolute paths of an environment's directory or of log files.
        selection: entries to read; databases and times are resolved later.
        databases: names and ids of the wanted databases; empty for all.
        columns: names of the wanted columns, in order; None for all.
        mode: form in which keys and values are shown.
        check: True to verify the checksum of every entry.
    """

    paths: tuple[Path, ...]
    selection: Selection
    databases: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    mode: DataMode = DataMode.SHOW
    check: bool = True


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Parse options as Spark gives them; names may be in any case.

    Raises:
        UsageError: an option does not exist, or its value is not valid.
    """
    texts = _Texts({name.lower(): text for name, text in given.items()})
    types = texts.listed("type", str)
    txns = texts.listed("txn", _number)
    since, until = texts.parsed("since", parse_time), texts.parsed("until", parse_time)
    return SourceOptions(
        paths=_paths(texts),
        selection=Selection(
            types=texts.checked("type", lambda: parse_types(types)) if types else None,
            from_lsn=texts.parsed("from_lsn", parse_lsn),
            to_lsn=texts.parsed("to_lsn", parse_lsn),
            from_vlsn=texts.parsed("from_vlsn", _number),
            to_vlsn=texts.parsed("to_vlsn", _number),
            replicated=texts.flag("replicated"),
            txn_ids=frozenset(txns) if txns else None,
            keys=_one(texts.parsed("key", parse_key)),
            greps=_one(texts.parsed("grep", parse_bytes)),
            window=None if since is None and until is None else Window(since, until),
        ),
        databases=texts.listed("db", str),
        columns=texts.listed("columns", str) or None,
        mode=texts.parsed("data", _mode) or DataMode.SHOW,
        check=not texts.flag("ignore_checksum"),
    )


@contextmanager
def as_option(name: str) -> Iterator[None]:
    """Convert a usage error of a command into one about the option of this name."""
    try:
        yield
    except UsageError as error:
        text = str(error).removeprefix(f"--{name}").removeprefix(":").strip()
        raise UsageError(f"option {name}: {text}") from None


class _Texts:
    """Texts of options; an unknown option is refused."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        unknown = sorted(texts.keys() - OPTIONS.keys())
        if unknown:
            raise UsageError(_unknown_option(unknown[0]))

    def checked(self, name: str, parse: Callable[[], T]) -> T:
        """Return the result of `parse`, or raise a UsageError if the text is not valid."""
        try:
            with as_option(name):
                return parse()
        except ValueError:
            raise UsageError(f"option {name}: {self.texts[name]!r} means nothing here") from None

    def parsed(self, name: str, parse: Callable[[str], T]) -> T | None:
        """Return the value of an option, or None if it is not given."""
        text = self.texts.get(name)
        return None if text is None else self.checked(name, lambda: parse(text))

    def flag(self, name: str) -> bool:
        """Return True if an option is true."""
        return self.parsed(name, _flag) or False

    def listed(self, name: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        """Return the values of an option: separated by commas, or as a JSON list."""
        values = self.parsed(name, _list)
        if values is None:
            return ()
        return self.checked(name, lambda: tuple(map(parse, values)))


def _one(value: T | None) -> tuple[T, ...]:
    return () if value is None else (value,)


def _mode(text: str) -> DataMode:
    if text not in list(DataMode):
        raise UsageError(f"{text!r} is none of {', '.join(DataMode)}")
    return DataMode(text)


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{text!r} is no whole number") from None


def _list(text: str) -> list[str]:
    if not text.lstrip().startswith("["):
        values = [part.strip() for part in text.split(",")]
    else:
        try:
            given = json.loads(text)
        except ValueError:
            raise UsageError(f"{text!r} is no list as JSON has them") from None
        values = [str(value) for value in given]
    if not values or not all(values):
        raise UsageError(f"{text!r} names nothing, or nothing between two commas")
    return values


def _paths(texts: _Texts) -> tuple[Path, ...]:
    one = texts.texts.get("path")
    named = (*([] if one is None else [one]), *texts.listed("paths", str))
    if not named:
        raise UsageError("name an environment's directory or log files: load(path)")
    return tuple(_local(name) for name in named)


def _local(name: str) -> Path:
    if name.startswith("file:/"):
        name = unquote(urlsplit(name).path)
    elif _URL.match(name):
        raise UsageError(f"{name}: logs are read from file systems that are mounted, not by a URL")
    # The working directory of a worker is not that of the driver.
    return Path(name).absolute()


def _unknown_option(name: str) -> str:
    import difflib

    if name == "pushdown":
        return _PUSHDOWN
    near = difflib.get_close_matches(name, OPTIONS, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"option {name}: there is none; {hint}there are {', '.join(OPTIONS)}"
