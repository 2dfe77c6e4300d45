"""Records of write-ahead logs: equal to those of the engine's iterator."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np

from je_tools.formats.ignite.records import (
    DataEntries,
    decode_checkpoint,
    decode_entries,
    decode_type,
)
from je_tools.formats.ignite.types import (
    DATA_NOS,
    NUMBERS,
    RECORD_TYPES,
    EntryOperation,
    TransactionState,
)
from je_tools.formats.ignite.walk import RecordRows
from tests.corpus import IgniteNode, damaged_store, undamaged_store
from tests.je_tools.ignite.reading import each_rows, node_of, pointers
from tests.truth.ignite import EngineRecord, engine_records, fields_of

ENGINE_NAMES = {
    "ENCRYPTED_RECORD_V2": "ENCRYPTED_RECORD",
    "ENCRYPTED_DATA_RECORD_V3": "DATA_RECORD_V2",
}
"""Names that the engine's iterator gives to records that it cannot decrypt."""


def _engine(node: IgniteNode) -> list[EngineRecord]:
    return engine_records(node.truth / "wal.tsv.gz")


def test_every_record_of_the_engine_is_found(ignite_node: IgniteNode) -> None:
    found = pointers(node_of(ignite_node.store, ignite_node.node))
    named = [(*each, ENGINE_NAMES.get(name, name)) for *each, name in found]
    assert named == [record[:4] for record in _engine(ignite_node)]


def _edited_records(case: Path) -> set[tuple[int, int, int, str]]:
    """Return the records that `damage.txt` names as changed."""
    lines = (case / "damage.txt").read_text().splitlines()
    edits = [line.removeprefix("edit: record ") for line in lines if "edit: record (" in line]
    parts = [edit.strip("()").split(", ") for edit in edits]
    return {(int(a), int(b), int(c), name.strip("'")) for a, b, c, name in parts}


def test_only_damaged_records_are_missing(ignite_damage: Path, tmp_path: Path) -> None:
    store = damaged_store(ignite_damage, tmp_path)
    before = pointers(node_of(undamaged_store(ignite_damage)))
    edited = _edited_records(ignite_damage)
    kept = [record for record in before if record not in edited]
    if "torn" in ignite_damage.name:
        (cut,) = edited
        kept = [record for record in kept if record[:2] < cut[:2]]
    assert pointers(node_of(store)) == kept


def test_every_record_decodes_to_its_end(ignite_node: IgniteNode) -> None:
    for _, rows in each_rows(node_of(ignite_node.store, ignite_node.node)):
        for type_no in sorted(set(rows.columns.type_no.tolist())):
            some = rows.select(rows.columns.type_no == type_no)
            assert not decode_type(some, type_no).bad.any(), RECORD_TYPES[type_no].name
            if type_no in DATA_NOS:
                assert not next(decode_entries(some)).bad.any()


def _object(rows: RecordRows, kind: int, start: int, size: int) -> str:
    if size < 0:
        return "-"
    data = rows.data[start : start + size].tobytes()
    return f"{kind}:{size}:{sha256(data).hexdigest()[:16]}"


def _version(parts: int, topology: int, node: int, order: int) -> str:
    return f"{topology}:{node & 0x7FFFFFF}:{order}" if parts else "-"


def _entry_text(rows: RecordRows, entries: DataEntries, i: int) -> str:
    e = {name: int(getattr(entries, name)[i]) for name in DataEntries.__struct_fields__}
    if e["is_encrypted"]:
        return "encrypted"
    near = _version(e["near_parts"], e["near_topology"], e["near_node"], e["near_order"])
    key = _object(rows, e["key_type"], e["key_start"], e["key_size"])
    value = _object(rows, e["value_type"], e["value_start"], e["value_size"])
    return (
        f"cache={e['cache_id']} op={EntryOperation(e['op']).name} part={e['partition']} "
        f"cntr={e['counter']} near={near} "
        f"ver={_version(1, e['topology'], e['node'], e['order'])} expire={e['expire_ms']} "
        f"flags={e['flags']} key={key} val={value}"
    )


def test_entries_of_data_records_are_those_of_the_engine(ignite_node: IgniteNode) -> None:
    found = []
    for _, rows in each_rows(node_of(ignite_node.store, ignite_node.node)):
        some = rows.select(np.isin(rows.columns.type_no, list(DATA_NOS)))
        for batch in decode_entries(some):
            entries = batch.entries
            found += [_entry_text(some, entries, i) for i in range(len(entries))]
    details = [r.detail for r in _engine(ignite_node) if r.type_name == "DATA_RECORD_V2"]
    assert found == [entry for detail in details for entry in detail.split(" | ")[1:]]


def test_transactions_are_those_of_the_engine(ignite_node: IgniteNode) -> None:
    found = []
    for _, rows in each_rows(node_of(ignite_node.store, ignite_node.node)):
        some = rows.select(rows.columns.type_no == NUMBERS["TX_RECORD"])
        columns = decode_type(some, NUMBERS["TX_RECORD"]).columns
        for i in range(len(some)):
            c = {name: int(column[i]) for name, column in columns.items()}
            texts = [
                _version(*(c[f"{name}_{part}"] for part in ("parts", "topology", "node", "order")))
                for name in ("near", "write")
            ]
            found.append([str(c["time_ms"]), TransactionState(c["state"]).name, *texts])
    fields = [fields_of(r.detail) for r in _engine(ignite_node) if r.type_name == "TX_RECORD"]
    assert found == [[each[name] for name in ("ts", "state", "near", "ver")] for each in fields]


def test_pages_are_those_of_the_engine(ignite_node: IgniteNode) -> None:
    found = []
    for index, rows in each_rows(node_of(ignite_node.store, ignite_node.node)):
        for type_no in sorted(set(rows.columns.type_no.tolist())):
            if not RECORD_TYPES[type_no].is_of_page:
                continue
            some = rows.select(rows.columns.type_no == type_no)
            columns = decode_type(some, type_no).columns
            pages = columns["page_id"].view(np.uint64)
            facts = zip(some.columns.at.tolist(), columns["group_id"].tolist(), pages, strict=True)
            found += [(index, at, group, f"{page:016x}") for at, group, page in facts]
    engine = [(r, fields_of(r.detail)) for r in _engine(ignite_node)]
    expected = [(r.segment, r.offset, int(f["grp"]), f["page"]) for r, f in engine if "page" in f]
    assert sorted(found) == sorted(expected)


def test_checkpoints_are_those_of_the_engine(ignite_node: IgniteNode) -> None:
    found = []
    no = NUMBERS["CHECKPOINT_RECORD"]
    for _, rows in each_rows(node_of(ignite_node.store, ignite_node.node)):
        some = rows.select(rows.columns.type_no == no)
        for i in range(len(some)):
            facts = decode_checkpoint(some.payload(i), is_big=False)
            assert facts is not None
            mark = ",".join(map(str, facts.mark)) if facts.mark else "-"
            parts = [f"id={facts.checkpoint} mark={mark} groups={len(facts.groups)}"]
            for group, partitions in facts.groups.items():
                texts = [f"{p.partition}/{p.size}/{p.counter}/{p.state}" for p in partitions]
                parts.append(" ".join([f"grp={group}", *texts]))
            found.append(" | ".join(parts))
    details = [r.detail for r in _engine(ignite_node) if r.type_name == "CHECKPOINT_RECORD"]
    assert [sorted(each.split(" | ")) for each in found] == [
        sorted(each.strip().split(" | ")) for each in details
    ]
