"""The extension matches its stub, shares numbers with Python, and refuses wrong arrays."""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
from enum import IntEnum, IntFlag
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import pytest
from msgspec import structs

from je_tools.audit.reasons import why_unread
from je_tools.commands.main import run
from je_tools.formats import _native
from je_tools.formats.files.source import Source
from je_tools.formats.je.entry import programs as p
from je_tools.formats.je.log import walk as w
from je_tools.formats.je.log.entry_rows import WantedEntries
from je_tools.formats.je.log.reader import ReadOptions, ReadState, StopReason
from tests.corpus import ROOT

RULES = w.HeaderRules.of(17, 1 << 32)


def _parameters(node: ast.FunctionDef) -> list[str]:
    return [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]


def _is_method(node: ast.FunctionDef) -> bool:
    """Return True for methods, except properties and special methods other than `__new__`."""
    return not node.decorator_list and (node.name == "__new__" or not node.name.startswith("__"))


def _stub() -> dict[str, list[str]]:
    """Return the functions and methods of the stub, and the names of their parameters."""
    tree = ast.parse((ROOT / "formats" / "_native.pyi").read_text(encoding="utf-8"))
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = _parameters(node)
        elif isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and _is_method(method):
                    found[f"{node.name}.{method.name}"] = _parameters(method)[1:]
    return found


def _methods(kind: type) -> dict[str, list[str]]:
    """Return the parameters of a class's methods; `__new__` has those of the class itself."""
    found = {f"{kind.__name__}.__new__": list(inspect.signature(kind).parameters)}
    for name, value in vars(kind).items():
        if not name.startswith("__") and callable(value):
            found[f"{kind.__name__}.{name}"] = list(inspect.signature(value).parameters)[1:]
    return found


def test_the_stub_has_every_function_and_its_parameters() -> None:
    found: dict[str, list[str]] = {}
    for name, value in vars(_native).items():
        if isinstance(value, type):
            found |= _methods(value)
        elif callable(value):
            found[name] = list(inspect.signature(value).parameters)
    assert found == _stub()


def _declared_in_python(name: str) -> Any:
    """Return the value of a dotted name below `je_tools.formats`."""
    parts = name.split(".")
    at = next(i for i, part in enumerate(parts) if part[0].isupper())
    value: Any = importlib.import_module(".".join(["je_tools.formats", *parts[:at]]))
    for part in parts[at:]:
        value = getattr(value, part)
    return value


def test_numbers_that_both_declare_are_the_same() -> None:
    both = _native.declared()
    assert both == {name: int(_declared_in_python(name)) for name in both}


def test_enums_that_both_declare_have_the_same_members() -> None:
    parents = {name.rpartition(".")[0] for name in _native.declared()}
    enums = [name for name in parents if name.rpartition(".")[2][0].isupper()]
    assert enums
    for name in enums:
        kind = _declared_in_python(name)
        if issubclass(kind, IntFlag):
            # Rust needs only some of the bits.
            continue
        assert issubclass(kind, IntEnum)
        assert {f"{name}.{member.name}" for member in kind} <= _native.declared().keys()


def _step(source: Source, columns: Any, buffer: Any = None, **changed: Any) -> None:
    options = ReadOptions(0, 100, 100, ReadState(), True, 1 << 20, 1 << 20, 64, None)
    options = structs.replace(options, **changed)
    reader = _native.RangeReader(source, source.file(), RULES, options)
    buffer = np.zeros(1000, np.uint8) if buffer is None else buffer
    assert reader.step(buffer, columns) == (StopReason.DONE, 0)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    path = tmp_path / "00000000.jdb"
    path.write_bytes(bytes(100))
    return Source(path)


def test_an_array_of_another_type_is_refused(source: Source) -> None:
    _step(source, w.HeaderColumns.empty(3))
    with pytest.raises(TypeError):
        _step(source, w.HeaderColumns.empty(3), buffer=np.zeros(100, np.int8))


def test_arrays_that_differ_in_length_are_refused(source: Source) -> None:
    columns = w.HeaderColumns.empty(3)
    with pytest.raises(ValueError, match="differ in length"):
        _step(source, structs.replace(columns, vlsn=columns.vlsn[:2]))
    with pytest.raises(ValueError, match="room for no entry"):
        _step(source, w.HeaderColumns.empty(0))


def test_an_output_that_is_read_only_is_refused(source: Source) -> None:
    columns = w.HeaderColumns.empty(3)
    columns.flags.flags.writeable = False
    with pytest.raises((TypeError, ValueError)):
        _step(source, columns)


def _program(**changed: Any) -> _native.Program:
    ops = np.array([p.U8, 0, -1, 0, 0, -1, *[0] * 8], np.int64)
    tables = {"op_start": np.zeros(256, np.int64), "op_stop": np.full(256, p.OP_WIDTH, np.int64)}
    return _native.Program(**{**tables, "ops": ops, "columns": 1, "sized": 0, **changed})


@pytest.mark.parametrize(
    ("at", "number"),
    [
        (p.OP_CODING, 2),
        (p.OP_COLUMN, 1),
        (p.OP_COLUMN, -2),
        (p.OP_SIZE, 0),
        (p.OP_BASE, -1),
        (p.OP_TESTS, 3),
        (p.OP_REPEAT, 0),
    ],
)
def test_numbers_that_are_no_program_are_refused(at: int, number: int) -> None:
    ops = np.array([p.U8, 0, -1, 0, 1, -1, *[0] * 8], np.int64)
    _program(ops=ops)
    ops[at] = number
    with pytest.raises(ValueError, match=r"column|coding|sizes|base"):
        _program(ops=ops)


def test_operations_that_are_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match="not there"):
        _program(op_stop=np.full(256, 2 * p.OP_WIDTH, np.int64))
    with pytest.raises(ValueError, match="wrong lengths"):
        _program(ops=np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="too many columns"):
        _program(columns=64)


@pytest.mark.parametrize(
    "changed",
    [
        {"start": -1},
        {"stop": 1 << 41},
        {"window": 0},
        {"slack": 3},
        {"budget": -1},
        {"place": ReadState(at=-2)},
        {"place": ReadState(shift=-(1 << 63))},
        {"asked": WantedEntries(np.zeros(3, np.bool_))},
    ],
    ids=str,
)
def test_a_range_that_no_file_has_is_refused(source: Source, changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"no file has|one of 256"):
        _step(source, w.HeaderColumns.empty(3), **changed)


def _panic() -> None:
    """Ask for more room than any memory has: a bug of the caller, on which the core panics."""
    none = np.zeros(0, np.int64)
    image = SimpleNamespace(
        data=np.zeros(0, np.uint8), file_nos=none, starts=none, stops=none, versions=none
    )
    _native.fetch_entries(image, none, rules=[], check=False, room_size=(1 << 64) - 1)


def test_a_panic_is_an_error_that_pickles() -> None:
    with pytest.raises(RuntimeError, match=r"a panic in .*_native: capacity overflow") as caught:
        _panic()
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args


def test_a_panic_is_a_bug_like_any_other() -> None:
    with pytest.raises(RuntimeError, match="a panic in") as caught:
        run(click.command("panics")(_panic), [])
    assert why_unread(caught.value).startswith("a bug of je-tools: RuntimeError in test_native.py")
