"""Names for copies beside a directory."""

from __future__ import annotations

import os
from pathlib import Path


def unused_beside(path: Path, suffix: str) -> str:
    """Return `PATH.SUFFIX`, or `PATH.SUFFIX-2` and so on if that exists."""
    named = path if path.name not in ("", "..") else path.resolve()
    text = f"{named}.{suffix}"
    number = 2
    while os.path.lexists(text):
        text = f"{named}.{suffix}-{number}"
        number += 1
    return text
