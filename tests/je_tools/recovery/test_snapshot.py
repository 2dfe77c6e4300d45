"""Snapshots of environments with known contents."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from je_tools.errors import StoppedError
from je_tools.formats.je.flags import DatabaseFlag
from je_tools.recovery.interval_tables import Lns, LoggedNodes
from je_tools.recovery.lost_content import _lost_keys
from je_tools.recovery.opening import take_snapshot
from je_tools.recovery.plan import plan_recovery
from je_tools.recovery.snapshot import Snapshot
from tests.builders.trees import NULL, TreeLog, descriptor_ln, simple, slot
from tests.corpus import Environment, environment, marked_if_another, recorded_environments
from tests.damage.running import je_tools
from tests.je_tools.snapshots import codes_of, contents_of, snapshot_of
from tests.truth.contents import read_contents
from tests.truth.replay import newest_time_ms

_RECORDED = recorded_environments()
_REPLAYED = [each for each in _RECORDED if each[0].name != "v6-halt"]

_CASES = [
    pytest.param(each.home, path, id=each.name, marks=marked_if_another(each))
    for each, path in _REPLAYED
]


@pytest.mark.parametrize("recorded", _REPLAYED, ids=[each.name for each, _ in _REPLAYED])
def test_recorded_contents(recorded: tuple[Environment, Path]) -> None:
    (_, home, _), path = recorded
    assert_recorded(home, path, threads=1)


@pytest.mark.parametrize(("home", "path"), _CASES)
def test_recorded_contents_by_threads(
    home: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("je_tools.log.scan_options.ONE_THREAD_MAX", 0)
    assert_recorded(home, path, threads=4)


def assert_recorded(home: Path, path: Path, *, threads: int) -> None:
    now_ms = newest_time_ms(home)
    snapshot = snapshot_of(home, now_ms=now_ms, threads=threads)
    found, expected = contents_of(snapshot), read_contents(path)
    assert found.keys() == expected.keys()
    for name, records in expected.items():
        assert found[name] == records, name
    assert codes_of(snapshot) == []
    assert snapshot.refusals == ()


def test_changes_of_old_duplicates_are_left_out_and_named() -> None:
    """Only changes that recovery would replay into trees of log version 6 are missing."""
    home = environment("v6-halt").home
    snapshot = snapshot_of(home, now_ms=newest_time_ms(home))
    found = contents_of(snapshot)
    assert {name: len(records) for name, records in found.items()} == {"people": 847, "visits": 668}
    assert codes_of(snapshot) == ["old-form-left-out"]
    assert snapshot.refusals == ()
    for path in home.parent.glob("records.tsv.gz"):
        expected = read_contents(path)
        assert found["people"] == expected["people"]
        left = iter(expected["visits"])
        assert all(record in left for record in found["visits"])


@pytest.mark.timeout(60)
def test_more_databases_than_an_engine_ever_made(tmp_path: Path) -> None:
    """The time for each depends only on its own entries, however many databases there are."""
    count = 100_000
    ids = np.arange(count, dtype=np.int64)
    none, no = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    snapshot = snapshot_of(simple({b"a": b"1"}).write(tmp_path / "env"))
    lns = Lns(ids, ids, none, none, np.zeros(count, np.int32), np.zeros(count, np.uint8))
    small = none.astype(np.int32)
    nodes = LoggedNodes(ids, ids, ids, none, small, small, no, no)
    snapshot = replace(snapshot, interval=replace(snapshot.interval, lns=lns, nodes=nodes))
    assert snapshot.tree(snapshot.databases[6]).replayed.node_id.tolist() == [6]
    lost = _lost_keys(snapshot.interval, snapshot.image, {5: "five"}, snapshot.scanner)
    assert (lost[5].name, lost[5].ln_count, lost[6].name) == ("five", 1, None)
    assert len(lost) == count


def test_a_file_that_is_cut_while_it_is_read(tmp_path: Path) -> None:
    home = simple({b"%05d" % i: bytes(900) for i in range(100)}).write(tmp_path / "env")
    snapshot = snapshot_of(home)
    (home / "00000000.jdb").write_bytes(b"")
    with pytest.raises(StoppedError, match=r"00000000\.jdb: became shorter while it was read"):
        contents_of(snapshot)
    with pytest.raises(StoppedError):
        snapshot.check_files()


def test_a_file_that_is_cut_at_last_is_told_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = simple({b"a": b"1"}).write(tmp_path / "env")

    def cut(*arguments: object, **named: object) -> Snapshot:
        snapshot = take_snapshot(*arguments, **named)  # type: ignore[arg-type]
        path = home / "00000000.jdb"
        path.write_bytes(path.read_bytes()[:-1])
        return snapshot

    monkeypatch.setattr("je_tools.recovery.opening.take_snapshot", cut)
    done = je_tools("recover", home)
    assert done.code == 5
    assert "00000000.jdb: became shorter while it was read" in done.err


@pytest.mark.parametrize(
    ("known_until", "is_met", "goes"),
    [(17, True, True), (17, False, False), (16, True, False)],
)
def test_temporary_databases(
    known_until: int, is_met: bool, goes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to some log version, recovery removes those whose MapLNs it meets."""
    monkeypatch.setattr("je_tools.recovery.catalogue._TEMPORARY_UNTIL", known_until)
    log = TreeLog()
    root = log.tree([slot(b"k", log.ln(b"k", b"v"))])
    log.database(b"db", root)
    log.database(b"scratch", NULL, db=7, db_flags=DatabaseFlag.TEMPORARY)
    log.checkpoint()
    if is_met:
        log.put("MapLN", descriptor_ln(b"scratch", NULL, 7, db_flags=DatabaseFlag.TEMPORARY))
    snapshot = snapshot_of(log.write(tmp_path / "env"))
    assert snapshot.temporary == ({7: "scratch"} if goes else {})
    assert (snapshot.databases[7].name is None) == goes
    assert (7 in snapshot.names) == (not goes)
    plan = plan_recovery(snapshot)
    assert plan.unfinished_removals == ()
    assert [each.what for each in plan.database_changes] == ["temporary, removed"] * goes
