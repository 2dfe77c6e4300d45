"""The structure of the code: directions of imports, sizes, names, and what is loaded when."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import NamedTuple

import pytest

from tests.corpus import ROOT, environment

LAYERS = (
    "formats",
    "errors",
    "core",
    "findings",
    "log",
    "output.files",
    "output.encoders",
    "a capability",
    "api",
    "output.views",
    "commands",
)
"""Layers from the bottom up. A module imports its own layer, and those before it."""

CAPABILITY = LAYERS.index("a capability")
ROOT_LAYER = "api"
"""Layer of `je_tools/__init__.py`, the front of the API."""

PROGRAM = "__main__"
"""Module that starts the commands, and imports them."""

VERSION = "je_tools.__version__"
"""A constant that every layer may import: the module that holds it loads nothing by itself."""

FOLDERS = {"formats": "formats", "je_tools": "", "commands": "commands"}
"""Folders of modules, and the part of `je_tools` under which each is imported."""

MOST_IMPORTS = 15
"""Largest number of modules of ours that a module below the commands imports when it runs."""

LONGEST_CHAIN = 15
"""Largest number of modules in a chain of imports, from a command down."""

MOST_LINES = 450
"""Largest number of lines of a module, except of TABLES."""

TABLES = {"je_tools.findings", "je_tools.formats.je.layout"}
"""Modules that are lists of declarations."""

MOST_FUNCTION_LINES = 60
"""Largest number of lines of a function, without its decorators."""

MOST_POSITIONAL = 8
"""Largest number of positional arguments of a call: a reader cannot match more with their names."""

SHARED_NAMES = {"Options": "the options of a command, which only its module uses"}
"""Names that several classes may have, because they mean the same in each module."""

NOT_BELOW_COMMANDS = {"click", "rich_click"}
NOT_IN_FORMATS = {"click", "rich", "pyspark"}
SLOW_CLASSES = {"dataclasses": "each takes a millisecond of every start: use msgspec.Struct"}


def _package(name: str) -> str | None:
    """Return the package of a module, without `je_tools`; None if the module is not ours."""
    parts = name.split(".")
    if parts[0] != "je_tools" or len(parts) < 2 or name == VERSION:
        return None
    is_deep = parts[1] in ("ignite", "output") or parts[1:3] == ["btree", "check"]
    return ".".join(parts[1:3]) if is_deep else parts[1]


def _layer(package: str) -> int:
    if package == PROGRAM:
        return LAYERS.index("commands")
    return LAYERS.index(package) if package in LAYERS else CAPABILITY


class Facts(NamedTuple):
    """Facts of a module that the tests check.

    Attributes:
        imported: names that it imports anywhere.
        at_run_time: those that it does not import under `if TYPE_CHECKING`.
        functions: names of functions that are too long.
        calls: lines of calls with too many positional arguments.
        classes: names of classes.
        prints: lines of calls of `print`.
    """

    imported: list[str]
    at_run_time: list[str]
    functions: list[str]
    calls: list[int]
    classes: list[str]
    prints: list[int]


@cache
def _facts(source: str) -> Facts:
    """Parse a module, once for all tests."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    return Facts(
        [*_imported(nodes)],
        [*_imported(_run_time_imports(tree))],
        [*_long_functions(nodes)],
        [*_crowded_calls(nodes)],
        [node.name for node in nodes if isinstance(node, ast.ClassDef)],
        [*_prints(nodes)],
    )


def _imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            # `from je_tools import formats` imports a layer as well.
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _breaches(source: str, package: str) -> list[str]:
    layer = _layer(package)
    found = []
    for name in _facts(source).imported:
        top = name.split(".")[0]
        other = _package(name)
        if name.startswith(".") or top in ("commands", "formats"):
            found.append(f"{name}: not by its full name")
        elif other is not None and _layer(other) > layer:
            found.append(f"{name}: upwards")
        elif top in NOT_BELOW_COMMANDS and package != "commands":
            found.append(f"{name}: below commands")
        elif top in NOT_IN_FORMATS and package == "formats":
            found.append(f"{name}: in formats")
        elif top in SLOW_CLASSES:
            found.append(f"{name}: {SLOW_CLASSES[top]}")
    return found


