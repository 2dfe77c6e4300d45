"""File names for databases: readable, inside the directory, and unique."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

_PLAIN = frozenset("-_. ")
_LENGTH_MAX = 200
"""Largest size of an escaped name in bytes: file systems allow 255, and suffixes need some."""

_DEVICES = frozenset({"con", "prn", "aux", "nul"})


def file_stem(name: str) -> str:
    """Return the file name for a database, without its suffix.

    Letters and digits of all scripts are kept, and so are `-` and `_`, and `.` and blanks in the
    middle; each byte of other characters becomes `%` and two digits. Two names have the same stem
    only if they are too long, or differ in a way that some file systems ignore.
    """
    text = "".join(
        character if _is_plain(character) else _escaped(character)
        for character in unicodedata.normalize("NFC", name)
    )
    text = _escaped_ends(text) or "%"
    if text.lower() in _DEVICES:
        text = _escaped(text[0]) + text[1:]
    return _cut(text)


def file_stems(
    names: Iterable[tuple[int, str]], tails: Sequence[str] = ("",), reserved: Iterable[str] = ()
) -> dict[int, str]:
    """Return a stem for each database id such that no file system confuses two files.

    Args:
        names: ids and names.
        tails: suffixes after the stem, one for each file of a database.
        reserved: names of other files in the directory.
    """
    stems: dict[int, str] = {}
    taken = {_folded(name) for name in reserved}
    for id_, name in names:
        stem = file_stem(name)
        number = 0
        while taken & {_folded(stem + tail) for tail in tails}:
            # No escaped name contains `~`.
            stem = f"{file_stem(name)}~{id_}" + (f"~{number}" if number else "")
            number += 1
        taken |= {_folded(stem + tail) for tail in tails}
        stems[id_] = stem
    return stems


def _is_plain(character: str) -> bool:
    return character in _PLAIN or (character.isalnum() and character.isprintable())


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def _escaped_ends(text: str) -> str:
    """Escape ends that hide a file, make it a directory, or that some systems drop."""
    for character in ". ":
        if text.startswith(character):
            text = _escaped(character) + text[1:]
        if text.endswith(character):
            text = text[:-1] + _escaped(character)
    return text


def _cut(text: str) -> str:
    return text.encode()[:_LENGTH_MAX].decode("utf-8", "ignore")


def _folded(stem: str) -> str:
    return unicodedata.normalize("NFKC", stem).casefold()
