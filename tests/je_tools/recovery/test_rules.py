"""Undo and redo, key by key: results that engines were seen to give for a slot and its LNs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from je_tools.formats.je.expirations import DAY_MS, HOUR_MS
from je_tools.recovery.end import Refusal
from je_tools.recovery.plan import plan_recovery
from je_tools.recovery.snapshot import Snapshot
from tests.builders.logs import CREATED_MS, LogFile
from tests.builders.trees import DUPLICATES, TreeLog, lsn_of, simple, slot
from tests.je_tools.corpus_snapshots import database_named
from tests.je_tools.snapshots import NOW_MS, codes_of, contents_of, snapshot_of

INVISIBLE, REPLICATED = 0x10, 0x20
ABORT_KNOWN_DELETED, ABORT_DATA, EXPIRATION = 1, 8, 128
ABORT_TOMBSTONE, ABORT_MODIFIED, BLIND_DELETION, ABORT_CREATED = 8, 0x10, 0x20, 0x80
KNOWN_DELETED, PENDING_DELETED, EMBEDDED = 1, 8, 0x10
EXPIRATIONS_IN_HOURS = 0x20
PROVISIONAL = 0x80
SIMPLE_BIN_ID = 101
"""Id of the BIN of the log that `simple` builds."""
Steps = Callable[[TreeLog, int], object]


def found(log: TreeLog, folder: Path) -> list[tuple[bytes, bytes]]:
    snapshot = snapshot_of(log.write(folder / "env"))
    plan_recovery(snapshot)
    return contents_of(snapshot)["db"]


def several(*steps: Callable[[TreeLog, int], object]) -> Steps:
    def run(log: TreeLog, old: int) -> None:
        for step in steps:
            step(log, old)

    return run


def put(data: bytes | None, txn: int = 0, key: bytes = b"a", **more: int) -> Steps:
    return lambda log, old: log.ln(key, data, txn=txn, **more)


def commit(txn: int) -> Steps:
    return lambda log, old: log.end(txn)


def abort(txn: int) -> Steps:
    return lambda log, old: log.end(txn, name="Abort")


BEHIND: dict[str, tuple[Steps, list[tuple[bytes, bytes]]]] = {
    "nothing": (lambda log, old: None, [(b"a", b"1")]),
    "committed": (several(put(b"2", 5), commit(5)), [(b"a", b"2")]),
    "open": (put(b"2", 5), [(b"a", b"1")]),
    "aborted": (several(put(b"2", 5), abort(5)), [(b"a", b"1")]),
    "outside of transactions": (put(b"2"), [(b"a", b"2")]),
    "deleted": (several(put(None, 5), commit(5)), []),
    "deletion open": (put(None, 5), [(b"a", b"1")]),
    "deleted and written again": (several(put(None, 5), put(b"3", 5), commit(5)), [(b"a", b"3")]),
    "newest wins": (several(put(b"2", 5), put(b"3", 5), commit(5)), [(b"a", b"3")]),
    "newest is open": (several(put(b"2", 5), commit(5), put(b"3", 6)), [(b"a", b"2")]),
    "new key": (several(put(b"n", 5, b"b"), commit(5)), [(b"a", b"1"), (b"b", b"n")]),
    "new key in front": (several(put(b"n", 5, b""), commit(5)), [(b"", b"n"), (b"a", b"1")]),
    "new key open": (put(b"n", 5, b"b"), [(b"a", b"1")]),
    "deletion of no record": (several(put(None, 5, b"b"), commit(5)), [(b"a", b"1")]),
    "invisible": (several(put(b"2", 5, entry_flags=INVISIBLE), commit(5)), [(b"a", b"1")]),
    "of an unknown database": (several(put(b"2", 5, db=99), commit(5)), [(b"a", b"1")]),
    "empty value": (several(put(b"", 5), commit(5)), [(b"a", b"")]),
}


@pytest.mark.parametrize("name", BEHIND)
def test_behind_a_checkpoint(name: str, tmp_path: Path) -> None:
    steps, expected = BEHIND[name]
    log = simple({b"a": b"1"})
    steps(log, 0)
    assert found(log, tmp_path) == expected


def checkpointed(steps: Callable[[TreeLog, int], int], behind: Steps | None = None) -> TreeLog:
    """Build a log whose slot names what `steps` logged of the key in an open transaction."""
    log = TreeLog()
    old = log.ln(b"a", b"old")
    first = log.here
    current = steps(log, old)
    log.database(b"db", log.tree([slot(b"a", current)]))
    log.checkpoint(first_active_lsn=first)
    if behind is not None:
        behind(log, old)
    return log


def changed(log: TreeLog, old: int) -> int:
    return log.ln(b"a", b"new", txn=5, abort_lsn=old)


UNDONE: dict[str, tuple[Callable[[TreeLog, int], int], Steps | None, list[tuple[bytes, bytes]]]] = {
    "open": (changed, None, [(b"a", b"old")]),
    "aborted behind": (changed, abort(5), [(b"a", b"old")]),
    "committed behind": (changed, commit(5), [(b"a", b"new")]),
    "insertion": (lambda log, old: log.ln(b"a", b"new", txn=5), None, []),
    "over a deleted one": (
        lambda log, old: log.ln(b"a", b"new", txn=5, abort_lsn=old, flags=ABORT_KNOWN_DELETED),
        None,
        [],
    ),
    "with its old data": (
        lambda log, old: log.ln(
            b"a", b"new", txn=5, abort_lsn=old, flags=ABORT_DATA, abort_data=b"kept"
        ),
        None,
        [(b"a", b"kept")],
    ),
    "twice": (
        lambda log, old: max(changed(log, old), log.ln(b"a", b"newer", txn=5, abort_lsn=old)),
        None,
        [(b"a", b"old")],
    ),
    "deletion": (lambda log, old: log.ln(b"a", None, txn=5, abort_lsn=old), None, [(b"a", b"old")]),
    "and written by another": (changed, several(abort(5), put(b"6", 6), commit(6)), [(b"a", b"6")]),
    "and another is open too": (changed, several(abort(5), put(b"6", 6)), [(b"a", b"old")]),
    "not by the one in the slot": (lambda log, old: old, put(b"new", 5), [(b"a", b"old")]),
}


@pytest.mark.parametrize("name", UNDONE)
def test_what_a_slot_holds_is_taken_back(name: str, tmp_path: Path) -> None:
    steps, behind, expected = UNDONE[name]
    assert found(checkpointed(steps, behind), tmp_path) == expected


@pytest.mark.parametrize("state", [KNOWN_DELETED, PENDING_DELETED])
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (None, []),
        (several(put(b"2", 5), commit(5)), [(b"a", b"2")]),
        (several(put(None, 5), commit(5)), []),
        (put(b"2", 5), []),
    ],
    ids=["alone", "written", "deleted", "open"],
)
def test_deleted_slots(
    tmp_path: Path, state: int, steps: Steps | None, expected: list[tuple[bytes, bytes]]
) -> None:
    log = TreeLog()
    log.database(b"db", log.tree([slot(b"a", log.ln(b"a", b"old"), state)]))
    log.checkpoint()
    if steps:
        steps(log, 0)
    assert found(log, tmp_path) == expected


def test_a_deleted_slot_with_the_record_s_own_place_stays_deleted(tmp_path: Path) -> None:
    log = TreeLog()
    first = log.here
    own = log.ln(b"a", b"1", txn=5)
    log.end(5)
    log.database(b"db", log.tree([slot(b"a", own, KNOWN_DELETED)]))
    log.checkpoint(first_active_lsn=first)
    assert found(log, tmp_path) == []


def test_records_that_the_cleaner_moved(tmp_path: Path) -> None:
    """The cleaner logs them again outside transactions, unchanged, and the newest counts."""
    log = simple({b"a": b"1", b"b": b"1"})
    moved = log.ln(b"a", b"1", vlsn=7, entry_flags=8)
    assert found(log, tmp_path) == [(b"a", b"1"), (b"b", b"1")]
    snapshot = snapshot_of(tmp_path / "env")
    (database,) = (each for each in snapshot.databases.values() if each.name == "db")
    (records,) = snapshot.records(database)
    assert records.lsn.tolist()[0] == moved
    assert records.vlsn.tolist()[0] == 7


@pytest.mark.parametrize("ends", [False, True])
def test_a_rollback_period(tmp_path: Path, ends: bool) -> None:
    """Its entries go back to what the same transaction wrote before the period."""
    log = TreeLog()
    first = log.here
    before = log.ln(b"a", b"kept", txn=-5, vlsn=1)
    matchpoint = log.end(-6)
    inside = log.ln(b"a", b"rolled back", txn=-5, vlsn=3, abort_lsn=before)
    other = log.ln(b"b", b"inside", txn=-5, vlsn=4)
    log.database(b"db", log.tree([slot(b"a", inside), slot(b"b", other)]))
    log.checkpoint(first_active_lsn=first)
    log.rollback(matchpoint, [-5], ends=ends)
    log.end(-5)
    assert found(log, tmp_path) == [(b"a", b"kept")]


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("commits", [False, True])
@pytest.mark.parametrize("in_front", [False, True])
def test_a_rollback_goes_back_in_the_whole_transaction(
    tmp_path: Path, in_front: bool, commits: bool, ends: bool
) -> None:
    """It reverts all that it undoes, and earlier changes, too, unless they are committed."""
    log = TreeLog()
    old = log.ln(b"a", b"old")
    first = log.here
    if in_front:
        log.ln(b"a", b"in front", txn=-5, vlsn=1, abort_lsn=old)
    matchpoint = log.end(-6)
    log.ln(b"a", b"undone", txn=-5, vlsn=3, abort_lsn=old)
    log.ln(b"b", b"not of it", txn=-7, vlsn=4)
    last = log.ln(b"a", b"undone too", txn=-5, vlsn=5, abort_lsn=old)
    log.database(b"db", log.tree([slot(b"a", last)]))
    log.checkpoint(first_active_lsn=first)
    log.rollback(matchpoint, [-5], ends=ends)
    if commits:
        log.end(-5)
    expected = b"in front" if in_front and commits else b"old"
    assert found(log, tmp_path) == [(b"a", expected)]


def test_what_a_rollback_takes_back_is_of_no_open_transaction(tmp_path: Path) -> None:
    log = simple({b"a": b"1"})
    matchpoint = log.end(-6)
    log.ln(b"a", b"2", txn=-5, vlsn=3, entry_flags=INVISIBLE)
    log.ln(b"b", b"2", txn=-5, vlsn=4)
    log.rollback(matchpoint, [-5])
    log.ln(b"c", b"2", txn=-8, vlsn=3)
    plan = plan_recovery(snapshot_of(log.write(tmp_path / "env")))
    assert [each.txn_id for each in plan.open_transactions] == [-8]


@pytest.mark.parametrize("flags", [0, INVISIBLE])
def test_a_rollback_over_a_commit_is_refused(tmp_path: Path, flags: int) -> None:
    """The engine calls the log broken; only a Commit of a local transaction may be there."""
    log = simple({b"a": b"1"})
    matchpoint = log.end(-6)
    log.ln(b"a", b"2", txn=7)
    log.end(7)
    log.rollback(matchpoint, [-5])
    assert snapshot_of(log.write(tmp_path / "local")).refusals == ()
    log.end(-5, flags=flags)
    log.rollback(matchpoint, [-5])
    snapshot = snapshot_of(log.write(tmp_path / "env"))
    assert snapshot.refusals == (Refusal.COMMIT_ROLLED_BACK,)


def test_what_an_undone_version_tells(tmp_path: Path) -> None:
    """It has the earlier version's times and tombstone flag, not those of the undone record."""
    log = TreeLog()
    old = log.ln(b"a", b"old")
    begin_of_next = lsn_of(1, len(LogFile(1, 26).data))
    log.database(b"db", log.tree([slot(b"a", begin_of_next)]))
    log.checkpoint()
    log.next_file(version=26)
    assert log.here == begin_of_next
    fields = {"flags2": ABORT_MODIFIED | ABORT_CREATED | ABORT_TOMBSTONE, "flags3": 0}
    fields |= {"modified_ms": 77, "created_ms": 66, "abort_modified_ms": 55, "abort_created_ms": 44}
    fields |= {"abort_data": b"kept", "flags": ABORT_DATA}
    log.ln(b"a", b"new", txn=5, abort_lsn=old, **fields)
    snapshot = snapshot_of(log.write(tmp_path / "env"))
    (database,) = (each for each in snapshot.databases.values() if each.name == "db")
    (records,) = snapshot.records(database)
    assert records.data[0] == b"kept"
    assert records.modified_ms.tolist() == [55]
    assert records.created_ms.tolist() == [44]
    assert records.tombstone.tolist() == [True]


