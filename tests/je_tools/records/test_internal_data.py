"""Data of the engine's internal databases: the bytes of the log, and their decoded records."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from je_tools.core.masking import DataMode, Masking
from je_tools.formats.je.entry.entries import Entry, encode_entry
from je_tools.formats.je.header import lsn_text, read_header
from je_tools.formats.je.internal.cleaner import (
    DatabaseExtinction,
    Expirations,
    RecordExtinction,
    ReservedFile,
)
from je_tools.formats.je.internal.replication import GhostBucket
from je_tools.formats.rows import Buffer
from je_tools.formats.spans import Spans
from je_tools.log.records import Records, no_records
from je_tools.output.encoders.record_lines import OutputDatabase, jsonl_form
from je_tools.output.encoders.typed_records import typed_of
from je_tools.recovery.database import ID_DB, NAME_DB
from tests.corpus import FIXTURES
from tests.je_tools.dumped import Row, all_rows, items, je_tools, rows_of
from tests.je_tools.snapshots import snapshot_of, strings_of

CRASH, ERASED = "v17-crash-txn/env", "v17-erase-after/env"
NAMES = ["_jeIdMap", "_jeNameMap", "_jeUtilization"]


def _records(name: str, database: str, *words: str) -> list[Row]:
    done = je_tools("export", FIXTURES / name, "--db", database, "--format", "jsonl", *words)
    # Exit code 3 reports that not all records of v6-halt are replayed.
    assert done.code == 3 * name.startswith("v6")
    return rows_of(done.out)


@pytest.mark.parametrize("home", [CRASH, "v8-dbops/env", "v26-dbops/env", "v6-halt/env"])
@pytest.mark.parametrize("database", NAMES)
def test_data_is_what_the_log_has(home: str, database: str) -> None:
    found = _records(home, database)
    assert found
    for record in found:
        data = bytes.fromhex(record["data"])
        assert data
        assert data in items(home)[record["lsn"]]


@pytest.mark.parametrize("home", [CRASH, "v17-dups/env", "v26-dbops/env"])
def test_data_of_entries_that_were_copied_to_be_read(home: str) -> None:
    """The extension copies the entries of whole BINs into one buffer, where the data then is."""
    snapshot = snapshot_of(FIXTURES / home)
    for db_id in (ID_DB, NAME_DB):
        for batch in snapshot.records(snapshot.databases[db_id]):
            for lsn, data in zip(batch.lsn.tolist(), strings_of(batch.data), strict=True):
                assert data
                assert data in items(home)[lsn_text(lsn)]
    assert not snapshot.faults.damage


def test_descriptors_and_names_and_summaries_are_told() -> None:
    entries = {row["lsn"]: row["entry"] for row in all_rows(CRASH)}
    by_id = {row["key"]: row for row in _records(CRASH, "_jeIdMap")}
    people = by_id[b"6".hex()]
    assert people["record"] == {"kind": "database", **entries[people["lsn"]]["database"]}
    assert people["record"]["root_lsn"].startswith("0x0/")
    names = {row["record"]["name"]: row["record"] for row in _records(CRASH, "_jeNameMap")}
    assert names["people"] == {"kind": "name", "name": "people", "id": 6}
    for row in _records(CRASH, "_jeUtilization"):
        said = entries[row["lsn"]]
        assert row["record"]["kind"] == "file-summary"
        assert row["record"]["file_no"] == 0
        assert row["record"].items() >= said["summary"].items()
        assert row["record"]["obsolete_offsets"] == said["obsolete_offsets"]


def test_members_of_a_group_and_its_vlsns_are_told() -> None:
    home = "v26-rep-committed/node1"
    group, *nodes = (row["record"] for row in _records(home, "_jeRepGroupDB"))
    assert (group["kind"], group["name"]) == ("rep-group", "group")
    assert [(node["kind"], node["node_type"]) for node in nodes] == [("rep-node", "electable")] * 3
    vlsns, *buckets = (row["record"] for row in _records(home, "_jeVlsnMapDb"))
    assert vlsns["kind"] == "vlsn-range"
    assert {bucket["kind"] for bucket in buckets} == {"vlsn-bucket"}
    assert buckets[-1]["last"] == vlsns["last"]


def test_the_eraser_is_told() -> None:
    (row,) = _records(ERASED, "_jeMetadata")
    assert row["record"]["kind"] == "eraser-state"
    assert row["record"]["completed"] == [0, 1]


def _of_bytes(name: str, pairs: list[tuple[bytes, bytes]]) -> list[Any]:
    import numpy as np

    columns = []
    for column in zip(*pairs, strict=True):
        sizes = np.array([len(each) for each in column], np.int64)
        data = np.frombuffer(b"".join(column), np.uint8)
        columns.append(Spans(data, np.cumsum(sizes) - sizes, sizes))
    zeros = np.zeros(len(pairs), np.int64)
    records = Records(*columns, zeros, zeros - 1, zeros, zeros, zeros, zeros != 0)
    typed = typed_of(name, lambda *_: pytest.fail("an entry was asked for"))
    assert typed is not None
    return [json.loads(text or "") for text in typed(records)]


def test_other_records_are_told() -> None:
    reserved = ReservedFile(3, 0, 10, 20, (5, 6))
    assert _of_bytes("_jeReservedFilesDb", [reserved.encode(), (b"x", b"")]) == [
        {
            "kind": "reserved-file",
            "file_no": 3,
            "flags": 0,
            "first_vlsn": 10,
            "last_vlsn": 20,
            "db_ids": [5, 6],
        },
        {"unreadable": "8 bytes wanted, 1 are left at byte 0"},
    ]
    hours = Expirations(7, True, ((24, 100), (25, 200)))
    days = Expirations(8, False, ((2, 300),))
    assert _of_bytes("_jeExpiration", [hours.encode(), days.encode()]) == [
        {
            "kind": "expirations",
            "file_no": 7,
            "expires": [
                {"expires_ms": 86_400_000, "bytes": 100},
                {"expires_ms": 90_000_000, "bytes": 200},
            ],
        },
        {
            "kind": "expirations",
            "file_no": 8,
            "expires": [{"expires_ms": 172_800_000, "bytes": 300}],
        },
    ]
    scans = [
        DatabaseExtinction(1, 1, 9),
        RecordExtinction(2, 1, True, (5,), b"a", b"b", b"", "old", 5, b"ab"),
    ]
    database, records = _of_bytes("_jeExtinctScansDb", [each.encode() for each in scans])
    assert database == {"kind": "database-extinction", "scan_id": 1, "version": 1, "db_id": 9}
    assert (records["begin_key"], records["label"], records["db_ids"]) == ("61", "old", [5])
    (ghost,) = _of_bytes("_jeVlsnMapDb", [GhostBucket(1, 5, 0x100000010, -1).encode()])
    assert ghost == {
        "kind": "ghost-bucket",
        "version": 1,
        "first": 5,
        "first_possible_lsn": lsn_text(0x100000010),
        "last_possible_lsn": None,
    }


def test_databases_of_applications_have_no_such_records() -> None:
    assert typed_of("people", lambda *_: pytest.fail("asked")) is None
    assert typed_of("_jeBeforeImagesDb", lambda *_: pytest.fail("asked")) is None
    assert all("record" not in row for row in _records(CRASH, "people"))


def test_masked_data_tells_no_record() -> None:
    for row in _records(CRASH, "_jeNameMap", "--data", "length"):
        assert row["data"] == "length:2"
        assert "record" not in row
    form = jsonl_form(Masking(DataMode.HIDE))
    typed: Callable[[Records], list[str | None]] = lambda _: pytest.fail("asked")  # noqa: E731
    assert not len(
        form.lines(OutputDatabase("_jeNameMap", 1, False, typed), no_records(), Buffer())
    )


def test_get_shows_it_and_its_history() -> None:
    home = FIXTURES / CRASH
    done = je_tools("get", home, "--db", "_jeIdMap", "6", "--format", "jsonl")
    (row,) = rows_of(done.out)
    assert row["record"]["name"] == "people"
    words = ("get", home, "--db", "_jeIdMap", "6", "--history", "--format", "jsonl")
    history = rows_of(je_tools(*words).out)
    assert [each["current"] for each in history] == ["no", "yes"]
    assert history[-1]["data"] == row["data"]
    assert history[0]["data"] == "060670656f706c65000000007809110000"


def test_a_root_that_moved_is_a_difference(tmp_path: Path) -> None:
    a, b = FIXTURES / CRASH, tmp_path / "b"
    b.mkdir()
    data = bytearray((a / "00000000.jdb").read_bytes())
    (row,) = _records(CRASH, "_jeIdMap", "--key-range", "6..6")
    at = int(row["lsn"].split("/")[1], 16)
    fields = dict(next(each for each in all_rows(CRASH) if each["lsn"] == row["lsn"])["entry"])
    assert fields["database"]["root_lsn"] == "0x0/0x3cc99"
    header = read_header(bytes(data[at:]), 17)
    from je_tools.formats.je.entry.entries import decode_entry

    entry = decode_entry(bytes(data[at:]), 17)
    moved = entry.fields["database"] | {"root_lsn": 0x3CC98}
    again = encode_entry(Entry(header, 17, {**entry.fields, "database": moved}))
    data[at : at + len(again)] = again
    (b / "00000000.jdb").write_bytes(data)
    done = je_tools(
        "diff", a, b, "--internal", "--db", "_jeIdMap", "--show", "records", "--format", "jsonl"
    )
    before, after = rows_of(done.out)
    assert (before["change"], after["change"]) == ("changed-a", "changed-b")
    assert before["record"]["root_lsn"] == "0x0/0x3cc99"
    assert after["record"]["root_lsn"] == "0x0/0x3cc98"


@pytest.mark.parametrize("name", ["v17-crash-txn", "v8-dbops", "v26-dbops", "v17-dups"])
def test_salvage_has_what_count_counts(name: str, tmp_path: Path) -> None:
    home, out = FIXTURES / name / "env", tmp_path / "out"
    done = je_tools("salvage", home, "--internal", "--format", "jsonl", "--output", out)
    assert done.code == 0
    counts = je_tools("count", home, "--internal", "--format", "jsonl").out
    for row in rows_of(counts):
        if not row["db"].startswith("_je") or not row["records"]:
            continue
        found = rows_of((out / f"{row['db']}.jsonl").read_bytes())
        assert len(found) == row["records"], row
        wanted = {each["key"]: each for each in _records(f"{name}/env", row["db"])}
        for each in found:
            assert each.pop("confidence") == "non-transactional" or row["db"] == "_jeNameMap"
            assert each == wanted[each["key"]]


def test_csv_has_the_bytes() -> None:
    out = je_tools("export", FIXTURES / CRASH, "--db", "_jeNameMap", "--format", "csv").out
    rows = list(csv.DictReader(io.StringIO(out.decode())))
    wanted = [(row["key"], row["data"]) for row in _records(CRASH, "_jeNameMap")]
    assert [(row["key"], row["data"]) for row in rows] == wanted
