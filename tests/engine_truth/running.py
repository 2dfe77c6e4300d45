"""Run the commands in this process, as their console scripts would."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from je_tools.commands.main import group


def json_rows(verb: str, home: Path, *arguments: str) -> tuple[int, Iterator[Any]]:
    """Return the exit code of `je-tools VERB HOME … --format jsonl`, and its lines."""
    with TemporaryDirectory() as folder:
        output = Path(folder) / "rows.jsonl"
        fixed = ["--threads", "1", "--format", "jsonl", "--output", str(output)]
        code = group.main([verb, str(home), *arguments, *fixed], standalone_mode=False)
        lines = output.read_bytes().splitlines()
    return code or 0, map(json.loads, lines)
