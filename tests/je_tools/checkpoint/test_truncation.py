"""Truncation refuses to remove what a group relies on, or to go back to a lost state."""

from __future__ import annotations

from pathlib import Path

import pytest

from je_tools.checkpoint.apply import apply_checkpoint
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.checkpoint.truncation import group_commits_after
from je_tools.errors import RefusedError
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.opening import take_snapshot
from je_tools.recovery.snapshot import Snapshot
from tests.builders.trees import TreeLog, simple, slot
from tests.corpus import FIXTURES
from tests.damage.running import je_tools
from tests.je_tools.checkpoint.test_checkpoint import copied, hashes
from tests.je_tools.snapshots import NOW_MS, records_of, snapshot_of
from tests.truth.log_end import read_log

NODE = FIXTURES / "v17-rep-uncommitted-before" / "node1"
COMMITS = {1211: 0x1F437, 1219: 0x1F7DE, 1223: 0x1F95C, 1224: 0x1F983}
"""LSNs of the last Commits by VLSN; each records that a majority has the one before it."""


def ending_at(home: Path, lsn: int) -> Snapshot:
    return take_snapshot(
        open_environment([home]), Scanner(threads=1), now_ms=NOW_MS, to_lsn=lsn, as_member=True
    )


def cut(home: Path, lsn: int, *, force: bool) -> None:
    orders = CheckpointOptions(cuts=True, to_lsn=lsn, force=force)
    apply_checkpoint(home, Scanner(threads=1), orders, NOW_MS)


@pytest.mark.parametrize(("vlsn", "count", "durable"), [(1211, 3, 2), (1219, 2, 1), (1223, 1, 0)])
def test_what_a_majority_has(vlsn: int, count: int, durable: int, tmp_path: Path) -> None:
    home = copied(NODE, tmp_path)
    told = group_commits_after(ending_at(home, COMMITS[vlsn]))
    assert (told.commit_count, told.durable_count, told.dtvlsn) == (count, durable, 1223)
    with pytest.raises(RefusedError) as refused:
        cut(home, COMMITS[vlsn], force=False)
    text = str(refused.value)
    assert "a member of a replication group." in text
    said = f"{durable} of the {count} Commits that would be lost were acknowledged by a majority"
    assert (said in text) == (durable > 0)
    assert "--force" in text
    cut(home, COMMITS[vlsn], force=True)
    assert ending_at(home, COMMITS[vlsn]).end.last_lsn == COMMITS[vlsn]


def test_only_force_cuts_a_node(tmp_path: Path) -> None:
    home = copied(NODE, tmp_path)
    before = hashes(home)
    asked = ("recover", home, "--to-lsn", f"0x0/{COMMITS[1211]:#x}", "--apply")
    done = je_tools(*asked)
    assert done.code == 6
    assert "2 of the 3 Commits that would be lost" in done.err
    assert hashes(home) == before
    assert not list(home.glob(".je-tools*"))
    assert je_tools(*asked, "--force").code == 0
    commits = {header.lsn for header, _ in read_log(home).entries() if header.type_no == 17}
    assert [at in commits for at in COMMITS.values()] == [True, False, False, False]


def test_who_is_alone_needs_no_force(tmp_path: Path) -> None:
    log = simple({b"a": b"1", b"b": b"2"})
    kept = log.ln(b"a", b"new")
    log.ln(b"b", b"gone")
    home = log.write(tmp_path / "env")
    cut(home, kept, force=False)
    records = snapshot_of(home)
    (database,) = (each for each in records.databases.values() if each.name == "db")
    assert records_of(records, database) == [(b"a", b"new"), (b"b", b"2")]


@pytest.mark.parametrize("force", [False, True])
def test_a_state_that_the_log_has_lost(force: bool, tmp_path: Path) -> None:
    """The cleaner removes files that no later state needs, and force brings nothing back."""
    log = TreeLog()
    records = [slot(b"%04d" % i, log.ln(b"%04d" % i, b"x" * 80)) for i in range(20)]
    log.next_file()
    log.database(b"db", log.tree(records))
    log.checkpoint()
    kept = log.ln(b"0001", b"new")
    log.ln(b"0002", b"new")
    home = log.write(tmp_path / "env")
    (home / "00000000.jdb").unlink()
    text = r"no longer holds the whole state at 0x1/0x[0-9a-f]+: the entry at 0x0/"
    with pytest.raises(RefusedError, match=text):
        cut(home, kept, force=force)
