"""Runs the commands in this process, as their console scripts would."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

_ALWAYS, _NEVER = -1, 1 << 62


@contextmanager
def kernels(*, fast: bool) -> Iterator[None]:
    """Read logs of every size with compiled kernels, or with plain Python."""
    with patch("je_tools.scan.PLAIN_LIMIT", _ALWAYS if fast else _NEVER):
        yield


def json_rows(verb: str, home: Path, *arguments: str) -> tuple[int, Iterator[Any]]:
    """The exit code of `je-tools VERB HOME … --format jsonl`, and its lines."""
    command = importlib.import_module(f"je_tools.commands.{verb}").command
    with TemporaryDirectory() as folder:
        output = Path(folder) / "rows.jsonl"
        fixed = ["--threads", "1", "--format", "jsonl", "--output", str(output)]
        code = command.main([str(home), *arguments, *fixed], standalone_mode=False)
        lines = output.read_bytes().splitlines()
    return code or 0, map(json.loads, lines)
