"""Names of databases as names of files: readable, inside the folder, and no two the same."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

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


def file_stems(
    names: Iterable[tuple[int, str]], tails: Sequence[str] = ("",), reserved: Iterable[str] = ()
) -> dict[int, str]:
    """A stem for each id of a database, by its name; no two files that any file system mixes up.

    Args:
        names: ids and names.
        tails: what stands behind the stem in the names of a database's files, of each of them.
        reserved: names of other files in the folder.
    """
    stems: dict[int, str] = {}
    taken = {_folded(name) for name in reserved}
    for id_, name in names:
        stem = file_stem(name)
        number = 0
        while taken & {_folded(stem + tail) for tail in tails}:
            # `~` stands in no escaped name.
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
