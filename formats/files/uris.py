"""URIs as text: recognised, split into their parts, and shown without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*"
_URI = re.compile(rf"((?:{_SCHEME}::)*{_SCHEME})://(.*)", re.DOTALL)
_LINK = re.compile(rf"::({_SCHEME}):///*")
_BARE_LINK = re.compile(rf"::{_SCHEME}\Z")

_IN_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S*?(?=[]'\")>,.:;]*(?:\s|$))")

_WITH_PORT = re.compile(r"(?:[^:@]*@)?(?:\[[0-9A-Fa-f:.]*\]|[^:@]*)(?::[0-9]{1,5})?")
"""First part of a URI with a port, an IPv6 address or both, and perhaps a user."""

_WITH_USERS = frozenset(
    {"abfs", "abfss", "wasb", "wasbs", "hdfs", "webhdfs", "sftp", "ssh", "ftp", "smb"}
)
"""Schemes that have the name of a container or a user, which is no secret, before an `@`."""

_WITHOUT_PASSWORDS = frozenset({"hdfs", "webhdfs"})
"""Schemes that know no passwords, so that an `@` after a port is part of a name."""

_S3 = frozenset({"s3", "s3a"})
"""Schemes that may have an ARN in the place of a bucket."""


class URIError(ValueError):
    """A URI that names no place; its text has the credentials masked."""


def is_uri(text: str) -> bool:
    """Return whether a text is a URI, and not a local path."""
    return _URI.match(text) is not None


def split_uri(text: str) -> tuple[str, str] | None:
    """Return the scheme in lower case and what follows `://`; None if the text is no URI.

    The scheme of a chain of file systems, such as `simplecache::s3://`, is everything before `://`.
    """
    match = _URI.fullmatch(text)
    return None if match is None else (match[1].lower(), match[2])


def is_chain(scheme: str, rest: str) -> bool:
    """Return whether a URI names a chain of file systems, as fsspec knows them."""
    return "::" in scheme or _LINK.search(rest) is not None


def credentials_size(scheme: str, rest: str) -> int:
    """Return how many characters of what follows `://` are, or may be, credentials; 0 for none.

    A secret may hold a slash, which then seems to end the first part. In that case, what follows
    the colon of that part is no port, or an `@` comes later.
    """
    if _LINK.search(rest) is not None:
        # Each file system of a chain may have some. No secret extends past the last `@`.
        return max(rest.rfind("@") + 1, *_sizes_in_chain(scheme, rest))
    host = rest.partition("/")[0]
    if ":" not in host:
        return 0 if scheme in _WITH_USERS else host.rfind("@") + 1
    last = rest.rfind("@")
    if _WITH_PORT.fullmatch(host) is not None:
        is_name = last < len(host) or scheme in _WITHOUT_PASSWORDS
        return 0 if is_name else last + 1
    if last > rest.index(":"):
        return last + 1
    return 0 if scheme in _S3 and host.startswith("arn:") else len(rest)


def _sizes_in_chain(scheme: str, rest: str) -> Iterator[int]:
    """Yield where the credentials of each file system of a chain end; 0 for one that has none."""
    begin = 0
    for link in (*_LINK.finditer(rest), None):
        text = rest[begin:] if link is None else rest[begin : link.start()]
        # A cache between two file systems has no place of its own.
        while (bare := _BARE_LINK.search(text, max(text.rfind("::"), 0))) is not None:
            text = text[: bare.start()]
        size = credentials_size(scheme, text)
        yield begin + size if size else 0
        if link is not None:
            scheme, begin = link[1].lower(), link.end()


def masked_uri(text: str) -> str:
    """Return a URI with credentials, and what follows `?`, replaced by `***`."""
    scheme, mark, rest = text.partition("://")
    # Extra slashes must not make credentials look like the name of a folder.
    rest = rest.lstrip("/") if ":" in rest else rest
    size = credentials_size(scheme.lower().rpartition("::")[2], rest)
    if size:
        rest = f"***@{rest[size:]}" if rest[size - 1] == "@" else "***"
    place, query, _ = rest.partition("?")
    return f"{scheme}{mark}{place}{query and '?***'}"


def masked_text(text: str) -> str:
    """Return a text with the URIs in it masked as by `masked_uri`; blanks end them."""
    return _IN_TEXT.sub(lambda match: masked_uri(match[0]), text)
