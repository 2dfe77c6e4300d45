"""Anything that a crash leaves of an operation on a store, or of its undo, can be put back."""

from __future__ import annotations

import errno
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from je_tools.errors import RefusedError
from tests.builders.power_cuts import Call, KilledError, PowerCuts, Recorder, failures, sampled
from tests.je_tools.ignite.repairs.operations import (
    OPERATIONS,
    digests,
    operate,
    put_back,
    small_store,
)

COUNT = 1
"""Number of states per call, besides those with all and with none of the unsure writes."""

each_operation = pytest.mark.parametrize("name", OPERATIONS)
each_error = pytest.mark.parametrize(
    "error", [pytest.param(errno.EIO, marks=pytest.mark.exhaustive), errno.ENOSPC, None]
)


def recorded(root: Path, name: str) -> list[Call]:
    disk = Recorder()
    operate(root, name, disk)
    return disk.calls


@each_operation
def test_a_power_cut_in_an_operation(name: str, tmp_path: Path) -> None:
    root = small_store(tmp_path / "store")
    before = digests(root)
    cuts = PowerCuts(root)
    calls = recorded(root, name)
    seen = set()
    for at, state in cuts.states(calls, tmp_path, random.Random(name), COUNT):
        seen.add(tuple(digests(state).values()))
        put_back(state)
        assert digests(state) == before, (at, calls[at - 1])
        assert not list(state.rglob(".je-tools-undo"))
        shutil.rmtree(state)
    assert len(seen) > 12


@each_operation
def test_a_power_cut_in_an_undo(name: str, tmp_path: Path) -> None:
    root = small_store(tmp_path / "store")
    before = digests(root)
    operate(root, name)
    cuts = PowerCuts(root)
    disk = Recorder()
    put_back(root, disk)
    assert digests(root) == before
    for at, state in cuts.states(disk.calls, tmp_path, random.Random(name), COUNT):
        put_back(state)
        assert digests(state) == before, (at, disk.calls[at - 1])
        shutil.rmtree(state)


@sampled(3)
@each_error
@each_operation
def test_a_disk_that_fails(name: str, error: int | None, every: int, tmp_path: Path) -> None:
    """It fails at a call of an operation; the outcome is then put back."""
    calls = recorded(small_store(tmp_path / "all"), name)
    for at in failures(error, every, range(len(calls))):
        root = small_store(tmp_path / f"{at}")
        before = digests(root)
        with pytest.raises((RefusedError, KilledError)):
            operate(root, name, Recorder(at, error))
        put_back(root)
        assert digests(root) == before
        shutil.rmtree(root)


@sampled(3)
@each_error
@each_operation
def test_a_disk_that_fails_in_an_undo(
    name: str, error: int | None, every: int, tmp_path: Path
) -> None:
    root = small_store(tmp_path / "all")
    operate(root, name)
    disk = Recorder()
    put_back(root, disk)
    for at in failures(error, every, range(len(disk.calls))):
        root = small_store(tmp_path / f"{at}")
        before = digests(root)
        operate(root, name)
        with pytest.raises((RefusedError, KilledError)):
            put_back(root, Recorder(at, error))
        put_back(root)
        assert digests(root) == before
        shutil.rmtree(root)


@sampled(4)
@each_operation
def test_an_operation_that_was_killed_and_then_its_undo(
    name: str, every: int, tmp_path: Path
) -> None:
    calls = recorded(small_store(tmp_path / "all"), name)
    rng = random.Random(name)
    for at in range(0, len(calls), every):
        root = small_store(tmp_path / f"{at}")
        before = digests(root)
        with pytest.raises(KilledError):
            operate(root, name, Recorder(at))
        disk = Recorder()
        put_back(Path(shutil.copytree(root, tmp_path / f"{at}-counted")), disk)
        for _ in range(2):
            left = Path(shutil.copytree(root, tmp_path / f"{at}-left"))
            with suppress(KilledError):
                put_back(left, Recorder(rng.randrange(len(disk.calls) + 1)))
            put_back(left)
            assert digests(left) == before, at
            shutil.rmtree(left)
