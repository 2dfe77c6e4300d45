"""Entries copied to the end of a log make backward passes skip others."""

from __future__ import annotations

from pathlib import Path

from je_tools.recovery.end import Refusal
from je_tools.recovery.findings import snapshot_findings
from je_tools.recovery.interval_tables import SKIPPED
from je_tools.recovery.plan import plan_recovery
from je_tools.recovery.snapshot import Snapshot
from tests.builders.logs import TRACE, entry
from tests.builders.trees import TreeLog, slot
from tests.je_tools.dumped import je_tools
from tests.je_tools.snapshots import codes_of, contents_of, snapshot_of

BIN_ID = 101
"""Id of the first node that the builder makes: the BIN of the database's records."""

OLD = [(b"a", b"1"), (b"b", b"1")]


def log_with(*, files: int = 2) -> TreeLog:
    """Build a log with a database of two records in the last of some files."""
    log = TreeLog()
    for _ in range(files - 1):
        log.next_file()
    slots = [slot(key, log.ln(key, data)) for key, data in OLD]
    log.database(b"db", log.tree(slots))
    log.checkpoint()
    return log


def copy_of(log: TreeLog, lsn: int) -> None:
    """Copy an entry of the last file unchanged to the end of that file."""
    file = log.file
    place = next(each for each in file.placed if each.start == lsn & 0xFFFFFFFF)
    file._append(bytes(file.data[place.start : place.stop]))


def seen(log: TreeLog, folder: Path) -> Snapshot:
    snapshot = snapshot_of(log.write(folder / "env"))
    plan_recovery(snapshot)
    return snapshot


def test_a_commit_that_is_jumped_over_does_not_count(tmp_path: Path) -> None:
    log = log_with()
    trace = log.file.trace(20).start
    log.ln(b"a", b"2", txn=5)
    log.end(5)
    log.ln(b"b", b"2", txn=6)
    copy_of(log, trace)
    snapshot = seen(log, tmp_path)
    assert contents_of(snapshot)["db"] == OLD
    assert codes_of(snapshot) == ["backward-jump"]
    (finding,) = snapshot_findings(snapshot)
    assert finding.found == "1 Commits and 2 LNs that the backward passes jump over"
    assert snapshot.interval.skipped_ends.txn_id.tolist() == [5]
    assert snapshot.refusals == ()


def test_an_ln_that_is_jumped_over_is_not_undone(tmp_path: Path) -> None:
    """The engine keeps what a node holds, although the transaction that wrote it never ended."""
    for is_jumped in (False, True):
        log = log_with()
        trace = log.file.trace(20).start
        new = log.ln(b"a", b"2", txn=5)
        log.node([slot(b"a", new)], node_id=BIN_ID)
        if is_jumped:
            copy_of(log, trace)
        snapshot = seen(log, tmp_path / str(is_jumped))
        assert bool((snapshot.interval.lns.flags & SKIPPED).any()) == is_jumped
        assert contents_of(snapshot)["db"] == ([(b"a", b"2")] if is_jumped else [])


def test_what_is_copied_counts_going_forward(tmp_path: Path) -> None:
    """A copied Commit commits again, and a copied record outside transactions is redone."""
    log = log_with()
    before = log.file.last
    log.ln(b"a", b"2")
    log.ln(b"a", b"3")
    first = next(p for p in log.file.placed if p.start > before)
    copy_of(log, first.start)
    snapshot = seen(log, tmp_path)
    assert contents_of(snapshot)["db"] == [(b"a", b"2"), (b"b", b"1")]
    assert codes_of(snapshot) == ["backward-jump"]


def test_a_jump_to_the_file_before(tmp_path: Path) -> None:
    """The first entry of a file names offset 0, which leads to the previous file."""
    log = log_with()
    first = log.file.placed[1].start
    log.ln(b"a", b"2", txn=5)
    log.end(5)
    copy_of(log, first)
    snapshot = seen(log, tmp_path)
    assert contents_of(snapshot)["db"] == OLD
    assert codes_of(snapshot) == ["backward-jump"]


def test_a_name_that_leads_nowhere(tmp_path: Path) -> None:
    for name in ("inside", "ahead"):
        log = log_with()
        written = log.ln(b"a", b"2", txn=5) & 0xFFFFFFFF
        prev = written + 3 if name == "inside" else 1 << 20
        log.end(5)
        log.file._append(entry(TRACE, bytes(20), prev))
        home = log.write(tmp_path / name)
        snapshot = snapshot_of(home)
        assert snapshot.refusals == (Refusal.BROKEN_CHAIN,)
        assert contents_of(snapshot)["db"] == [(b"a", b"2"), (b"b", b"1")]
        done = je_tools("recover", home)
        assert (done.code, b"broken-chain" in done.out) == (3, True)
        assert je_tools("recover", home, "--apply").code == 6


def test_an_engine_that_checks_the_chain_beforehand(tmp_path: Path) -> None:
    """In the last file JE 18.3 does so only if it is also the first file."""
    for files, refusals in ((1, (Refusal.BROKEN_CHAIN,)), (2, ())):
        log = log_with(files=files)
        trace = log.file.trace(20).start
        log.ln(b"a", b"2", txn=5)
        log.end(5)
        copy_of(log, trace)
        assert seen(log, tmp_path / str(files)).refusals == refusals


def test_a_break_before_the_interval(tmp_path: Path) -> None:
    """JE 18.3 checks whole files, but the last one only if its number is 0."""
    for files, refusals in ((1, (Refusal.BROKEN_CHAIN,)), (2, ())):
        log = TreeLog()
        for _ in range(files - 1):
            log.next_file()
        copy_of(log, log.file.trace(20).start)
        slots = [slot(key, log.ln(key, data)) for key, data in OLD]
        log.database(b"db", log.tree(slots))
        log.checkpoint()
        log.ln(b"a", b"2")
        snapshot = seen(log, tmp_path / str(files))
        assert contents_of(snapshot)["db"] == [(b"a", b"2"), (b"b", b"1")]
        assert snapshot.refusals == refusals


def test_a_break_in_a_file_before_the_last(tmp_path: Path) -> None:
    """The file of the first active entry is checked as a whole, files before it not at all."""
    for is_active, refusals in ((True, (Refusal.BROKEN_CHAIN,)), (False, ())):
        log = TreeLog()
        copy_of(log, log.file.trace(20).start)
        if not is_active:
            log.next_file()
        slots = [slot(key, log.ln(key, data)) for key, data in OLD]
        log.database(b"db", log.tree(slots))
        log.checkpoint()
        log.next_file()
        log.ln(b"a", b"2")
        assert seen(log, tmp_path / str(is_active)).refusals == refusals


def test_the_entry_that_is_jumped_to_counts(tmp_path: Path) -> None:
    log = log_with()
    log.ln(b"a", b"2", txn=5)
    commit = log.end(5) & 0xFFFFFFFF
    log.ln(b"b", b"2", txn=6)
    log.end(6)
    log.file._append(entry(TRACE, bytes(20), commit))
    snapshot = seen(log, tmp_path)
    assert contents_of(snapshot)["db"] == [(b"a", b"2"), (b"b", b"1")]
    assert codes_of(snapshot) == ["backward-jump"]
