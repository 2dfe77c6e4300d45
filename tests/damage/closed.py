"""Files that the system refuses to open."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from je_tools.formats import _native

DENIED = os.strerror(errno.EACCES)


def close_directory(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Make listing a directory fail, and `os.access` report it."""
    real, real_access = os.scandir, os.access

    def refused(folder: Any = ".") -> Any:
        if Path(folder) == path:
            raise PermissionError(errno.EACCES, DENIED, str(folder))
        return real(folder)

    def no_access(name: Any, mode: int, **named: Any) -> bool:
        return Path(name) != path and real_access(name, mode, **named)

    monkeypatch.setattr(os, "scandir", refused)
    monkeypatch.setattr(os, "access", no_access)


def close(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    """Make opening these paths fail, since permissions do not stop a superuser."""
    real = os.open

    def refused(name: Any, *rest: Any, **named: Any) -> int:
        if Path(name) in paths:
            raise PermissionError(errno.EACCES, DENIED, str(name))
        return real(name, *rest, **named)

    real_file = _native.File

    def refused_file(path: Path) -> _native.File:
        if path in paths:
            raise PermissionError(errno.EACCES, DENIED, str(path))
        return real_file(path)

    monkeypatch.setattr(os, "open", refused)
    monkeypatch.setattr(_native, "File", refused_file)
