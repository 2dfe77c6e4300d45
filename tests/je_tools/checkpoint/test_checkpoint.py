"""A checkpoint changes no record, leaves nothing to recover, and is undone byte for byte."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from je_tools.btree.check.findings import open_trees, tree_findings
from je_tools.checkpoint.apply import apply_checkpoint, apply_to_copy
from je_tools.checkpoint.new_databases import with_internal_databases
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.checkpoint.pending_work import is_needed
from je_tools.checkpoint.truncation import group_refusal
from je_tools.errors import InputError, RefusedError
from je_tools.findings import Severity
from je_tools.formats.je.flags import HeaderFlag
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.findings import snapshot_findings
from je_tools.recovery.opening import take_snapshot
from je_tools.recovery.snapshot import Snapshot
from je_tools.writing.disk import Disk
from je_tools.writing.undo import list_undos
from tests.builders.power_cuts import KilledError, Recorder
from tests.builders.trees import DUPLICATES, TreeLog, slot
from tests.corpus import FIXTURES, Environment
from tests.je_tools.corpus_snapshots import newest_ms
from tests.je_tools.snapshots import records_of
from tests.je_tools.writing.operations import put_back

CRASHED = FIXTURES / "v17-crash-txn" / "env"
SEVERAL = FIXTURES / "v17-erase-after" / "env"
EARLIER = CheckpointOptions(cuts=True, to_lsn=0xA0000)
OLDEST_WRITTEN = 8
FILE_MAX = 60_000
Content = dict[str, list[tuple[bytes, bytes]]]


def copied(home: Path, folder: Path) -> Path:
    """Copy an environment's log and make it writable."""
    target = folder / "env"
    shutil.copytree(home, target)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def hashes(home: Path) -> dict[str, str]:
    """Return the SHA-256 digest of each log file, by name."""
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in home.glob("*.jdb")}


def snapshot_of(home: Path, now_ms: int) -> Snapshot:
    """Take a snapshot, as a member of a group if the environment is one."""
    scanner = Scanner(threads=1)
    return take_snapshot(open_environment([home]), scanner, now_ms=now_ms, as_member=True)


def content_of(snapshot: Snapshot) -> Content:
    """Return the records of all application databases, by name."""
    return {
        each.name: records_of(snapshot, each)
        for each in snapshot.databases.values()
        if each.name is not None and not each.is_internal
    }


def test_of_every_log(some_environment: Environment, tmp_path: Path) -> None:
    now_ms = newest_ms(some_environment.home)
    before = snapshot_of(some_environment.home, now_ms)
    content = content_of(before)
    opened = open_environment([some_environment.home])
    orders = CheckpointOptions(cuts=True, file_max=FILE_MAX)
    target = tmp_path / "copy"
    is_too_old = before.end.files[-1].version < OLDEST_WRITTEN
    if before.refusals or (is_too_old and is_needed(before)):
        with pytest.raises((RefusedError, InputError)):
            apply_to_copy(opened, target, Scanner(threads=1), orders, now_ms)
        assert not target.exists()
        return
    _, outcome = apply_to_copy(opened, target, Scanner(threads=1), orders, now_ms)
    after = snapshot_of(target, now_ms)
    assert content_of(after) == content
    assert not is_needed(after)
    assert not after.faults.damage
    if outcome.checkpoint is not None:
        assert after.checkpoint.end_lsn == after.end.last_lsn == outcome.checkpoint.end_lsn
    scanner = Scanner(threads=1)
    found = tree_findings(
        after.environment, scanner, lambda: open_trees(after.environment, scanner, now_ms)
    )
    known = {each.code for each in found if each.severity is Severity.ERROR}
    assert not known


def test_twice_and_back(tmp_path: Path) -> None:
    home = copied(CRASHED, tmp_path)
    scanner = Scanner(threads=1)
    before = hashes(home)
    _, outcome = apply_checkpoint(home, scanner, CheckpointOptions(file_max=FILE_MAX), 0)
    assert outcome.checkpoint is not None
    written = hashes(home)
    assert written != before
    _, again = apply_checkpoint(home, scanner, CheckpointOptions(file_max=FILE_MAX), 0)
    assert again.checkpoint is None
    assert again.journal_no is None
    assert hashes(home) == written
    (undo,) = list_undos(home)
    undo.apply(Disk())
    assert hashes(home) == before


