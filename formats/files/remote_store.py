"""Requests to remote file systems: status, listing and ranged reads, by fsspec.

fsspec and the package of the store are imported by the first request. Failures become `OSError`
with a text that says what to do. Each request is tried again if that may help, here and nowhere
else: the retries of the S3 client are turned off, because three layers of them multiply.
"""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from msgspec import Struct

from je_tools.formats.files.uris import masked_text

T = TypeVar("T")

_PAUSES = (0.2, 1.0, 3.0)
"""Seconds to wait before each further try."""

_S3_OPTIONS = {
    "config_kwargs": {
        "connect_timeout": 10,
        "read_timeout": 30,
        "retries": {"max_attempts": 1, "mode": "standard"},
    }
}
_OPTIONS = {"s3": _S3_OPTIONS, "s3a": _S3_OPTIONS}
"""Arguments of file systems; those in fsspec's own configuration override them."""

_EXTRAS = {
    **dict.fromkeys(("s3", "s3a"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    **dict.fromkeys(("abfs", "abfss", "az", "adl"), "abfs"),
    "hdfs": "hdfs",
}
"""Extras of je-tools by scheme."""

_KNOWN_MAX = 1 << 18
"""Largest number of listed files whose status is kept."""

_TAGS = ("ETag", "etag", "generation", "version_id")
_TIMES = ("LastModified", "last_modified", "mtime", "modified", "updated", "created")

_FINAL = frozenset({errno.ENOENT, errno.EACCES, errno.ENOPKG, errno.EPROTONOSUPPORT, errno.ERANGE})
"""Errors that another try does not change."""

_CREDENTIALS = re.compile(r"credential|ProfileNotFound|TokenRetrieval|ClientAuthentication", re.I)
_TIMEOUTS = re.compile("timeout", re.I)
_CONNECTIONS = re.compile(r"connect|EndpointConnection|ServerDisconnected|Name.*Resolution", re.I)

_known: dict[str, RemoteStatus] = {}
"""Status of files by the last listing of their folder, so that opening them costs no request."""


class RemoteStatus(Struct, frozen=True):
    """Status of a file or folder in a store.

    Attributes:
        size: bytes; 0 for a folder.
        is_folder: True for a folder.
        tag: what changes with the content, such as an ETag; None if the store has none.
        modified: time of the last change in seconds since 1970; None if unknown.
    """

    size: int
    is_folder: bool
    tag: str | None
    modified: float | None

    @property
    def is_marked(self) -> bool:
        """True if a change of the content shows in anything but the size."""
        return self.tag is not None or self.modified is not None

    def is_same(self, other: RemoteStatus) -> bool:
        """Return whether this and a later status show the same content.

        Without a tag, a file that has grown counts as the same. Without a tag and a time, no
        file counts as the same.
        """
        if self.tag is not None or other.tag is not None:
            return self.tag == other.tag
        return self.is_marked and (self.size < other.size or self.modified == other.modified)


def status_of(uri: str) -> RemoteStatus:
    """Ask the store for the status of a file or folder.

    Raises:
        OSError: there is none, or the store does not say.
    """
    return _asked(uri, lambda: _status(_file_system(uri).info(_key(uri))))


def listed_status_of(uri: str) -> RemoteStatus:
    """Return the status of a file as its folder was last listed; else ask the store."""
    known = _known.get(uri)
    return known if known is not None else status_of(uri)


def listed(folder: str) -> list[tuple[str, RemoteStatus]]:
    """Ask the store for names and status of what is in a folder.

    Raises:
        OSError: there is no such folder, or the store does not say.
    """
    key = _key(folder)
    found = _asked(folder, lambda: _file_system(folder).ls(key, detail=True))
    statuses = [(_name(each, key), _status(each)) for each in found]
    # A folder may list an object of its own name; and no path can name the parts . and ..
    kept = [(name, status) for name, status in statuses if name not in ("", ".", "..")]
    if len(_known) + len(kept) > _KNOWN_MAX:
        _known.clear()
    _known.update({f"{folder}/{name}": status for name, status in kept if not status.is_folder})
    return kept


def fetched(uri: str, start: int, stop: int) -> bytes:
    """Read bytes [start, stop) of a file with one request; fewer if the file ends before.

    Raises:
        OSError: the file is gone, or the store does not deliver it.
    """

    def fetch() -> bytes:
        data = bytes(_file_system(uri).cat_file(_key(uri), start=start, end=stop))
        if len(data) < stop - start:
            # Otherwise a body that was cut short would pass for the end of the file.
            size = _file_system(uri).info(_key(uri))["size"]
            if size >= stop:
                reason = f"the store sent {len(data):,} of {stop - start:,} bytes at {start:,}"
                raise OSError(errno.EREMOTEIO, reason)
        return data[: stop - start]

    return _asked(uri, fetch)


def _asked(uri: str, request: Callable[[], T]) -> T:
    for pause in (*_PAUSES, None):
        try:
            return request()
        # Each store's package has errors of its own, which have no base in common.
        except Exception as error:
            failure = _failure(uri, error)
            if pause is None or failure.errno in _FINAL:
                raise failure from error
        time.sleep(pause)
    raise AssertionError("unreachable")


def _file_system(uri: str) -> Any:
    """Return the file system of a path; fsspec keeps one for each process and its arguments."""
    import fsspec
    from fsspec.config import conf

    kind = fsspec.get_filesystem_class(_scheme(uri))
    options = {**_OPTIONS.get(_scheme(uri), {}), **conf.get(_scheme(uri), {})}
    # Listings are kept here, where it is known when an old one will do.
    options |= {**kind._get_kwargs_from_urls(uri), "use_listings_cache": False}
    found = kind(**options)
    if _scheme(uri) in _OPTIONS:
        found.retries = 1
    return found


def _scheme(uri: str) -> str:
    """Return the name of the kind of file system, such as `s3`."""
    return uri.partition(":")[0]


def _key(uri: str) -> str:
    """Return the path in the form that its file system expects."""
    import fsspec

    return str(fsspec.get_filesystem_class(_scheme(uri))._strip_protocol(uri))


def _name(found: Mapping[str, Any], folder: str) -> str:
    """Return the last part of the name of something in a folder; "" for the folder itself."""
    name = str(found["name"]).rstrip("/")
    return "" if name.strip("/") == folder.strip("/") else name.rpartition("/")[2]


def _status(found: Mapping[str, Any]) -> RemoteStatus:
    tag = next((str(found[key]) for key in _TAGS if found.get(key)), None)
    moment = next((found[key] for key in _TIMES if found.get(key)), None)
    if isinstance(moment, datetime):
        moment = moment.timestamp()
    modified = float(moment) if isinstance(moment, int | float) else None
    return RemoteStatus(
        int(found.get("size") or 0), found.get("type") == "directory", tag, modified
    )


def _failure(uri: str, error: Exception) -> OSError:
    """Return an error of a store's package as an OSError with the next step."""
    number, reason = _explained(uri, error)
    kind = {errno.ENOENT: FileNotFoundError, errno.EACCES: PermissionError}.get(number, OSError)
    return kind(number, reason, uri)


def _explained(uri: str, error: Exception) -> tuple[int, str]:
    kind = type(error).__name__
    lines = masked_text(str(error)).splitlines()
    words = f"{kind}: {lines[0][:300]}" if lines else kind
    if isinstance(error, ImportError):
        return errno.ENOPKG, _missing_package(uri)
    if isinstance(error, ValueError) and "rotocol" in words:
        return errno.EPROTONOSUPPORT, f"no file system is known for {_scheme(uri)}://"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return errno.ENOENT, "no such file, folder or bucket"
    if _CREDENTIALS.search(kind) or "InvalidAccessKeyId" in words:
        return errno.EACCES, (
            f"no valid credentials ({words}): set them as the store's own tools take them, in "
            "their settings or the environment"
        )
    if isinstance(error, PermissionError):
        return errno.EACCES, (
            "the store denies access (403): these credentials need the right to list the folder "
            "and to read its files"
        )
    if "InvalidRange" in words or "RangeNotSatisfiable" in words or "requested range" in words:
        return errno.ERANGE, f"the file ends before the bytes that were asked for ({words})"
    if isinstance(error, TimeoutError) or _TIMEOUTS.search(kind):
        return errno.ETIMEDOUT, f"no answer from the store ({words}): try again later"
    if isinstance(error, ConnectionError) or _CONNECTIONS.search(kind):
        return errno.ECONNREFUSED, f"no connection to the store ({words}): check its address"
    if isinstance(error, OSError) and error.errno == errno.EREMOTEIO and error.strerror:
        return errno.EREMOTEIO, f"{masked_text(error.strerror)}: try again later"
    return errno.EREMOTEIO, f"the store failed ({words}): try again later"


def _missing_package(uri: str) -> str:
    extra = _EXTRAS.get(_scheme(uri))
    if extra is None:
        return f"{_scheme(uri)}:// needs packages that are not installed: pip install fsspec"
    return (
        f"{_scheme(uri)}:// needs a package that is not installed: pip install 'je-tools[{extra}]'"
    )
