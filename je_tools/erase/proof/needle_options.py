"""Needles as users name them: keys, texts and regular expressions, in options or in a file."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from je_tools.erase.proof.needles import NEEDLE_SIZE_MAX, Needle, NeedleKind
from je_tools.errors import InputError, UsageError
from je_tools.log.parsing import parse_key

_REGEX = "re:"
_KEY_FORM = re.compile(r"(?:long|int):[-+]?\d+$|str:")


def key_needles(texts: Iterable[str]) -> Iterator[Needle]:
    """Yield the needles of `--key`: text, hex:…, hex:…* for a prefix, long:…, int:…, str:….

    Raises:
        UsageError: one has none of these forms; the message does not quote it.
    """
    for number, text in enumerate(texts, 1):
        yield _key_needle(text, "--key", f"--key, number {number}")


def file_needles(path: Path) -> Iterator[Needle]:
    """Yield the needles of a file with one key on each line, in the forms of `--key`.

    Lines end with a line feed, perhaps after a carriage return. Empty lines are skipped, and so is
    a byte-order mark of UTF-8 at the start.

    Raises:
        InputError: the file cannot be read.
        UsageError: it is not UTF-8 text, or a line has none of these forms; the message does not
            quote it.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UsageError(f"{path}: it is UTF-16; convert it to UTF-8: `iconv -f UTF-16 -t UTF-8`")
    if b"\0" in data:
        raise UsageError(
            f"{path}: it has a zero byte, so it is not UTF-8 text; convert it, and write keys with "
            "such a byte as hex:0a1b or str:name"
        )
    for number, line in enumerate(data.removeprefix(codecs.BOM_UTF8).split(b"\n"), 1):
        text = line.removesuffix(b"\r").decode("utf-8", "surrogateescape")
        if text:
            yield _key_needle(text, "--key-file", f"--key-file, line {number}")


def match_needles(texts: Iterable[str]) -> Iterator[Needle]:
    """Yield the needles of `--match`: text, hex:…, or re:… for a regular expression.

    Raises:
        UsageError: one is not hexadecimal or not UTF-8, or has the form of a key; the message does
            not quote it.
    """
    for number, text in enumerate(texts, 1):
        where = f"--match, number {number}"
        if text.startswith(_REGEX):
            try:
                pattern = text.removeprefix(_REGEX).encode()
            except UnicodeEncodeError:
                raise UsageError(
                    f"{where}: a regular expression must be UTF-8; write other bytes as \\xff"
                ) from None
            yield Needle(NeedleKind.PATTERN, "--match", pattern, None)
        elif text.startswith("hex:"):
            yield literal(_hex(text, where), "--match", where)
        elif _KEY_FORM.match(text):
            raise UsageError(
                f"{where}: it has the form of a key, and would be searched for as this text: give "
                "it as --key, or the text as a regular expression (re:…)"
            )
        else:
            yield literal(text.encode("utf-8", "surrogateescape"), "--match", where)


def _hex(text: str, where: str) -> bytes:
    try:
        return bytes.fromhex(text.removeprefix("hex:").removesuffix("*"))
    except ValueError:
        # The error itself quotes the text.
        raise UsageError(
            f"{where}: expected pairs of hexadecimal digits, such as hex:0a1b"
        ) from None


def literal(value: bytes, origin: str, where: str) -> Needle:
    """Return a needle of bytes.

    Args:
        value: the bytes.
        origin: option that named it.
        where: the option and its number, for errors.

    Raises:
        UsageError: there are no bytes, or too many.
    """
    if not 0 < len(value) <= NEEDLE_SIZE_MAX:
        raise UsageError(f"{where}: {len(value):,} bytes; expected 1 to {NEEDLE_SIZE_MAX:,} bytes")
    return Needle(NeedleKind.LITERAL, origin, value, len(value))


def _check_borders(text: str, where: str) -> None:
    """Refuse a key with invisible characters, which would keep it from being found.

    Raises:
        UsageError: the key has such characters; the message does not quote it.
    """
    reason = ""
    if text.startswith("\ufeff"):
        reason = "it begins with a byte-order mark"
    elif text != text.strip():
        reason = "it begins or ends with a blank"
    elif "\r" in text:
        reason = "it has a carriage return, which ends no line here"
    if reason:
        raise UsageError(f"{where}: {reason}; remove that, or write the key as hex:0a1b")


def _key_needle(text: str, origin: str, where: str) -> Needle:
    _check_borders(text, where)
    try:
        pattern = parse_key(text, origin)
    except UsageError:
        # The error of `parse_key` quotes the key.
        raise UsageError(
            f"{where}: not a key; expected text, hex:0a1b, hex:0a* for a prefix, long:5485, "
            "int:7 or str:name"
        ) from None
    needle = literal(pattern.needle, origin, where)
    return replace(needle, is_key=True, is_prefix=not pattern.whole)
