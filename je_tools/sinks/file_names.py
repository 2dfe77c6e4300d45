"""Names of databases as names of files: readable, inside the folder, and no two the same."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

_PLAIN = frozenset("-_. ")
_LENGTH_MAX = 200
"""Bytes of an escaped name: file systems take 255, of which suffixes need some."""

_DEVICES = frozenset({"con", "prn", "aux", "nul"})


def file_stem(name: str) -> str:
    """The name of a database as that of a file, without its suffix.

    Letters and digits of all scripts stay, with `-`, `_`, and `.` and blanks in the middle; the
    bytes of all others are spelled `%` and two digits. Two names may have one stem only where they
    are too long, or differ in what some file systems do not tell apart.
    """
    text = "".join(
        character if _is_plain(character) else _escaped(character)
        for character in unicodedata.normalize("NFC", name)
    )
    text = _escaped_ends(text) or "%"
    if text.lower() in _DEVICES:
        text = _escaped(text[0]) + text[1:]
    return _cut(text)


def file_stems(names: Iterable[tuple[int, str]]) -> dict[int, str]:
    """A stem for each id of a database, by its name; no two that any file system mixes up."""
    stems: dict[int, str] = {}
    taken: set[str] = set()
    for id_, name in names:
        stem = file_stem(name)
        number = 0
        while _folded(stem) in taken:
            # `~` stands in no escaped name.
            stem = f"{file_stem(name)}~{id_}" + (f"~{number}" if number else "")
            number += 1
        taken.add(_folded(stem))
        stems[id_] = stem
    return stems


def _is_plain(character: str) -> bool:
    return character in _PLAIN or (character.isalnum() and character.isprintable())


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def _escaped_ends(text: str) -> str:
    """No file that is hidden or that means a folder, and none whose end some systems drop."""
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
