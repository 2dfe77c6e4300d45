"""The end of a log and the checkpoint that counts, as engines were seen to treat damaged tails."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from je_tools.errors import InputError, UsageError
from je_tools.formats.je.flags import DatabaseFlag
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.earlier_ends import lsn_of_time, lsn_of_vlsn
from je_tools.recovery.end import EndReason, Refusal
from je_tools.recovery.plan import plan_recovery
from je_tools.recovery.snapshot import Snapshot
from tests.builders.logs import LogFile
from tests.builders.trees import NULL, TreeLog, descriptor_ln, simple, slot
from tests.je_tools.dumped import je_tools
from tests.je_tools.snapshots import codes_of, contents_of, snapshot_of
from tests.truth.contents import Contents

BASE = {b"a": b"1", b"b": b"1"}
REPLICATED = 0x28


def base() -> TreeLog:
    """Build a log of two checkpointed records, one of which two transactions then change."""
    log = simple(BASE)
    log.ln(b"a", b"2", txn=3)
    log.end(3)
    log.ln(b"a", b"3", txn=4)
    log.end(4)
    return log


def db(a: bytes) -> Contents:
    return {"db": [(b"a", a), (b"b", b"1")]}


class Probe(NamedTuple):
    """A change to a log, and the state that recovery finds.

    Attributes:
        change: Change to a home.
        value: Value of the record `a` afterwards.
        reason: Reason for the end of the log.
        cut: Number of entries of the last file that are cut off.
        skipped: Names of files that are skipped, each with True if it is put aside.
    """

    change: Callable[[Path], None]
    value: bytes
    reason: EndReason
    cut: int
    skipped: tuple[tuple[str, bool], ...] = ()


FIRST, NEXT = "00000000.jdb", "00000001.jdb"
GOOD_HEADER = bytes(LogFile(1, 17, 38).data)
BAD_HEADER = bytes([GOOD_HEADER[0] ^ 1]) + GOOD_HEADER[1:]


def cut(size: int) -> Callable[[Path], None]:
    def change(home: Path) -> None:
        path = home / FIRST
        path.write_bytes(path.read_bytes()[:-size])

    return change


def flip(at: int) -> Callable[[Path], None]:
    """Return a change that flips a bit in the item of the entry at an index."""

    def change(home: Path) -> None:
        path = home / FIRST
        data = bytearray(path.read_bytes())
        place = base().file.placed[at]
        data[place.stop - 1] ^= 4
        path.write_bytes(data)

    return change


def behind(data: bytes) -> Callable[[Path], None]:
    def change(home: Path) -> None:
        with (home / FIRST).open("ab") as file:
            file.write(data)

    return change


def following(data: bytes) -> Callable[[Path], None]:
    def change(home: Path) -> None:
        (home / NEXT).write_bytes(data)

    return change


PROBES = {
    "nothing": Probe(lambda home: None, b"3", EndReason.CLEAN, 0),
    "5 bytes cut": Probe(cut(5), b"2", EndReason.TORN, 1),
    "cut in a header": Probe(
        cut(len(base().file.data) - base().file.last - 3), b"2", EndReason.TORN, 1
    ),
    "a bit of the last entry": Probe(flip(-1), b"2", EndReason.TORN, 1),
    "zeros behind": Probe(behind(bytes(300)), b"3", EndReason.ZEROS, 0),
    "garbage behind": Probe(behind(b"\xa5\x17\xc3" * 100), b"3", EndReason.TORN, 0),
    "a bit in the middle": Probe(flip(-3), b"1", EndReason.DAMAGED, 3),
    "a bit between": Probe(flip(-2), b"2", EndReason.DAMAGED, 2),
    "an empty file": Probe(following(b""), b"3", EndReason.CLEAN, 0, ((NEXT, False),)),
    "a header": Probe(following(GOOD_HEADER), b"3", EndReason.CLEAN, 0, ((NEXT, False),)),
    "10 bytes": Probe(following(GOOD_HEADER[:10]), b"3", EndReason.CLEAN, 0, ((NEXT, True),)),
    "a bad header": Probe(following(BAD_HEADER), b"3", EndReason.CLEAN, 0, ((NEXT, True),)),
}


@pytest.mark.parametrize("name", PROBES)
def test_end_of_the_log(name: str, tmp_path: Path) -> None:
    probe, log = PROBES[name], base()
    home = log.write(tmp_path / "env")
    probe.change(home)
    snapshot = snapshot_of(home)
    assert contents_of(snapshot) == db(probe.value)
    end, last = snapshot.end, log.file.placed[-1 - probe.cut]
    assert (end.reason, end.last_lsn, end.next_offset) == (probe.reason, last.start, last.stop)
    skipped = tuple((each.file.path.name, each.put_aside) for each in end.skipped)
    assert skipped == probe.skipped
    assert end.cut_size == (home / FIRST).stat().st_size - last.stop
    # Only damage hides whole entries.
    lost = probe.reason is EndReason.DAMAGED and probe.cut > 1
    damaged = ["lost-tail" if lost else "damaged-end"]
    assert codes_of(snapshot) == (damaged if probe.reason is EndReason.DAMAGED else [])
    commits = [log.file.placed[i].start for i in (-3, -1) if i > -probe.cut]
    assert end.commits_after_end.tolist() == (commits if lost else [])


def test_a_next_file_with_garbage_is_where_the_log_goes_on(tmp_path: Path) -> None:
    log = base()
    home = log.write(tmp_path / "env")
    (home / NEXT).write_bytes(bytes(log.file.follower().data) + b"\xa5\x17\xc3" * 100)
    snapshot = snapshot_of(home)
    assert (snapshot.end.next_lsn, snapshot.end.cut_size) == (1 << 32 | 38, 300)
    assert snapshot.end.last_lsn == 1 << 32
    assert contents_of(snapshot) == db(b"3")


@pytest.mark.parametrize("data", [BAD_HEADER + b"x", bytes(39), GOOD_HEADER[:20] + bytes(30)])
def test_a_next_file_with_a_bad_header_is_refused(tmp_path: Path, data: bytes) -> None:
    home = base().write(tmp_path / "env")
    (home / NEXT).write_bytes(data)
    with pytest.raises(InputError, match="the header of the last file is damaged"):
        snapshot_of(home)


def test_nothing_but_headers_is_refused(tmp_path: Path) -> None:
    home = base().write(tmp_path / "env")
    (home / FIRST).write_bytes(bytes(LogFile(0, 17).data))
    with pytest.raises(InputError, match="no file holds an entry"):
        snapshot_of(home)


def test_entries_of_unknown_types_end_a_log(tmp_path: Path) -> None:
    log = base()
    log.file.add(99, b"what is this")
    stop = log.file.placed[-2].stop
    snapshot = snapshot_of(log.write(tmp_path / "env"))
    assert (snapshot.end.next_offset, snapshot.end.reason) == (stop, EndReason.DAMAGED)
    assert codes_of(snapshot) == ["damaged-end"]


# Checkpoints


def test_a_checkpoint_in_an_earlier_file(tmp_path: Path) -> None:
    log = simple(BASE)
    end = log.file.last
    log.next_file()
    log.ln(b"a", b"2", txn=3)
    log.next_file()
    log.end(3)
    snapshot = snapshot_of(log.write(tmp_path / "env"))
    assert snapshot.checkpoint.end_lsn == end
    assert contents_of(snapshot) == db(b"2")
    assert snapshot.refusals == ()


def test_a_missing_file_between(tmp_path: Path) -> None:
    """No file between the first active entry and the end may be missing."""
    log = simple(BASE)
    log.next_file()
    log.ln(b"a", b"2", txn=3)
    log.next_file()
    log.end(3)
    home = log.write(tmp_path / "env")
    (home / NEXT).unlink()
    snapshot = snapshot_of(home)
    assert snapshot.refusals == (Refusal.MISSING_FILE,)
    assert codes_of(snapshot) == ["recovery-refused"]


@pytest.mark.parametrize("gone", [1, 2])
def test_a_missing_file_though_the_last_one_has_a_checkpoint(tmp_path: Path, gone: int) -> None:
    """A transaction that was open at the checkpoint extends the interval far back."""
    log = simple(BASE)
    log.next_file()
    active = log.ln(b"a", b"2", txn=3)
    log.next_file()
    log.ln(b"b", b"2", txn=3)
    log.next_file()
    log.checkpoint(first_active_lsn=active)
    home = log.write(tmp_path / "env")
    assert snapshot_of(home).refusals == ()
    (home / f"{gone:08x}.jdb").unlink()
    assert snapshot_of(home).refusals == (Refusal.MISSING_FILE,)


def test_a_file_that_is_not_needed_may_be_missing(tmp_path: Path) -> None:
    log = simple(BASE)
    log.next_file()
    log.file.trace(50)
    log.next_file()
    log.checkpoint()
    home = log.write(tmp_path / "env")
    (home / NEXT).unlink()
    snapshot = snapshot_of(home)
    assert snapshot.refusals == ()
    assert contents_of(snapshot) == db(b"1")


def test_no_checkpoint_at_all(tmp_path: Path) -> None:
    """With a root of the databases, the whole log is replayed."""
    log = TreeLog()
    log.database(b"db", log.tree([slot(b"a", log.ln(b"a", b"1", txn=2))]))
    log.end(2)
    ids, names = log.tree(log.mapped, db=0), log.tree(log.named, db=1)
    log.db_tree(ids, names)
    log.ln(b"b", b"1", txn=5)
    log.ln(b"c", b"1", txn=6)
    log.end(5)
    snapshot = snapshot_of(log.write(tmp_path / "env"))
    assert snapshot.checkpoint.end_lsn == -1
    assert snapshot.first_lsn == 0
    assert contents_of(snapshot) == db(b"1")


def test_no_root_at_all(tmp_path: Path) -> None:
    log = TreeLog()
    log.ln(b"a", b"1")
    with pytest.raises(InputError, match="the rest of the log has no root of the databases"):
        snapshot_of(log.write(tmp_path / "env"))


@pytest.mark.parametrize(("flags", "is_replayed"), [(0, True), (0x40, True), (0x80, False)])
def test_a_checkpoint_without_its_end(tmp_path: Path, flags: int, is_replayed: bool) -> None:
    """Its nodes count if they are provisional only until its end, since that never came."""
    log = TreeLog()
    old = log.ln(b"a", b"1")
    leaf = log.node([slot(b"a", old)], node_id=9)
    root = log.node([slot(b"", leaf)], level=2, is_root=True)
    log.database(b"db", root)
    log.checkpoint()
    start = log.put("CkptStart", {"time_ms": 1, "ckpt_id": 2, "invoker": "test"})
    log.node([slot(b"a", old), slot(b"b", log.ln(b"x", b"1", db=99))], node_id=9, flags=flags)
    snapshot = snapshot_of(log.write(tmp_path / "env"))
    assert snapshot.checkpoint.partial_start_lsn == start
    found = contents_of(snapshot)["db"]
    assert found == [(b"a", b"1"), (b"b", b"1")][: 1 + is_replayed]


def test_nodes_provisional_before_the_last_checkpoint_do_not_count(tmp_path: Path) -> None:
    log = TreeLog()
    old = log.ln(b"a", b"1")
    leaf = log.node([slot(b"a", old)], node_id=9)
    root = log.node([slot(b"", leaf)], level=2, is_root=True)
    log.database(b"db", root)
    start = log.put("CkptStart", {"time_ms": 1, "ckpt_id": 2, "invoker": "test"})
    log.node([slot(b"a", old), slot(b"b", old)], node_id=9, flags=0x40)
    tree = log.db_tree(log.tree(log.mapped, db=0), log.tree(log.named, db=1))
    log.ckpt_end(start, tree)
    assert contents_of(snapshot_of(log.write(tmp_path / "env"))) == {"db": [(b"a", b"1")]}


def test_a_root_of_databases_behind_the_checkpoint(tmp_path: Path) -> None:
    """The last root in the last file counts, wherever the checkpoint ends."""
    log = simple(BASE)
    more = log.ln(b"x", b"9", db=8)
    log.database(b"more", log.tree([slot(b"x", more)], db=8), db=8)
    log.mapped.sort(key=lambda each: bytes(each["key"]))
    log.db_tree(log.tree(log.mapped, db=0), log.tree(log.named, db=1))
    snapshot = snapshot_of(log.write(tmp_path / "env"))
    assert contents_of(snapshot) == db(b"1") | {"more": [(b"x", b"9")]}
    assert snapshot.checkpoint.end_lsn < snapshot.checkpoint.root_lsn


def test_a_root_of_databases_before_the_end_of_the_checkpoint(tmp_path: Path) -> None:
    """The last root in the last file counts, although the CkptEnd after it names an older one."""
    log = TreeLog()
    log.database(b"db", log.tree([slot(b"a", log.ln(b"a", b"1")), slot(b"b", log.ln(b"b", b"1"))]))
    start = log.put("CkptStart", {"time_ms": 1, "ckpt_id": 2, "invoker": "test"})
    older = log.db_tree(log.tree(log.mapped, db=0), log.tree(log.named, db=1))
    more = log.ln(b"x", b"9", db=8)
    log.database(b"more", log.tree([slot(b"x", more)], db=8), db=8)
    newer = log.db_tree(log.tree(log.mapped, db=0), log.tree(log.named, db=1))
    log.ckpt_end(start, older)
    snapshot = snapshot_of(log.write(tmp_path / "env"))
    assert snapshot.checkpoint.root_lsn == newer
    assert contents_of(snapshot) == db(b"1") | {"more": [(b"x", b"9")]}


# Refusals


@pytest.mark.parametrize("key", [b"_jeOwn", b"theirs"])
def test_a_name_whose_database_is_lost(tmp_path: Path, key: bytes) -> None:
    """The MapLN holds the name, too; without its internal databases the engine does not open."""
    log = simple(BASE)
    first = log.files[0]
    log.database(key, log.tree([slot(b"x", log.ln(b"x", b"1", db=8))], db=8), db=8)
    name = log.named[-1]["lsn"]
    log.next_file()
    log.checkpoint()
    home = log.write(tmp_path / "env")
    data = bytearray(first.data)
    data[name + 20] ^= 1
    (home / FIRST).write_bytes(data)
    snapshot = snapshot_of(home)
    is_own = key.startswith(b"_je")
    assert snapshot.names[8] == key.decode()
    assert snapshot.databases[8].name == key.decode()
    assert snapshot.lost_names == set()
    assert snapshot.refusals == ((Refusal.OWN_DATABASE_LOST,) if is_own else ())
    assert contents_of(snapshot).get("theirs", []) == [(b"x", b"1")] * (not is_own)
    assert "tree-damage" in codes_of(snapshot)
    assert plan_recovery(snapshot).unfinished_removals == ()


@pytest.mark.parametrize("name", [b"_jeExpiration", b"theirs"])
def test_a_record_that_is_read_at_each_open(tmp_path: Path, name: bytes) -> None:
    """The engine reads all records of expirations before the log can be used."""
    log = TreeLog()
    record = log.ln(b"x", b"1", db=8)
    log.next_file()
    log.database(name, log.tree([slot(b"x", record)], db=8), db=8)
    log.checkpoint()
    home = log.write(tmp_path / "env")
    assert snapshot_of(home).refusals == ()
    (home / FIRST).unlink()
    lost = (Refusal.OWN_DATABASE_LOST,) if name == b"_jeExpiration" else ()
    assert snapshot_of(home).refusals == lost


def test_an_entry_that_asks_for_a_restore(tmp_path: Path) -> None:
    log = base()
    fields = {"failure_type": "NETWORK_RESTORE", "time_ms": 1, "properties": ""}
    log.put("RestoreRequired", fields)
    snapshot = snapshot_of(log.write(tmp_path / "env"))
    assert snapshot.refusals == (Refusal.RESTORE_REQUIRED,)
    assert contents_of(snapshot) == db(b"3")


def test_a_marker_file(tmp_path: Path) -> None:
    home = base().write(tmp_path / "env")
    marker = LogFile(0x7FFFFFFF, 17)
    (home / marker.name).write_bytes(marker.data)
    snapshot = snapshot_of(home)
    assert snapshot.refusals == (Refusal.RESTORE_REQUIRED,)
    assert contents_of(snapshot) == db(b"3")


@pytest.mark.parametrize(("halts", "refusals"), [("true", (Refusal.HALT_CHOSEN,)), ("no", ())])
def test_commits_after_end_damage_where_the_engine_is_to_halt(
    tmp_path: Path, halts: str, refusals: tuple[Refusal, ...]
) -> None:
    home = base().write(tmp_path / "env")
    (home / "je.properties").write_text(f"je.haltOnCommitAfterChecksumException={halts}\n")
    assert snapshot_of(home).refusals == ()
    flip(-3)(home)
    assert snapshot_of(home).refusals == refusals


def test_an_immutable_file_changes_no_record(tmp_path: Path) -> None:
    log = base()
    log.put("ImmutableFile", {"mark": 1})
    snapshot = snapshot_of(log.write(tmp_path / "env"))
    assert snapshot.refusals == ()
    assert contents_of(snapshot) == db(b"3")


@pytest.mark.parametrize("at", [-1, -2, 3])
def test_damage_in_a_file_before_the_last(tmp_path: Path, at: int) -> None:
    """Files that recovery reads must be whole, even before the entries that it replays."""
    log = base()
    log.next_file()
    log.file.trace(20)
    home = log.write(tmp_path / "env")
    data = bytearray((home / FIRST).read_bytes())
    data[log.files[0].placed[at].stop - 1] ^= 1
    (home / FIRST).write_bytes(data)
    assert snapshot_of(home).refusals == (Refusal.DAMAGED_INTERVAL,)


# Earlier ends


@pytest.mark.parametrize("back", [1, 2])
def test_what_an_earlier_end_would_lose(tmp_path: Path, back: int) -> None:
    """This holds even if the earlier end is the end of a file."""
    log = base()
    log.next_file()
    log.ln(b"a", b"9", txn=6)
    log.end(6)
    home = log.write(tmp_path / "env")
    snapshot = snapshot_of(home, to_lsn=log.files[0].placed[-back].start)
    assert snapshot.end.reason is EndReason.CHOSEN
    lost = plan_recovery(snapshot).lost
    assert [each.txn_id for each in lost.transactions] == [4, 6][-back:]
    assert [(each.name, each.is_lost, each.key_count) for each in lost.databases] == [
        ("db", False, 1)
    ]
    assert lost.databases[0].keys[0] == b"a"
    assert lost.size == sum(len(file.data) for file in log.files) - snapshot.end.next_offset


def test_a_database_that_an_earlier_end_would_lose(tmp_path: Path) -> None:
    log = simple(BASE)
    end = log.file.last
    log.database(b"more", -1, db=8)
    log.ln(b"x", b"1", txn=3, db=8)
    log.end(3)
    snapshot = snapshot_of(log.write(tmp_path / "env"), to_lsn=end)
    told = {
        each.db_id: (each.name, each.is_lost) for each in plan_recovery(snapshot).lost.databases
    }
    assert told[8] == ("more", True)
    assert not told[1][1]


def test_a_chosen_vlsn_is_not_one_that_a_rollback_took_back(tmp_path: Path) -> None:
    """This holds even if the entries that were undone were never marked invisible."""
    log = simple(BASE)
    kept = log.ln(b"a", b"2", txn=-5, vlsn=7, entry_flags=REPLICATED)
    log.ln(b"a", b"3", txn=-5, vlsn=8, entry_flags=REPLICATED)
    log.rollback(kept, [-5], ends=True)
    again = log.ln(b"a", b"4", txn=-5, vlsn=8, entry_flags=REPLICATED)
    log.ln(b"a", b"5", txn=-5, vlsn=9, entry_flags=REPLICATED)
    environment = open_environment([log.write(tmp_path / "env")])
    scanner = Scanner(threads=1)
    assert [lsn_of_vlsn(environment, scanner, vlsn) for vlsn in (7, 8)] == [kept, again]
    log = simple(BASE)
    kept = log.ln(b"a", b"2", txn=-5, vlsn=7, entry_flags=REPLICATED)
    log.ln(b"a", b"3", txn=-5, vlsn=8, entry_flags=REPLICATED)
    log.rollback(kept, [-5], ends=True)
    environment = open_environment([log.write(tmp_path / "alone")])
    with pytest.raises(UsageError, match="holds VLSNs up to 7"):
        lsn_of_vlsn(environment, scanner, 8)


def test_a_chosen_time(tmp_path: Path) -> None:
    """The end is the last Commit up to the time, or None if that is the last of all."""
    log = simple(BASE)
    first = log.end(3, time_ms=1_000)
    log.end(4, time_ms=2_000)
    environment = open_environment([log.write(tmp_path / "env")])
    scanner = Scanner(threads=1)
    assert [lsn_of_time(environment, scanner, time_ms) for time_ms in (1_000, 1_999, 2_000)] == [
        first,
        first,
        None,
    ]
    with pytest.raises(UsageError, match="holds Commits from"):
        lsn_of_time(environment, scanner, 999)


def same(one: Snapshot, other: Snapshot) -> None:
    assert contents_of(one) == contents_of(other)
    assert one.checkpoint == other.checkpoint
    assert one.end.next_lsn == other.end.next_lsn
    assert [len(one.interval.lns), len(one.interval.nodes), len(one.interval.ends)] == [
        len(other.interval.lns),
        len(other.interval.nodes),
        len(other.interval.ends),
    ]


def test_an_earlier_end_is_that_of_a_log_cut_there(tmp_path: Path) -> None:
    log = base()
    log.next_file()
    log.ln(b"b", b"5", txn=8)
    log.checkpoint()
    log.end(8)
    home = log.write(tmp_path / "env")
    ends = 0
    for file in log.files:
        for place in file.placed[1:]:
            lsn = file.no << 32 | place.start
            cut_home = tmp_path / f"cut-{lsn}"
            shutil.copytree(home, cut_home)
            path = cut_home / file.name
            path.write_bytes(path.read_bytes()[: place.stop])
            if file.no == 0:
                (cut_home / NEXT).unlink()
            try:
                expected = snapshot_of(cut_home)
            except InputError:
                with pytest.raises(InputError):
                    snapshot_of(home, to_lsn=lsn)
                continue
            same(snapshot_of(home, to_lsn=lsn), expected)
            ends += 1
    assert ends > 12


@pytest.mark.parametrize("name", [b"", b"tmp"])
def test_a_temporary_database_that_the_engine_cannot_remove(tmp_path: Path, name: bytes) -> None:
    """Its name is gone or leads to another database; a checkpoint finishes the removal."""
    log = base()
    if name:
        log.database(name, NULL, db=9, db_flags=DatabaseFlag.TEMPORARY)
    log.put("MapLN", descriptor_ln(b"tmp", NULL, 8, db_flags=DatabaseFlag.TEMPORARY))
    home = log.write(tmp_path / "env")
    snapshot = snapshot_of(home)
    assert snapshot.refusals == (Refusal.NAMELESS_TEMPORARY,)
    assert contents_of(snapshot) == db(b"3")
    assert (je_tools("count", home).code, je_tools("checkpoint", home, "--apply").code) == (3, 0)
    assert snapshot_of(home).refusals == ()


def test_a_root_that_no_descriptor_names_yet(tmp_path: Path) -> None:
    """The engine fails to compare it with a root whose LSN is NULL; a checkpoint writes its LSN."""
    log = base()
    fields = descriptor_ln(b"db", NULL, 6)
    fields["database"] |= {"tree_exists": 1, "root_key": b"", "root_lsn": NULL, "root_state": 0}
    log.put("MapLN", fields)
    log.tree([slot(b"a", log.ln(b"a", b"4"))])
    home = log.write(tmp_path / "env")
    snapshot = snapshot_of(home)
    assert snapshot.refusals == (Refusal.UNLOGGED_ROOT,)
    assert contents_of(snapshot) == {"db": [(b"a", b"4")]}
    assert (je_tools("recover", home).code, je_tools("checkpoint", home, "--apply").code) == (3, 0)
    assert snapshot_of(home).refusals == ()
    assert contents_of(snapshot_of(home)) == contents_of(snapshot)
