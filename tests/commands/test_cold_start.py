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
WRITABLE = 0o700


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log of some megabytes."""
    log = simple({b"%05d" % i: bytes(VALUE) for i in range(RECORDS)})
    log.ln(b"00000", b"changed")
    return log.write(tmp_path_factory.mktemp("cold") / "env")


@pytest.mark.parametrize("verb", ["verify", "count", "recover"])
@pytest.mark.parametrize("mode", [WRITABLE, 0o500], ids=["fresh", "read-only"])
def test_nothing_is_written_to_a_home_directory(
    home: Path, tmp_path: Path, verb: str, mode: int
) -> None:
    own = tmp_path / "home"
    own.mkdir(mode=mode)
    kept = {"HOME": str(own), "XDG_CACHE_HOME": str(own / "cache"), "TMPDIR": str(own)}
    # The second run may find what the first one left.
    runs = [
        subprocess.run(
            [TOOL, verb, home], env={**os.environ, **kept}, capture_output=True, check=False
        )
        for _ in range(2 if mode == WRITABLE else 1)
    ]
    assert {run.returncode for run in runs} == {0}
    assert len({run.stdout for run in runs}) == 1
    assert [run.stderr for run in runs if b"compile" in run.stderr or b"cache" in run.stderr] == []
    assert list(own.iterdir()) == []


def test_nothing_that_compiles_is_installed() -> None:
    found = subprocess.run(
        [sys.executable, "-c", "import numba"], capture_output=True, text=True, check=False
    )
    assert "ModuleNotFoundError" in found.stderr


def test_numpy_is_loaded_at_a_shallow_depth(home: Path, tmp_path: Path) -> None:
    """Deep in the imports of a command, the start would take a tenth longer."""
    (tmp_path / "numpy.py").write_text(
        "import sys, traceback\n"
        "raise SystemExit(str(sum(1 for _ in traceback.walk_stack(sys._getframe()))))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    depths = {
        subprocess.run(
            [TOOL, verb, home], env=environment, capture_output=True, text=True, check=False
        ).stderr
        for verb in ("count", "verify", "recover")
    }
    assert len(depths) == 1
    assert int(depths.pop()) < 20


def test_help_does_not_load_numpy(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('loaded')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for arguments in ([], ["--help"], ["--version"], ["count", "--help"], ["verify", "-h"]):
        done = subprocess.run(
            [TOOL, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert "loaded" not in done.stderr, arguments


def test_a_start_hardly_searches_for_garbage(home: Path) -> None:
    start = (
        "import atexit, gc, sys; from je_tools.commands.start import main\n"
        "before = sum(each['collections'] for each in gc.get_stats())\n"
        "count = lambda: sum(each['collections'] for each in gc.get_stats()) - before\n"
        "atexit.register(lambda: print(count(), file=sys.stderr)); main()"
    )
    command = [sys.executable, "-c", start, "count", home]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stderr.splitlines()[-1]) <= 3
