"""Versions of a key beside what `dump` tells of the same log, entry by entry."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from je_tools.environment import open_environment
from je_tools.formats.je.keys import split_two_part
from je_tools.history import State, versions_of_key
from je_tools.scan import Scanner
from je_tools.selection import KeyPattern
from je_tools.snapshot import take_snapshot
from tests.corpus import FIXTURES
from tests.je_tools.corpus_snapshots import database_named, newest_ms, pairs_of, snapshot_of
from tests.je_tools.dumped import all_rows

CRASH, DUPLICATES, OLD = "v17-crash-txn/env", "v17-dups/env", "v8-crash-txn-ckpt/env"
ROLLED_BACK = "v26-rep-committed/node1"
ANY = KeyPattern(b"", whole=False)


def lsn_of(text: str) -> int:
    file_no, offset = (int(part, 16) for part in text.split("/"))
    return file_no << 32 | offset


def expected_state(row: dict[str, Any], ends: dict[int, list[dict[str, Any]]]) -> State:
    """By the entries of its transaction alone."""
    if row["invisible"]:
        return State.ROLLED_BACK
    if row["txn_id"] is None:
        return State.NON_TRANSACTIONAL
    own = [end for end in ends[row["txn_id"]] if lsn_of(end["lsn"]) > lsn_of(row["lsn"])]
    if not own:
        return State.UNFINISHED
    return State.COMMITTED if own[0]["type"] == "Commit" else State.ABORTED


@pytest.mark.parametrize("fast", [False, True], ids=["plain", "compiled"])
@pytest.mark.parametrize("name", [CRASH, DUPLICATES, OLD, ROLLED_BACK])
def test_every_version_is_told_with_its_end(name: str, fast: bool) -> None:
    snapshot = snapshot_of(FIXTURES / name, fast=fast)
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
        found = [each for each in versions_of_key(snapshot, database, ANY) if each.type]
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
        current = [each for each in versions_of_key(snapshot, database, ANY) if each.is_current]
        records = pairs_of(snapshot.records(database, show_expired=True))
        assert sorted((each.key, each.data) for each in current) == sorted(records)


def test_a_record_whose_entry_is_lost_is_told_by_its_slot(tmp_path: Path) -> None:
    """Data in slots outlives the entries that brought it."""
    home = tmp_path / "env"
    shutil.copytree(FIXTURES / "v17-erase-after" / "env", home)
    snapshot = snapshot_of(home, fast=True)
    database = database_named(snapshot, "small")
    versions = versions_of_key(snapshot, database, ANY)
    hurt = next(each for each in versions if each.is_current and each.lsn >> 32 == 0)
    path = home / f"{hurt.lsn >> 32:08x}.jdb"
    data = bytearray(path.read_bytes())
    data[(hurt.lsn & 0xFFFFFFFF) + 16] ^= 1
    path.write_bytes(data)
    key = KeyPattern(hurt.key, whole=True)
    told = versions_of_key(snapshot_of(home, fast=True), database, key)
    (slot,) = (each for each in told if each.is_current)
    assert (slot.lsn, slot.data, slot.state, slot.type) == (hurt.lsn, hurt.data, State.SLOT, None)


def test_an_earlier_end_ends_the_history() -> None:
    home = FIXTURES / CRASH
    environment, scanner = open_environment([home]), Scanner(fast=False, wide=True)
    key = KeyPattern(b"user00000001", whole=True)
    whole = take_snapshot(environment, scanner, now_ms=newest_ms(home))
    versions = versions_of_key(whole, database_named(whole, "people"), key)
    assert [each.state for each in versions][-1] is State.UNFINISHED
    for count, last in enumerate(versions, 1):
        cut = take_snapshot(environment, scanner, now_ms=newest_ms(home), to_lsn=last.lsn)
        told = versions_of_key(cut, database_named(cut, "people"), key)
        assert [each.lsn for each in told] == [each.lsn for each in versions[:count]]
        assert told[-1].state is State.UNFINISHED
