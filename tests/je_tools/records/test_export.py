"""Counts, key ranges, single keys and shapes, compared with the known contents of many logs."""

from __future__ import annotations

import random
from bisect import bisect_left
from pathlib import Path

import pytest

from je_tools.btree.key_ranges import KeyRange
from je_tools.log.parsing import KeyPattern
from je_tools.output.encoders.record_sources import read_batch
from je_tools.records.databases import DatabaseState, list_databases
from je_tools.records.export import Export
from je_tools.records.history import records_of_key
from je_tools.recovery.database import Database
from je_tools.recovery.snapshot import Snapshot
from tests.corpus import Environment, marked_beyond_fixtures, recorded_environments
from tests.je_tools.corpus_snapshots import pairs_of, snapshot_of
from tests.truth.contents import Contents, read_contents

RECORDED = [
    (each, path) for each, path in recorded_environments() if not each.name.startswith("v6-halt")
]
"""Recorded environments except `v6-halt`, whose duplicates no release used here replays."""

recorded = pytest.mark.parametrize(
    ("home", "path"),
    [pytest.param(each.home, path, marks=marked_beyond_fixtures(each)) for each, path in RECORDED],
    ids=[each.name for each, _ in RECORDED],
)


def applications(snapshot: Snapshot) -> dict[str, Database]:
    return {
        each.name: each
        for each in snapshot.databases.values()
        if each.name is not None and not each.is_internal
    }


@recorded
def test_counts_and_records_are_those_written_down(home: Path, path: Path) -> None:
    known = read_contents(path)
    snapshot = snapshot_of(home)
    databases = applications(snapshot)
    counts = {name: snapshot.count(each) for name, each in databases.items()}
    assert counts == {name: len(records) for name, records in known.items()}
    sources = Export(snapshot).sources(databases.values())
    shown = {
        source.database.name or "": pairs_of(read_batch(each)[0] for each in source.batches)
        for source in sources
    }
    assert shown == known


@recorded
def test_ranges_and_keys_are_parts_of_the_whole(home: Path, path: Path) -> None:
    chance = random.Random(5)
    snapshot = snapshot_of(home)
    databases = applications(snapshot)
    for name, records in read_contents(path).items():
        for bound in _ranges(chance, records):
            found = pairs_of(snapshot.records(databases[name], inside=bound))
            assert found == _within(records, bound), (name, bound)
        for key in _some_keys(chance, records):
            pattern = KeyPattern(key, whole=True)
            expected = [pair for pair in records if pair[0] == key]
            assert pairs_of(records_of_key(snapshot, databases[name], pattern)) == expected


def _some_keys(chance: random.Random, records: list[tuple[bytes, bytes]]) -> list[bytes]:
    keys = [key for key, _ in records]
    there = [keys[0], keys[-1], *chance.choices(keys, k=4)] if keys else []
    return [*there, *(key + b"\0" for key in there), b"", b"\xff" * 9]


def _ranges(chance: random.Random, records: list[tuple[bytes, bytes]]) -> list[KeyRange]:
    keys = _some_keys(chance, records)
    pairs = [sorted(chance.choices(keys, k=2)) for _ in range(4)]
    return [
        KeyRange(),
        KeyRange(low=keys[0]),
        KeyRange(high=keys[0]),
        *(KeyRange(low, high) for low, high in pairs),
    ]


def _within(records: list[tuple[bytes, bytes]], bound: KeyRange) -> list[tuple[bytes, bytes]]:
    keys = [key for key, _ in records]
    low = 0 if bound.low is None else bisect_left(keys, bound.low)
    high = len(keys) if bound.high is None else bisect_left(keys, bound.high)
    return records[low:high]


@recorded
def test_databases_are_those_that_the_engine_lists(home: Path, path: Path) -> None:
    known: Contents = read_contents(path)
    rows = list(list_databases(snapshot_of(home), internal=False))
    assert {row.name: row.shape.records for row in rows if row.state is DatabaseState.WHOLE} == {
        name: len(records) for name, records in known.items()
    }


def test_shapes_hang_together(some_environment: Environment) -> None:
    for row in list_databases(snapshot_of(some_environment.home), internal=True):
        shape = row.shape
        assert (shape.bottom_nodes > 0) == (shape.upper_nodes > 0) == (shape.depth > 1)


def test_a_count_is_the_number_of_records(some_environment: Environment) -> None:
    """Counting takes its own path through nodes that are in order."""
    snapshot = snapshot_of(some_environment.home)
    for database in snapshot.databases.values():
        for show_expired in (False, True):
            batches = snapshot.records(database, with_data=False, show_expired=show_expired)
            counted = snapshot.count(database, show_expired=show_expired)
            assert counted == sum(map(len, batches)), database.name