def test_a_deletion_that_did_not_look(tmp_path: Path) -> None:
    """A blind deletion is undone: the record is back, under the LSN of the deletion."""
    log = TreeLog()
    first = log.here
    gone = log.ln(b"k\x01", None, txn=5, flags2=BLIND_DELETION)
    log.database(b"db", log.tree([slot(b"k\x01", gone, KNOWN_DELETED)]), db_flags=DUPLICATES)
    log.checkpoint(first_active_lsn=first)
    assert found(log, tmp_path) == [(b"k", b"")]
    log.end(5)
    assert found(log, tmp_path) == []


@pytest.mark.parametrize("place", ["root", "left", "right"])
def test_changes_below_a_node_that_cannot_be_read(tmp_path: Path, place: str) -> None:
    """They are replayed in key order all the same, and `recover` reports the damage."""
    log = TreeLog()
    left = log.node([slot(b"", log.node([slot(b"a", log.ln(b"a", b"1"))]))], level=2)
    right = log.node([slot(b"m", log.node([slot(b"n", log.ln(b"n", b"1"))]))], level=2)
    root = log.node([slot(b"", left), slot(b"m", right)], level=3, is_root=True)
    log.database(b"db", root)
    log.next_file()
    log.checkpoint()
    for key in (b"b", b"o"):
        log.ln(key, b"new", txn=5)
    log.end(5)
    home = log.write(tmp_path / "env")
    path = home / "00000000.jdb"
    data = bytearray(path.read_bytes())
    data[{"root": root, "left": left, "right": right}[place] + 20] ^= 1
    path.write_bytes(data)
    snapshot = snapshot_of(home)
    plan_recovery(snapshot)
    assert codes_of(snapshot) == ["tree-damage"]
    left_over = {"root": [], "left": [b"n"], "right": [b"a"]}[place]
    expected = sorted([*((key, b"1") for key in left_over), (b"b", b"new"), (b"o", b"new")])
    assert contents_of(snapshot)["db"] == expected
    assert codes_of(snapshot) == ["tree-damage"]
    (database,) = (each for each in snapshot.databases.values() if each.name == "db")
    assert snapshot.count(database) == len(expected)


