"""Escaping of untrusted text for terminals, spreadsheets, shells and metrics.

Names of files and databases are bytes that somebody else chose.
"""

from __future__ import annotations

import re
import shlex

_FORMULA = ("=", "+", "-", "@")

# A byte that is not UTF-8, as `clean_text` escapes it.
_BYTE = re.compile(r"\\x[89a-f][0-9a-f]")


def clean_text(text: str) -> str:
    """Return text with each byte that is not UTF-8 escaped as a backslash, x and its digits."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def printable(text: str) -> str:
    r"""Return text on one line, without anything that a terminal would obey.

    Unprintable characters become \n, \x1b and so on; bytes that are not UTF-8 are escaped as in
    `clean_text`.
    """
    return text if text.isprintable() else "".join(map(_printable_character, text))


def _printable_character(character: str) -> str:
    if character.isprintable():
        return character
    if 0xDC80 <= ord(character) <= 0xDCFF:
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def safe_cell(text: str) -> str:
    """Return text for a cell of CSV: printable, and never a formula to a spreadsheet."""
    cell = printable(text)
    # Some spreadsheets accept a formula even after leading spaces.
    return "'" + cell if cell.lstrip().startswith(_FORMULA) else cell


def metric_label(text: str) -> str:
    """Return text as the value of a label in Prometheus' format, without its quotes."""
    plain = printable(clean_text(text))
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def is_lsn(name: str) -> bool:
    """Return whether a field of this name holds log sequence numbers."""
    return name == "lsn" or name.endswith("_lsn")


def counted(number: int, word: str) -> str:
    """Return a number with its noun: `1 file`, `2 files`."""
    return f"{number:,} {word}{'s' * (number != 1)}"


def quoted(path: str) -> str:
    r"""Return a path as a word for bash: `$'…'` if it holds raw bytes or unprintable characters."""
    text = clean_text(path)
    if text.startswith("-"):
        text = f"./{text}"
    if text.isprintable() and not _BYTE.search(text):
        return shlex.quote(text)
    pieces = []
    for piece in re.split(f"({_BYTE.pattern})", text):
        if _BYTE.fullmatch(piece):
            pieces.append(piece)
        else:
            pieces.extend(map(_escaped, piece))
    return "$'" + "".join(pieces) + "'"


def _escaped(character: str) -> str:
    """Escape a character for `$'…'`, in which an escaped x stands for a byte."""
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