def test_threads_write_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("je_tools.log.scan_options.ONE_THREAD_MAX", 0)
    sizes = []
    for threads in (1, 4):
        home = copied(CRASHED, tmp_path / str(threads))
        apply_checkpoint(home, Scanner(threads=threads), CheckpointOptions(), 0)
        sizes.append((home / "00000000.jdb").stat().st_size)
    assert sizes[0] == sizes[1]


def test_a_comparator_of_the_application(tmp_path: Path) -> None:
    """Only the application knows the order of the keys; an unchanged database is accepted."""
    log = TreeLog()
    root = log.tree([slot(b"key", log.ln(b"key", b"data"))])
    log.database(b"db", root, btree_comparator=b"\xac\xed\x00\x05t\x00\x01C")
    log.checkpoint()
    home = log.write(tmp_path / "resting")
    _, outcome = apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(), 0)
    assert outcome.checkpoint is not None
    log.ln(b"key", b"changed")
    home = log.write(tmp_path / "changed")
    before = hashes(home)
    with pytest.raises(RefusedError, match="comparator"):
        apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(), 0)
    assert hashes(home) == before


@pytest.mark.parametrize("name", ["", "Commit", "Abort"])
def test_what_a_transaction_manager_decides_is_left_to_it(name: str, tmp_path: Path) -> None:
    """The engine keeps prepared transactions locked and asks about them at each open."""
    log = TreeLog()
    old = log.ln(b"key", b"data")
    log.database(b"db", log.tree([slot(b"key", old)]))
    log.checkpoint()
    log.ln(b"key", b"in doubt", txn=7, abort_lsn=old)
    xid = {"format_id": 1, "global_txn_id": b"g", "branch_qualifier": b"b"}
    log.put("Prepare", {"txn_id": 7, "time_ms": 0, **xid})
    if name:
        log.end(7, name=name)
    home = log.write(tmp_path / "env")
    before = hashes(home)
    told = [each.code for each in snapshot_findings(snapshot_of(home, 0))]
    assert told == ([] if name else ["transaction-in-doubt"])
    if name:
        assert (
            apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(), 0)[1].checkpoint
            is not None
        )
        return
    with pytest.raises(RefusedError, match=r"transactions are prepared \(XA\), .*: 7\. "):
        apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(), 0)
    assert hashes(home) == before


def test_a_cut_to_before_an_environment_became_a_member(tmp_path: Path) -> None:
    """The removed entries belong to the group, even if the rest of the log knows no group."""
    log = TreeLog()
    log.database(b"db", log.tree([slot(b"key", log.ln(b"key", b"data"))]))
    log.checkpoint()
    last = log.ln(b"key", b"own")
    log.ln(
        b"key",
        b"of the group",
        txn=-1,
        vlsn=1,
        entry_flags=HeaderFlag.REPLICATED | HeaderFlag.VLSN_PRESENT,
    )
    log.end(-1, flags=0)
    home = log.write(tmp_path / "env")
    environment, scanner = open_environment([home]), Scanner(threads=1)

    def refusal(to_lsn: int) -> str | None:
        return group_refusal(take_snapshot(environment, scanner, now_ms=0, to_lsn=to_lsn))

    assert "member of a replication group" in (refusal(last) or "")
    assert refusal(snapshot_of(home, 0).end.last_lsn) is None


