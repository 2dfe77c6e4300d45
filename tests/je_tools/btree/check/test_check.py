"""`verify --tree`: sound logs have no fault; each planted fault is found, and no other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from je_tools.btree.check.cleaner_metadata import CleanerMetadata, read_cleaner_metadata
from je_tools.btree.check.findings import open_trees, tree_findings
from je_tools.btree.check.run import check_trees
from je_tools.findings import Finding
from je_tools.formats.je.flags import SlotState
from je_tools.formats.je.header import NULL_LSN, lsn_text
from je_tools.formats.je.log.fingerprints import RECORDS_MAX, Fingerprints, Printing
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.recovery.database import NAME_DB
from je_tools.recovery.opening import take_snapshot
from je_tools.verify.judge import verify
from je_tools.verify.totals import Totals
from tests.builders.planting import Planting, put_slot
from tests.corpus import FIXTURES, Environment, environments, one_of_each_kind

LATER_MS = 4_000_000_000_000
COMMIT_NO, FILE_SUMMARY_NO = 17, 11

Plant = Callable[[Planting], tuple[int, str]]
"""Plants a fault, and returns its LSN and a part of the expected message."""


def findings(home: Path, *, now_ms: int = 0) -> list[Finding]:
    environment = open_environment([home])
    scanner = Scanner(threads=2)
    opened = partial(open_trees, environment, scanner, now_ms)
    return list(tree_findings(environment, scanner, opened, utilization=True))


def findings_behind_a_scan(
    home: Path, *, now_ms: int = 0, most: int = RECORDS_MAX
) -> list[Finding]:
    """Return the findings after a scan has fingerprinted the whole log, as the command does."""
    environment = open_environment([home])
    scanner = Scanner(threads=2)
    prints = Fingerprints(Printing.at_random(), most)
    list(verify(environment, scanner, Totals(environment.name), prints=prints))
    opened = partial(open_trees, environment, scanner, now_ms)
    return list(tree_findings(environment, scanner, opened, utilization=True, prints=prints))


@pytest.mark.parametrize("each", one_of_each_kind())
def test_sound_logs_have_no_fault(each: Environment) -> None:
    found = [one.text() for one in findings(each.home, now_ms=LATER_MS)]
    if each.name == "v6-halt":
        assert [one for one in found if "old-form-left-out" not in one] == []
    else:
        assert found == []
    again = findings_behind_a_scan(each.home, now_ms=LATER_MS)
    assert [one.text() for one in again] == found


def lsn_of(slot: dict[str, Any]) -> int:
    return int(slot["lsn"])


def a_record(planting: Planting) -> tuple[int, int, int]:
    """Return a BIN's LSN, the number of one of its slots, and the LSN of that slot's record."""
    node = planting.bins("people")[1]
    slot = list(planting.slots(node))[5]
    return node, slot.no, lsn_of(slot.fields)


def record_of_another_key(planting: Planting) -> tuple[int, str]:
    _, _, lsn = a_record(planting)
    planting.change(lsn, lambda ln: ln.update(key=ln["key"][:-1] + b"x"))
    return lsn, "a record of another key"


def record_of_another_database(planting: Planting) -> tuple[int, str]:
    _, _, lsn = a_record(planting)
    planting.change(lsn, lambda ln: ln.update(db_id=4))
    return lsn, "a record of another database"


def record_erased(planting: Planting) -> tuple[int, str]:
    _, _, lsn = a_record(planting)
    planting.write_bytes(lsn + 4, bytes([43]))
    return lsn, "an erased entry"


def slot_that_names_a_commit(planting: Planting) -> tuple[int, str]:
    node, no, _ = a_record(planting)
    lsn = planting.lsn_of_type(COMMIT_NO)
    planting.change(node, put_slot(no, lsn=lsn))
    return lsn, "an entry of type Commit"


def slot_that_names_another_record(planting: Planting) -> tuple[int, str]:
    node, no, _ = a_record(planting)
    lsn = lsn_of(list(planting.slots(node))[no + 1].fields)
    planting.change(node, put_slot(no, lsn=lsn))
    return lsn, "a record of another key"


def slot_that_names_no_file(planting: Planting) -> tuple[int, str]:
    node, no, _ = a_record(planting)
    planting.change(node, put_slot(no, lsn=7 << 32 | 500))
    return 7 << 32 | 500, "nothing: the file does not exist"


def keys_that_do_not_ascend(planting: Planting) -> tuple[int, str]:
    node = planting.bins("people")[1]

    def change(fields: dict[str, Any]) -> None:
        slots = list(fields["slots"])
        slots[3], slots[4] = slots[4], slots[3]
        fields["slots"] = slots

    planting.change(node, change)
    return node, "a key that is not above it"


def key_out_of_bounds(planting: Planting) -> tuple[int, str]:
    node = planting.bins("people")[1]
    last = len(list(planting.slots(node))) - 1
    planting.change(node, put_slot(last, key=b"zser99999999"))
    return node, "a key outside of it"


def identifier_of_no_slot(planting: Planting) -> tuple[int, str]:
    node = planting.bins("people")[1]
    key = planting.entry(node).fields["identifier_key"]
    planting.change(node, lambda fields: fields.update(identifier_key=key[:-1] + b"x"))
    return node, "a key that leads to another place"


def node_of_another_level(planting: Planting) -> tuple[int, str]:
    node = planting.bins("people")[1]
    planting.change(node, lambda fields: fields.update(level=0x10002))
    return node, "a node of another level"


def level_of_the_descriptors_tree(planting: Planting) -> tuple[int, str]:
    node = planting.bins("people")[1]
    # The new level is a byte longer, so `max_entries` becomes a byte shorter.
    planting.change(node, lambda fields: fields.update(level=0x20001, max_entries=100))
    return node, "0x20001"


def bottom_node_that_says_it_is_a_root(planting: Planting) -> tuple[int, str]:
    node = planting.bins("people")[1]
    booleans = planting.entry(node).fields["booleans"]
    planting.change(node, lambda fields: fields.update(booleans=booleans | 1))
    return node, "a mark of a root"


def two_nodes_of_one_id(planting: Planting) -> tuple[int, str]:
    first, second = planting.bins("people")[:2]
    node_id = planting.entry(first).fields["node_id"]
    planting.change(second, lambda fields: fields.update(node_id=node_id))
    return second, f"at {lsn_text(first)}"


def node_of_another_database(planting: Planting) -> tuple[int, str]:
    node = planting.bins("people")[1]
    planting.change(node, lambda fields: fields.update(db_id=4))
    return node, "a node of another database"


def upper_slot_that_names_a_record(planting: Planting) -> tuple[int, str]:
    root = planting.database("people").root_lsn
    _, _, lsn = a_record(planting)
    planting.change(root, put_slot(2, lsn=lsn))
    return lsn, "an entry that is not a node"


def upper_slot_that_names_another_node(planting: Planting) -> tuple[int, str]:
    root = planting.database("people").root_lsn
    lsn = lsn_of(list(planting.slots(root))[6].fields)
    planting.change(root, put_slot(2, lsn=lsn))
    return lsn, "a node for other keys"


def upper_slot_without_a_child(planting: Planting) -> tuple[int, str]:
    root = planting.database("people").root_lsn
    planting.change(root, put_slot(2, lsn=NULL_LSN))
    return root, "none"


def upper_slot_that_is_deleted(planting: Planting) -> tuple[int, str]:
    root = planting.database("people").root_lsn
    planting.change(root, put_slot(2, state=SlotState.KNOWN_DELETED))
    return root, "one of a BIN"


def slot_without_a_record(planting: Planting) -> tuple[int, str]:
    node = planting.bins("people")[1]
    planting.change(node, put_slot(5, lsn=NULL_LSN, state=0))
    return node, "neither"


def empty_data_that_is_not_embedded(planting: Planting) -> tuple[int, str]:
    node = planting.bins("people")[1]
    planting.change(node, put_slot(5, state=0x20))
    return node, "empty data"


def delta_of_another_node(planting: Planting) -> tuple[int, str]:
    delta = planting.bins("people", delta=True)[1]
    other = planting.bins("people", delta=True)[2]
    full_lsn = planting.entry(other).fields["last_full_lsn"]
    planting.change(delta, lambda fields: fields.update(last_full_lsn=full_lsn))
    return delta, "that of another BIN"


def delta_of_a_record(planting: Planting) -> tuple[int, str]:
    delta = planting.bins("people", delta=True)[0]
    lsn = lsn_of(planting.entry(delta).fields["slots"][0])
    planting.change(delta, lambda fields: fields.update(last_full_lsn=lsn))
    return delta, "no readable full version"


def delta_with_an_unchanged_slot(planting: Planting) -> tuple[int, str]:
    delta = planting.bins("people", delta=True)[0]
    planting.change(delta, put_slot(0, state=0))
    return delta, "unchanged slots"


def root_that_is_none(planting: Planting) -> tuple[int, str]:
    # An LSN after the root, because the later of two roots counts.
    lsn = planting.database("people").map_ln_lsn

    def change(fields: dict[str, Any]) -> None:
        fields["database"] = {**fields["database"], "root_lsn": lsn}

    planting.change(lsn, change)
    return lsn, "an entry that is not a node"


def name_of_no_database(planting: Planting) -> tuple[int, str]:
    snapshot = planting.snapshot()
    names = snapshot.databases[NAME_DB]
    for batch in snapshot.records(names, with_data=False):
        for row in range(len(batch)):
            if batch.key[row] == b"people":
                lsn = int(batch.lsn[row])
    planting.change(lsn, lambda fields: fields.update(name_db_id=77))
    return lsn, "none"


def record_noted_as_obsolete(planting: Planting) -> tuple[int, str]:
    """Replace an obsolete offset with that of a live record near it."""
    notes = read_cleaner_metadata(planting.snapshot())
    live = sorted(
        lsn_of(slot.fields)
        for node in planting.bins("people")
        for slot in planting.slots(node)
        if not slot.fields["state"] & SlotState.KNOWN_DELETED
    )
    for batch in planting.snapshot().records(planting.database("_jeUtilization")):
        for summary in batch.lsn.tolist():
            offsets = list(planting.entry(summary).fields["obsolete_offsets"])
            for place in range(1, len(offsets) - 1):
                for lsn in live:
                    if offsets[place - 1] < lsn < offsets[place] and lsn not in notes.obsolete:
                        changed = [*offsets[:place], lsn, *offsets[place + 1 :]]
                        planting.change(
                            summary, lambda f, to=changed: f.update(obsolete_offsets=to)
                        )
                        return lsn, "the cleaner counts it as obsolete"
    raise AssertionError("no place for it")


def totals_that_are_wrong(planting: Planting) -> tuple[int, str]:
    newest = max(
        int(lsn)
        for batch in planting.snapshot().records(planting.database("_jeUtilization"))
        for lsn in batch.lsn
    )

    def change(fields: dict[str, Any]) -> None:
        fields["summary"] = {**fields["summary"], "total_ln_count": 1 << 20}

    planting.change(newest, change)
    return newest, "total_ln_count 1,048,576"


FAULTS: list[tuple[Plant, str]] = [
    (record_of_another_key, "tree-record"),
    (record_of_another_database, "tree-record"),
    (record_erased, "tree-record"),
    (slot_that_names_a_commit, "tree-record"),
    (slot_that_names_another_record, "tree-record"),
    (slot_that_names_no_file, "tree-record"),
    (keys_that_do_not_ascend, "tree-order"),
    (key_out_of_bounds, "tree-bounds"),
    (identifier_of_no_slot, "tree-identifier"),
    (node_of_another_level, "tree-level"),
    (level_of_the_descriptors_tree, "tree-level"),
    (bottom_node_that_says_it_is_a_root, "tree-level"),
    (two_nodes_of_one_id, "tree-node-id"),
    (node_of_another_database, "tree-node"),
    (upper_slot_that_names_a_record, "tree-node"),
    (upper_slot_that_names_another_node, "tree-node"),
    (upper_slot_without_a_child, "tree-state"),
    (upper_slot_that_is_deleted, "tree-state"),
    (slot_without_a_record, "tree-state"),
    (empty_data_that_is_not_embedded, "tree-state"),
    (delta_of_another_node, "tree-delta"),
    (delta_of_a_record, "tree-delta"),
    (delta_with_an_unchanged_slot, "tree-state"),
    (root_that_is_none, "tree-node"),
    (name_of_no_database, "tree-name"),
    (record_noted_as_obsolete, "tree-obsolete"),
    (totals_that_are_wrong, "utilization"),
]


@pytest.mark.parametrize(("plant", "code"), FAULTS, ids=[f.__name__ for f, _ in FAULTS])
def test_a_planted_fault_is_found_and_alone(plant: Plant, code: str, tmp_path: Path) -> None:
    planting = Planting(FIXTURES / "v26-basic" / "env", tmp_path / "env")
    lsn, said = plant(planting)
    found = findings(planting.home)
    assert [(one.code, one.lsn) for one in found] == [(code, lsn)], [one.text() for one in found]
    assert said in found[0].text()
    assert findings_behind_a_scan(planting.home) == found
    assert findings_behind_a_scan(planting.home, most=500) == found


def test_a_fault_is_told_with_its_place_and_the_keys_that_it_costs(tmp_path: Path) -> None:
    planting = Planting(FIXTURES / "v26-basic" / "env", tmp_path / "env")
    node, no, lsn = a_record(planting)
    key = list(planting.slots(node))[no].fields["key"]
    planting.write_bytes(lsn + 4, bytes([43]))
    (found,) = findings(planting.home)
    assert found.tree is not None
    assert found.tree.path == f"database people, slot {no} of the node at {lsn_text(node)}"
    assert found.tree.lost == f"key hex:{key.hex()}"
    row = found.row()
    assert row["lsn"] == lsn_text(lsn)
    assert (row["db"], row["parent_lsn"], row["slot"]) == ("people", lsn_text(node), no)
    assert (row["lost_from"], row["lost_to"], row["is_one_key"]) == (key.hex(), key.hex(), True)


def test_a_lost_node_costs_the_keys_between_two_slots(tmp_path: Path) -> None:
    planting = Planting(FIXTURES / "v26-basic" / "env", tmp_path / "env")
    root = planting.database("people").root_lsn
    slots = [slot.fields for slot in planting.slots(root)]
    planting.change(root, put_slot(2, lsn=9 << 32 | 77))
    (found,) = findings(planting.home)
    assert found.tree is not None
    low, high = slots[2]["key"], slots[3]["key"]
    assert found.tree.lost == f"from key hex:{low.hex()} to before key hex:{high.hex()}"
    assert (found.tree.parent_lsn, found.tree.slot) == (root, 2)


def test_a_damaged_record_in_a_file_that_others_follow(tmp_path: Path) -> None:
    planting = Planting(FIXTURES / "v8-cleaned" / "env", tmp_path / "env")
    lsn = min(
        int(one)
        for batch in planting.snapshot().records(planting.database("people"))
        for one in batch.lsn
    )
    assert lsn >> 32 == 2
    data = planting.entry(lsn).fields["data"]
    content = (planting.home / "00000002.jdb").read_bytes()
    # Only the value changes, so nothing else is wrong with the record.
    at = content.index(data, lsn & 0xFFFFFFFF)
    planting.write_bytes(2 << 32 | at, data[:-1] + b"~")
    (found,) = findings(planting.home)
    assert (found.code, found.lsn) == ("tree-record", lsn)
    assert "a wrong checksum" in found.text()
    assert findings_behind_a_scan(planting.home) == [found]


@pytest.mark.parametrize("name", ["v26-crash-txn-ckpt", "v26-basic"])
def test_a_stale_copy_is_no_damage(name: str, tmp_path: Path) -> None:
    """A crash can leave it, and the engine keeps it when it recovers and closes the log."""
    planting = Planting(FIXTURES / name / "env", tmp_path / "env")
    node, other = planting.bins("people")[1:3]
    last = len(list(planting.slots(node))) - 1
    copied = list(planting.slots(other))[1].fields
    planting.change(node, put_slot(last, key=copied["key"], lsn=copied["lsn"]))
    (found,) = findings(planting.home)
    assert (found.code, found.severity.value) == ("tree-stray", "warning")
    assert found.tree is not None
    assert found.tree.lost == ""


@pytest.mark.parametrize(
    ("fixture", "name", "is_before"),
    [("v26-dbops", "plain", True), ("v26-basic", "people", False)],
)
def test_an_id_above_the_last_one(fixture: str, name: str, is_before: bool, tmp_path: Path) -> None:
    """Recovery notes the ids of nodes from the last CkptStart on by itself."""
    planting = Planting(FIXTURES / fixture / "env", tmp_path / "env")
    node = planting.bins(name)[1]
    assert (node < planting.snapshot().checkpoint.start_lsn) is is_before
    planting.change(node, lambda fields: fields.update(node_id=119))
    found = [(each.code, each.lsn) for each in findings(planting.home)]
    assert found == ([("tree-node-id", node)] if is_before else [])


def test_units_of_expirations(tmp_path: Path) -> None:
    planting = Planting(FIXTURES / "v15-ttl" / "env", tmp_path / "env")
    first, second = planting.bins("expiring")[:2]
    booleans = planting.entry(first).fields["booleans"]
    planting.change(first, lambda fields: fields.update(booleans=booleans ^ 0x20))
    offset = list(planting.slots(second))[3].fields["expiration_offset"]
    planting.change(second, put_slot(3, expiration_offset=offset + 24))
    found = findings(planting.home)
    assert [one.code for one in found] == ["tree-expiration"] * 2
    assert found[0].lsn == first
    assert "expected expirations in hours; found a flag for days" in found[0].text()
    assert found[1].tree is not None
    assert (found[1].tree.parent_lsn, found[1].tree.slot) == (second, 3)


def test_what_has_expired_may_be_gone(tmp_path: Path) -> None:
    planting = Planting(FIXTURES / "v15-ttl" / "env", tmp_path / "env")
    node = planting.bins("expiring")[1]
    planting.change(node, put_slot(3, compact_lsn=[9, 500]))
    assert [one.code for one in findings(planting.home)] == ["tree-record"]
    assert findings(planting.home, now_ms=LATER_MS) == []


def test_a_prefix_that_is_not_that_of_the_keys(tmp_path: Path) -> None:
    planting = Planting(FIXTURES / "v17-dups" / "env", tmp_path / "env")
    node = planting.bins("visits")[2]
    prefix = planting.entry(node).fields["key_prefix"]
    planting.change(node, lambda fields: fields.update(key_prefix=b"z" + prefix[1:]))
    found = findings(planting.home)
    assert {(one.code, one.lsn) for one in found} == {
        ("tree-bounds", node),
        ("more-tree-damage", None),
    }
    assert len(list(planting.slots(node))) >= len(found)


def test_a_slot_of_a_database_with_duplicates_names_its_record(tmp_path: Path) -> None:
    planting = Planting(FIXTURES / "v17-dups" / "env", tmp_path / "env")
    node = planting.bins("visits")[2]
    slots = list(planting.slots(node))
    planting.change(node, put_slot(3, compact_lsn=slots[4].fields["compact_lsn"]))
    (found,) = findings(planting.home)
    assert found.code == "tree-record"
    # No reader needs that entry, and the cleaner may delete it.
    planting.change(node, put_slot(3, compact_lsn=[9, 500]))
    assert findings(planting.home) == []


def test_embedded_data_that_is_none(tmp_path: Path) -> None:
    planting = Planting(FIXTURES / "v15-embedded" / "env", tmp_path / "env")
    node = planting.bins("small")[1]
    slots = [slot.fields for slot in planting.slots(node)]
    no = next(i for i, slot in enumerate(slots) if i and not slot["state"] & 0x20)
    planting.change(node, put_slot(no, key=slots[no]["key"][:-1] + b"\x7f"))
    found = findings(planting.home)
    assert [one.code for one in found] == ["tree-state"]
    assert found[0].tree is not None
    assert (found[0].tree.parent_lsn, found[0].tree.slot) == (node, no)


def test_a_descriptor_that_is_gone(tmp_path: Path) -> None:
    planting = Planting(FIXTURES / "v26-dbops" / "env", tmp_path / "env")
    lsn = planting.database("plain").map_ln_lsn
    planting.write_bytes(lsn + 4, bytes([43]))
    assert {one.code for one in findings(planting.home)} == {"tree-record", "tree-name"}


def test_what_the_cleaner_would_throw_away(tmp_path: Path) -> None:
    environment = open_environment([FIXTURES / "v26-basic" / "env"])
    snapshot = take_snapshot(environment, Scanner(threads=1), now_ms=0)
    database = next(each for each in snapshot.databases.values() if each.name == "people")
    notes = CleanerMetadata(reserved=frozenset({0}))
    found = {each.name: problems for each, problems in check_trees(snapshot, notes)}["people"]
    records = sum(len(batch) for batch in snapshot.records(database))
    nodes = 1 + 9 + 5
    assert {problem.code for problem in found.listed} == {"tree-reserved"}
    assert len(found.listed) + sum(found.unlisted.values()) == records + nodes


def test_a_log_without_a_root_is_refused_and_not_a_crash(tmp_path: Path) -> None:
    planting = Planting(FIXTURES / "v26-basic" / "env", tmp_path / "env")
    path = planting.home / "00000000.jdb"
    path.write_bytes(path.read_bytes()[:60])
    assert [one.code for one in findings(planting.home)] == ["recovery-refused"]


def test_reserved_files_are_read() -> None:
    for each in environments():
        snapshot = take_snapshot(open_environment([each.home]), Scanner(threads=1), now_ms=0)
        expected = {0} if each.name.startswith("starrocks-fe/") else set()
        assert read_cleaner_metadata(snapshot).reserved == expected
