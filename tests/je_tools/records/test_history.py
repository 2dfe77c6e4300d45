"""Versions of a key, compared with a `dump` of the same log, entry by entry."""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from je_tools.formats.je.btree.keys import split_two_part
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.log.selection import KeyPattern
from je_tools.records.history import Version, VersionState, _Ends, _with_states, history_of_key
from je_tools.recovery.opening import take_snapshot
from tests.builders.trees import simple
from tests.corpus import FIXTURES
from tests.je_tools.corpus_snapshots import database_named, newest_ms, pairs_of, snapshot_of
from tests.je_tools.dumped import all_rows, je_tools

CRASH, DUPLICATES, OLD = "v17-crash-txn/env", "v17-dups/env", "v8-crash-txn-ckpt/env"
ROLLED_BACK = "v26-rep-committed/node1"
ANY = KeyPattern(b"", whole=False)


def lsn_of(text: str) -> int:
    file_no, offset = (int(part, 16) for part in text.split("/"))
    return file_no << 32 | offset


def expected_state(row: dict[str, Any], ends: dict[int, list[dict[str, Any]]]) -> VersionState:
    """Return the state that follows from the entries of the record's transaction alone."""
    if row["invisible"]:
        return VersionState.ROLLED_BACK
    if row["txn_id"] is None:
        return VersionState.NON_TRANSACTIONAL
    own = [end for end in ends[row["txn_id"]] if lsn_of(end["lsn"]) > lsn_of(row["lsn"])]
    if not own:
        return VersionState.UNFINISHED
    return VersionState.COMMITTED if own[0]["type"] == "Commit" else VersionState.ABORTED


@pytest.mark.parametrize("name", [CRASH, DUPLICATES, OLD, ROLLED_BACK])
def test_every_version_is_told_with_its_end(name: str) -> None:
    snapshot = snapshot_of(FIXTURES / name)
    ends: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in all_rows(name):
        if row["type"] in ("Commit", "Abort") and not row["invisible"]:
            ends[row["txn_id"]].append(row)
    applications = [each for each in snapshot.databases.values() if not each.is_internal]
    for database in applications:
        rows = [
            row
            for row in all_rows(name)
            if row["db_id"] == database.db_id and row["type"].endswith(("LN", "LN_TX"))
            if row["key"] is not None and not row["type"].startswith(("Map", "Name"))
        ]
        found = [each for each in history_of_key(snapshot, database, ANY).versions if each.type]
        assert [each.lsn for each in found] == [lsn_of(row["lsn"]) for row in rows]
        assert [each.state for each in found] == [expected_state(row, ends) for row in rows]
        for version, row in zip(found, rows, strict=True):
            assert (version.key, version.data) == known_bytes(row, database.has_duplicates)


def known_bytes(row: dict[str, Any], has_duplicates: bool) -> tuple[bytes, bytes | None]:
    key = bytes.fromhex(row["key"])
    data = None if row["data"] is None else bytes.fromhex(row["data"])
    if not has_duplicates:
        return key, data
    first, second = split_two_part(key)
    return first, None if data is None else second


@pytest.mark.parametrize("name", [CRASH, DUPLICATES, OLD, ROLLED_BACK, "v26-dbops/env"])
def test_what_is_current_is_what_is_read(name: str) -> None:
    snapshot = snapshot_of(FIXTURES / name)
    for database in list(snapshot.databases.values()):
        if database.is_internal:
            continue
        current = [
            each for each in history_of_key(snapshot, database, ANY).versions if each.is_current
        ]
        records = pairs_of(snapshot.records(database, show_expired=True))
        assert sorted((each.key, each.data) for each in current) == sorted(records)


def test_a_record_whose_entry_is_lost_is_told_by_its_slot(tmp_path: Path) -> None:
    """Data in slots outlives the entries that brought it."""
    home = tmp_path / "env"
    shutil.copytree(FIXTURES / "v17-erase-after" / "env", home)
    snapshot = snapshot_of(home)
    database = database_named(snapshot, "small")
    versions = history_of_key(snapshot, database, ANY).versions
    hurt = next(each for each in versions if each.is_current and each.lsn >> 32 == 0)
    path = home / f"{hurt.lsn >> 32:08x}.jdb"
    data = bytearray(path.read_bytes())
    data[(hurt.lsn & 0xFFFFFFFF) + 16] ^= 1
    path.write_bytes(data)
    key = KeyPattern(hurt.key, whole=True)
    told = history_of_key(snapshot_of(home), database, key).versions
    (slot,) = (each for each in told if each.is_current)
    assert (slot.lsn, slot.data, slot.state, slot.type) == (
        hurt.lsn,
        hurt.data,
        VersionState.SLOT,
        None,
    )


