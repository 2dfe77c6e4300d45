"""Each rule that keeps an entry or a file from erasure, in a log built for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from je_tools.erase.options import ErasureOptions
from je_tools.erase.plan import plan_erasure
from je_tools.erase.preconditions import ObstacleKind
from je_tools.erase.reasons import NUMBER_OF, KeepReason
from je_tools.erase.run import run_erasure
from je_tools.errors import RefusedError
from je_tools.formats.je.flags import CkptEndFlag
from je_tools.log.scan import Scanner
from tests.builders.erasable import begin_checkpoint, end_checkpoint, old, used
from tests.builders.logs import CREATED_MS, LogFile
from tests.builders.trees import TreeLog, slot
from tests.je_tools.erase.erasing import copy_of, erase, log_bytes
from tests.je_tools.snapshots import codes_of, contents_of, records_of, snapshot_of

JUST_ERASE = ErasureOptions()


def bytes_of(home: Path) -> bytes:
    """Return the bytes of all log files."""
    return b"".join(log_bytes(home).values())


def test_recovery_begins_at_the_first_active_lsn(tmp_path: Path) -> None:
    """A transaction was active when the checkpoint began, so recovery reads more than it."""
    log = TreeLog()
    before = old(log, "before")
    first_active_lsn = old_lsn = log.here
    between = old(log, "between")
    live = used(log, "db")
    assert log.checkpoint(first_active_lsn=first_active_lsn) > old_lsn
    home = log.write(tmp_path / "env")
    records = contents_of(snapshot_of(home))
    result = erase(home, JUST_ERASE)
    assert result.plan.rules.cutoff_lsn == first_active_lsn
    data = bytes_of(home)
    assert [each in data for each in (before, between, live)] == [False, True, True]
    assert contents_of(snapshot_of(home)) == records
    assert codes_of(snapshot_of(home)) == []


def test_an_open_transaction_is_an_obstacle(tmp_path: Path) -> None:
    """Its Commit never came: recovery takes the version before it from the log."""
    log = TreeLog()
    version = log.ln(b"key", b"before")
    tree = log.tree([slot(b"key", version)])
    log.database(b"db", tree)
    secret = old(log, "secret")
    changed = log.ln(b"key", b"after", txn=3, abort_lsn=version)
    log.checkpoint(first_active_lsn=changed)
    home = log.write(tmp_path / "env")
    files = log_bytes(home)
    assert [each.kind for each in plan_erasure(snapshot_of(home), JUST_ERASE).obstacles] == [
        ObstacleKind.OPEN_TRANSACTION
    ]
    with pytest.raises(RefusedError, match="1 transaction without a Commit or an Abort, the first"):
        erase(home, JUST_ERASE)
    assert log_bytes(home) == files
    erase(home)
    assert contents_of(snapshot_of(home)) == {"db": [(b"key", b"before")]}
    assert secret not in bytes_of(home)


def test_a_checkpoint_ends_no_transaction_of_a_group(tmp_path: Path) -> None:
    home = copy_of("v17-rep-uncommitted-before/node1", tmp_path / "env")
    files = log_bytes(home)
    with pytest.raises(RefusedError, match="those of a group end when the node joins it"):
        erase(home)
    assert log_bytes(home) == files


def test_trees_of_databases_without_a_name_are_needed(tmp_path: Path) -> None:
    """The engine keeps such a database until its removal has ended."""
    log = TreeLog()
    secret = old(log, "old")
    used(log, "db")
    live = used(log, "nameless", db=7)
    log.named.pop()
    log.checkpoint()
    home = log.write(tmp_path / "env")
    database = snapshot_of(home).databases[7]
    assert database.name is None
    erase(home, JUST_ERASE)
    after = snapshot_of(home)
    assert records_of(after, after.databases[7]) == [(b"key", live)]
    assert secret not in bytes_of(home)
    assert codes_of(snapshot_of(home)) == []


@pytest.mark.parametrize("is_changed", [True, False])
def test_entries_of_an_order_that_is_not_known_stay(is_changed: bool, tmp_path: Path) -> None:
    """Only if recovery changes the database: then it is not known which slot a change replaces."""
    log = TreeLog()
    foreign, plain = old(log, "foreign", db=7), old(log, "plain")
    used(log, "db")
    used(log, "foreign", db=7, btree_comparator=b"example.Class")
    start = begin_checkpoint(log)
    log.ln(b"new", b"1", db=7 if is_changed else 6)
    end_checkpoint(log, start)
    home = log.write(tmp_path / "env")
    result = erase(home, JUST_ERASE)
    kept = result.plan.totals.counts[NUMBER_OF[KeepReason.COMPARATOR]]
    assert bool(kept) is is_changed
    data = bytes_of(home)
    assert [each in data for each in (foreign, plain)] == [is_changed, False]


def test_only_files_that_are_old_enough_are_erased_in_a_cycle(tmp_path: Path) -> None:
    """A file counts by its creation; one that is exactly as old as the period is old enough."""
    hour, now_ms = 3_600_000, CREATED_MS + 1_000 * 3_600_000
    log = TreeLog([LogFile(0, 17, 0, now_ms - 3 * hour)])
    secrets = [old(log, "file0")]
    for no, created_ms in ((1, now_ms - 2 * hour), (2, now_ms - 2 * hour + 1), (3, now_ms - hour)):
        log.files.append(LogFile(no, 17, log.file.last, created_ms))
        secrets.append(old(log, f"file{no}"))
    log.next_file()
    live = used(log, "db")
    log.checkpoint()
    home = log.write(tmp_path / "env")
    options = ErasureOptions(period_ms=2 * hour)
    result = run_erasure(home, Scanner(threads=1), options, now_ms)
    assert result.plan.cycle is not None
    assert result.plan.cycle.state.pending == (0, 1)
    kept = [each.kept for each in result.plan.files]
    assert kept == [None, None, *[KeepReason.YOUNG] * 3]
    data = bytes_of(home)
    assert [each in data for each in secrets] == [False, False, True, True]
    assert live in data


@pytest.mark.parametrize("is_marked", [True, False])
def test_a_node_is_erased_after_a_checkpoint_that_says_so(is_marked: bool, tmp_path: Path) -> None:
    """Without the flag of its last checkpoint, a node would roll its log back to erased nodes."""
    log = TreeLog()
    secret = old(log, "old")
    used(log, "db")
    flags = CkptEndFlag.ROOT_PRESENT | (CkptEndFlag.CLEANED_FILES_GO if is_marked else 0)
    end_checkpoint(log, begin_checkpoint(log), tree_flags=5, flags=flags)
    home = log.write(tmp_path / "env")
    assert plan_erasure(snapshot_of(home), JUST_ERASE).needs_checkpoint is not is_marked
    result = erase(home, JUST_ERASE)
    assert (result.checkpoint is None) is is_marked
    assert int(snapshot_of(home).checkpoint.fields["flags"]) & CkptEndFlag.CLEANED_FILES_GO
    assert secret not in bytes_of(home)
