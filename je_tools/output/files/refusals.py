"""Refusals of outputs that cannot be made or written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from je_tools.errors import RefusedError


def unwritable(name: str, reason: str | None) -> RefusedError:
    """Return the refusal for an output that cannot be written."""
    return RefusedError(f"{name}: cannot be written: {reason}")


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Raise the reason if an output cannot be made."""
    try:
        yield
    except FileNotFoundError as error:
        raise RefusedError(f"{path}: its directory does not exist") from error
    except FileExistsError as error:
        raise already_exists(path) from error
    except OSError as error:
        raise unwritable(str(path), error.strerror) from error


def already_exists(path: Path) -> RefusedError:
    """Return the refusal for an output that exists."""
    return RefusedError(f"{path}: exists; name a file that does not")