def test_the_removal_of_a_database_is_no_undone_creation(tmp_path: Path) -> None:
    log = simple({b"a": b"1"})
    name = {"flags": 0, "flags2": 0, "db_id": 1, "name_db_id": 6, "key": b"db", "operation": 2}
    log.put("NameLN_TX", name | {"txn_id": 9, "txn_prev_lsn": -1, "deleted": 1, "data": None})
    log.end(9)
    plan = plan_recovery(snapshot_of(log.write(tmp_path / "env")))
    assert [each.what for each in plan.database_changes] == ["removed"]


def test_a_rollback_period_takes_back_its_own_transactions_only(tmp_path: Path) -> None:
    log = simple({b"a": b"1", b"b": b"1"})
    matchpoint = log.end(-6)
    log.ln(b"a", b"2", txn=-5, entry_flags=INVISIBLE)
    log.ln(b"b", b"2", txn=-7)
    log.rollback(matchpoint, [-5])
    log.end(-7)
    assert found(log, tmp_path) == [(b"a", b"1"), (b"b", b"2")]


def test_a_rollback_period_before_the_checkpoint_does_not_count(tmp_path: Path) -> None:
    log = TreeLog()
    first = log.here
    own = log.ln(b"a", b"1", txn=-5)
    log.rollback(first, [-5], ends=True)
    log.end(-5)
    log.database(b"db", log.tree([slot(b"a", own)]))
    log.checkpoint(first_active_lsn=first)
    assert found(log, tmp_path) == [(b"a", b"1")]


