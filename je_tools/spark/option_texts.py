"""Texts of a data source's options, as Spark gives them, and their values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from je_tools.core.masking import DataMode
from je_tools.errors import UsageError

T = TypeVar("T")

_PUSHDOWN = (
    "option pushdown: it was removed, because Spark up to 4.3 returns wrong rows with it; give the "
    "conditions as options of the read (type, from_lsn, db, txn, key)"
)

_PROVIDER = "provider"
"""Property that every SQL table has, and that is no option."""

_TABLE_OPTION = "option."
"""Prefix of an option among the properties of a SQL table."""


def is_of_table(given: Mapping[str, str]) -> bool:
    """Return whether these are the properties of a SQL table, as CREATE TABLE gives them."""
    return any(name.lower() == _PROVIDER for name in given)


def option_texts(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options among what Spark gives, by name in lower case.

    CREATE TABLE adds properties of the table, and repeats the options with a prefix, except for the
    path.

    Source: CatalogV2Util.convertTableProperties, V2SessionCatalog.createTable, Spark 4.3.0.
    """
    texts = {name.lower(): text for name, text in given.items()}
    if _PROVIDER not in texts:
        return texts
    options = {name.removeprefix(_TABLE_OPTION) for name in texts if name.startswith(_TABLE_OPTION)}
    return {name: texts[name] for name in (options | {"path"}) & texts.keys()}


@contextmanager
def as_option(name: str) -> Iterator[None]:
    """Convert a usage error of a command into one about the option of this name."""
    try:
        yield
    except UsageError as error:
        text = str(error).removeprefix(f"--{name}").removeprefix(":").strip()
        raise UsageError(f"option {name}: {text}") from None


class OptionTexts:
    """Texts of options by name.

    Raises:
        UsageError: an option is not among `known`.
    """

    def __init__(self, texts: Mapping[str, str], known: Mapping[str, str]) -> None:
        self.texts = texts
        unknown = sorted(texts.keys() - known.keys())
        if unknown:
            raise UsageError(_unknown_option(unknown[0], known))

    def checked(self, name: str, parse: Callable[[], T]) -> T:
        """Return the result of `parse`, or raise a UsageError if the text is not valid."""
        try:
            with as_option(name):
                return parse()
        except ValueError:
            raise UsageError(f"option {name}: {self.texts[name]!r} has no meaning here") from None

    def parsed(self, name: str, parse: Callable[[str], T]) -> T | None:
        """Return the value of an option, or None if it is not given."""
        text = self.texts.get(name)
        return None if text is None else self.checked(name, lambda: parse(text))

    def flag(self, name: str) -> bool:
        """Return True if an option is true."""
        return self.parsed(name, _flag) or False

    def word(self, name: str, words: tuple[str, ...]) -> str:
        """Return the value of an option that is one of some words; by default the first one."""
        return self.parsed(name, lambda text: one_of(text, words)) or words[0]

    def mode(self) -> DataMode:
        """Return the form in which keys and values are shown."""
        return DataMode(self.word("data", tuple(DataMode)))

    def number(self, name: str) -> int | None:
        """Return an option that is a whole number, or None if it is not given."""
        return self.parsed(name, whole_number)

    def listed(self, name: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        """Return the values of an option: separated by commas, or as a JSON list."""
        values = self.parsed(name, _list)
        if values is None:
            return ()
        return self.checked(name, lambda: tuple(map(parse, values)))


def whole_number(text: str) -> int:
    """Parse a whole number.

    Raises:
        UsageError: it is none.
    """
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{text!r} is no whole number") from None


def one_value(value: T | None) -> tuple[T, ...]:
    """Return a value as a tuple, empty for None."""
    return () if value is None else (value,)


def one_of(text: str, words: Sequence[str]) -> str:
    """Return a text that is one of some words.

    Raises:
        UsageError: it is none of them.
    """
    if text not in words:
        raise UsageError(f"{text!r} is none of {', '.join(words)}")
    return text


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UsageError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _list(text: str) -> list[str]:
    if not text.lstrip().startswith("["):
        values = [part.strip() for part in text.split(",")]
    else:
        try:
            given = json.loads(text)
        except ValueError:
            raise UsageError(f"{text!r} is not a JSON list") from None
        values = [str(value) for value in given]
    if not values or not all(values):
        raise UsageError(f"{text!r} names nothing, or nothing between two commas")
    return values


def _unknown_option(name: str, known: Mapping[str, str]) -> str:
    import difflib

    if name == "pushdown":
        return _PUSHDOWN
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"option {name}: no such option; {hint}there are {', '.join(known)}"
