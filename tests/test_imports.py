"""Imports go one way, commands -> je_tools -> formats, and what is not needed is not loaded."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

from tests.corpus import ROOT, environment

LAYERS = {"formats": 0, "je_tools": 1, "commands": 2}
NOT_BELOW_COMMANDS = {"click", "rich_click"}
NOT_IN_FORMATS = {"click", "rich", "pyspark"}
SLOW_CLASSES = {"dataclasses": "each takes a millisecond of every start: use msgspec.Struct"}


def _layer_of_module(name: str) -> int | None:
    """The layer of an imported module; None when it is not ours."""
    parts = name.split(".")
    if parts[0] != "je_tools":
        return None
    return LAYERS.get(parts[1], 1) if len(parts) > 1 else 1


def _imported(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            # `from je_tools import formats` imports a layer as well.
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _breaches(source: str, layer: int) -> list[str]:
    found = []
    for name in _imported(source):
        top = name.split(".")[0]
        other = _layer_of_module(name)
        if name.startswith(".") or top in ("commands", "formats"):
            found.append(f"{name}: not by its full name")
        elif other is not None and other > layer:
            # The version is the one fact that stands in je_tools itself.
            if name != "je_tools.__version__":
                found.append(f"{name}: upwards")
        elif top in NOT_BELOW_COMMANDS and layer < LAYERS["commands"]:
            found.append(f"{name}: below commands")
        elif top in NOT_IN_FORMATS and layer == LAYERS["formats"]:
            found.append(f"{name}: in formats")
        elif top in SLOW_CLASSES:
            found.append(f"{name}: {SLOW_CLASSES[top]}")
    return found


@pytest.mark.parametrize("folder", sorted(LAYERS))
def test_imports_go_one_way(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    found = {
        str(path.relative_to(ROOT)): breaches
        for path in files
        if (breaches := _breaches(path.read_text(encoding="utf-8"), LAYERS[folder]))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("source", "folder"),
    [
        ("from je_tools.commands import main", "je_tools"),
        ("import je_tools.scan", "formats"),
        ("def f():\n    from je_tools import findings", "formats"),
        ("from formats.je import walk", "je_tools"),
        ("from . import scan", "je_tools"),
        ("import click", "je_tools"),
        ("from rich.table import Table", "formats"),
        ("from dataclasses import dataclass", "commands"),
    ],
)
def test_a_breach_is_seen(source: str, folder: str) -> None:
    assert _breaches(source, LAYERS[folder])


def test_downwards_is_allowed() -> None:
    source = "import numpy\nfrom je_tools.formats.je import walk\nfrom je_tools import scan"
    assert _breaches(source, LAYERS["commands"]) == []


def _package(name: str) -> str | None:
    """What of `je_tools` a module is, or is a part of; None where it is none, or of `sinks`."""
    parts = name.split(".")
    is_ours = parts[0] == "je_tools" and len(parts) > 1 and parts[1] not in (*OWN_RULES, "sinks")
    return parts[1] if is_ours else None


OWN_RULES = ("formats", "commands", "__version__")


def test_packages_do_not_import_each_other_in_a_circle() -> None:
    """`sinks` is left out: it shows results, and libraries that write files use it."""
    needs: dict[str, set[str]] = {}
    for path in sorted((ROOT / "je_tools").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        package = _package(name)
        if package is not None:
            found = map(_package, _imported(path.read_text(encoding="utf-8")))
            needs.setdefault(package, set()).update(
                each for each in found if each not in (None, package)
            )
    order = list(TopologicalSorter(needs).static_order())
    for lower, upper in pairwise(("btree", "recovery", "snapshot", "treecheck")):
        assert order.index(lower) < order.index(upper)


def _printed(path: Path) -> Iterator[int]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield from [node.lineno] * (node.func.id == "print")


@pytest.mark.parametrize("folder", ["formats", "je_tools"])
def test_nothing_below_commands_prints(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert {str(path): list(_printed(path)) for path in files if list(_printed(path))} == {}


_LATE = ("multiprocessing", "numpy.ma", "pyarrow", "tempfile")
"""Modules that take long to load, and that a count has no use for."""

_LOADED = """
import sys
from je_tools.commands.main import group, run
code = run(group, sys.argv[1].split("\\n"))
print(code, *[name for name in sys.argv[2:] if name in sys.modules])
"""


def _loaded(arguments: list[str], names: tuple[str, ...]) -> str:
    """The exit code of a command, and which of the modules it has loaded."""
    command = [sys.executable, "-c", _LOADED, "\n".join(arguments), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_a_count_loads_nothing_that_it_does_not_need() -> None:
    """Where it is short most of it is start-up."""
    arguments = ["count", str(environment("v17-basic").home)]
    assert _loaded(arguments, _LATE) == "0"


def test_help_loads_no_numpy() -> None:
    assert _loaded(["--help"], (*_LATE, "numpy", "rich")) == "0"