def test_names_of_databases_that_were_not_committed(tmp_path: Path) -> None:
    """An open creation has a MapLN, but no name leads to it."""
    log = simple({b"a": b"1"})
    fields = {"flags": 0, "flags2": 0, "db_id": 1, "txn_id": 9, "txn_prev_lsn": -1, "data": b""}
    log.database(b"more", log.tree([slot(b"x", log.ln(b"x", b"9", db=8))], db=8), db=8)
    made = {"name_db_id": 9, "deleted": 0, "key": b"open", "operation": 0}
    log.put("NameLN_TX", fields | made)
    gone = {"name_db_id": 6, "deleted": 1, "key": b"db", "operation": 0}
    log.put("NameLN_TX", fields | {"data": None} | gone)
    snapshot = snapshot_of(log.write(tmp_path / "env"))
    assert contents_of(snapshot) == {"db": [(b"a", b"1")], "more": [(b"x", b"9")]}
    log.end(9)
    snapshot = snapshot_of(log.write(tmp_path / "env"))
    assert contents_of(snapshot).keys() == {"more"}


def test_a_database_without_a_root_has_no_records(tmp_path: Path) -> None:
    log = TreeLog()
    log.database(b"db", -1)
    log.checkpoint()
    log.ln(b"a", b"1", txn=5)
    log.end(5)
    assert found(log, tmp_path) == []


