"""Values that no engine writes, in entries with right checksums: each was a bug once."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from je_tools.formats.je.entry.columns import decode
from je_tools.formats.je.entry.entries import decode_entry, encode_entry
from je_tools.formats.je.header import EntryError
from je_tools.formats.je.layout import SLOTS_MAX
from je_tools.formats.je.log.tally import COUNT, tally_rows
from je_tools.formats.je.types import Family
from tests.builders.logs import (
    RESTORE_REQUIRED,
    ROLLBACK_START,
    LogFile,
    entry,
    packed,
    write_log,
)
from tests.builders.planted import planted_file
from tests.builders.trees import rooted
from tests.damage.running import je_tools
from tests.damage.small import vectors
from tests.formats.logs import log_rows

MAP_LN, NAME_LN, BIN, ABORT, INS_LN, EXTINCT_SCAN_LN = 4, 6, 13, 18, 34, 41


def test_a_log_without_transactions_has_none(tmp_path: Path) -> None:
    file = rooted(LogFile(0, 17))
    file.trace(30)
    home = write_log(tmp_path / "env", [file])
    assert je_tools("summary", home, "--txns", "--format", "jsonl").code == 0


def test_a_negative_count_of_a_list_is_an_error() -> None:
    item = packed(0) * 3 + packed(-1)
    with pytest.raises(EntryError, match="-1 items of"):
        decode_entry(entry(ROLLBACK_START, item, 0), 17)


def test_a_base_file_number_that_no_lsn_holds(tmp_path: Path) -> None:
    """LSNs of slots stay in 64 bits."""
    file = LogFile(0, 9)
    base = (1 << 31) - 1
    head = packed(1) + packed(-1) + packed(-1) + packed(7) + packed(0) + b"\0"
    head += packed(1) + packed(1) + packed(128) + b"\1" + struct.pack("<i", base)
    slot = packed(1) + b"k" + b"\1\x05\0\0" + b"\0"
    place = file.add(BIN, head + slot)
    fields = decode_entry(bytes(file.data[place.start :]), 9).fields
    assert fields["base_file_no"] == base
    assert fields["slots"][0]["compact_lsn"] == [1, 5]
    home = write_log(tmp_path / "env", [file])
    for rows in log_rows(home / file.name):
        decoded = decode(rows.select(np.flatnonzero(rows.type == BIN)), Family.NODE)
        assert decoded.slots is not None
        assert decoded.slots.number("lsn").tolist() == [-(1 << 63) | 5]


@pytest.mark.parametrize("file_no", [0x80000000, 0xFFFFFFFF])
def test_a_file_number_with_its_highest_bit_set(file_no: int, tmp_path: Path) -> None:
    file = rooted(LogFile(file_no, 17))
    file.trace(30, vlsn=1)
    home = write_log(tmp_path / "env", [file])
    dumped = je_tools("dump", home, "--format", "jsonl")
    assert dumped.code == 0
    assert [row["lsn"] for row in dumped.rows] == [
        f"{file_no:#x}/{place.start:#x}" for place in file.placed
    ]
    for command in ("verify", "summary", "files"):
        assert je_tools(command, home).code == 0
    assert je_tools("explain", f"{file_no:#x}/0x26", "--env", home).code == 0


@pytest.mark.parametrize("size", [3, 1 << 40, (1 << 63) - 1])
def test_a_value_that_ends_behind_its_entry_is_broken(size: int, tmp_path: Path) -> None:
    file = LogFile(0, 17)
    file.add(INS_LN, b"\0\0" + packed(3) + packed(size) + b"ab")
    home = write_log(tmp_path / "env", [file])
    (rows,) = log_rows(home / file.name)
    sizes = tally_rows(rows).sizes
    assert sizes[:, COUNT].tolist() == [0, 0, 1]


def test_a_slot_cut_short_leaves_the_lines_of_others_json(tmp_path: Path) -> None:
    """A field that is missing in one entry never counts as the first field of another."""
    file = LogFile(0, 19)
    good = planted_file(19)
    nodes = [place for place in good.placed if good.data[place.start + 4] == BIN]
    size = 22 if good.data[nodes[0].start + 5] & 0x28 else 14
    item = bytes(good.data[nodes[0].start + size : nodes[0].stop])
    for kept in range(len(item) + 1):
        file.add(BIN, item[:kept])
    home = write_log(tmp_path / "env", [file])
    rows = je_tools("dump", home, "--format", "jsonl").rows
    assert len(rows) == len(file.placed)
    assert [list(row["entry"]) == ["undecodable"] for row in rows[1:]] == [True] * len(item) + [
        False
    ]


@pytest.mark.parametrize("version", range(1, 6))
def test_databases_of_old_logs_have_no_names(version: int, tmp_path: Path) -> None:
    file = rooted(LogFile(0, version))
    for type_no in (MAP_LN, NAME_LN, ABORT):
        file.add(type_no, b"some bytes")
    home = write_log(tmp_path / "env", [file])
    for command in ("verify", "dump", "summary", "files"):
        assert je_tools(command, home).code == 0
    assert je_tools("summary", home, "--by-db", "--txns", "--vlsn", "--checkpoints").code == 0


def test_a_type_of_later_versions_beside_those_of_its_family(tmp_path: Path) -> None:
    """None of its fields is known, but its line is written all the same."""
    file = LogFile(0, 14)
    file.add(INS_LN, b"\0" + packed(3) + packed(1) + b"vk")
    file.add(EXTINCT_SCAN_LN, b"\0" * 5)
    home = write_log(tmp_path / "env", [file])
    outcome = je_tools("dump", home, "--format", "jsonl")
    assert [row["type"] for row in outcome.rows] == ["FileHeader", "INS_LN", "ExtinctScanLN"]


def test_a_restore_marker_in_a_log_that_is_too_old_for_it(tmp_path: Path) -> None:
    file = rooted(LogFile(0, 3))
    file.add(RESTORE_REQUIRED, b"some bytes")
    outcome = je_tools("verify", write_log(tmp_path / "env", [file]), "--format", "jsonl")
    assert outcome.code == 3
    assert {row["code"] for row in outcome.rows} == {"restore-marker", "unknown-type"}


@pytest.mark.parametrize("more", [0, 1])
def test_a_node_has_no_more_slots_than_an_engine_writes(tmp_path: Path, more: int) -> None:
    """The memory that a node takes is bounded, however many slots its bytes hold."""
    count = SLOTS_MAX + more
    nodes = (decode_entry(v.data, 17) for v in vectors() if (v.version, v.type_no) == (17, BIN))
    node = next(node for node in nodes if node.fields["slot_count"])
    slots = (node.fields["slots"] * count)[:count]
    large = replace(node, fields={**node.fields, "slot_count": count, "slots": slots})
    file = LogFile()
    file.add(BIN, encode_entry(large)[14:])
    home = write_log(tmp_path / "env", [file])
    done = je_tools("dump", home, "--format", "jsonl", "--type", "BIN")
    (row,) = done.rows
    if more:
        assert "32768 items of slots" in row["entry"]["undecodable"]
    else:
        assert len(row["entry"]["slots"]) == count
