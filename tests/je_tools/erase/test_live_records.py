"""Live records are deleted and erased, and no byte of them is left."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from je_tools.erase.live_records import delete_records
from je_tools.erase.options import ErasureOptions
from je_tools.errors import RefusedError
from je_tools.log.scan import Scanner
from tests.je_tools.erase.erasing import copy_of, erase, log_bytes
from tests.je_tools.snapshots import codes_of, contents_of, snapshot_of


@pytest.mark.parametrize("name", ["v17-basic", "v17-dups", "v17-crash-txn", "v26-basic"])
def test_no_byte_of_the_records_is_left(name: str, tmp_path: Path) -> None:
    home = copy_of(name, tmp_path / "env")
    snapshot = snapshot_of(home)
    before = contents_of(snapshot)
    ids = {each.name: db_id for db_id, each in snapshot.databases.items()}
    doomed, needles, kept = {}, set(), b""
    for db, records in before.items():
        database = snapshot.databases[ids[db]]
        chosen = records[3::7]
        doomed[ids[db]] = [(key, data if database.has_duplicates else None) for key, data in chosen]
        left = [record for record in records if record not in chosen]
        kept += b"\0".join(each for record in left for each in record)
        needles |= {data for _, data in chosen if len(data) >= 12}
        needles |= {key for key, _ in chosen if len(key) >= 8}
        before[db] = left
    needles = {needle for needle in needles if needle not in kept}
    assert len(needles) > 20
    delete_records(home, Scanner(threads=1), doomed, time.time_ns() // 1_000_000)
    result = erase(home, ErasureOptions(checkpoint_first=True, rewritten=frozenset(before)))
    assert result.left is not None
    new = b"".join(log_bytes(home).values())
    assert [needle for needle in needles if needle in new] == []
    assert contents_of(snapshot_of(home)) == before
    assert codes_of(snapshot_of(home)) == []
    assert not (home / ".je-tools-undo").exists()


def test_a_node_of_a_group_is_refused(tmp_path: Path) -> None:
    home = copy_of("starrocks-rep-uncommitted/node1", tmp_path / "env")
    old = log_bytes(home)
    snapshot = snapshot_of(home)
    db, records = next(iter(contents_of(snapshot).items()))
    ids = {each.name: db_id for db_id, each in snapshot.databases.items()}
    with pytest.raises(RefusedError, match="Delete them through the application"):
        delete_records(home, Scanner(threads=1), {ids[db]: [(records[0][0], None)]}, 0)
    assert log_bytes(home) == old


def test_a_record_that_is_gone_is_refused(tmp_path: Path) -> None:
    home = copy_of("v17-basic", tmp_path / "env")
    old = log_bytes(home)
    db_id = next(i for i, each in snapshot_of(home).databases.items() if not each.is_internal)
    with pytest.raises(RefusedError, match="do not exist any more"):
        delete_records(home, Scanner(threads=1), {db_id: [(b"no such key", None)]}, 0)
    assert log_bytes(home) == old
