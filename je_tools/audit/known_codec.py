"""Encoding of results that outlive a run.

Whoever can write to the folder of audits could plant a pickle there. So only plain data and the
structures of je-tools are decoded, and nothing else is ever called.
"""

from __future__ import annotations

import io
import pickle
import zlib
from collections.abc import Callable
from enum import Enum
from importlib import import_module
from typing import Any

from msgspec import Struct

from je_tools import __version__
from je_tools.formats.files.remote_path import RemotePath
from je_tools.formats.je.log.places import Places

_HEAD = f"je-tools known 1 {__version__}\n".encode()
"""Begin of the data. Results of another version of je-tools do not count."""

_STRUCTURES = (Struct, Places, Enum, RemotePath)
"""Classes of je-tools whose objects, and those of classes derived from them, are decoded."""

_OTHERS = {
    ("array", "_array_reconstructor"),
    ("array", "array"),
    ("collections", "Counter"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.numeric", "_frombuffer"),
    ("pathlib", "PosixPath"),
}


class _Unpickler(pickle.Unpickler):
    """Unpickler of plain data and structures of je-tools."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _OTHERS:
            found = super().find_class(module, name)
            return _maker(found) if isinstance(found, type) and _is_open(found) else found
        if module.partition(".")[0] == "je_tools":
            found = getattr(import_module(module), name, None)
            if isinstance(found, type) and issubclass(found, _STRUCTURES):
                return _maker(found)
        raise pickle.UnpicklingError(f"{module}.{name} is no result")


def _is_open(found: type) -> bool:
    """Return True if attributes of a class can be set."""
    return not found.__flags__ & _IMMUTABLE


def _maker(found: type) -> Callable[..., Any]:
    """Return a function that makes an object: a pickle could set attributes of the class itself."""
    return lambda *values: found(*values)


_IMMUTABLE = 1 << 8
"""Source: CPython, Py_TPFLAGS_IMMUTABLETYPE."""


def with_header(data: bytes) -> bytes:
    """Return data after a header with the version of je-tools and a checksum."""
    return _HEAD + zlib.crc32(data).to_bytes(4, "little") + data


def without_header(data: bytes) -> bytes | None:
    """Return the data after the header; None if another version wrote it, or it is damaged."""
    start = len(_HEAD) + 4
    body = data[start:]
    if not data.startswith(_HEAD):
        return None
    return body if zlib.crc32(body).to_bytes(4, "little") == data[len(_HEAD) : start] else None


def encoded(results: Struct) -> bytes:
    """Return results as bytes."""
    return with_header(pickle.dumps(results, pickle.HIGHEST_PROTOCOL))


def decoded(data: bytes) -> Any:
    """Return the results in some bytes; None if another version wrote them, or they are damaged."""
    body = without_header(data)
    if body is None:
        return None
    try:
        return _Unpickler(io.BytesIO(body)).load()
    except Exception:
        # Somebody has written other data there, with a right checksum.
        return None
