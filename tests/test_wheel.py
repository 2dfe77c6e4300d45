"""The wheel holds every module of the tree, and works alone in an empty environment.

An editable install finds modules that a wheel leaves out, hence the look into a built one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.corpus import FIXTURES, ROOT

PLACES = {"je_tools": "je_tools", "commands": "je_tools/commands", "formats": "je_tools/formats"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` builds, of a copy: the tests write nothing into the tree."""
    copy = tmp_path_factory.mktemp("tree")
    for name in PLACES:
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "Makefile"):
        shutil.copy(ROOT / name, copy)
    # With this Python in place of a virtual environment that would have to be made.
    shutil.copytree(ROOT / ".cargo", copy / ".cargo")
    _run(["make", "--old-file=venv", "dist", f"BIN={Path(sys.executable).parent}"], cwd=copy)
    (built,) = (copy / "dist").glob("*.whl")
    return built


def _run(command: list[str | Path], cwd: Path | None = None) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    # What the extension depends on is compiled already.
    environment["CARGO_TARGET_DIR"] = str(ROOT / "build" / "native")
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=cwd, env=environment
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_the_wheel_holds_the_tree(wheel: Path) -> None:
    expected = {
        f"{place}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder, place in PLACES.items()
        for path in (ROOT / folder).rglob("*.py")
    }
    templates = ROOT / "je_tools" / "audit" / "templates"
    expected |= {f"je_tools/audit/templates/{path.name}" for path in templates.iterdir()}
    expected |= {f"je_tools/formats/_native.{suffix}" for suffix in ("pyi", "abi3.so")}
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == expected


def test_the_wheel_works_alone(wheel: Path, tmp_path: Path) -> None:
    _run([sys.executable, "-m", "venv", tmp_path / "venv"])
    scripts = tmp_path / "venv" / "bin"
    # To compile what is installed takes longer than all else.
    _run([scripts / "python", "-m", "pip", "install", "--quiet", "--no-compile", wheel])
    version = wheel.name.split("-")[1]
    assert version in _run([scripts / "je-tools", "--version"], cwd=tmp_path)
    assert "export" in _run([scripts / "db-dump", "--help"], cwd=tmp_path)
    assert "changes nothing" in _run([scripts / "db-recover", "--help"], cwd=tmp_path)
    home = FIXTURES / "v17-basic" / "env"
    assert "INS_LN_TX" in _run([scripts / "je-tools", "summary", home], cwd=tmp_path)
    _run([scripts / "je-tools", "verify", home], cwd=tmp_path)
    assert "nothing to write" in _run([scripts / "db-recover", home], cwd=tmp_path)
    installed = _run([scripts / "python", "-m", "pip", "list", "--format=freeze"], cwd=tmp_path)
    assert "pyspark" not in installed
