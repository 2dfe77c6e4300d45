"""Kernels: one Python source, run as it is on small input and as machine code on large.

A kernel is a function over flat bytes and preallocated arrays, marked with `kernel`. Called
directly it runs as plain Python (over a `memoryview`, which indexes faster than an array), so a
small log never pays for a compiler. `compiled` gives its twin: machine code that numba makes on
its first use on a machine and that is loaded without numba (`machine`) from then on.

The folder with the machine code is keyed by a digest of every source file below `formats/`, as a
kernel changes with those that it calls.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import threading
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from je_tools.formats import machine

F = TypeVar("F", bound=Callable[..., Any])

_MARKED: set[Callable[..., Any]] = set()
_VECTOR_CODE: dict[Callable[..., Any], Callable[[], Any]] = {}
_TWINS: dict[Callable[..., Any], Twin] = {}
_DISPATCHERS: dict[Callable[..., Any], Any] = {}
_LOCK = threading.RLock()

_PROCESSOR = "processor"
"""Name of the file that keeps what processor this is."""

_CACHE_SPACE = 32 << 20
"""Free bytes below which nothing is kept: a full disk is what may have brought the user here."""


def kernel(function: F) -> F:
    """Mark `function` as a kernel; it stays a plain Python function."""
    _MARKED.add(function)
    return function


def vector_kernel(code: Callable[[], Any]) -> Callable[[F], F]:
    """Mark a kernel that other kernels call, and of which LLVM makes no vector code by itself.

    Args:
        code: gives what `numba.extending.intrinsic` takes, to do the same with LLVM's vectors. It
            must load what the Python source loads: only that is held to the bounds of arrays.
    """

    def mark(function: F) -> F:
        _VECTOR_CODE[function] = functools.cache(lambda: _intrinsic(code()))
        return kernel(function)

    return mark


def _intrinsic(function: Callable[..., Any]) -> Any:
    import numba.extending

    return numba.extending.intrinsic(function)


def compiled(function: Callable[..., Any]) -> Twin:
    """The twin of a kernel as machine code, every kernel that it calls included.

    The twin takes arrays and whole numbers, releases the GIL, never raises on input and is
    specialised by the types of the arrays. Source arrays must be passed read-only, so that maps
    and buffers share one specialisation.
    """
    twin = _TWINS.get(function)
    if twin is None:
        if not _is_kernel(function):
            raise TypeError(f"{function!r} is not a kernel")
        twin = _TWINS.setdefault(function, Twin(function))
    return twin


class Twin:
    """A kernel as machine code; see `compiled`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._runs: dict[machine.Kinds, machine.Run] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel; what it returns are whole numbers, tuples of them, or None."""
        kinds = machine.kinds_of(arguments)
        run = self._runs.get(kinds)
        if run is None:
            with _LOCK:
                run = self._runs.get(kinds) or self._specialised(kinds, arguments)
                self._runs[kinds] = run
        return run(arguments)

    def _specialised(self, kinds: machine.Kinds, arguments: tuple[Any, ...]) -> machine.Run:
        # Bounds checks raise exceptions, which only numba's own calls can pass on.
        if not _are_bounds_checked():
            code = self._code(kinds, arguments)
            if code is not None:
                return machine.load(code)
        dispatcher = _dispatcher(self.function)
        with machine.plain_indices():
            dispatcher.compile(machine.numba_types(arguments))
        return lambda arguments: dispatcher(*arguments)

    def _code(self, kinds: machine.Kinds, arguments: tuple[Any, ...]) -> machine.Code | None:
        there = _folder()
        code = machine.read(there / self._file_name(kinds)) if there else None
        if code is None:
            folder = _cache_folder()
            try:
                code = machine.build(_for_numba(self.function), arguments)
            except (ImportError, AttributeError, TypeError):
                # A numba whose inside looks different from the ones that `machine` knows.
                return None
            if code is not None and folder is not None:
                machine.save(code, folder / self._file_name(kinds))
        return code

    def _file_name(self, kinds: machine.Kinds) -> str:
        name = f"{self.function.__module__}.{self.function.__qualname__}"
        text = f"{kinds} {_processor()}"
        return f"{name}-{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}.kernel"


def _are_bounds_checked() -> bool:
    return os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0")


def _callee(function: Callable[..., Any]) -> Any:
    """What a compiled kernel calls where its source calls the kernel `function`."""
    if function in _VECTOR_CODE and not _are_bounds_checked():
        return _VECTOR_CODE[function]()
    return _dispatcher(function)


def _dispatcher(function: Callable[..., Any]) -> Any:
    """Numba's own compiled form of a kernel."""
    if function not in _DISPATCHERS:
        import numba

        folder = _cache_folder()
        if folder is not None:
            vars(numba.config)["CACHE_DIR"] = str(folder)
        numba_form = numba.njit(nogil=True, cache=folder is not None)
        _DISPATCHERS[function] = numba_form(_for_numba(function))
    return _DISPATCHERS[function]


def _for_numba(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a kernel in which the kernels that it calls are compiled ones."""
    assert isinstance(function, types.FunctionType)
    names = set(function.__code__.co_names)
    scope = {
        name: _callee(value) if _is_kernel(value) and name in names else value
        for name, value in function.__globals__.items()
    }
    copy = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
    copy.__module__ = function.__module__
    copy.__qualname__ = function.__qualname__
    return copy


def _is_kernel(value: object) -> bool:
    return isinstance(value, types.FunctionType) and value in _MARKED


@functools.cache
def _processor() -> str:
    there = _folder()
    told = machine.kept_processor(there / _PROCESSOR) if there else None
    if told is None:
        told = machine.processor()
        folder = _cache_folder()
        if folder is not None:
            machine.keep_processor(told, folder / _PROCESSOR)
    return told


@functools.cache
def _folder() -> Path | None:
    """The folder for machine code of these sources, be it there or not."""
    base = _cache_base()
    return None if base is None else base / _source_digest()


@functools.cache
def _cache_folder() -> Path | None:
    """The same where it can be written, and else None.

    numba raises while decorating when its folder cannot be written, hence the probe.
    """
    folder = _folder()
    if folder is None:
        _warn("no home directory")
        return None
    import tempfile

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        space = os.statvfs(folder)
        if space.f_bavail * space.f_frsize < _CACHE_SPACE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        _warn(f"cache folder {folder}: {error.strerror}")
        return None
    return folder


def _warn(why: str) -> None:
    text = f"kernels are compiled anew in every run: {why}"
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def _cache_base() -> Path | None:
    """As chosen, else where caches are kept; None for a user without a home directory."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen)
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not caches.is_absolute():
        try:
            caches = Path("~/.cache").expanduser()
        except RuntimeError:
            return None
    return caches / "je-tools" / "kernels"


def _source_digest() -> str:
    digest = hashlib.blake2b(digest_size=8)
    root = Path(__file__).resolve().parent
    for source in sorted(root.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()
