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
from je_tools.log.parsing import KeyPattern
from je_tools.log.scan import Scanner
from je_tools.records.history import KeyHistory, history_of_key
from je_tools.records.version_ends import NO_END, OpenVersions, ScannedTxnEnds
from je_tools.records.versions import Version, VersionState
from je_tools.recovery.opening import take_snapshot
from tests.builders.trees import simple
from tests.corpus import FIXTURES
from tests.je_tools.corpus_snapshots import database_named, newest_ms, pairs_of, snapshot_of
from tests.je_tools.dumped import all_rows, je_tools

CRASH, DUPLICATES, OLD = "v17-crash-txn/env", "v17-dups/env", "v8-crash-txn-ckpt/env"
ROLLED_BACK = "v26-rep-committed/node1"
ANY = KeyPattern(b"", whole=False)


def versions_of(history: KeyHistory) -> list[Version]:
    found = [each for batch in history.batches() for each in batch.versions()]
    assert len(found) == len(history)
    return found


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
        found = [each for each in versions_of(history_of_key(snapshot, database, ANY)) if each.type]
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
            each for each in versions_of(history_of_key(snapshot, database, ANY)) if each.is_current
        ]
        records = pairs_of(snapshot.records(database, show_expired=True))
        assert sorted((each.key, each.data) for each in current) == sorted(records)


def test_a_record_whose_entry_is_lost_is_told_by_its_slot(tmp_path: Path) -> None:
    """Data in slots outlives the entries that brought it."""
    home = tmp_path / "env"
    shutil.copytree(FIXTURES / "v17-erase-after" / "env", home)
    snapshot = snapshot_of(home)
    database = database_named(snapshot, "small")
    versions = versions_of(history_of_key(snapshot, database, ANY))
    hurt = next(each for each in versions if each.is_current and each.lsn >> 32 == 0)
    path = home / f"{hurt.lsn >> 32:08x}.jdb"
    data = bytearray(path.read_bytes())
    data[(hurt.lsn & 0xFFFFFFFF) + 16] ^= 1
    path.write_bytes(data)
    key = KeyPattern(hurt.key, whole=True)
    told = versions_of(history_of_key(snapshot_of(home), database, key))
    (slot,) = (each for each in told if each.is_current)
    assert (slot.lsn, slot.data, slot.state, slot.type) == (
        hurt.lsn,
        hurt.data,
        VersionState.SLOT,
        None,
    )


@pytest.mark.parametrize("part", [7, 50, 1000])
@pytest.mark.parametrize("seed", range(7))
def test_each_version_has_the_first_end_behind_it(seed: int, part: int) -> None:
    chance = random.Random(seed)
    lsns = chance.sample(range(1000), 60)
    ends = [(lsn, chance.randint(1, 8)) for lsn in lsns[:30]]
    versions = [(lsn, chance.randint(1, 9)) for lsn in lsns[30:]]
    found = with_ends(versions, ends, part)
    for lsn, txn_id in versions:
        behind = sorted(end for end, of in ends if of == txn_id and end > lsn)
        assert found[lsn] == (behind[0] if behind else None)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("part", [100_000, 1 << 40])
def test_the_history_of_a_key_that_is_written_all_the_time(part: int) -> None:
    count = 150_000
    found = with_ends(
        [(2 * i, i + 1) for i in range(count)], [(2 * i + 1, i + 1) for i in range(count)], part
    )
    assert set(found.values()) == {2 * i + 1 for i in range(count)}


def with_ends(
    versions: list[tuple[int, int]], ends: list[tuple[int, int]], part: int
) -> dict[int, int | None]:
    """Return the LSN of the end of each version's transaction, by its LSN.

    The log is read in parts of `part` LSNs. Both are lists of LSN and transaction.
    """
    open_, count = OpenVersions(), 0
    found: dict[int, int | None] = {}
    order = []
    last = max(lsn for lsn, _ in versions + ends)
    written, ended = np.array(sorted(versions)), np.array(sorted(ends))
    for start in range(0, last + 1, part):
        of_part = [
            each[(each[:, 0] >= start) & (each[:, 0] < start + part)] for each in (written, ended)
        ]
        lsns, txn_ids = of_part[0].T
        some = ScannedTxnEnds(*of_part[1].T, of_part[1][:, 0], np.ones(len(of_part[1]), np.bool_))
        open_.find_ends(some)
        rows = some.next_of(txn_ids, lsns)
        found |= dict(zip(lsns.tolist(), np.append(some.lsn, -1)[rows].tolist(), strict=True))
        has_none = np.flatnonzero(rows == NO_END)
        open_.add(txn_ids[has_none], count + has_none)
        count += len(lsns)
        order += lsns.tolist()
    found = {lsn: None if end == -1 else end for lsn, end in found.items()}
    later = open_.ended()
    for start in range(0, count, 64):
        for at, end, is_commit in later.within(start, min(start + 64, count)):
            assert is_commit
            for lsn in order[start : start + 64][at]:
                assert found[lsn] is None
                found[lsn] = end
    return found


def test_an_earlier_end_ends_the_history() -> None:
    home = FIXTURES / CRASH
    environment, scanner = open_environment([home]), Scanner(wide=True)
    key = KeyPattern(b"user00000001", whole=True)
    whole = take_snapshot(environment, scanner, now_ms=newest_ms(home))
    versions = versions_of(history_of_key(whole, database_named(whole, "people"), key))
    assert [each.state for each in versions][-1] is VersionState.UNFINISHED
    for count, last in enumerate(versions, 1):
        cut = take_snapshot(environment, scanner, now_ms=newest_ms(home), to_lsn=last.lsn)
        told = versions_of(history_of_key(cut, database_named(cut, "people"), key))
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
    assert [each.data for each in versions_of(history) if each.type] == [b"2"]
    assert history.damaged_count == 1
    done = je_tools("get", home, "--db", "db", "a", "--history")
    assert done.code == 3
    assert "1 place of the log could not be read and may hold more" in done.err
