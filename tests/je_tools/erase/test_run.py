"""An erasure overwrites what nothing needs, and nothing else."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from je_tools.checkpoint.apply import apply_checkpoint
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.erase.completion import complete_erasure, find_marked
from je_tools.erase.control_files import ErasureControl
from je_tools.erase.options import BATCH_MAX, ErasureOptions
from je_tools.erase.plan import ErasurePlan, plan_erasure
from je_tools.erase.preconditions import ErasureObstacle, ObstacleKind, obstacles
from je_tools.erase.results import ErasureHooks
from je_tools.errors import RefusedError
from je_tools.formats.je.entry.entries import decode_entry
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.interval_tables import LoggedNodes
from je_tools.recovery.utilization import reserved_files
from je_tools.vlsn.recovered_index import read_index
from je_tools.writing.disk import Disk
from tests.builders.power_cuts import Call, Recorder
from tests.corpus import Environment, environments, marked_if_another
from tests.je_tools.erase.erasing import changed_entries, copy_of, erase, log_bytes, marked_copy
from tests.je_tools.snapshots import NOW_MS, codes_of, contents_of, snapshot_of
from tests.truth.headers import ERASED, NAMES, walk_bytes, walk_log

JUST_ERASE = ErasureOptions()


def erasable() -> list[Any]:
    """Return the environments whose engines know erased entries."""
    return [
        pytest.param(each, id=each.name, marks=marked_if_another(each))
        for each in environments()
        if each.name.startswith(("v17", "v26", "starrocks"))
    ]


def obstacles_of(home: Path) -> tuple[ErasureObstacle, ...]:
    """Return the reasons not to erase anything."""
    return plan_erasure(snapshot_of(home), JUST_ERASE).obstacles


@pytest.mark.parametrize("environment", erasable())
def test_only_types_and_bytes_of_entries_change(environment: Environment, tmp_path: Path) -> None:
    home = tmp_path / "env"
    home.mkdir()
    for path in environment.home.glob("*.jdb"):
        shutil.copyfile(path, home / path.name)
    before = contents_of(snapshot_of(home))
    if obstacles_of(home):
        with pytest.raises(RefusedError, match="nothing can be erased"):
            erase(home, JUST_ERASE)
        assert log_bytes(home) == log_bytes(environment.home)
        return
    reserved = {f"{no:08x}.jdb" for no in reserved_files(snapshot_of(home))}
    result = erase(home, JUST_ERASE)
    state, found = log_bytes(home), log_bytes(environment.home)
    # Reserved files are deleted, and only a checkpoint begins others or appends to the last one.
    assert found.keys() - state.keys() == {file.path.name for file in result.deleted} <= reserved
    last = max(found)
    added = [name for name in state if name not in found or len(state[name]) > len(found[name])]
    assert all(name >= last for name in added)
    assert bool(added) is (result.checkpoint is not None)
    old = {
        name: found.get(name, b"") + data[len(found.get(name, b"")) :]
        for name, data in state.items()
    }
    erased = changed_entries(old, state)
    assert len(erased) == result.counts.entry_count
    assert contents_of(snapshot_of(home)) == before
    again = erase(home, JUST_ERASE)
    assert again.checkpoint is None
    assert again.counts.entry_count == 0
    assert log_bytes(home) == state


def test_the_number_of_fsyncs_is_that_of_the_engine(tmp_path: Path) -> None:
    home = copy_of("v17-erase-after", tmp_path / "env")
    disk = Recorder()
    result = erase(home, disk=disk)
    assert result.plan.fsync_count == result.counts.fsync_count
    per_file = [each.totals.erase_count for each in result.plan.files]
    assert result.counts.fsync_count == sum(1 + 2 * -(-n // BATCH_MAX) for n in per_file if n)
    # The log is made durable before the first byte of an entry changes.
    names = [call.name for call in disk.calls]
    assert set(names[: names.index("write")]) == {"create", "sync", "sync_folder"}


def test_no_byte_is_zeroed_before_its_type_is_durable(tmp_path: Path) -> None:
    home = copy_of("v26-dbops", tmp_path / "env")
    old = log_bytes(home)
    disk = Recorder()
    erase(home, disk=disk)
    erased = changed_entries(old, log_bytes(home))
    first = old["00000000.jdb"]
    now, durable = bytearray(first), first
    zeroed = 0
    for call in disk.calls:
        if call.path != home / "00000000.jdb":
            continue
        if call.name == "sync":
            durable = bytes(now)
        elif call.name == "write":
            offset, data = call.value
            now[offset : offset + len(data)] = data
            for entry in erased:
                start = entry.lsn & 0xFFFFFFFF
                item = slice(start + entry.header_size, start + entry.size)
                if now[item] != first[item]:
                    assert durable[start + 4] == ERASED
                    zeroed += 1
    assert zeroed >= len(erased) > 100


def test_what_the_engine_erased_is_erased(tmp_path: Path) -> None:
    """All of it; the engine of version 17 erases much less."""
    homes = {each.name: each.home for each in environments()}
    for before in [name for name in homes if name.endswith("-erase-before")]:
        home = copy_of(before, tmp_path / before)
        old = log_bytes(home)
        erase(home)
        ours = {entry.lsn for entry in changed_entries(old, log_bytes(home))}
        after = homes[before.replace("before", "after")]
        theirs = {entry.lsn for entry in walk_log(after) if entry.type_no == ERASED}
        assert len(theirs) > 3000
        assert theirs <= ours


def test_a_stopped_erasure_goes_on(tmp_path: Path) -> None:
    home = copy_of("v17-erase-after", tmp_path / "env")
    whole = copy_of("v17-erase-after", tmp_path / "whole")
    erase(whole)
    batches: list[int] = []
    hooks = ErasureHooks(
        should_stop=lambda: len(batches) >= 2,
        on_batch=lambda _file, batch: batches.append(len(batch)),
    )
    first = erase(home, hooks=hooks)
    assert first.pending
    assert first.left is None
    assert codes_of(snapshot_of(home)) == []
    rest = erase(home)
    assert not rest.pending
    assert first.counts.entry_count + rest.counts.entry_count == sum(
        each.totals.erase_count for each in first.plan.files
    )
    assert log_bytes(home) == log_bytes(whole)


def test_a_protected_file_stays(tmp_path: Path) -> None:
    home = copy_of("v17-erase-after", tmp_path / "env")
    old = log_bytes(home)
    result = erase(home, hooks=ErasureHooks(is_protected=lambda file: file.file_no == 1))
    assert [file.file_no for file in result.protected] == [1]
    assert log_bytes(home)["00000001.jdb"] == old["00000001.jdb"]
    assert log_bytes(home)["00000000.jdb"] != old["00000000.jdb"]


def test_a_hard_linked_file_stays(tmp_path: Path) -> None:
    home = copy_of("v17-erase-after", tmp_path / "env")
    (tmp_path / "backup").hardlink_to(home / "00000000.jdb")
    old = log_bytes(home)
    erase(home)
    assert log_bytes(home)["00000000.jdb"] == old["00000000.jdb"]
    assert log_bytes(home)["00000001.jdb"] != old["00000001.jdb"]


@pytest.mark.parametrize("name", ["v17-erase-after", "v8-cleaned"])
def test_a_backup_of_hard_links_made_meanwhile_stays(name: str, tmp_path: Path) -> None:
    home = copy_of(name, tmp_path / "env")
    backup = tmp_path / "backup"

    def back_up(plan: ErasurePlan) -> None:
        backup.mkdir()
        for each in plan.files:
            (backup / each.file.path.name).hardlink_to(each.file.path)
        kept.update(log_bytes(backup))

    kept: dict[str, bytes] = {}
    result = erase(home, hooks=ErasureHooks(on_plan=back_up))
    assert result.shared
    assert not result.erased
    assert log_bytes(backup) == kept


def test_types_are_durable_before_zeros_after_an_fsync_that_failed(tmp_path: Path) -> None:
    """The system drops what it could not write, and still shows it to readers."""
    name = "00000000.jdb"
    recorder = Recorder()
    whole = copy_of("v17-erase-after", tmp_path / "whole")
    old = log_bytes(whole)
    erase(whole, disk=recorder)
    entries = changed_entries(old, log_bytes(whole))
    home = copy_of("v17-erase-after", tmp_path / "env")
    with pytest.raises(RefusedError, match="Input/output error"):
        erase(home, disk=Recorder(fail_at=second_sync(recorder.calls, name), error=errno.EIO))
    second = Recorder()
    assert complete_erasure(home, Scanner(threads=1), disk=second).entry_count
    durable = replayed(old[name], second.calls[: second_sync(second.calls, name)], name)
    marked = [entry.lsn + 4 for entry in entries if entry.lsn >> 32 == 0][:BATCH_MAX]
    assert {durable[each] for each in marked if durable[each] != old[name][each]} == {ERASED}
    assert all(durable[each] == ERASED for each in marked)


def test_zeros_that_an_fsync_did_not_write_are_written_again(tmp_path: Path) -> None:
    name = "00000000.jdb"
    recorder = Recorder()
    whole = copy_of("v17-erase-after", tmp_path / "whole")
    old = log_bytes(whole)
    erase(whole, disk=recorder)
    entries = [each for each in changed_entries(old, log_bytes(whole)) if each.lsn >> 32 == 0]
    home = copy_of("v17-erase-after", tmp_path / "env")
    third = second_sync(recorder.calls, name) + 1
    third += next(i for i, call in enumerate(recorder.calls[third:]) if call.name == "sync")
    disk = Recorder(fail_at=third, error=errno.EIO)

    def fail() -> None:
        with ErasureControl(home, Disk()) as control:
            erase(home, hooks=ErasureHooks(is_protected=control.is_protected), disk=disk)

    with pytest.raises(RefusedError, match="Input/output error"):
        fail()
    marked = find_marked(open_environment([home]), Scanner(threads=1))
    assert marked.entry_count >= sum(each.item_size > 0 for each in entries[:BATCH_MAX])
    second = Recorder()
    complete_erasure(home, Scanner(threads=1), disk=second)
    durable = replayed(old[name], second.calls, name)
    expected = log_bytes(whole)[name]
    for each in entries[:BATCH_MAX]:
        assert durable[each.lsn : each.lsn + each.size] == expected[each.lsn : each.lsn + each.size]
    assert find_marked(open_environment([home]), Scanner(threads=1)).entry_count == 0


def replayed(data: bytes, calls: Iterable[Call], name: str) -> bytes:
    """Return the bytes of a file after the recorded writes to it."""
    changed = bytearray(data)
    for call in calls:
        if call.name == "write" and call.path.name == name:
            offset, written = call.value
            changed[offset : offset + len(written)] = written
    return bytes(changed)


def second_sync(calls: list[Call], name: str) -> int:
    """Return the index of the second fsync of a file since its first byte was written again."""
    start = next(
        i
        for i, call in enumerate(calls)
        if call.name == "write" and call.path.name == name and call.value[0] == 0
    )
    syncs = [i for i, call in enumerate(calls) if call.name == "sync" and call.path.name == name]
    return [i for i in syncs if i > start][1]


def test_an_interrupted_erasure_is_completed(tmp_path: Path) -> None:
    home, entries, whole = marked_copy(tmp_path)
    found = complete_erasure(home, Scanner(threads=1))
    assert found.entry_count == sum(entry.item_size > 0 for entry in entries)
    assert log_bytes(home) == whole
    assert complete_erasure(home, Scanner(threads=1)).entry_count == 0


def test_a_checkpoint_that_leaves_upper_nodes_does_not_do(tmp_path: Path) -> None:
    snapshot = snapshot_of(copy_of("v17-basic", tmp_path / "env"))
    assert not plan_erasure(snapshot, JUST_ERASE).obstacles
    one = np.ones(1, np.int64)
    left = LoggedNodes(one, one, one, one, one, 2 * one, is_root=one < 1, is_old_delta=one < 1)
    snapshot = replace(snapshot, interval=replace(snapshot.interval, nodes=left))
    (found,) = obstacles(snapshot, 0)
    assert found.kind is ObstacleKind.REPLAYED_NODES
    assert found.is_mended_by_checkpoint


def test_a_log_without_a_checkpoint_at_its_end_is_refused(tmp_path: Path) -> None:
    home = copy_of("v17-crash-txn", tmp_path / "env")
    old = log_bytes(home)
    with pytest.raises(RefusedError, match=r"does not end with a checkpoint.*--checkpoint-first"):
        erase(home, JUST_ERASE)
    assert log_bytes(home) == old
    before = contents_of(snapshot_of(home))
    result = erase(home)
    assert result.checkpoint is not None
    assert result.counts.entry_count > 400
    assert contents_of(snapshot_of(home)) == before
    assert not (home / ".je-tools-undo").exists()


def test_a_damaged_log_is_refused(tmp_path: Path) -> None:
    home = copy_of("v17-erase-after", tmp_path / "env")
    path = home / "00000000.jdb"
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    old = log_bytes(home)
    with pytest.raises(RefusedError, match="damaged"):
        erase(home)
    assert log_bytes(home) == old


def test_a_log_with_an_undo_journal_is_refused(tmp_path: Path) -> None:
    home = copy_of("v17-crash-txn", tmp_path / "env")
    apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(), NOW_MS)
    old = log_bytes(home)
    with pytest.raises(RefusedError, match=r"undo journal 1 holds bytes.*--drop all"):
        erase(home)
    assert log_bytes(home) == old


def test_the_head_of_the_vlsn_index_is_given_up(tmp_path: Path) -> None:
    home = copy_of("v17-rep-uncommitted-before/node2", tmp_path / "env")
    range_ = read_index(snapshot_of(home)).range
    assert erase(home).plan.head.last_gone is None  # type: ignore[union-attr]
    assert read_index(snapshot_of(home)).range.first == range_.first
    result = erase(home, ErasureOptions(force=True))
    head = result.plan.head
    assert head is not None
    first = read_index(snapshot_of(home)).range.first
    assert range_.first < first < range_.last_sync
    stream = [
        entry.vlsn
        for name, data in log_bytes(home).items()
        for entry in walk_bytes(data, int(name[:8], 16))
        if entry.type_no == ERASED and entry.vlsn is not None
    ]
    assert stream
    assert max(stream) < first


@pytest.mark.parametrize("name", ["v17-basic", "v17-dups", "v26-basic"])
def test_no_key_of_a_deleted_record_is_left(name: str, tmp_path: Path) -> None:
    """If trees are written anew: neither in upper nodes, nor in BINs, nor in the log."""
    home = copy_of(name, tmp_path / "env")
    snapshot = snapshot_of(home)
    before = contents_of(snapshot)
    live = {key for records in before.values() for key, _ in records}
    named = {each.name for each in snapshot.databases.values() if not each.is_internal}
    keys = {bytes(key) for key in deleted_keys(home) if len(key) >= 6} - live
    assert len(keys) > 10
    old = b"".join(log_bytes(home).values())
    assert sum(key in old for key in keys) > 10
    options = ErasureOptions(checkpoint_first=True, rewritten=frozenset(filter(None, named)))
    erase(home, options)
    new = b"".join(log_bytes(home).values())
    assert [key for key in keys if key in new] == []
    assert contents_of(snapshot_of(home)) == before
    assert codes_of(snapshot_of(home)) == []


def deleted_keys(home: Path) -> Iterator[bytes]:
    """Yield the keys of all deletions in a log."""
    for name, data in log_bytes(home).items():
        for header in walk_bytes(data, int(name[:8], 16)):
            if NAMES[header.type_no].startswith("DEL_LN"):
                start = header.lsn & 0xFFFFFFFF
                entry = decode_entry(data[start : start + header.size], header.version)
                yield entry.fields["key"]


@pytest.mark.parametrize(
    ("start", "first_active", "erased"),
    [
        (1, 1, [True, False, False]),
        (2, 1, [True, False, False]),
        (1, 2, [True, False, False]),
        (2, 2, [True, True, False]),
    ],
)
def test_nothing_in_the_recovery_interval_is_erased(
    start: int, first_active: int, erased: list[bool], tmp_path: Path
) -> None:
    """If something there can be erased, a checkpoint comes first; recovery then begins after it.

    The checkpoint, and a transaction before or after it, seem to have begun in the middle of the
    log, as beside a busy application.
    """
    home = copy_of("v17-erase-after", tmp_path / "env")
    snapshot = snapshot_of(home)
    snapshot.checkpoint = replace(
        snapshot.checkpoint, start_lsn=start << 32, first_active_lsn=first_active << 32
    )
    asked = ErasureOptions(checkpoint_first=True)
    before = plan_erasure(snapshot, asked)
    after = plan_erasure(snapshot, asked, is_checkpointed=True)
    assert before.needs_checkpoint
    assert before.rules.cutoff_lsn == snapshot.end.next_lsn
    assert after.rules.cutoff_lsn == min(start, first_active) << 32
    assert [each.totals.erase_count > 0 for each in after.files] == erased
    assert not plan_erasure(snapshot, JUST_ERASE).needs_checkpoint
