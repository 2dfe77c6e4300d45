"""The engine opens what a power cut leaves of an erasure of version 17, with the same records."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from je_tools.erase.completion import complete_erasure
from je_tools.erase.results import ErasureHooks
from je_tools.log.scan import Scanner
from tests.builders.power_cuts import PowerCuts, Recorder
from tests.engine.acceptance import Judge
from tests.je_tools.erase.erasing import copy_of, erase, log_bytes
from tests.truth.contents import Contents
from tests.truth.headers import ERASED, walk_bytes

pytestmark = [pytest.mark.engine, pytest.mark.exhaustive]

STATES = {"v17-dbops": 10, "v17-crash-txn": 20, "v17-erase-after": 5}
"""Number of states per write of an erasure, besides those with all and with none of its bytes."""


def check_accepted(judge: Judge, home: Path, expected: Contents) -> None:
    """Check that the engine finds the records, and no damage in trees, entries and files."""
    told = judge.told(judge.plain, home, "check", 0)
    assert told.problems == []
    assert told.contents == expected


def counted_by_kind(log: dict[str, bytes]) -> tuple[int, int]:
    """Return the number of entries with the type Erased, and of those that keep their bytes."""
    erased = unfinished = 0
    for name, data in log.items():
        for entry in walk_bytes(data, int(name[:8], 16)):
            if entry.type_no == ERASED:
                start = entry.lsn & 0xFFFFFFFF
                erased += 1
                unfinished += any(data[start + entry.header_size : start + entry.size])
    return erased, unfinished


@pytest.mark.parametrize("name", STATES)
def test_interrupted_erasures(name: str, judge: Judge, tmp_path: Path) -> None:
    """As the power cut leaves it, after completion, and after the engine's own recovery."""
    home = copy_of(name, tmp_path / "env")
    # The checkpoint is written, and nothing is erased.
    erase(home, hooks=ErasureHooks(should_stop=lambda: True))
    expected = judge.plain.ask(shutil.copytree(home, tmp_path / "asked"))
    assert isinstance(expected, dict)
    assert any(expected.values())
    cuts, disk = PowerCuts(home), Recorder()
    erase(home, disk=disk)
    count = STATES[name]
    counts = [count * (call.path.suffix == ".jdb" and call.name == "write") for call in disk.calls]
    seen: set[tuple[bytes, ...]] = set()
    partly = 0
    for _, state in cuts.states(disk.calls, tmp_path, random.Random(name), [0, *counts]):
        found = log_bytes(state)
        if tuple(found.values()) not in seen:
            seen.add(tuple(found.values()))
            partly += counted_by_kind(found)[1] > 0
            check_accepted(judge, state, expected)
            complete_erasure(state, Scanner(threads=1))
            assert counted_by_kind(log_bytes(state))[1] == 0
            check_accepted(judge, state, expected)
            assert judge.plain.ask(state) == expected
        shutil.rmtree(state)
    print(f"{name}: {len(seen)} states, {partly} with bytes of marked entries")
    assert len(seen) > 100
    assert partly > 90