@pytest.mark.parametrize("is_marked", [True, False])
def test_nothing_is_appended_to_a_file_of_a_backup(is_marked: bool, tmp_path: Path) -> None:
    """The next backup copies only later files, and the last file may be a hard link."""
    log = TreeLog()
    log.database(b"db", log.tree([slot(b"key", log.ln(b"key", b"data"))]))
    log.checkpoint()
    log.ln(b"key", b"more")
    if is_marked:
        log.put("ImmutableFile", {"mark": 0})
    home = log.write(tmp_path / "env")
    if not is_marked:
        (home / "je.properties").write_text("je.env.recoveryForceNewFile = true\n")
    os.link(home / "00000000.jdb", tmp_path / "backup.jdb")
    before = hashes(home)
    _, outcome = apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(), 0)
    assert outcome.checkpoint is not None
    assert outcome.checkpoint.start_lsn == (1 << 32) + 38
    after = hashes(home)
    assert sorted(after) == ["00000000.jdb", "00000001.jdb"]
    assert after["00000000.jdb"] == before["00000000.jdb"]


def _name_in_capitals(home: Path) -> None:
    last = max(home.glob("*.jdb"))
    last.rename(last.with_suffix(".JDB"))


def _one_data_directory(home: Path) -> None:
    (home / "data001").mkdir()


def _three_are_asked_for(home: Path) -> None:
    (home / "je.properties").write_text("je.log.nDataDirectories=3")


@pytest.mark.parametrize("change", [_name_in_capitals, _one_data_directory, _three_are_asked_for])
def test_files_that_the_engine_does_not_look_for_so(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    """JE 18.3.12 was seen to refuse each of them."""
    home = copied(FIXTURES / "v8-cleaned" / "env", tmp_path)
    orders, scanner = CheckpointOptions(cuts=True), Scanner(threads=1)
    apply_checkpoint(home, scanner, orders, 0)
    change(home)
    files = [path.name for path in home.iterdir()]
    with pytest.raises(RefusedError, match="engine"):
        apply_checkpoint(home, scanner, orders, 0)
    assert sorted(files) == sorted(path.name for path in home.iterdir())


def test_a_backup_by_hard_links_is_not_changed(tmp_path: Path) -> None:
    home = copied(CRASHED, tmp_path)
    backup = tmp_path / "backup.jdb"
    os.link(home / "00000000.jdb", backup)
    before = backup.read_bytes()
    with pytest.raises(RefusedError, match="has another hard link"):
        apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(), 0)
    assert backup.read_bytes() == before
    assert not list(home.glob(".je-tools*"))


def test_links_are_not_taken_out_of_a_log_that_is_cut_back(tmp_path: Path) -> None:
    """Moved links would lead nowhere; the refusal comes before the first change."""
    home = copied(SEVERAL, tmp_path)
    last = home / "00000002.jdb"
    last.rename(tmp_path / last.name)
    last.symlink_to(f"../{last.name}")
    before = hashes(home)
    with pytest.raises(
        RefusedError,
        match=r"00000002\.jdb: expected a regular file, found a symbolic link.*--output DIR",
    ):
        apply_checkpoint(home, Scanner(threads=1), EARLIER, 0)
    assert hashes(home) == before
    assert not list(home.glob(".je-tools*"))


def test_a_log_that_was_cut_back_in_part_gets_no_checkpoint(tmp_path: Path) -> None:
    """Such a log ends somewhere after the planned end, so removed files must be restored first."""
    home = copied(SEVERAL, tmp_path)
    before = hashes(home)
    disk = Recorder()
    apply_checkpoint(copied(SEVERAL, tmp_path / "whole"), Scanner(threads=1), EARLIER, 0, disk=disk)
    moves = [at for at, call in enumerate(disk.calls) if call.name == "rename"]
    with pytest.raises(KilledError):
        apply_checkpoint(home, Scanner(threads=1), EARLIER, 0, disk=Recorder(moves[-1]))
    left = hashes(home)
    assert 0 < len(left) < len(before)
    for orders in (CheckpointOptions(), CheckpointOptions(cuts=True), EARLIER):
        with pytest.raises(
            RefusedError, match=r"the recovery of undo 1 was interrupted.*first run"
        ):
            apply_checkpoint(home, Scanner(threads=1), orders, 0)
        assert hashes(home) == left
        with pytest.raises(RefusedError, match=r"the recovery of undo 1 was interrupted"):
            apply_to_copy(
                open_environment([home]), tmp_path / "copy", Scanner(threads=1), orders, 0
            )
    put_back(home)
    assert hashes(home) == before
    apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(cuts=True), 0)