@pytest.mark.parametrize("seed", range(20))
def test_each_version_has_the_first_end_behind_it(seed: int) -> None:
    chance = random.Random(seed)
    lsns = chance.sample(range(1000), 60)
    ends = [(lsn, chance.randint(1, 8)) for lsn in lsns[:30]]
    versions = [(lsn, chance.randint(0, 9)) for lsn in lsns[30:]]
    told = with_states(versions, ends)
    for lsn, txn_id in versions:
        behind = sorted(end for end, of in ends if of == txn_id and end > lsn)
        if txn_id == 0:
            assert told[lsn] == (VersionState.NON_TRANSACTIONAL, None)
        elif behind:
            assert told[lsn] == (VersionState.COMMITTED, behind[0])
        else:
            assert told[lsn] == (VersionState.UNFINISHED, None)


@pytest.mark.timeout(30)
def test_the_history_of_a_key_that_is_written_all_the_time() -> None:
    count = 150_000
    told = with_states(
        [(2 * i, i + 1) for i in range(count)], [(2 * i + 1, i + 1) for i in range(count)]
    )
    assert set(told.values()) == {(VersionState.COMMITTED, 2 * i + 1) for i in range(count)}


def with_states(
    versions: list[tuple[int, int]], ends: list[tuple[int, int]]
) -> dict[int, tuple[VersionState, int | None]]:
    """Return state and time of each version by LSN; the time of an end is its LSN."""
    times = np.array([lsn for lsn, _ in ends], np.int64)
    txns = np.array([txn for _, txn in ends], np.int64)
    parts = [_Ends(times, txns, times, np.ones(len(ends), np.bool_))]
    written = [
        Version(lsn, "UPD_LN_TX", b"k", b"", txn, -1, None, VersionState.NON_TRANSACTIONAL)
        for lsn, txn in versions
    ]
    told = _with_states(snapshot_of(FIXTURES / CRASH), written, parts)
    return {each.lsn: (each.state, each.time_ms) for each in told}


def test_an_earlier_end_ends_the_history() -> None:
    home = FIXTURES / CRASH
    environment, scanner = open_environment([home]), Scanner(wide=True)
    key = KeyPattern(b"user00000001", whole=True)
    whole = take_snapshot(environment, scanner, now_ms=newest_ms(home))
    versions = history_of_key(whole, database_named(whole, "people"), key).versions
    assert [each.state for each in versions][-1] is VersionState.UNFINISHED
    for count, last in enumerate(versions, 1):
        cut = take_snapshot(environment, scanner, now_ms=newest_ms(home), to_lsn=last.lsn)
        told = history_of_key(cut, database_named(cut, "people"), key).versions
        assert [each.lsn for each in told] == [each.lsn for each in versions[:count]]
        assert told[-1].state is VersionState.UNFINISHED


def test_versions_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    log = simple({b"a": b"1"})
    first = log.file.placed[1]
    log.ln(b"a", b"2", txn=5)
    log.end(5)
    home = log.write(tmp_path / "env")
    snapshot = snapshot_of(home)
    database = database_named(snapshot, "db")
    assert history_of_key(snapshot, database, ANY).damaged_count == 0
    path = home / "00000000.jdb"
    data = bytearray(path.read_bytes())
    data[first.stop - 1] ^= 1
    log.next_file()
    log.checkpoint()
    log.write(tmp_path / "env")
    path.write_bytes(data)
    snapshot = snapshot_of(home)
    history = history_of_key(snapshot, database_named(snapshot, "db"), ANY)
    assert [each.data for each in history.versions if each.type] == [b"2"]
    assert history.damaged_count == 1
    done = je_tools("get", home, "--db", "db", "a", "--history")
    assert done.code == 3
    assert "1 place of the log could not be read and may hold more" in done.err
