"""The text of URIs: whether it is one, its parts, and what of it may be shown."""

from __future__ import annotations

import re

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


class URIError(ValueError):
    """A URI that names no place; its text has the credentials masked."""


def is_uri(text: str) -> bool:
    """Return whether a text is a URI, and not a local path."""
    return _URI.match(text) is not None


def split_uri(text: str) -> tuple[str, str] | None:
    """Return the scheme in lower case and what follows `://`; None if the text is no URI."""
    match = _URI.fullmatch(text)
    return None if match is None else (match[1].lower(), match[2])


def masked_uri(text: str) -> str:
    """Return a text with passwords, and what follows `?`, in its URIs replaced by `***`."""
    text = re.sub(r"(?<=://)[^/@\s]*:[^/\s]*@", "***@", text)
    return re.sub(r"(://[^\s?]*\?)[^\s'\"]+", r"\1***", text)
