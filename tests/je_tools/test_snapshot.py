"""Snapshots of environments of which it is known what they hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus import Environment, recorded_environments
from tests.je_tools.snapshots import codes_of, contents_of, snapshot_of
from tests.truth.contents import read_contents
from tests.truth.replay import newest_time_ms

_RECORDED = recorded_environments()
_REPLAYED = [each for each in _RECORDED if each[0].name != "v6-halt"]

WAYS = pytest.mark.parametrize(
    ("fast", "threads"), [(False, 1), (True, 1), (True, 4)], ids=["plain", "compiled", "threads"]
)


@WAYS
@pytest.mark.parametrize("recorded", _REPLAYED, ids=[each.name for each, _ in _REPLAYED])
def test_recorded_contents(recorded: tuple[Environment, Path], fast: bool, threads: int) -> None:
    environment, path = recorded
    now_ms = newest_time_ms(environment.home)
    snapshot = snapshot_of(environment.home, now_ms=now_ms, fast=fast, threads=threads)
    found, expected = contents_of(snapshot), read_contents(path)
    assert found.keys() == expected.keys()
    for name, records in expected.items():
        assert found[name] == records, name
    assert codes_of(snapshot) == []
    assert snapshot.refusals == ()
