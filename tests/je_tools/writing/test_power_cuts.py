"""Anything that a crash leaves of an operation, or of its undo, can be put back."""

from __future__ import annotations

import errno
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from je_tools.errors import RefusedError
from tests.builders.power_cuts import Call, KilledError, PowerCuts, Recorder
from tests.je_tools.writing.operations import (
    OPERATIONS,
    digests,
    log_of,
    operate,
    put_back,
    small_log,
)

COUNT = 4
"""Number of states per call, besides those with all and with none of the unsure writes."""

each_operation = pytest.mark.parametrize("name", OPERATIONS)
each_layout = pytest.mark.parametrize("data_directories", [0, 3])


def recorded(home: Path, name: str) -> list[Call]:
    disk = Recorder()
    operate(home, name, disk)
    return disk.calls


def assert_in_order(state: dict[str, bytes], old: dict[str, bytes], new: dict[str, bytes]) -> None:
    """Check that begun files have their whole header, and all but the last one all their data."""
    begun = [name for name, data in state.items() if len(data) > 38]
    for name in begun:
        assert any(state[name][:38] == log.get(name, b"")[:38] for log in (old, new))
    for name in begun[:-1]:
        whole = {log[name] for log in (old, new) if name in log}
        bits = [
            [a for a, b in zip(state[name], data, strict=True) if a != b]
            for data in whole
            if len(data) == len(state[name])
        ]
        assert min(map(len, bits)) <= 3, name


@each_layout
@each_operation
def test_a_power_cut_in_an_operation(name: str, data_directories: int, tmp_path: Path) -> None:
    home = small_log(tmp_path / "env", data_directories=data_directories)
    before, old = digests(home), log_of(home)
    cuts = PowerCuts(home)
    calls = recorded(home, name)
    new = log_of(home)
    seen = set()
    states = cuts.states(calls, tmp_path, random.Random(name), COUNT)
    for at, state in states:
        found = log_of(state)
        seen.add(tuple(found.items()))
        assert_in_order(found, old, new)
        put_back(state)
        assert digests(state) == before, (at, calls[at - 1])
        assert not list(state.rglob(".je-tools-undo"))
        shutil.rmtree(state)
    assert len(seen) > 20


@each_layout
@each_operation
def test_a_power_cut_in_an_undo(name: str, data_directories: int, tmp_path: Path) -> None:
    home = small_log(tmp_path / "env", data_directories=data_directories)
    before = digests(home)
    operate(home, name)
    cuts = PowerCuts(home)
    disk = Recorder()
    put_back(home, disk)
    for at, state in cuts.states(disk.calls, tmp_path, random.Random(name), COUNT):
        put_back(state)
        assert digests(state) == before, (at, disk.calls[at - 1])
        shutil.rmtree(state)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, None])
@each_operation
def test_a_disk_that_fails(name: str, error: int | None, tmp_path: Path) -> None:
    """It fails at each call of an operation; the outcome is then put back."""
    calls = recorded(small_log(tmp_path / "all"), name)
    for at in range(len(calls)):
        home = small_log(tmp_path / f"{at}")
        before = digests(home)
        with pytest.raises((RefusedError, KilledError)):
            operate(home, name, Recorder(at, error))
        put_back(home)
        assert digests(home) == before


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, None])
@each_operation
def test_a_disk_that_fails_in_an_undo(name: str, error: int | None, tmp_path: Path) -> None:
    home = small_log(tmp_path / "all")
    operate(home, name)
    disk = Recorder()
    put_back(home, disk)
    for at in range(len(disk.calls)):
        home = small_log(tmp_path / f"{at}")
        before = digests(home)
        operate(home, name)
        with pytest.raises((RefusedError, KilledError)):
            put_back(home, Recorder(at, error))
        put_back(home)
        assert digests(home) == before


def test_a_write_that_was_stopped_anywhere(tmp_path: Path) -> None:
    """The written part is put back; bytes that an engine would append to it are not."""
    home = small_log(tmp_path / "env")
    disk = Recorder()
    operate(home, "checkpoint", disk)
    new = log_of(home)
    shutil.rmtree(home)
    small_log(home)
    before = digests(home)
    path = home / "00000002.jdb"
    writes = [at for at, call in enumerate(disk.calls) if call.name == "write"]
    first = next(at for at in writes if disk.calls[at].path == path)
    start, _ = disk.calls[first].value
    with pytest.raises(KilledError):
        operate(home, "checkpoint", Recorder(first))
    announced = shutil.copytree(home, tmp_path / "announced")
    other = random.Random(1).randbytes(100)
    whole = new[path.name]
    for size in [*range(start, start + 1200, 7), len(whole) - 1, len(whole)]:
        path.write_bytes(whole[:size] + other)
        with pytest.raises(RefusedError, match=rf"{path.name}: has (other bytes|[0-9,]+ bytes)"):
            put_back(home)
        path.write_bytes(whole[:size])
        put_back(home)
        assert digests(home) == before, size
        shutil.rmtree(home)
        shutil.copytree(announced, home)


@each_operation
def test_an_operation_that_was_stopped_and_then_its_undo(name: str, tmp_path: Path) -> None:
    """It is killed at each call of the operation, and at some calls of the undo."""
    calls = recorded(small_log(tmp_path / "all"), name)
    rng = random.Random(name)
    for at in range(len(calls)):
        home = small_log(tmp_path / f"{at}")
        before = digests(home)
        with pytest.raises(KilledError):
            operate(home, name, Recorder(at))
        disk = Recorder()
        put_back(shutil.copytree(home, tmp_path / f"{at}-counted"), disk)
        for _ in range(3):
            left = Path(shutil.copytree(home, tmp_path / f"{at}-left"))
            with suppress(KilledError):
                put_back(left, Recorder(rng.randrange(len(disk.calls) + 1)))
            put_back(left)
            assert digests(left) == before, at
            shutil.rmtree(left)
