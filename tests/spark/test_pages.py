"""The Python in the pages runs as it is, and prints the output that they show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.corpus import ROOT
from tests.pages import played

PAGES = ["README.md", "docs/spark.md"]


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