def test_an_emptied_database_keeps_a_key_of_two_parts(tmp_path: Path) -> None:
    """The engine compares it with new keys, and cannot compare a key that lacks the two parts."""
    log = TreeLog()
    both = b"kd\x01"
    root = log.tree([slot(both, log.ln(both, b""))])
    log.database(b"dup", root, db_flags=DUPLICATES)
    log.checkpoint()
    log.ln(both, None)
    home = log.write(tmp_path / "env")
    apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(), 0)
    after = snapshot_of(home, 0)
    (database,) = (each for each in after.databases.values() if each.name == "dup")
    assert content_of(after) == {"dup": []}
    top = after.tree(database).read(after.tree(database).root())
    (key,) = (top.nodes.slots.key[row] for row in range(len(top.nodes.slots)))
    assert key == both


@pytest.mark.parametrize(("free", "fits"), [(9_000, False), (40_000, True)])
def test_room_for_all_of_it(
    free: int, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if the beginning is written before the end is known."""
    home = copied(CRASHED, tmp_path)
    before = hashes(home)
    told = os.statvfs_result((4096, 1, 0, 0, free, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: told)
    monkeypatch.setattr("je_tools.checkpoint.deferred_writes._DEFERRED_MAX", 1000)
    orders = CheckpointOptions(file_max=5_000)
    if fits:
        _, outcome = apply_checkpoint(home, Scanner(threads=1), orders, newest_ms(CRASHED))
        assert outcome.checkpoint is not None
        assert 9_000 < outcome.checkpoint.size < 40_000
        return
    with pytest.raises(RefusedError, match=r"9,000 bytes are free, but up to 1\d,\d{3} are needed"):
        apply_checkpoint(home, Scanner(threads=1), orders, newest_ms(CRASHED))
    assert hashes(home) == before
    assert not list(home.glob(".je-tools*"))


def test_databases_that_are_made_have_ids_that_nobody_had(tmp_path: Path) -> None:
    """The root of the databases does not know all assigned ids; later entries do."""
    log = TreeLog()
    log.database(b"db", log.tree([slot(b"k", log.ln(b"k", b"v"))]))
    start = log.checkpoint(ends=False)
    root = log.db_tree(log.tree(log.mapped, db=0), log.tree(log.named, db=1))
    log.ckpt_end(start, root, last_local_db_id=30)
    ids = {
        each.db_id for each in with_internal_databases(snapshot_of(log.write(tmp_path / "a"), 0))[1]
    }
    assert min(ids) == 31
    log.ln(b"k", b"of a database that is gone", db=40)
    ids = {
        each.db_id for each in with_internal_databases(snapshot_of(log.write(tmp_path / "b"), 0))[1]
    }
    assert min(ids) == 41


@pytest.mark.parametrize(("name", "size"), [("v17-basic", 600), ("v26-basic", 1500)])
def test_databases_that_a_creation_cut_short_lacks(name: str, size: int, tmp_path: Path) -> None:
    """A checkpoint of a log cut within its first entries creates the databases the engine would."""
    home = copied(FIXTURES / name / "env", tmp_path / "whole")
    own = {each.name: each.db_id for each in snapshot_of(home, 0).databases.values()}
    file = home / "00000000.jdb"
    file.write_bytes(file.read_bytes()[:size])
    before = {each.name for each in snapshot_of(home, 0).databases.values()}
    copy, scanner = tmp_path / "copy", Scanner(threads=1)
    apply_to_copy(open_environment([home]), copy, scanner, CheckpointOptions(cuts=True), 0)
    made = {each.name: each.db_id for each in snapshot_of(copy, 0).databases.values()}
    assert made.keys() > before - {None}
    assert made.keys() == {each for each in own if (each or "").startswith("_je")}
    assert made.get("_jeBeforeImagesDb") == own.get("_jeBeforeImagesDb")
