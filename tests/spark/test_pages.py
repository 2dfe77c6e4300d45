"""The Python in the pages runs as it is, and prints the output that they show."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import ROOT

PAGES = ["README.md", "docs/spark.md"]
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


@pytest.mark.parametrize("page", PAGES)
def test_examples_print_what_the_page_says(
    spark: Any, page: str, request: pytest.FixtureRequest
) -> None:
    """After an intended change, run this with `--rewrite-golden`."""
    path: Path = ROOT / page
    text = path.read_text(encoding="utf-8")
    made, count = played(text)
    assert count >= 4
    if request.config.getoption("--rewrite-golden"):
        path.write_text(made, encoding="utf-8")
    else:
        assert made == text
    assert spark.catalog.dropTempView("log") is (page == "README.md")