@cache
def _modules() -> tuple[tuple[str, str], ...]:
    """Return the full name and the source of every module."""
    return tuple(_read_modules())


def _read_modules() -> Iterator[tuple[str, str]]:
    for folder, part in FOLDERS.items():
        files = sorted((ROOT / folder).rglob("*.py"))
        assert files
        for path in files:
            inside = path.relative_to(ROOT / folder).with_suffix("").parts
            parts = ["je_tools", *filter(None, [part]), *inside]
            name = ".".join(parts).removesuffix(".__init__")
            yield name, path.read_text(encoding="utf-8")


def test_imports_go_one_way() -> None:
    found = {
        name: breaches
        for name, source in _modules()
        if (breaches := _breaches(source, _package(name) or ROOT_LAYER))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("source", "package"),
    [
        ("from je_tools.commands import main", "verify"),
        ("import je_tools.log.scan", "formats"),
        ("def f():\n    from je_tools import findings", "formats"),
        ("from je_tools.verify import judge", "log"),
        ("from je_tools.output.views import sections", "checkpoint"),
        ("from je_tools.export import Export", "output.encoders"),
        ("from je_tools.api import environment", "dump"),
        ("from je_tools.output.views import sections", "api"),
        ("from je_tools.commands import start", ROOT_LAYER),
        ("from formats.je import walk", "verify"),
        ("from . import scan", "log"),
        ("import click", "dump"),
        ("from rich.table import Table", "formats"),
        ("from dataclasses import dataclass", "commands"),
    ],
)
def test_a_breach_is_seen(source: str, package: str) -> None:
    assert _breaches(source, package)


def test_downwards_is_allowed() -> None:
    source = "import numpy\nfrom je_tools.formats.je import walk\nfrom je_tools.log import scan"
    assert _breaches(source, "commands") == []


def test_no_circles() -> None:
    """Neither modules nor packages import each other in a cycle, not even inside functions."""
    sources = dict(_modules())
    modules: dict[str, set[str]] = {}
    packages: dict[str, set[str]] = {}
    for name, source in sources.items():
        package = _package(name)
        for each in _facts(source).imported:
            # `from module import name` names something inside a module.
            target = each if each in sources else each.rpartition(".")[0]
            if target not in sources or target == name or each == VERSION:
                continue
            modules.setdefault(name, set()).add(target)
            other = _package(target)
            if package and other and other != package:
                packages.setdefault(package, set()).add(other)
    TopologicalSorter(modules).prepare()
    order = list(TopologicalSorter(packages).static_order())
    for lower, upper in pairwise(("log", "btree", "recovery", "btree.check", "commands")):
        assert order.index(lower) < order.index(upper)


def _run_time_imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports of a module except those under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not (isinstance(node, ast.If) and _is_for_types(node.test)):
            yield from _run_time_imports(node)