def test_a_root_behind_the_checkpoint(tmp_path: Path) -> None:
    """It counts for a database whose MapLN has no root."""
    log = TreeLog()
    log.database(b"db", -1)
    log.checkpoint()
    log.tree([slot(b"a", log.ln(b"a", b"1", txn=5))])
    log.end(5)
    log.ln(b"b", b"2", txn=6)
    log.end(6)
    assert found(log, tmp_path) == [(b"a", b"1"), (b"b", b"2")]


def test_nodes_behind_the_checkpoint(tmp_path: Path) -> None:
    """The newest version of each node counts, but none older than the one the parent names."""
    log = TreeLog()
    one, other = log.ln(b"a", b"1"), log.ln(b"a", b"2")
    leaf = log.node([slot(b"a", one)], node_id=9)
    root = log.node([slot(b"", leaf)], level=2, is_root=True)
    log.database(b"db", root)
    log.checkpoint()
    log.node([slot(b"a", one), slot(b"b", one)], node_id=9)
    log.node([slot(b"a", other), slot(b"c", one)], node_id=9)
    log.node([slot(b"z", one)], node_id=77)
    assert found(log, tmp_path) == [(b"a", b"2"), (b"c", b"1")]


def test_a_delta_behind_the_checkpoint(tmp_path: Path) -> None:
    log = TreeLog()
    lsns = {key: log.ln(key, b"1") for key in (b"a", b"b", b"d")}
    leaf = log.node([slot(key, lsn) for key, lsn in lsns.items()], node_id=9)
    log.database(b"db", log.node([slot(b"", leaf)], level=2, is_root=True))
    log.checkpoint()
    news = [
        slot(b"b", log.ln(b"b", b"2")),
        slot(b"c", log.ln(b"c", b"2")),
        slot(b"d", lsns[b"d"], KNOWN_DELETED),
    ]
    log.delta(news, leaf, node_id=9, full_slot_count=3)
    assert found(log, tmp_path) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"2")]


def test_what_expires(tmp_path: Path) -> None:
    """Days since 1970; a record that expires at that very moment is still there."""
    log = simple({b"a": b"1"})
    day = CREATED_MS // 86_400_000 + 1
    log.ln(b"b", b"2", txn=5, expiration=day, flags=EXPIRATION)
    log.end(5)
    home = log.write(tmp_path / "env")
    moment = day * 86_400_000
    both = [(b"a", b"1"), (b"b", b"2")]
    assert contents_of(snapshot_of(home, now_ms=moment))["db"] == both
    assert contents_of(snapshot_of(home, now_ms=moment + 1))["db"] == both[:1]


