"""A power cut or a failing disk while entries are overwritten in kind can be completed."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from je_tools.erase.completion import complete_erasure
from je_tools.erase.results import ErasureHooks
from je_tools.errors import RefusedError
from je_tools.log.scan import Scanner
from je_tools.writing.interrupted import check_whole
from je_tools.writing.redo_folder import FOLDER, is_unfinished
from tests.builders.power_cuts import Call, KilledError, PowerCuts, Recorder, failures, sampled
from tests.corpus import corpus
from tests.je_tools.erase.erasing import copy_of, erase, log_bytes
from tests.je_tools.snapshots import contents_of, snapshot_of

NAMES = ["v8-dbops", "v15-embedded"]
COUNT, MANY = 2, 180
"""Number of states per call of an erasure, besides those with all and with none of its writes."""


def prepared(name: str, target: Path) -> Path:
    """Copy a log, and write the checkpoint that an erasure needs."""
    home = copy_of(name, target)
    erase(home, hooks=ErasureHooks(should_stop=lambda: True))
    return home


def recorded(home: Path) -> list[Call]:
    """Erase a log, and return the calls to the disk."""
    disk = Recorder()
    erase(home, disk=disk)
    return disk.calls


def first_redo(calls: Sequence[Call]) -> int:
    """Return the index of the call that creates the first redo journal."""
    return next(i for i, call in enumerate(calls) if call.path.name == "redo.new")


def completed(home: Path) -> int:
    """Complete an erasure, and return the number of entries that its redo journal had."""
    found = complete_erasure(home, Scanner(threads=1)).in_kind
    assert not is_unfinished(home)
    return 0 if found is None else found.entry_count


def check_states(name: str, folder: Path, count: int) -> tuple[int, int]:
    """Check states that a power cut can leave; return their number, and that of unfinished ones."""
    home = prepared(name, folder / "env")
    old = log_bytes(home)
    records = contents_of(snapshot_of(home))
    cuts = PowerCuts(home)
    calls = recorded(home)
    begin = first_redo(calls)
    new = log_bytes(home)
    counts = [count if at >= begin else None for at in range(len(calls) + 1)]
    seen = unfinished = 0
    known: set[tuple[bytes, ...]] = set()
    gone_on: set[tuple[bytes, ...]] = set()
    for _, state in cuts.states(calls, folder, random.Random(name), counts):
        found = log_bytes(state)
        seen += 1
        was_unfinished = is_unfinished(state)
        if was_unfinished:
            unfinished += 1
            with pytest.raises(RefusedError, match="erase resume"):
                check_whole(state)
        else:
            # Without a journal of this name, a file is as it was or as it will be.
            assert all(data in (old[file], new[file]) for file, data in found.items())
        if tuple(found.values()) not in known:
            known.add(tuple(found.values()))
            assert contents_of(snapshot_of(state)) == records
        count = completed(state)
        assert (count > 0) == was_unfinished
        found = log_bytes(state)
        assert all(data in (old[file], new[file]) for file, data in found.items())
        assert found != old or not was_unfinished
        if tuple(found.values()) not in gone_on:
            gone_on.add(tuple(found.values()))
            erase(state)
            assert log_bytes(state) == new
        assert not (state / FOLDER).exists()
        shutil.rmtree(state)
    return seen, unfinished


@pytest.mark.parametrize("name", NAMES)
def test_a_power_cut(name: str, tmp_path: Path) -> None:
    seen, unfinished = check_states(name, tmp_path, COUNT)
    assert seen > 15
    assert unfinished > 7


ONLY_IN_CORPUS = ["v15-cleaned"] if corpus() else []


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [*NAMES, *ONLY_IN_CORPUS, "v8-crash-txn-ckpt"])
def test_many_power_cuts(name: str, tmp_path: Path) -> None:
    assert check_states(name, tmp_path, MANY)[0] > 500


@sampled(2)
@pytest.mark.parametrize("error", [errno.ENOSPC, None])
def test_a_disk_that_fails(error: int | None, every: int, tmp_path: Path) -> None:
    """It fails at a call; what is left has all records, and can be completed."""
    base = prepared("v8-dbops", tmp_path / "base")
    records = contents_of(snapshot_of(base))
    whole = shutil.copytree(base, tmp_path / "all")
    calls = recorded(whole)
    for at in failures(error, every, range(first_redo(calls), len(calls))):
        home = shutil.copytree(base, tmp_path / f"{at}")
        with pytest.raises((RefusedError, KilledError)) as caught:
            erase(home, disk=Recorder(at, error))
        if error is not None:
            assert "erase resume" in str(caught.value) or not is_unfinished(home)
        assert contents_of(snapshot_of(home)) == records
        completed(home)
        assert log_bytes(home) in (log_bytes(base), log_bytes(whole))
        shutil.rmtree(home)


def test_a_completion_that_is_interrupted(tmp_path: Path) -> None:
    """Completing is interrupted at each of its calls, and completed again."""
    stopped = prepared("v8-dbops", tmp_path / "stopped")
    whole = shutil.copytree(stopped, tmp_path / "all")
    calls = recorded(whole)
    synced = next(
        i for i, call in enumerate(calls) if call.name == "rename" and call.value.name == "redo"
    )
    with pytest.raises(KilledError):
        erase(stopped, disk=Recorder(synced + 2))
    assert is_unfinished(stopped)
    at = 0
    while is_unfinished(stopped):
        with pytest.raises(KilledError):
            complete_erasure(stopped, Scanner(threads=1), disk=Recorder(at))
        at += 1
        assert at < 20
    assert at > 2
    completed(stopped)
    assert log_bytes(stopped) == log_bytes(whole)


def test_no_byte_changes_before_its_journal_is_durable(tmp_path: Path) -> None:
    home = copy_of("v8-cleaned", tmp_path / "env")
    calls = recorded(home)
    is_durable = False
    written = 0
    for before, call in zip(
        calls[first_redo(calls) :], calls[first_redo(calls) + 1 :], strict=False
    ):
        if call.name == "rename":
            assert (before.name, before.path.name) == ("sync", "redo.new")
        if before.name == "rename":
            assert (call.name, call.path.name) == ("sync_folder", FOLDER)
            is_durable = True
        if call.path.suffix == ".jdb" and call.name == "write":
            written += 1
            assert is_durable
        if call.name == "unlink":
            assert (before.name, before.path.suffix) == ("sync", ".jdb")
            is_durable = False
    assert written >= 2
