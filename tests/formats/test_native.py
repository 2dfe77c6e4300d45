"""The extension: it is what its stub says, shares numbers with Python, and refuses wrong arrays."""

from __future__ import annotations

import ast
import importlib
import inspect
from enum import IntEnum
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from je_tools.formats import _native
from je_tools.formats.je import programs as p
from je_tools.formats.je import walk as w
from tests.corpus import ROOT

RULES = w.HeaderRules.of(17, 1 << 32)


def _stub() -> dict[str, list[str]]:
    """The functions and classes of the stub, and the names of their parameters."""
    tree = ast.parse((ROOT / "formats" / "_native.pyi").read_text(encoding="utf-8"))
    made = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            made[node.name] = _parameters(node)
        elif isinstance(node, ast.ClassDef):
            named = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
            made[node.name] = _parameters(named["__new__"])[1:]
    return made


def _parameters(node: ast.FunctionDef) -> list[str]:
    return [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]


def test_the_stub_has_every_function_and_its_parameters() -> None:
    found = {
        name: list(inspect.signature(value).parameters)
        for name, value in vars(_native).items()
        if callable(value)
    }
    assert found == _stub()


def _declared_in_python(name: str) -> Any:
    """What a dotted name below `je_tools.formats` is."""
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
        assert issubclass(kind, IntEnum)
        assert {f"{name}.{member.name}" for member in kind} <= _native.declared().keys()


def _walk(columns: Any, data: Any = None, survey: Any = None) -> None:
    data = np.zeros(100, np.uint8) if data is None else data
    _native.walk(
        data,
        base=0,
        at=0,
        limit=len(data),
        expected_prev=w.NO_OFFSET,
        shift=0,
        rules=RULES,
        columns=columns,
        survey=survey,
    )


def test_an_array_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError):
        _walk(w.HeaderColumns.empty(3), data=np.zeros(100, np.int8))


def test_arrays_that_differ_in_length_are_refused() -> None:
    columns = w.HeaderColumns.empty(3)
    with pytest.raises(ValueError, match="differ in length"):
        _walk(structs.replace(columns, vlsn=columns.vlsn[:2]))
    with pytest.raises(ValueError, match="SURVEY_SIZE"):
        _walk(columns, survey=np.zeros(3, np.int64))


def test_an_output_that_is_read_only_is_refused() -> None:
    columns = w.HeaderColumns.empty(3)
    columns.flags.flags.writeable = False
    with pytest.raises((TypeError, ValueError)):
        _walk(columns)


def _program(**changed: Any) -> _native.Program:
    ops = np.array([p.U8, 0, -1, 0, 0, *[0] * 8], np.int64)
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
    ],
)
def test_numbers_that_are_no_program_are_refused(at: int, number: int) -> None:
    ops = np.array([p.U8, 0, -1, 0, 1, *[0] * 8], np.int64)
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
