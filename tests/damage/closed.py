"""Files that the system does not open."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

DENIED = os.strerror(errno.EACCES)


def close(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    """Permissions do not stop a superuser, so the system is told to."""
    real = os.open

    def refused(name: Any, *rest: Any, **named: Any) -> int:
        if Path(name) in paths:
            raise PermissionError(errno.EACCES, DENIED, str(name))
        return real(name, *rest, **named)

    monkeypatch.setattr(os, "open", refused)