def test_a_full_node_under_a_lone_slot_of_the_root(tmp_path: Path) -> None:
    """The engine fails to insert below it; if nothing is to be redone, nothing is reported."""
    log = TreeLog()
    slots = [slot(key, log.ln(key, b"1")) for key in (b"a", b"b")]
    log.database(b"db", log.tree(slots, max_entries=2))
    log.checkpoint()
    assert codes_of(read(log, tmp_path / "closed")) == []
    log.ln(b"c", b"1")
    assert codes_of(read(log, tmp_path / "crashed")) == ["root-split-cut-short"]


@pytest.mark.parametrize("ends", [False, True])
def test_a_full_node_above_others(tmp_path: Path, ends: bool) -> None:
    """Old engines log it before they split it; the parent that names both halves follows."""
    log = TreeLog()
    bins = [log.node([slot(key, log.ln(key, b"1"))]) for key in (b"a", b"c", b"e")]
    left, middle, right = (
        slot(key, lsn) for key, lsn in zip((b"a", b"c", b"e"), bins, strict=True)
    )
    roots = [
        slot(b"a", log.node([left, middle], level=2, max_entries=3, node_id=7)),
        slot(b"e", log.node([right], level=2, max_entries=3)),
    ]
    log.database(b"db", log.node(roots, level=3, is_root=True, node_id=8))
    log.checkpoint()
    log.ln(b"b", b"1")
    new = slot(b"b", log.node([slot(b"b", log.ln(b"b", b"1"))], flags=PROVISIONAL))
    log.node([left, new, middle], level=2, max_entries=3, node_id=7)
    if ends:
        roots[0] = slot(b"a", log.node([left], level=2, node_id=7, flags=PROVISIONAL))
        other = slot(b"b", log.node([new, middle], level=2, flags=PROVISIONAL))
        log.node([roots[0], other, roots[1]], level=3, is_root=True, node_id=8)
    log.ln(b"ab", b"1")
    assert codes_of(read(log, tmp_path / "crashed")) == ([] if ends else ["root-split-cut-short"])


@pytest.mark.parametrize("version", [17, 26])
def test_a_database_of_the_engine_that_was_being_created(tmp_path: Path, version: int) -> None:
    """Oracle NoSQL's engine gives the new one the same id, waits for itself, and fails."""
    log = simple({b"a": b"1"})
    log.next_file(version=version)
    name = {"flags": 0, "flags2": 0, "flags3": 0, "db_id": 1, "name_db_id": 9, "operation": 1}
    name |= {"txn_id": 9, "txn_prev_lsn": -1, "deleted": 0, "data": b"", "modified_ms": 0}
    config = {"db_flags": 0, "max_entries": 128, "btree_comparator": b"", "dup_comparator": b""}
    config |= {"trigger_count": 0, "triggers": []}
    log.put("NameLN_TX", name | {"config": config, "key": b"_jeUtilization"})
    snapshot = read(log, tmp_path / "env")
    assert codes_of(snapshot) == ["creation-cut-short"] * (version == 26)


def test_an_order_of_keys_that_nobody_here_knows(tmp_path: Path) -> None:
    """Records come in the order of the tree, new ones last."""
    log = TreeLog()
    slots = [slot(key, log.ln(key, b"1")) for key in (b"b", b"c", b"a")]
    log.database(b"db", log.tree(slots), btree_comparator=b"serialized")
    log.checkpoint()
    log.ln(b"c", b"2")
    log.ln(b"0", b"3")
    snapshot = read(log, tmp_path / "env")
    assert codes_of(snapshot) == ["unknown-order"]
    expected = [(b"b", b"1"), (b"c", b"2"), (b"a", b"1"), (b"0", b"3")]
    assert contents_of(snapshot)["db"] == expected


