"""Verification of write-ahead logs: exactly the planted faults, with their byte ranges."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path

import pytest

from je_tools.findings import Severity
from je_tools.ignite.node_findings import CODES, NodeFinding
from je_tools.ignite.store import open_store
from je_tools.ignite.wal.summary import summarize_wal
from je_tools.ignite.wal.verify import WalTotals, verify_wal
from tests.builders import ignite as build
from tests.corpus import ROOT, IgniteNode, damaged_store
from tests.truth.ignite import engine_records

Range = tuple[str, int, int]
"""File, offset, bytes."""


def _findings(store: Path, *, everything: bool = False) -> list[NodeFinding]:
    return list(verify_wal(open_store([store]), WalTotals(), 2, everything=everything))


def _planted(case: Path) -> list[Range]:
    """Return the records that `damage.txt` names, once for each file that was edited."""
    found, files = [], []
    for line in (case / "damage.txt").read_text().splitlines():
        if edit := re.match(r"edit: (?:byte|zeroed) (\S+\.wal) ", line):
            files.append(edit[1])
        elif record := re.match(r"edit: record \(\d+, (\d+), (\d+),", line):
            found += [(file, int(record[1]), int(record[2])) for file in files]
            files = []
    return sorted(found)


def test_an_undamaged_log_has_no_finding(ignite_node: IgniteNode) -> None:
    assert _findings(ignite_node.store) == []


def test_exactly_the_planted_faults_are_found(ignite_damage: Path, tmp_path: Path) -> None:
    found = _findings(damaged_store(ignite_damage, tmp_path))
    if "torn" in ignite_damage.name:
        ((file, offset, _),) = _planted(ignite_damage)
        places = [(each.code, each.severity, each.file, each.offset) for each in found]
        assert places == [("wal-torn-tail", Severity.NOTE, file, offset)]
        return
    assert {each.code for each in found} <= {"wal-gap"}
    assert sorted((each.file, each.offset, each.length) for each in found) == _planted(
        ignite_damage
    )
    has_twin = ignite_damage.name == "ignite-bitflip-archive-only"
    text = (
        "db/wal/node1/0000000000000001.wal has these bytes undamaged; `ignite recover` copies them"
    )
    twin = f"{text} from there." if has_twin else None
    assert {each.hint for each in found} <= {twin}


def test_a_summary_counts_the_records_of_the_engine(ignite_node: IgniteNode) -> None:
    store = open_store([ignite_node.store], [ignite_node.node])
    summary = summarize_wal(store, 2)
    records = engine_records(ignite_node.truth / "wal.tsv.gz")
    assert sum(each.records for each in summary.types) == len(records)
    assert sum(each.size for each in summary.types) == sum(record.length for record in records)
    assert summary.damaged == 0


_RECORDS = [("DATA_RECORD_V2", build.data_payload(b"key", bytes(n))) for n in range(4)]


def _codes(store: Path) -> list[tuple[str, int | None]]:
    found = _findings(store)
    return [(each.code, each.segment) for each in found if each.severity is Severity.ERROR]


def test_a_segment_that_ends_early_or_is_missing(tmp_path: Path) -> None:
    early, _ = build.segment(0, _RECORDS, end=bytes(100))
    whole, _ = build.segment(1, _RECORDS)
    last, _ = build.segment(4, _RECORDS, end=bytes(100))
    store = build.write_store(tmp_path, [early, whole], [last])
    assert _codes(store) == [("wal-early-end", 0), ("wal-missing-segment", 2)]


@pytest.mark.parametrize("index", range(4))
def test_a_damaged_last_record_is_an_error(index: int, tmp_path: Path) -> None:
    data, offsets = build.segment(0, _RECORDS[: index + 1], end=bytes(100))
    damaged = bytearray(data)
    damaged[offsets[-1] + 30] ^= 1
    assert _codes(build.write_store(tmp_path, [], [bytes(damaged)])) == [("wal-torn-tail", 0)]


def test_records_after_a_damaged_header_are_read(tmp_path: Path) -> None:
    data, _ = build.segment(0, _RECORDS)
    damaged = data[:20] + b"\xff" + data[21:]
    store = build.write_store(tmp_path, [damaged], [])
    totals = WalTotals()
    found = list(verify_wal(open_store([store]), totals, 1))
    assert [each.code for each in found] == ["wal-header"]
    assert totals.records == len(_RECORDS)


def test_segments_of_another_name_or_version(tmp_path: Path) -> None:
    one, _ = build.segment(1, _RECORDS)
    old = build.header(1, serializer=1)
    store = build.write_store(tmp_path, [one, old], [])
    assert sorted(_codes(store)) == [("wal-misnamed", 1), ("wal-unreadable", 1)]


def test_a_file_of_segments_that_is_no_zip(tmp_path: Path) -> None:
    store = build.write_store(tmp_path, [], [])
    folder = store / "db" / "wal" / "archive" / "node1"
    (folder / "0000000000000000.wal.zip").write_bytes(b"PK\x03\x04" + b"\1" * 50)
    assert _codes(store) == [("wal-unreadable", None)]


@pytest.mark.parametrize("is_pipe", [True, False])
def test_a_segment_that_is_no_regular_file(is_pipe: bool, tmp_path: Path) -> None:
    first, _ = build.segment(0, _RECORDS)
    store = build.write_store(tmp_path, [first], [first])
    path = store / "db" / "wal" / "node1" / f"{1:016}.wal"
    os.mkfifo(path) if is_pipe else path.symlink_to("/dev/zero")
    (found,) = _findings(store)
    assert (found.code, found.found) == ("wal-unreadable", "it is no regular file")


def test_damage_in_the_directory_of_a_compacted_segment_is_a_note(tmp_path: Path) -> None:
    """The engine does not read it."""
    store = build.write_store(tmp_path, [], [])
    path = store / "db" / "wal" / "archive" / "node1" / "0000000000000000.wal.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("0000000000000000.wal", build.segment(0, _RECORDS)[0])
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    totals = WalTotals()
    (found,) = verify_wal(open_store([store]), totals, 1)
    assert (found.code, found.severity) == ("wal-directory", Severity.NOTE)
    assert "encrypted" in (found.found or "")
    assert (totals.records, totals.errors) == (len(_RECORDS), 0)


def test_every_finding_has_its_row_in_the_page() -> None:
    page = (ROOT / "docs" / "commands" / "ignite.md").read_text(encoding="utf-8")
    for code in CODES.values():
        assert f"| `{code.name}` | {code.severity.value} |" in page
    for column in NodeFinding.__struct_fields__:
        assert f"`{column}`" in page


def test_copies_with_other_records_are_found(tmp_path: Path) -> None:
    def made(value: bytes) -> tuple[bytes, list[int]]:
        values = (b"1", value, b"3")
        return build.segment(0, [("DATA_RECORD_V2", build.data_payload(b"k", v)) for v in values])

    (archived, offsets), (work, _) = made(b"22"), made(b"2x")
    last, _ = build.segment(1, [("MEMORY_RECOVERY", build.recovery_payload(1))], end=bytes(9))
    same = build.write_store(tmp_path / "same", [archived], [archived + bytes(99), last])
    assert _findings(same) == []
    other = build.write_store(tmp_path / "other", [archived], [work + bytes(99), last])
    (found,) = _findings(other)
    assert (found.code, found.segment) == ("wal-copies-differ", 0)
    assert found.file == "db/wal/node1/0000000000000000.wal"
    assert found.offset is not None
    assert offsets[1] < found.offset < offsets[2]
    # Damage is a gap, and does not make the copies differ.
    damaged = bytearray(archived)
    damaged[offsets[1] + 30] ^= 1
    hurt = build.write_store(tmp_path / "hurt", [bytes(damaged)], [archived, last])
    assert [each.code for each in _findings(hurt)] == ["wal-gap"]


@pytest.mark.parametrize("is_cut", [False, True])
def test_damage_in_the_ring_is_a_note_if_the_archive_is_whole(is_cut: bool, tmp_path: Path) -> None:
    first, offsets = build.segment(0, _RECORDS)
    last, _ = build.segment(1, _RECORDS, end=bytes(9))
    damaged = bytearray(first)
    damaged[offsets[-1 if is_cut else 0] + 30] ^= 1
    code = "wal-early-end" if is_cut else "wal-gap"
    ring = build.write_store(tmp_path / "ring", [first], [bytes(damaged), last])
    (found,) = _findings(ring)
    assert (found.code, found.severity) == (code, Severity.NOTE)
    assert found.hint == (
        "Nothing to do: the node reads db/wal/archive/node1/0000000000000000.wal, which is whole."
    )
    archive = build.write_store(tmp_path / "archive", [bytes(damaged)], [first, last])
    (found,) = _findings(archive)
    assert (found.code, found.severity) == (code, Severity.ERROR)
    # Damage in another place makes the archive's copy damaged, too.
    other = bytearray(first)
    other[offsets[1] + 30] ^= 1
    both = build.write_store(tmp_path / "both", [bytes(other)], [bytes(damaged), last])
    assert {each.severity for each in _findings(both)} == {Severity.ERROR}
