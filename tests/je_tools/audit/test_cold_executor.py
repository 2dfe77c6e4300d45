"""A cold executor of the audit reads its first entry soon: it loads only what it needs."""

from __future__ import annotations

import subprocess
import sys

from tests.corpus import FIXTURES, ROOT

UNNEEDED = (
    "click",
    "duckdb",
    "jinja2",
    "je_tools.commands",
    "je_tools.output.views",
    "numba",
    "pandas",
    "rich",
)
MODULES_MAX = 800
"""Largest number of modules: 300 of pyspark and pyarrow, and what reads and judges logs."""


def test_modules_until_the_first_entry() -> None:
    program = ROOT / "bench" / "first_entry.py"
    command = [sys.executable, program, FIXTURES / "v17-basic" / "env"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lsn, *modules = done.stdout.splitlines()
    assert lsn == "0"
    loaded = [name for name in modules if name.startswith(tuple(f"{each}." for each in UNNEEDED))]
    assert [*loaded, *set(UNNEEDED).intersection(modules)] == []
    assert len(modules) < MODULES_MAX
