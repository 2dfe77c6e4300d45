"""Python in the pages: run as it is, with the output that it prints."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from typing import Any

BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


def played(text: str) -> tuple[str, int]:
    """Return a page with the output of its Python, and its number of blocks."""
    names: dict[str, Any] = {}

    def play(found: re.Match[str]) -> str:
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(found[1], "page", "exec"), names)
        printed = "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip("\n")
        if found[2] is None:
            assert printed == "", found[1]
            return found[0]
        return f"```python\n{found[1]}```\n\n```text\n{printed}\n```\n"

    return BLOCK.subn(play, text)
