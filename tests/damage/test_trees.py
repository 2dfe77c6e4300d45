"""Trees that no engine writes: a snapshot terminates, reports damage, and yields the rest."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from je_tools.errors import InputError
from je_tools.formats.je.btree import nodes as je_nodes
from je_tools.recovery.findings import snapshot_findings
from je_tools.recovery.plan import plan_recovery
from je_tools.recovery.snapshot import Snapshot
from tests.builders.logs import LogFile
from tests.builders.trees import NULL, VERSION, TreeLog, descriptor, lsn_of, simple, slot
from tests.je_tools.corpus_snapshots import database_named
from tests.je_tools.snapshots import codes_of, contents_of, snapshot_of, strings_of
from tests.truth.contents import Contents

MISSING = "a node that another slot of the tree points to as well"
Make = Callable[[TreeLog], int]

WILD = [-2, 0, 5, 38, 1 << 62, -(1 << 63), (1 << 63) - 1, 0x7FFFFFFF << 32, 1 << 32 | 38]
"""LSNs that hold no node."""


def written(folder: Path, make: Make) -> Path:
    """Write a log with a database whose root `make` returns, and one that is good."""
    log = TreeLog()
    log.database(b"db", make(log))
    good = log.ln(b"good", b"1", db=9)
    log.database(b"other", log.tree([slot(b"good", good)], db=9), db=9)
    log.checkpoint()
    return log.write(folder / "env")


def seen(home: Path) -> tuple[Snapshot, Contents]:
    """Return a snapshot after planning its recovery, and the records of its databases."""
    snapshot = snapshot_of(home)
    plan_recovery(snapshot)
    contents = contents_of(snapshot)
    assert contents["other"] == [(b"good", b"1")]
    return snapshot, contents


def leaf(log: TreeLog, *keys: bytes) -> int:
    return log.node([slot(key, log.ln(key, b"of " + key)) for key in keys])


@pytest.mark.parametrize("depth", [3, 8, 60])
def test_more_ways_than_anybody_can_go(tmp_path: Path, depth: int) -> None:
    """Each node names the one below many times; each is read once, and repeats are reported."""

    def make(log: TreeLog) -> int:
        node = leaf(log, b"a")
        for level in range(2, depth + 1):
            slots = [slot(b"%02d" % i if i else b"", node) for i in range(50)]
            node = log.node(slots, level=level, is_root=level == depth)
        return node

    snapshot, _ = seen(written(tmp_path, make))
    assert set(codes_of(snapshot)) <= {"tree-damage", "stray-slots", "tree-identifier"}
    told = [finding.found for finding in snapshot_findings(snapshot)]
    assert told.count(MISSING) == depth - 1


def test_a_node_under_two_parents_is_read_once(tmp_path: Path) -> None:
    def make(log: TreeLog) -> int:
        shared = leaf(log, b"a", b"x")
        one = log.node([slot(b"", shared), slot(b"c", leaf(log, b"c"))], level=2)
        other = log.node([slot(b"m", shared), slot(b"z", leaf(log, b"z"))], level=2)
        return log.node([slot(b"", one), slot(b"m", other)], level=3, is_root=True)

    snapshot, contents = seen(written(tmp_path, make))
    assert [key for key, _ in contents["db"]] == [b"a", b"c", b"z"]
    assert sorted(codes_of(snapshot)) == ["stray-slots", "tree-damage"]


def test_a_full_version_that_two_deltas_name(tmp_path: Path) -> None:
    def make(log: TreeLog) -> int:
        full = log.node([slot(b"a", log.ln(b"a", b"1"))], node_id=70)
        changed = [slot(b"a", log.ln(b"a", b"2"))]
        deltas = [log.delta(changed, full, node_id=70, full_slot_count=1) for _ in range(40)]
        slots = [slot(b"%02d" % i if i else b"", lsn) for i, lsn in enumerate(deltas)]
        return log.node(slots, level=2, is_root=True)

    snapshot, contents = seen(written(tmp_path, make))
    assert contents["db"] in ([], [(b"a", b"2")])
    assert "tree-damage" in codes_of(snapshot)


@pytest.mark.timeout(60)
def test_a_full_version_of_unknown_order_that_is_larger_than_any(tmp_path: Path) -> None:
    """A delta's slots are matched by sorting keys, even if the tree has another order."""
    count = 30_000
    log = TreeLog()
    lsn = log.ln(b"a", b"1")
    names = [b"%06x" % (i * 7919 % (2 * count)) for i in range(2 * count)]
    full = log.node([slot(name, lsn) for name in names[:count]], node_id=70)
    changed = names[count // 2 : count + count // 2]
    delta = log.delta(
        [slot(name, lsn) for name in changed], full, node_id=70, full_slot_count=count
    )
    root = log.node([slot(b"", delta)], level=2, is_root=True)
    log.database(b"db", root, btree_comparator=b"serialized")
    log.checkpoint()
    snapshot = snapshot_of(log.write(tmp_path / "env"))
    database = database_named(snapshot, "db")
    expected = names[: count // 2] + changed
    batches = snapshot.records(database, with_data=False)
    assert [key for batch in batches for key in strings_of(batch.key)] == expected
    assert snapshot.count(database) == len(expected)


@pytest.mark.timeout(60)
def test_many_lost_nodes_and_many_that_were_logged_since(tmp_path: Path) -> None:
    """Each lost node is looked up by its keys among those logged since."""
    count = 30_000
    log = TreeLog()
    old = log.ln(b"a", b"1")
    log.next_file()
    start = log.here
    keys = [b"%06d" % i for i in range(0, 2 * count, 2)]
    new = [log.node([slot(key, old)], node_id=1000 + i) for i, key in enumerate(keys)]
    lost = [slot(key if i else b"", lsn_of(0, 1000 + i)) for i, key in enumerate(keys)]
    log.database(b"db", log.node(lost, level=2, is_root=True, max_entries=1))
    log.put("CkptStart", {"time_ms": 0, "ckpt_id": 1, "invoker": "test"})
    root = log.db_tree(log.tree(log.mapped, db=0), log.tree(log.named, db=1))
    log.ckpt_end(start, root)
    home = log.write(tmp_path / "env")
    (home / "00000000.jdb").unlink()
    snapshot = snapshot_of(home)
    tree = snapshot.tree(database_named(snapshot, "db"))
    (children,) = tree.unread_bins(at_once=count)
    assert tree.read(children).nodes.lsn.tolist() == new


def test_self_reference(tmp_path: Path) -> None:
    def make(log: TreeLog) -> int:
        return log.node([slot(b"", log.here), slot(b"m", log.here)], level=2, is_root=True)

    snapshot, contents = seen(written(tmp_path, make))
    assert contents["db"] == []
    assert set(codes_of(snapshot)) == {"tree-damage"}


@pytest.mark.parametrize("lsn", [NULL, *WILD], ids=hex)
def test_wild_places(tmp_path: Path, lsn: int) -> None:
    """A slot of a BIN, one of its parent, and a root point to them."""

    def make(log: TreeLog) -> int:
        slots = [slot(b"b", lsn), slot(b"c", log.ln(b"c", b"1"))]
        return log.node([slot(b"", lsn), slot(b"b", log.node(slots))], level=2, is_root=True)

    snapshot, contents = seen(written(tmp_path, make))
    assert contents["db"][-1] == (b"c", b"1")
    assert "tree-damage" in codes_of(snapshot)
    _, contents = seen(written(tmp_path / "root", lambda log: lsn))
    assert contents["db"] == []


@pytest.mark.parametrize("level", [0, 1, 2, 4, 63, 64, 65, 0xFFFF, -1, 1 << 31, 1 << 62], ids=hex)
def test_wild_levels(tmp_path: Path, level: int) -> None:
    """Nothing is found below a root whose level is not one above that of its child."""

    def make(log: TreeLog) -> int:
        child = log.tree([slot(b"a", log.ln(b"a", b"1"))])
        return log.node([slot(b"", child)], level=2, is_root=True) if level == 2 else _in(log)

    def _in(log: TreeLog) -> int:
        child = log.tree([slot(b"a", log.ln(b"a", b"1"))])
        fields = {"db_id": 6, "last_full_lsn": NULL, "last_delta_lsn": NULL, "node_id": 7}
        fields |= {"identifier_key": b"", "booleans": 1, "slot_count": 1, "level": level}
        fields |= {"max_entries": 128, "compact_lsns": 0}
        return log.put("IN", fields | {"slots": [{"key": b"", "lsn": child, "state": 0}]})

    snapshot, contents = seen(written(tmp_path, make))
    assert contents["db"] == []
    assert "tree-damage" in codes_of(snapshot)


def test_a_prefix_that_multiplies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node is dropped if its expanded keys exceed the memory limit; the others are read."""
    monkeypatch.setattr(je_nodes, "KEYS_MAX", 100_000)

    def make(log: TreeLog) -> int:
        lsn = log.ln(b"k", b"1")
        wide = log.node(
            [slot(b"%03d" % i, lsn) for i in range(200)], booleans=2, key_prefix=b"p" * 1000
        )
        good = log.node([slot(b"1", lsn)], booleans=2, key_prefix=b"q")
        return log.node([slot(b"", wide), slot(b"q", good)], level=2, is_root=True)

    snapshot, contents = seen(written(tmp_path, make))
    assert contents["db"] == [(b"q1", b"1")]
    assert codes_of(snapshot) == ["tree-damage"]


def test_huge_fan_out(tmp_path: Path) -> None:
    def make(log: TreeLog) -> int:
        keys = [b"%06d" % i for i in range(20_000)]
        lsn = log.ln(b"k", b"1")
        wide = log.node([slot(key, lsn) for key in keys])
        rest = [slot(key, lsn) for key in keys[1:]]
        return log.node([slot(b"", wide), *rest], level=2, is_root=True)

    snapshot, contents = seen(written(tmp_path, make))
    assert contents["db"] == [(b"000000", b"1")]
    assert set(codes_of(snapshot)) == {"tree-damage", "stray-slots"}


@pytest.mark.parametrize("file_no", [0x80000000, 0xFFFFFFFF], ids=hex)
def test_file_numbers_that_no_log_has(tmp_path: Path, file_no: int) -> None:
    """Their LSNs are negative, so the newest entry would be chosen wrongly."""
    log = TreeLog(files=[LogFile(file_no, VERSION)])
    log.database(b"db", log.tree([slot(b"a", log.ln(b"a", b"1"))]))
    log.checkpoint()
    with pytest.raises(InputError, match="the file number is above 7fffffff"):
        snapshot_of(log.write(tmp_path / "env"))


def test_a_root_of_databases_that_is_none(tmp_path: Path) -> None:
    log = TreeLog()
    lsn = log.ln(b"a", b"1")
    log.ckpt_end(lsn, lsn)
    with pytest.raises(InputError, match="the root of the databases, which should be at 0x0/0x26"):
        snapshot_of(log.write(tmp_path / "env"))


def test_databases_without_roots(tmp_path: Path) -> None:
    """The two databases that list all others have no roots."""
    log = TreeLog()
    record = descriptor(None, NULL, 0)
    fields = {"last_local_db_id": 6, "last_replicated_db_id": -256, "id_database": record}
    fields |= {"name_database": record | {"id": 1}, "flags": 4, "initial_log_version": VERSION}
    root = log.put("DbTree", fields)
    log.ckpt_end(root, root)
    assert contents_of(snapshot_of(log.write(tmp_path / "env"))) == {}


@pytest.mark.parametrize("name", ["CkptEnd", "RollbackStart", "RollbackEnd"])
def test_entries_that_do_not_decode(tmp_path: Path, name: str) -> None:
    """Their checksums are right. The checkpoint before an unreadable one is used."""
    from je_tools.formats.je.types import BY_NAME

    log = simple({b"a": b"1"})
    log.ln(b"b", b"2", txn=3)
    log.end(3)
    log.file.add(BY_NAME[name].no, struct.pack("<q", -1) * 3)
    snapshot = snapshot_of(log.write(tmp_path / "env"))
    assert contents_of(snapshot) == {"db": [(b"a", b"1"), (b"b", b"2")]}


def test_numbers_that_came_before_are_known() -> None:
    """Compared with a set, over batches of many sizes."""
    from je_tools.btree.number_set import NumberSet

    chance = np.random.default_rng(5)
    known, expected = NumberSet(), set()
    for size in (0, 1, 5, 300, 2, 0, 1000, 7, 7, 64):
        batch = chance.integers(0, 900, size)
        found = []
        for number in batch.tolist():
            found.append(number not in expected)
            expected.add(number)
        assert known.first_times(batch).tolist() == found
    assert lsn_of(1, 2) == 1 << 32 | 2
