"""`je.properties` of an environment: the settings in it, and the engine's defaults.

Settings made by a program are not in the log; this file overrides them. A value that the engine
refuses is reported, and the default is used in its place.

Source: DbConfigManager.applyFileConfig, EnvironmentParams, LongConfigParam.validateValue,
BooleanConfigParam.validateValue, JE 7.5.11 and 25.3.17; java.util.Properties.load, Java 17.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from je_tools.formats.files.open_source import open_source
from je_tools.formats.files.remote_path import RemotePath

FILE_NAME = "je.properties"

_SIZE_MAX, _DIGITS_MAX, _SHOWN = 1 << 20, 20, 60
"""Limits: bytes of the file, digits of a number, characters of a value in a message."""

FILE_MAX = "je.log.fileMax"
DATA_DIRECTORIES = "je.log.nDataDirectories"
MAX_DISK = "je.maxDisk"
FREE_DISK = "je.freeDisk"
RESERVED_DISK = "je.reservedDisk"
RUN_CLEANER = "je.env.runCleaner"
MIN_UTILIZATION = "je.cleaner.minUtilization"
MIN_FILE_UTILIZATION = "je.cleaner.minFileUtilization"
MIN_AGE = "je.cleaner.minAge"
EXPUNGE = "je.cleaner.expunge"
BIN_DELTA = "je.tree.binDelta"
VLSN_STRIDE = "je.rep.vlsn.stride"
VLSN_MAPPINGS = "je.rep.vlsn.mappings"
VLSN_DISTANCE = "je.rep.vlsn.distance"
HALT = "je.haltOnCommitAfterChecksumException"
FORCE_NEW_FILE = "je.env.recoveryForceNewFile"


class Number(Struct, frozen=True):
    """A parameter that is a number.

    Attributes:
        default: value if it is not set.
        least, most: bounds that the engine accepts; no upper bound if `most` is None.
        unit: unit of the number.
    """

    default: int
    least: int
    most: int | None
    unit: str


_INT_MAX = (1 << 31) - 1

NUMBERS = {
    FILE_MAX: Number(10_000_000, 1_000_000, 1 << 30, "bytes"),
    DATA_DIRECTORIES: Number(0, 0, 256, "folders"),
    MAX_DISK: Number(0, 0, None, "bytes"),
    FREE_DISK: Number(5 << 30, 0, None, "bytes"),
    RESERVED_DISK: Number(0, 0, None, "bytes"),
    MIN_UTILIZATION: Number(50, 0, 90, "percent"),
    MIN_FILE_UTILIZATION: Number(5, 0, 50, "percent"),
    # Newer engines require at least 2.
    MIN_AGE: Number(2, 1, 1000, "files"),
    BIN_DELTA: Number(25, 0, 75, "percent"),
    VLSN_STRIDE: Number(10, 1, _INT_MAX, "VLSNs"),
    VLSN_MAPPINGS: Number(1000, 1, _INT_MAX, "mappings"),
    VLSN_DISTANCE: Number(100_000, 1, _INT_MAX, "bytes"),
}

SWITCHES = {RUN_CLEANER: True, EXPUNGE: True, HALT: False, FORCE_NEW_FILE: False}
"""Parameters that are on or off, with their defaults."""

_LONG_MAX = (1 << 63) - 1
_NUMBER = re.compile(r"[+-]?[0-9]+")
_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX_DIGITS = re.compile(r"[0-9a-fA-F]{4}")


class PropertiesError(ValueError):
    """Text that is not a properties file."""


class Settings(Struct, frozen=True):
    """Settings in an environment's `je.properties`.

    Attributes:
        texts: all properties that are set, by name.
        refused: settings that the engine refuses, each as a sentence; it then does not open.
        unreadable: reason why the file could not be read; None if it was read or is absent.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    unreadable: str | None = None

    def is_set(self, name: str) -> bool:
        """Return whether a parameter is in the file."""
        return name in self.texts

    def refusal(self, name: str) -> str | None:
        """Return the reason why the engine refuses the value of a parameter, or None."""
        return _refusal(name, self.texts[name]) if name in self.texts else None

    def number(self, name: str) -> int:
        """Return a parameter of NUMBERS as set, or its default if unset or refused."""
        text = self.texts.get(name)
        if text is None or self.refusal(name) is not None:
            return NUMBERS[name].default
        return int(text)

    def switch(self, name: str) -> bool:
        """Return a parameter of SWITCHES as set, or its default if unset or refused."""
        text = self.texts.get(name)
        if text is None or self.refusal(name) is not None:
            return SWITCHES[name]
        return text.strip().lower() == "true"


