"""`ignite wal dump`: equal to what the engine's iterator gives, and filters."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from je_tools.formats.ignite.record_table import record_tables
from je_tools.formats.ignite.records import ENTRIES_MAX
from je_tools.formats.ignite.types import DATA_NOS, RECORD_TYPES
from je_tools.ignite.store import open_store
from je_tools.ignite.wal.dump import RecordDump
from je_tools.ignite.wal.record_filters import RecordFilters
from tests.builders import ignite as build
from tests.corpus import IgniteNode
from tests.je_tools.dumped import je_tools
from tests.je_tools.ignite.reading import each_rows, node_of
from tests.je_tools.ignite.wal.test_segment_reading import ENGINE_NAMES
from tests.truth.ignite import EngineRecord, engine_records, fields_of

DATA_NAMES = {RECORD_TYPES[no].name for no in DATA_NOS}

Row = dict[str, Any]


def _dumped(node: IgniteNode, tmp_path: Path, form: str = "parquet") -> list[Row]:
    output = tmp_path / f"dump.{form}"
    words = ("ignite", "wal", "dump", node.store, "--node", node.node, "--output", output)
    je_tools(*words, "--format", form)
    if form == "parquet":
        return pq.read_table(output).to_pylist()
    return [json.loads(line) for line in output.read_text().splitlines()]


def _records(rows: list[Row]) -> list[list[Row]]:
    by_record = groupby(rows, key=lambda row: (row["segment"], row["file_offset"]))
    return [list(some) for _, some in by_record]


def _hash(data: bytes) -> str:
    return sha256(data).hexdigest()[:16]


def _object(row: Row, name: str) -> str:
    data = row[name]
    return "-" if data is None else f"{row[f'{name}_type']}:{len(data)}:{_hash(data)}"


def _entry(row: Row) -> str:
    if row["encrypted"]:
        return "encrypted"
    return (
        f"cache={row['cache_id']} op={row['op']} part={row['partition']} cntr={row['counter']} "
        f"near={row['transaction'] or '-'} ver={row['version']} expire={row['expire_ms'] or 0} "
        f"flags={row['flags']} key={_object(row, 'key')} val={_object(row, 'value')}"
    )


def _metastore(row: Row) -> Row:
    value = row["value"]
    shown = "-" if not value else f"{len(value)}:{_hash(value)}"
    return {"key": row["key"].decode().replace("\0", "@"), "val": shown}


def _page(row: Row) -> Row:
    found = {"grp": str(row["group_id"]), "page": f"{row['page_id']:016x}"}
    if row["type"] == "PAGE_RECORD":
        found |= {"bytes": str(len(row["value"])), "sha": _hash(row["value"])}
    return found


FIELDS: dict[str, Callable[[Row], Row]] = {
    "METASTORE_DATA_RECORD": _metastore,
    "MEMORY_RECOVERY": lambda row: {"ts": str(row["time_ms"])},
    "TX_RECORD": lambda row: {
        "ts": str(row["time_ms"]),
        "state": row["state"],
        "near": row["transaction"] or "-",
        "ver": row["version"] or "-",
    },
    "CHECKPOINT_RECORD": lambda row: {"id": json.loads(row["fields"])["checkpoint"]},
}


def _engine(node: IgniteNode) -> list[EngineRecord]:
    return engine_records(node.truth / "wal.tsv.gz")


def test_rows_are_the_records_of_the_engine(ignite_node: IgniteNode, tmp_path: Path) -> None:
    found = _records(_dumped(ignite_node, tmp_path))
    engine = _engine(ignite_node)
    assert len(found) == len(engine)
    for rows, record in zip(found, engine, strict=True):
        row = rows[0]
        name = ENGINE_NAMES.get(row["type"], row["type"])
        place = (row["segment"], row["file_offset"], row["length"], name)
        assert place == record[:4]
        assert not row["undecodable"]
        if row["type"] in DATA_NAMES:
            details = record.detail.split(" | ")
            assert [_entry(each) for each in rows] == details[1:]
            assert [each["entry"] for each in rows] == list(range(len(rows)))
            assert fields_of(details[0]).get("ts") == str(row["time_ms"])
            continue
        expected = fields_of(record.detail)
        if row["page_id"] is not None:
            assert _page(row) == {name: expected[name] for name in _page(row)}, record
        elif row["type"] in FIELDS:
            made = FIELDS[row["type"]](row)
            assert made == {name: expected[name] for name in made}, record


def test_lines_of_json_have_the_values_of_parquet(ignite_node: IgniteNode, tmp_path: Path) -> None:
    table = _dumped(ignite_node, tmp_path)
    lines = _dumped(ignite_node, tmp_path, "jsonl")
    assert len(lines) == len(table)
    for row, line in zip(table, lines, strict=True):
        for name, value in row.items():
            if isinstance(value, bytes):
                assert line[name] == value.hex()
            elif name == "page_id":
                assert line.get(name) == (None if value is None else f"{value:016x}")
            elif name in ("fields", "key_json", "value_json"):
                assert line.get(name) == (None if value is None else json.loads(value))
            else:
                assert line.get(name, False if value is False else None) == value, name


def test_compacted_segments_keep_their_pointers(tmp_path: Path) -> None:
    payload = build.data_payload(b"k", b"v")
    data, _ = build.segment(3, [("MEMORY_RECOVERY", build.recovery_payload(5))] * 2)
    moved = build.header(3, compacted=True) + build.record("DATA_RECORD_V2", payload, 3, 900)
    path = tmp_path / "0000000000000003.wal"
    path.write_bytes(moved + b"\x29")
    words = ("ignite", "wal", "dump", path, "--format", "jsonl")
    (row,) = map(json.loads, je_tools(*words).out.splitlines())
    assert (row["offset"], row["file_offset"]) == (900, 29)
    path.write_bytes(data)
    assert len(je_tools(*words).out.splitlines()) == 2


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store with transactions, entries and a page of two caches, in two segments."""
    return build.write_dumped_store(tmp_path / "store")


