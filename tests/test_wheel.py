"""The wheel has every module of the tree, and works without anything else, even a compiler.

An editable install finds modules that a wheel leaves out, so these tests inspect a built wheel.
"""

from __future__ import annotations

import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.corpus import FIXTURES, ROOT

MAN_PAGES: dict[str, str] = runpy.run_path(str(ROOT / "docs" / "man.py"))["pages"]()
"""Man pages by the names of their files."""

PLACES = {"je_tools": "je_tools", "commands": "je_tools/commands", "formats": "je_tools/formats"}

GLIBC_MAX = (2, 34)
"""Largest glibc version that the extension may need, whatever system links it."""


class Installed:
    """The wheel in an environment with its requirements, and without a path to a compiler."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self._scripts = folder / "venv" / "bin"
        self._path = folder / "nothing"
        self._path.mkdir()
        # The pip here installs into it as well: to install another takes seconds.
        _run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"])
        (self._site,) = (folder / "venv" / "lib").glob("python*/site-packages")
        # The requirements are here already: this saves fetching hundreds of megabytes again.
        for required in _required_by(_Unpacked(wheel)):
            for name in _top_names(required) - {path.name for path in self._site.iterdir()}:
                (self._site / name).symlink_to(Path(str(required.locate_file(name))))
        # Compiling the installed modules takes longer than everything else.
        self.pip("install", "--no-index", "--no-compile", wheel)

    def run(self, script: str, *arguments: str | Path) -> str:
        """Return the output of a script, which must succeed."""
        return _run([self._scripts / script, *arguments], cwd=self._path, PATH=str(self._path))

    def pip(self, *arguments: str | Path) -> str:
        """Return the output of a command of pip for this environment."""
        command = [sys.executable, "-m", "pip", "--python", self._scripts / "python"]
        return _run([*command, *arguments], cwd=self._path, PATH=str(self._path))

    def names(self) -> set[str]:
        """Return the names of the distributions in it."""
        return {each.name for each in distributions(path=[str(self._site)])}

    def find(self, program: str) -> str | None:
        """Return the path at which scripts find a program, or None."""
        return shutil.which(program, path=str(self._path))


class _Unpacked(Distribution):
    """The metadata of a wheel."""

    def __init__(self, wheel: Path) -> None:
        self.wheel = wheel

    def read_text(self, filename: str) -> str | None:
        with zipfile.ZipFile(self.wheel) as archive:
            held = [name for name in archive.namelist() if name.endswith(f".dist-info/{filename}")]
            return archive.read(held[0]).decode() if held else None

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        raise FileNotFoundError(path)


def _required_by(asks: Distribution) -> Iterable[Distribution]:
    """Return the requirements without extras, including indirect ones, each once."""
    found: dict[str, Distribution] = {}
    todo = [asks]
    while todo:
        for requirement in map(Requirement, todo.pop().requires or ()):
            is_asked = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if is_asked and requirement.name not in found:
                found[requirement.name] = distribution(requirement.name)
                todo.append(found[requirement.name])
    return found.values()


def _top_names(of: Distribution) -> set[str]:
    """Return the names of a distribution directly below site-packages."""
    return {path.parts[0] for path in of.files or ()} - {"..", "__pycache__"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a copy with `make dist`, so that the tests write nothing into the tree."""
    copy = tmp_path_factory.mktemp("tree")
    for name in PLACES:
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    for name in ("README.md", "LICENSE", "Makefile"):
        shutil.copy(ROOT / name, copy)
    # `make dev` has compiled the crates of the tree; cargo would compile a copy of them anew.
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    crate = 'path = "formats/native/Cargo.toml"'
    assert crate in text
    place = crate.replace("formats", f"{ROOT}/formats")
    (copy / "pyproject.toml").write_text(text.replace(crate, place), encoding="utf-8")
    shutil.copytree(ROOT / "scripts", copy / "scripts")
    (copy / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "man.py", copy / "docs")
    shutil.copytree(ROOT / ".cargo", copy / ".cargo")
    # This Python replaces a virtual environment, which would have to be created.
    _run(["make", "--old-file=venv", "dist", f"BIN={Path(sys.executable).parent}"], cwd=copy)
    (built,) = (copy / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install the wheel, once."""
    return Installed(tmp_path_factory.mktemp("installed"), wheel)


def _run(command: list[str | Path], cwd: Path | None = None, **variables: str) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    environment.update(variables)
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    # The extension's dependencies are compiled there already.
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
    for package in ("audit", "pages"):
        templates = ROOT / "je_tools" / package / "templates"
        expected |= {f"je_tools/{package}/templates/{path.name}" for path in templates.iterdir()}
    expected.add("je_tools/py.typed")
    data = f"{'-'.join(wheel.name.split('-')[:2])}.data/data"
    expected |= {f"{data}/share/man/man1/{name}" for name in MAN_PAGES}
    expected |= {f"je_tools/formats/_native.{suffix}" for suffix in ("pyi", "abi3.so")}
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    held = {name for name in names if ".dist-info/" not in name}
    assert held == expected


def test_the_tag_says_where_it_runs(wheel: Path) -> None:
    name = re.fullmatch(r"je_tools-[^-]+-(cp311-abi3-manylinux_(\d+)_(\d+)_(\w+))\.whl", wheel.name)
    assert name
    assert (int(name[2]), int(name[3])) <= GLIBC_MAX
    assert name[4] == platform.machine()
    text = _Unpacked(wheel).read_text("WHEEL") or ""
    assert re.findall(r"^Tag: (.*)$", text, re.MULTILINE) == [name[1]]


def test_it_has_its_license(wheel: Path) -> None:
    metadata = (_Unpacked(wheel).read_text("METADATA") or "").splitlines()
    assert {"License-Expression: Apache-2.0", "License-File: LICENSE"} <= set(metadata)
    assert _Unpacked(wheel).read_text("licenses/LICENSE") == (ROOT / "LICENSE").read_text()


def test_it_works_without_a_compiler(installed: Installed) -> None:
    for compiler in ("cc", "gcc", "clang", "cargo", "rustc"):
        assert installed.find(compiler) is None
    home = FIXTURES / "v17-basic" / "env"
    installed.run("je-tools", "verify", home)
    assert "INS_LN_TX" in installed.run("je-tools", "dump", home, "--type", "INS_LN_TX")
    assert "people" in installed.run("je-tools", "count", home)
    assert "INS_LN_TX" in installed.run("je-tools", "summary", home)


def test_its_commands(wheel: Path, installed: Installed) -> None:
    assert wheel.name.split("-")[1] in installed.run("je-tools", "--version")
    assert "export" in installed.run("db-dump", "--help")
    assert "changes nothing" in installed.run("db-recover", "--help")
    assert "nothing to write" in installed.run("db-recover", FIXTURES / "v17-basic" / "env")


def test_it_needs_nothing_else(installed: Installed) -> None:
    installed.pip("check")
    assert {"je-tools", "numpy"} <= installed.names()
    assert installed.names() & {"pyspark", "numba", "llvmlite", "pytest", "duckdb"} == set()


@pytest.fixture(scope="module")
def bundle(wheel: Path) -> Path:
    """Make the bundle with `make bundle`; pip fetches the packages that it holds."""
    made = ["make", "--old-file=venv", "--old-file=dist", "bundle"]
    _run([*made, f"BIN={Path(sys.executable).parent}"], cwd=wheel.parents[1])
    (built,) = wheel.parent.glob("*.pex")
    return built


def alone(folder: Path, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in an empty environment, and without network if that is permitted."""
    cut_off = ["unshare", "--net", "--map-root-user"]
    if subprocess.run([*cut_off, "true"], check=False, capture_output=True).returncode:
        cut_off = []
    path = f"PATH={Path(sys.executable).resolve().parent}:/usr/bin:/bin"
    named = [f"{name}={value}" for name, value in variables.items()]
    return subprocess.run(
        ["env", "-i", path, *named, *cut_off, *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )


@pytest.mark.exhaustive
def test_the_bundle_needs_only_a_python(bundle: Path, tmp_path: Path) -> None:
    home = FIXTURES / "v17-basic" / "env"
    done = alone(tmp_path, bundle, "verify", home, HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "no damage found (1 file" in done.stderr
    page = tmp_path / "page.html"
    done = alone(tmp_path, bundle, "doctor", home, "--html", page, HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "opens it" in done.stdout
    assert page.stat().st_size > 0
    # Later runs find what the first has unpacked.
    out = tmp_path / "people.parquet"
    exported = ("export", home, "--db", "people", "--format", "parquet", "--output", out)
    done = alone(tmp_path, bundle, *exported, HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size > 0
    # Worker processes find the packages too.
    dumped = ("dump", home, "--format", "parquet", "--parts", "--output", tmp_path / "parts")
    done = alone(tmp_path, bundle, *dumped, HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(bundle) as archive:
        assert not any("pyspark" in name for name in archive.namelist())


@pytest.mark.exhaustive
def test_the_bundle_runs_where_home_cannot_be_written(bundle: Path, tmp_path: Path) -> None:
    home, tmp = FIXTURES / "v17-basic" / "env", tmp_path / "tmp"
    tmp.mkdir()
    # No folder can be made below a file, whoever runs this.
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "home")
    done = alone(tmp_path, bundle, "verify", home, HOME=nowhere, TMPDIR=str(tmp))
    assert done.returncode == 0, done.stderr
    assert "no damage found (1 file" in done.stderr
    assert list(tmp.iterdir()) == [], "what was unpacked is gone"
    root = tmp_path / "root"
    done = alone(tmp_path, bundle, "--version", HOME=nowhere, PEX_ROOT=str(root))
    assert (done.returncode, done.stderr) == (0, "")
    assert root.is_dir()
