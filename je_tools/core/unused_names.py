"""Names for copies, which no file has."""

from __future__ import annotations

import os
from pathlib import Path


def unused_beside(path: Path, suffix: str) -> str:
    """Return an unused name beside a directory."""
    named = path if path.name not in ("", "..") else path.resolve()
    text = f"{named}.{suffix}"
    number = 2
    while os.path.lexists(text):
        text = f"{named}.{suffix}-{number}"
        number += 1
    return text