CASES = {
    ("--type", "TX_RECORD"): ["TX_RECORD"],
    ("--type", "data"): ["DATA_RECORD_V2"] * 3,
    ("--type", "PHYSICAL"): ["PAGES_LIST_ADD_PAGE"],
    ("--cache", "9"): ["DATA_RECORD_V2"] * 3,
    ("--cache", "accounts"): ["PAGES_LIST_ADD_PAGE"],
    ("--cache", str(build.ACCOUNTS)): ["PAGES_LIST_ADD_PAGE"],
    ("--cache", "nothing"): [],
    ("--partition", "5"): ["PAGES_LIST_ADD_PAGE"],
    ("--partition", "3"): ["DATA_RECORD_V2"] * 3,
    ("--page", "accounts:0001000500000002"): ["PAGES_LIST_ADD_PAGE"],
    ("--page", "accounts:9901000500000002"): ["PAGES_LIST_ADD_PAGE"],
    ("--page", "accounts:0001000500000003"): [],
    ("--transaction", "5:6:7"): ["DATA_RECORD_V2", "TX_RECORD", "DATA_RECORD_V2", "DATA_RECORD_V2"],
    ("--transaction", "5:6:8"): [],
    ("--since", "2000ms"): ["TX_RECORD", "DATA_RECORD_V2"],
    ("--until", "1970-01-01T00:00:01"): ["DATA_RECORD_V2", "DATA_RECORD_V2"],
    ("--from", "1:0"): ["DATA_RECORD_V2"],
    ("--to", "0:29"): ["DATA_RECORD_V2"],
    ("--limit", "2"): ["DATA_RECORD_V2", "PAGES_LIST_ADD_PAGE"],
}


@pytest.mark.parametrize("words", CASES)
def test_filters(words: tuple[str, str], store: Path) -> None:
    done = je_tools("ignite", "wal", "dump", store, *words, "--format", "jsonl")
    expected = CASES[words]
    assert [json.loads(line)["type"] for line in done.out.splitlines()] == expected
    assert done.code == 0
    assert ("no record matches" in done.err) == (not expected)


@pytest.mark.parametrize(
    "words",
    [
        ("--type", "NONE"),
        ("--page", "accounts"),
        ("--transaction", "5"),
        ("--from", "0x1/0x2"),
        ("--from", "2:0", "--to", "1:0"),
        ("--since", "2026-01-02", "--until", "2026-01-01"),
        ("--cache", "99999999999"),
    ],
)
def test_wrong_filters_are_refused(words: tuple[str, ...], store: Path) -> None:
    assert je_tools("ignite", "wal", "dump", store, *words).code == 2


