"""The command to type next, for a finding of an audit."""

from __future__ import annotations

import re
import shlex

from je_tools.formats.je.header import lsn_text
from je_tools.plain import clean_text

_OF_VERSIONS = ("version-step", "unsupported-version", "old-delta-in-v8", "old-form-to-replay")
_OF_VLSNS = ("vlsn-gap", "vlsn-duplicate", "vlsn-backward")
_OF_ENTRIES = (
    "damaged-entry",
    "damaged-gap",
    "unknown-type",
    "torn-tail",
    "truncated-file",
    "prev-offset-mismatch",
    "erased-not-zero",
    "bad-file-header",
)

# As `clean_text` spells a byte that is not UTF-8.
_BYTE = re.compile(r"\\x[89a-f][0-9a-f]")


def next_command(code: str, env: str, lsn: int | None) -> str:
    """The command that shows more of a finding: one line, whatever the environment is called."""
    home = quoted(env)
    if code in _OF_VERSIONS:
        return f"je-tools files {home}"
    if code in _OF_VLSNS:
        return f"je-tools summary {home} --vlsn"
    if code in _OF_ENTRIES and lsn is not None:
        return f"je-tools explain {lsn_text(lsn)} --env {home}"
    if code == "unreadable-file":
        return f"je-tools missing {home}"
    return f"je-tools verify {home}"


def quoted(path: str) -> str:
    r"""A path as a word for bash; `$'…'` where it holds what does not print, or raw bytes."""
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
            pieces.extend(map(_spelled, piece))
    return "$'" + "".join(pieces) + "'"


def _spelled(character: str) -> str:
    """A character inside `$'…'`, where an escaped x would be a byte and not a character."""
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
