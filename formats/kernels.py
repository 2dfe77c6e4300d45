"""Kernels: one Python source, run as it is on small input and compiled by numba on large.

A kernel is a function over flat bytes and preallocated arrays, marked with `kernel`. Called
directly it runs as plain Python (over a `memoryview`, which indexes faster than an array), so a
small log never pays for importing numba. `compiled` gives its numba twin, made on first use.

numba's own cache does not notice that a kernel called from another module has changed, so the
cache folder is keyed by a digest of every source file below `formats/` and numba's version.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
import threading
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_MARKED: set[Callable[..., Any]] = set()
_TWINS: dict[Callable[..., Any], Any] = {}
_LOCK = threading.RLock()


def kernel(function: F) -> F:
    """Mark `function` as a kernel; it stays a plain Python function."""
    _MARKED.add(function)
    return function


def compiled(function: Callable[..., Any]) -> Any:
    """The numba twin of a kernel, with every kernel it calls replaced by that one's twin.

    The twin releases the GIL, never raises on input and is specialised (and cached on disk) by
    the argument types of its first call. Source arrays must be passed read-only, so that maps
    and buffers share one specialisation.
    """
    twin = _TWINS.get(function)
    if twin is not None:
        return twin
    with _LOCK:
        if function not in _TWINS:
            _TWINS[function] = _compile(function)
        return _TWINS[function]


def _compile(function: Callable[..., Any]) -> Any:
    if function not in _MARKED or not isinstance(function, types.FunctionType):
        raise TypeError(f"{function!r} is not a kernel")
    names = set(function.__code__.co_names)
    scope = {
        name: compiled(value) if _is_kernel(value) and name in names else value
        for name, value in function.__globals__.items()
    }
    copy = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
    copy.__module__ = function.__module__
    copy.__qualname__ = function.__qualname__
    cached = _use_cache_folder()
    import numba

    return numba.njit(nogil=True, cache=cached)(copy)


def _is_kernel(value: object) -> bool:
    return isinstance(value, types.FunctionType) and value in _MARKED


@functools.cache
def _use_cache_folder() -> bool:
    """Point numba at the cache folder of these sources; False where none can be written.

    numba raises while decorating when its folder cannot be written, hence the probe first.
    """
    import numba

    chosen = os.environ.get("NUMBA_CACHE_DIR")
    folder = Path(chosen) if chosen else _default_cache_folder(numba.__version__)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        warnings.warn(
            f"kernels are compiled anew in every run: cache folder {folder}: {error.strerror}",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    vars(numba.config)["CACHE_DIR"] = str(folder)
    return True


def _default_cache_folder(numba_version: str) -> Path:
    digest = hashlib.blake2b(numba_version.encode(), digest_size=8)
    root = Path(__file__).resolve().parent
    for source in sorted(root.rglob("*.py")):
        digest.update(source.read_bytes())
    chosen = os.environ.get("XDG_CACHE_HOME")
    base = Path(chosen) if chosen else Path("~/.cache").expanduser()
    return base / "je-tools" / "kernels" / digest.hexdigest()