def test_records_that_do_not_decode_are_shown_whole(tmp_path: Path) -> None:
    payload = build.data_payload(b"key", b"value")[:-3]
    data, _ = build.segment(0, [("DATA_RECORD_V2", payload), ("MEMORY_RECOVERY", b"short")])
    path = tmp_path / "0000000000000000.wal"
    path.write_bytes(data)
    done = je_tools("ignite", "wal", "dump", path, "--format", "jsonl")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [(row["undecodable"], row["value"]) for row in rows] == [
        (True, payload.hex()),
        (True, b"short".hex()),
    ]
    assert (done.code, "(2 errors)" in done.err) == (3, True)


def test_a_record_with_very_many_entries(tmp_path: Path) -> None:
    """Each entry takes 9 bytes, and rows are made in parts."""
    count = ENTRIES_MAX + 5
    secret = struct.pack("<Bii", 1, 8, 0)
    many = ("ENCRYPTED_DATA_RECORD", struct.pack("<iq", count, 1000) + secret * count)
    one = ("DATA_RECORD_V2", build.data_payload(b"k", b"v"))
    bad = ("ENCRYPTED_DATA_RECORD", many[1] + b"\0")
    data, offsets = build.segment(0, [one, many, one, bad, one], end=bytes(40))
    node = node_of(build.write_store(tmp_path, [], [data]))
    parts = [
        (table.rows.columns.offset[table.index], table.columns["entry"].values, table.bad)
        for _, rows in each_rows(node)
        for table in record_tables(rows)
    ]
    assert max(len(offset) for offset, _, _ in parts) <= ENTRIES_MAX + 2
    offset, entry, damaged = (np.concatenate(each) for each in zip(*parts, strict=True))
    assert offset.tolist() == np.repeat(offsets, [1, count, 1, count, 1]).tolist()
    assert entry.tolist() == [0, *range(count), 0, *range(count), 0]
    assert np.array_equal(damaged, offset == offsets[3])
    dump = RecordDump(RecordFilters().selection(), lambda table, _: len(table), 1)
    assert sum(dump.run(open_store([tmp_path]))) == 2 * count + 3
    assert dump.damaged == 1


@pytest.mark.parametrize("form", ["table", "jsonl", "csv"])
@pytest.mark.parametrize("mode", ["hide", "length", "hash", "salted-hash"])
def test_masked_bytes_are_not_shown(
    mode: str, form: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    shown = je_tools("ignite", "wal", "dump", store, "--format", form)
    masked = je_tools("ignite", "wal", "dump", store, "--format", form, "--data", mode)
    for text in (b"one", b"two"):
        assert text.hex().encode() in shown.out
        assert text.hex().encode() not in masked.out
    texts = {"length": b"length:3", "hash": b"sha256:" + sha256(b"one").hexdigest().encode()}
    assert texts.get(mode, b"") in masked.out


def test_every_record_is_in_the_table(ignite_node: IgniteNode) -> None:
    done = je_tools("ignite", "wal", "dump", ignite_node.store, "--node", ignite_node.node)
    shown = {line.split()[0] for line in done.out.decode().splitlines()[1:]}
    found = set()
    for segment, rows in each_rows(node_of(ignite_node.store, ignite_node.node)):
        found |= {f"{segment}:{offset}" for offset in rows.columns.offset.tolist()}
    assert shown == found


def test_the_history_of_a_page_is_that_of_the_engine(ignite_node: IgniteNode) -> None:
    engine = [(record, fields_of(record.detail)) for record in _engine(ignite_node)]
    pages = Counter((f["grp"], f["page"][4:]) for _, f in engine if "page" in f)
    words = ("ignite", "wal", "dump", ignite_node.store, "--node", ignite_node.node)
    every = je_tools(*words, "--type", "PAGE", "--format", "jsonl").out.splitlines()
    assert len(every) == pages.total()
    for (group, page), _ in pages.most_common(2):
        done = je_tools(*words, "--page", f"{group}:{page}", "--format", "jsonl")
        rows = [json.loads(line) for line in done.out.splitlines()]
        expected = [
            (record.segment, record.offset, record.type_name)
            for record, fields in engine
            if (fields.get("grp"), fields.get("page", "")[4:]) == (group, page)
        ]
        assert [(row["segment"], row["file_offset"], row["type"]) for row in rows] == expected