def read_settings(home: Path) -> Settings:
    """Read the `je.properties` of an environment; without one, return the defaults."""
    try:
        data = _content(home / FILE_NAME)
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        return Settings(unreadable=error.strerror or type(error).__name__)
    try:
        texts = parse_properties(data)
    except PropertiesError as error:
        return Settings(refused=(f"{error}",))
    refusals = (_refusal(name, text) for name, text in texts.items())
    return Settings(texts, tuple(each for each in refusals if each is not None))


def _content(path: Path) -> bytes:
    """Return the content of the file.

    Raises:
        OSError: it cannot be read, is too long, or is not a regular file: a pipe never ends.
    """
    if isinstance(path, RemotePath):
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        with open_source(path) as source:
            return _checked(source.read_bytes(0, _SIZE_MAX + 1))
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        data = os.read(number, _SIZE_MAX + 1)
    finally:
        os.close(number)
    return _checked(data)


def _checked(data: bytes) -> bytes:
    if len(data) > _SIZE_MAX:
        raise OSError(errno.EFBIG, f"longer than {_SIZE_MAX:,} bytes")
    return data


def parse_properties(data: bytes) -> dict[str, str]:
    r"""Return names and values of a properties file, in its order; the last value of each name.

    Raises:
        PropertiesError: `\u` without four hexadecimal digits.
    """
    found = {}
    for line in _logical_lines(data.decode("latin-1")):
        key_end, value_start = _split(line)
        found[_unescaped(line[:key_end])] = _unescaped(line[value_start:])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines joined with their continuations, without comments and blank lines."""
    line = ""
    for natural in re.split("\r\n|\r|\n", text):
        stripped = natural.lstrip(_BLANK)
        if not line and stripped[:1] in ("", "#", "!"):
            continue
        line += stripped
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        if backslashes % 2:
            line = line[:-1]
            continue
        yield line
        line = ""
    if line:
        yield line


def _split(line: str) -> tuple[int, int]:
    """Return the end of the name and the start of the value."""
    at = 0
    while at < len(line) and line[at] not in "=:" + _BLANK:
        at += 2 if line[at] == "\\" else 1
    end = min(at, len(line))
    at = end
    while at < len(line) and line[at] in _BLANK:
        at += 1
    if at < len(line) and line[at] in "=:":
        at += 1
        while at < len(line) and line[at] in _BLANK:
            at += 1
    return end, at


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    out = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\":
            out.append(char)
            continue
        escaped = text[at : at + 1]
        at += 1
        if escaped != "u":
            out.append(_ESCAPES.get(escaped, escaped))
            continue
        digits = text[at : at + 4]
        if not _HEX_DIGITS.fullmatch(digits):
            raise PropertiesError(f"\\u{digits} in {FILE_NAME} is not four hexadecimal digits")
        out.append(chr(int(digits, 16)))
        at += 4
    return "".join(out)


def _refusal(name: str, text: str) -> str | None:
    """Return the reason why the engine refuses a value, or None; unknown parameters pass."""
    setting = f"{FILE_NAME} sets {name} to {text[:_SHOWN]!r}"
    if name in SWITCHES:
        # The engine refuses blanks around a number, but not around a word.
        is_boolean = text.strip().lower() in ("true", "false")
        return None if is_boolean else f"{setting}, which is no boolean"
    if name not in NUMBERS:
        return None
    bounds = NUMBERS[name]
    # Python refuses to convert very long numbers.
    is_long = len(text.lstrip("+-0")) > _DIGITS_MAX
    if is_long or not _NUMBER.fullmatch(text) or not -_LONG_MAX <= int(text) <= _LONG_MAX:
        return f"{setting}, which is no whole number"
    most = _LONG_MAX if bounds.most is None else bounds.most
    if not bounds.least <= int(text) <= most:
        return f"{setting}, which is not from {bounds.least:,} to {most:,}"
    return None