def _is_for_types(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def _imported_modules(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Return the modules of ours that each imports when it runs, also inside functions."""
    found: dict[str, set[str]] = {name: set() for name in sources}
    for name, source in sources.items():
        for each in _facts(source).at_run_time:
            target = each if each in sources else each.rpartition(".")[0]
            if target in sources and target != name and each != VERSION:
                found[name].add(target)
    return found


def _chains(modules: Mapping[str, set[str]]) -> dict[str, tuple[str, ...]]:
    """Return the longest chain of imports that begins at each module."""
    chains: dict[str, tuple[str, ...]] = {}
    for name in TopologicalSorter(modules).static_order():
        below = (chains[each] for each in modules[name])
        chains[name] = (name, *max(below, key=len, default=()))
    return chains


def test_no_module_imports_too_many_others() -> None:
    modules = _imported_modules(dict(_modules()))
    counts = {
        name: len(imported)
        for name, imported in modules.items()
        if not name.startswith("je_tools.commands")
    }
    assert {name: n for name, n in counts.items() if n > MOST_IMPORTS} == {}


def test_chains_of_imports_are_short() -> None:
    chains = _chains(_imported_modules(dict(_modules())))
    assert [chain for chain in chains.values() if len(chain) > LONGEST_CHAIN] == []


def test_no_module_is_too_long() -> None:
    lengths = {name: len(source.splitlines()) for name, source in _modules()}
    assert lengths.keys() >= TABLES
    long = {name: n for name, n in lengths.items() if n > MOST_LINES and name not in TABLES}
    assert long == {}


def _long_functions(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno >= MOST_FUNCTION_LINES:
                yield node.name


def _crowded_calls(nodes: Iterable[ast.AST]) -> Iterator[int]:
    for node in nodes:
        if isinstance(node, ast.Call):
            positional = [each for each in node.args if not isinstance(each, ast.Starred)]
            if len(positional) > MOST_POSITIONAL:
                yield node.lineno


def test_functions_and_calls_are_short() -> None:
    facts = {name: _facts(source) for name, source in _modules()}
    functions = {name: each.functions for name, each in facts.items() if each.functions}
    calls = {name: each.calls for name, each in facts.items() if each.calls}
    assert (functions, calls) == ({}, {})


def test_a_class_name_means_one_thing() -> None:
    """Each class has a name of its own, so that a reader of an import knows which it is."""
    modules: dict[str, list[str]] = {}
    for name, source in _modules():
        for each in _facts(source).classes:
            modules.setdefault(each, []).append(name)
    assert modules.keys() >= SHARED_NAMES.keys()
    several = {name: found for name, found in modules.items() if len(found) > 1}
    assert {name: found for name, found in several.items() if name not in SHARED_NAMES} == {}


def test_sizes_that_are_too_large_are_seen() -> None:
    body = "\n".join("    pass" for _ in range(MOST_FUNCTION_LINES))
    assert _facts(f"def f():\n{body}").functions == ["f"]
    assert _facts(f"def f():\n{body[:-9]}").functions == []
    assert _facts("f(1, 2, 3, 4, 5, 6, 7, 8, 9)").calls == [1]
    assert _facts("f(1, 2, 3, 4, 5, 6, 7, 8, *rest, nine=9)").calls == []


def test_imports_for_types_only_do_not_count() -> None:
    sources = {
        "je_tools.a": "if TYPE_CHECKING:\n    from je_tools.b import B\nfrom je_tools import c",
        "je_tools.b": "",
        "je_tools.c": "def f():\n    from je_tools.b import B",
    }
    modules = _imported_modules(sources)
    assert modules == {
        "je_tools.a": {"je_tools.c"},
        "je_tools.b": set(),
        "je_tools.c": {"je_tools.b"},
    }
    assert _chains(modules)["je_tools.a"] == ("je_tools.a", "je_tools.c", "je_tools.b")


def _prints(nodes: Iterable[ast.AST]) -> Iterator[int]:
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield from [node.lineno] * (node.func.id == "print")


@pytest.mark.parametrize("folder", ["formats", "je_tools"])
def test_nothing_below_commands_prints(folder: str) -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*.py")}
    prints = {str(path): _facts(source).prints for path, source in sources.items()}
    assert {path: lines for path, lines in prints.items() if lines} == {}


_LATE = ("multiprocessing", "numpy.ma", "pyarrow", "tempfile")
"""Modules that load slowly, and that a count does not use."""

_LOADED = """
import sys
from je_tools.commands.main import group, run
code = run(group, sys.argv[1].split("\\n"))
print(code, *[name for name in sys.argv[2:] if name in sys.modules])
"""


def _loaded(arguments: list[str], names: tuple[str, ...]) -> str:
    """Return the exit code of a command, and which of some modules it has loaded."""
    command = [sys.executable, "-c", _LOADED, "\n".join(arguments), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_a_count_loads_nothing_that_it_does_not_need() -> None:
    """Start-up is most of the time of a short count."""
    arguments = ["count", str(environment("v17-basic").home)]
    assert _loaded(arguments, _LATE) == "0"


def test_help_loads_no_numpy() -> None:
    assert _loaded(["--help"], (*_LATE, "numpy", "rich")) == "0"
