"""Reasons why something could not be read: texts of the finding `unread`."""

from __future__ import annotations

import traceback
from pathlib import Path

import pyarrow as pa

from je_tools.core.escaping import clean_text
from je_tools.errors import JeToolsError


def why_unread(error: Exception) -> str:
    """Return the reason for a finding. A bug of ours costs one input, not the whole audit.

    The text about a bug has nothing from the log, which may hold anything.

    Raises:
        Exception: the error itself, if the machine that reads is to blame.
    """
    if isinstance(error, JeToolsError):
        return clean_text(str(error))
    if isinstance(error, OSError | MemoryError | pa.ArrowException):
        raise error
    return _bug(error)


def why_unknown(error: Exception) -> str:
    """Return the reason why part of a result is not known, whatever failed."""
    if isinstance(error, JeToolsError):
        return clean_text(str(error))
    if isinstance(error, OSError):
        return clean_text(error.strerror or type(error).__name__)
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    return _bug(error)


def _bug(error: Exception) -> str:
    at = traceback.extract_tb(error.__traceback__)[-1]
    traceback.print_tb(error.__traceback__)
    return f"a bug of je-tools: {type(error).__name__} in {Path(at.filename).name}:{at.lineno}"
