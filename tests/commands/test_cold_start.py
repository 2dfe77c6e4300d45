"""The first run on a machine works like any other: nothing is compiled, nothing is cached."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.trees import simple

TOOL = Path(sys.executable).parent / "je-tools"
RECORDS, VALUE = 3000, 900


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log of some megabytes."""
    log = simple({b"%05d" % i: bytes(VALUE) for i in range(RECORDS)})
    log.ln(b"00000", b"changed")
    return log.write(tmp_path_factory.mktemp("cold") / "env")


@pytest.mark.parametrize("verb", ["verify", "count", "recover"])
@pytest.mark.parametrize("mode", [0o700, 0o500], ids=["fresh", "read-only"])
def test_nothing_is_written_to_a_home_directory(
    home: Path, tmp_path: Path, verb: str, mode: int
) -> None:
    own = tmp_path / "home"
    own.mkdir(mode=mode)
    kept = {"HOME": str(own), "XDG_CACHE_HOME": str(own / "cache"), "TMPDIR": str(own)}
    runs = [
        subprocess.run(
            [TOOL, verb, home], env={**os.environ, **kept}, capture_output=True, check=False
        )
        for _ in range(2)
    ]
    assert [run.returncode for run in runs] == [0, 0]
    assert runs[0].stdout == runs[1].stdout
    assert [run.stderr for run in runs if b"compile" in run.stderr or b"cache" in run.stderr] == []
    assert list(own.iterdir()) == []


def test_nothing_that_compiles_is_installed() -> None:
    found = subprocess.run(
        [sys.executable, "-c", "import numba"], capture_output=True, text=True, check=False
    )
    assert "ModuleNotFoundError" in found.stderr
