"""A power cut or a failing disk leaves a log with its records, and the erasure can continue."""

from __future__ import annotations

import errno
import random
import shutil
from pathlib import Path

import pytest

from je_tools.erase.completion import complete_erasure
from je_tools.errors import RefusedError
from je_tools.log.scan import Scanner
from tests.builders.power_cuts import Call, KilledError, PowerCuts, Recorder, failures, sampled
from tests.je_tools.erase.erasing import all_bytes, copy_of, erase, log_bytes
from tests.je_tools.snapshots import codes_of, contents_of, snapshot_of
from tests.truth.headers import ERASED, walk_bytes

NAMES = ["v26-dbops", "v17-rep-uncommitted-before/node2", "v17-crash-txn"]
COUNT, MANY = 1, 60
"""Number of states per call of an erasure, besides those with all and with none of its writes."""


def recorded(home: Path) -> list[Call]:
    """Erase a log, and return the calls to the disk."""
    disk = Recorder()
    erase(home, disk=disk)
    return disk.calls


def assert_whole(home: Path, records: object) -> None:
    """Check that a log has no damage, and its records."""
    snapshot = snapshot_of(home)
    assert contents_of(snapshot) == records
    assert codes_of(snapshot) == []
    for path in home.glob("*.jdb"):
        data = path.read_bytes()
        entries = list(walk_bytes(data, int(path.stem, 16)))
        assert all(each.checksum_ok is not False for each in entries)


class Left:
    """Checks of what an interrupted erasure leaves; equal logs are checked once."""

    def __init__(self, records: object, whole: dict[str, bytes]) -> None:
        """Create the checks, from the records and from the log after the whole erasure."""
        self.records = records
        self.whole = whole
        self.seen: set[tuple[str, object]] = set()

    def is_new(self, step: str, found: dict[str, bytes]) -> bool:
        """Return True if the same files were not found before at this step; remember them."""
        before = len(self.seen)
        self.seen.add((step, frozenset(found.items())))
        return len(self.seen) > before

    def check(self, home: Path) -> None:
        """Check that a log is whole, that the erasure can be completed, and that it continues."""
        if self.is_new("check", log_bytes(home)):
            assert_whole(home, self.records)
        if not self.is_new("complete", all_bytes(home)):
            return
        complete_erasure(home, Scanner(threads=1))
        assert not any(
            any(data[(entry.lsn & 0xFFFFFFFF) + entry.header_size :][: entry.item_size])
            for file, data in log_bytes(home).items()
            for entry in walk_bytes(data, int(file[:8], 16))
            if entry.type_no == ERASED
        )
        if self.is_new("go on", all_bytes(home)):
            erase(home)
            assert log_bytes(home) == self.whole


def check_states(name: str, folder: Path, count: int) -> int:
    """Check the states that a power cut can leave; return their number."""
    home = copy_of(name, folder / "env")
    records = contents_of(snapshot_of(home))
    cuts = PowerCuts(home)
    calls = recorded(home)
    erased_at = next(
        i
        for i, call in enumerate(calls)
        if call.name == "write" and call.value[0] == 0 and len(call.value[1]) == 1
    )
    left = Left(records, log_bytes(home))
    counts = [count if at >= erased_at else None for at in range(len(calls) + 1)]
    seen = 0
    for _, state in cuts.states(calls, folder, random.Random(name), counts):
        seen += 1
        left.check(state)
        shutil.rmtree(state)
    return seen


@pytest.mark.parametrize("name", NAMES[:2])
def test_a_power_cut(name: str, tmp_path: Path) -> None:
    assert check_states(name, tmp_path, COUNT) > 10


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [*NAMES, "v17-erase-after"])
def test_many_power_cuts(name: str, tmp_path: Path) -> None:
    assert check_states(name, tmp_path, MANY) > 300


@sampled(2)
@pytest.mark.parametrize(
    "error", [errno.ENOSPC, pytest.param(errno.EIO, marks=pytest.mark.exhaustive), None]
)
def test_a_disk_that_fails(error: int | None, every: int, tmp_path: Path) -> None:
    """It fails at a call; what is left has all records, and the erasure continues."""
    whole = copy_of("v26-dbops", tmp_path / "all")
    records = contents_of(snapshot_of(whole))
    calls = recorded(whole)
    left = Left(records, log_bytes(whole))
    for at in failures(error, every, range(len(calls))):
        home = copy_of("v26-dbops", tmp_path / f"{at}")
        with pytest.raises((RefusedError, KilledError)) as caught:
            erase(home, disk=Recorder(at, error))
        if error is not None and calls[at].name != "create":
            assert "nothing was erased" in str(caught.value) or "to continue" in str(caught.value)
        left.check(home)
        shutil.rmtree(home)