@pytest.mark.parametrize(("unit", "hours"), [(HOUR_MS, False), (DAY_MS, True)])
def test_expirations_in_another_unit_than_the_node_says(
    tmp_path: Path, unit: int, hours: bool
) -> None:
    """The number decides the unit; a finding reports that the engine reads it otherwise."""
    log = TreeLog()
    value = NOW_MS // unit
    lsn = log.ln(b"a", b"1")
    slots = [slot(b"a", lsn) | {"expiration_offset": 3}]
    more = {"expiration_base": value, "booleans": EXPIRATIONS_IN_HOURS if hours else 0}
    log.database(b"db", log.tree(slots, **more))
    log.checkpoint()
    home = log.write(tmp_path / "env")
    lives, gone = (snapshot_of(home, now_ms=(value + 2) * unit + late) for late in (0, 1))
    assert contents_of(lives)["db"] == [(b"a", b"1")]
    assert contents_of(gone)["db"] == []
    assert codes_of(lives) == ["expiration-unit"]


@pytest.mark.parametrize("delta_says", [True, False])
def test_the_unit_of_expirations_that_a_delta_does_not_say(
    tmp_path: Path, delta_says: bool
) -> None:
    """Up to 18.3 a BIN merged with its delta keeps the unit flag of the delta."""
    log = TreeLog()
    hours = CREATED_MS // HOUR_MS + 100
    expires = {"expiration_offset": 0}
    slots = [slot(key, log.ln(key, b"1")) | expires for key in (b"a", b"b")]
    said = {"expiration_base": hours, "booleans": EXPIRATIONS_IN_HOURS}
    full = log.node(slots, node_id=7, **said)
    said["booleans"] = 8 | (EXPIRATIONS_IN_HOURS if delta_says else 0)
    again = [slot(b"b", log.ln(b"b", b"2"), 2) | expires]
    delta = log.delta(again, full, node_id=7, full_slot_count=2, **said)
    log.database(b"db", log.node([slot(b"", delta)], level=2, is_root=True))
    log.checkpoint()
    assert codes_of(read(log, tmp_path / "env")) == ([] if delta_says else ["expiration-unit"])


@pytest.mark.parametrize("wild", [1 << 40, (1 << 60) + 1, -(1 << 60) - 1, -(1 << 63)])
def test_an_expiration_that_no_engine_writes_is_none(tmp_path: Path, wild: int) -> None:
    log = simple({b"a": b"1"})
    log.ln(b"b", b"2", flags=EXPIRATION, expiration=wild)
    snapshot = read(log, tmp_path / "env")
    assert contents_of(snapshot)["db"] == [(b"a", b"1"), (b"b", b"2")]
    (batch,) = (each for each in snapshot.records(database_named(snapshot, "db")) if len(each))
    assert batch.expires_ms.tolist() == [0, 0]


def read(log: TreeLog, folder: Path) -> Snapshot:
    snapshot = snapshot_of(log.write(folder))
    contents_of(snapshot)
    return snapshot


def test_an_older_ln_does_not_replace_a_newer_slot(tmp_path: Path) -> None:
    """A node that was logged later already holds a version that is newer than the last LN."""
    log = simple({b"a": b"1"})
    log.ln(b"a", b"2")
    newer = log.ln(b"a", b"3", db=99)
    log.node([slot(b"a", newer)], node_id=SIMPLE_BIN_ID)
    assert found(log, tmp_path) == [(b"a", b"3")]


def test_a_deletion_empties_the_slot_that_names_it(tmp_path: Path) -> None:
    log = simple({b"a": b"1", b"b": b"1"})
    deletion = log.ln(b"a", None, txn=5)
    log.end(5)
    log.node([slot(b"a", deletion), slot(b"b", log.ln(b"b", b"2"))], node_id=SIMPLE_BIN_ID)
    snapshot = snapshot_of(log.write(tmp_path / "env"))
    plan = plan_recovery(snapshot)
    assert contents_of(snapshot)["db"] == [(b"b", b"2")]
    redo = next(each for each in plan.passes if each.name == "redo of records")
    assert redo.applied_count == 1
