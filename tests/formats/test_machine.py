"""Kernels as machine code: the same results, loaded without numba, refused when damaged."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from je_tools.formats import kernels, machine
from je_tools.formats.kernels import compiled, kernel


@kernel
def _double(number: int) -> int:
    return number * 2


@kernel
def _fill(start: int, table: Any, out: Any) -> tuple[int, int]:
    for row in range(len(out)):
        out[row] = _double(table[row, 1]) + start
    return len(out), -start


@kernel
def _nothing(out: Any) -> None:
    out[0] = 1


@kernel
def _half(number: int) -> float:
    return number / 2


@kernel
def _overrun(values: Any, at: int) -> int:
    return values[at] + 0


def _tables() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.arange(8, dtype=np.int64).reshape(4, 2), np.zeros(4, np.int32)


def test_results_are_those_of_the_plain_kernel() -> None:
    table, out = _tables()
    plain: list[int] = [0] * 4
    assert compiled(_fill)(-5, table, out) == _fill(-5, table, plain) == (4, 5)
    assert out.tolist() == plain
    assert compiled(_nothing)(out) is None
    assert out[0] == 1
    assert compiled(_double)(-(1 << 62)) == -(1 << 63)


def test_strides_and_types_of_arrays_count() -> None:
    table, _ = _tables()
    wide = np.zeros(8, np.int64)
    assert compiled(_fill)(0, table[::2], wide[:2]) == (2, 0)
    assert wide.tolist() == [2, 10, 0, 0, 0, 0, 0, 0]
    spread = wide[1::4]
    compiled(_fill)(1, np.asfortranarray(table), spread)
    assert wide[[1, 5]].tolist() == [3, 7]


def test_what_needs_numba_to_run_still_runs() -> None:
    assert machine.build(kernels._for_numba(_half), (3,)) is None
    assert compiled(_half)(3) == 1.5


@pytest.mark.parametrize("argument", [1.5, "text", None, [1]])
def test_other_arguments_are_refused(argument: Any) -> None:
    with pytest.raises(TypeError, match="arrays and whole numbers"):
        compiled(_double)(argument)


def test_only_a_kernel_is_compiled() -> None:
    with pytest.raises(TypeError, match="not a kernel"):
        compiled(len)


def _code() -> machine.Code:
    code = machine.build(kernels._for_numba(_double), (1,))
    assert code is not None
    return code


def test_saved_code_is_read_back_and_runs(tmp_path: Path) -> None:
    path = tmp_path / "x.kernel"
    code = _code()
    machine.save(code, path)
    assert machine.read(path) == code
    assert machine.load(code)((21,)) == 42
    assert [each.name for each in tmp_path.iterdir()] == ["x.kernel"]


def test_damaged_code_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "x.kernel"
    machine.save(_code(), path)
    whole = path.read_bytes()
    for cut in (0, 5, 20, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert machine.read(path) is None
    for at in range(0, len(whole), 97):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert machine.read(path) is None
    assert machine.read(tmp_path / "absent") is None


def test_an_exception_in_a_kernel_is_not_lost() -> None:
    divide = kernel(lambda number: 1 // number)
    with pytest.raises((RuntimeError, ZeroDivisionError)):
        compiled(divide)(0)
    del kernels._TWINS[divide]
    kernels._MARKED.discard(divide)


def _run(code: str, cache: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(cache), **more}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=environ, check=False)


_LOAD = """
import sys
import numpy as np
from je_tools.formats.kernels import compiled
from je_tools.formats.packed_kernels import load_i32
number = np.frombuffer((1695).to_bytes(4, "little"), np.uint8)
print(compiled(load_i32)(number, 0), "numba" in sys.modules)
"""


def test_a_second_process_does_without_numba(tmp_path: Path) -> None:
    first, second = (_run(_LOAD, tmp_path).stdout.split() for _ in range(2))
    assert first == ["1695", "True"]
    assert second == ["1695", "False"]


def test_without_a_folder_to_write_it_says_so_once_and_runs(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = _run(_LOAD, blocked)
    assert done.stdout.split() == ["1695", "True"]
    assert done.stderr.count("compiled anew in every run") == 1


def test_without_a_home_directory_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home(path: Path) -> Path:
        raise RuntimeError(f"no home directory for {path}")

    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "expanduser", no_home)
    monkeypatch.setattr(kernels, "_folder", kernels._folder.__wrapped__)
    with pytest.warns(RuntimeWarning, match="no home directory"):
        assert kernels._cache_folder.__wrapped__() is None


def test_a_relative_cache_folder_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would lie where the command was started: in the log's directory, say."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    base = kernels._cache_base()
    assert base is not None
    assert base.is_absolute()


def test_a_numba_that_is_not_known_compiles_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_NUMBA_KNOWN", ((0, 0), (0, 1)))
    assert machine.build(_overrun, (np.zeros(4, np.int64), 4)) is None


def test_bounds_checks_raise(tmp_path: Path) -> None:
    """The fuzzer relies on it: a load behind the end must not pass unseen."""
    code = (
        "import numpy as np\n"
        "from tests.formats.test_machine import _overrun\n"
        "from je_tools.formats.kernels import compiled\n"
        "compiled(_overrun)(np.zeros(4, np.int64), 4)\n"
    )
    done = _run(code, tmp_path, NUMBA_BOUNDSCHECK="1", PYTHONPATH=str(Path.cwd()))
    assert "IndexError" in done.stderr


def test_code_depends_on_the_types_of_arrays_only() -> None:
    eight = np.zeros(3, np.uint8)
    same = machine.kinds_of((eight, 1))
    assert machine.kinds_of((eight[1:], np.int32(7))) == same
    frozen = eight.view()
    frozen.flags.writeable = False
    others = (eight.astype(np.int8), eight[::2], frozen, eight.reshape(3, 1))
    assert all(machine.kinds_of((other, 1)) != same for other in others)


def test_a_second_process_does_without_llvmlite_too(tmp_path: Path) -> None:
    code = _LOAD.replace('"numba" in', '"llvmlite.binding" in')
    first, second = (_run(code, tmp_path).stdout.split() for _ in range(2))
    assert first == ["1695", "True"]
    assert second == ["1695", str(platform.machine() != "x86_64")]


def test_the_processor_is_asked_for_again_after_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memo = tmp_path / "processor"
    assert machine.kept_processor(memo) is None
    machine.keep_processor("one", memo)
    assert machine.kept_processor(memo) == ("one" if machine._boot_id() else None)
    monkeypatch.setattr(machine, "_boot_id", lambda: "another start")
    assert machine.kept_processor(memo) is None
    machine.keep_processor("two", memo)
    assert machine.kept_processor(memo) == "two"
    memo.write_bytes(memo.read_bytes()[:-1])
    assert machine.kept_processor(memo) is None
    monkeypatch.setattr(machine, "_boot_id", lambda: "")
    machine.keep_processor("three", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_addresses_are_those_that_numpy_tells() -> None:
    """A wrong one would have kernels write anywhere."""
    grid = np.arange(24, dtype=np.int32).reshape(4, 6)
    frozen = np.frombuffer(b"bytes", np.uint8)
    arrays = [grid, grid[1:, 2:], grid[::2, ::-1], grid.T, frozen, frozen[3:], np.empty(0)]
    for array in [*arrays, np.zeros((3, 0)), np.array(5), np.ma.masked_array([1, 2])]:
        assert machine._address_of(array) == array.__array_interface__["data"][0]
    assert machine._address_of is machine._by_object
