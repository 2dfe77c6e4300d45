"""Values that no engine writes, in entries whose sums are right: each was a bug once."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from je_tools.formats.je.columns import decode
from je_tools.formats.je.entries import EntryError, decode_entry
from je_tools.formats.je.types import Family
from tests.builders.logs import ROLLBACK_START, LogFile, entry, packed, write_log
from tests.damage.running import je_tools
from tests.formats.logs import log_rows

BIN = 13


def test_a_log_without_transactions_has_none(tmp_path: Path) -> None:
    file = LogFile(0, 17)
    file.trace(30)
    home = write_log(tmp_path / "env", [file])
    assert je_tools("summary", home, "--txns", "--format", "jsonl").code == 0


def test_a_negative_count_of_a_list_is_an_error() -> None:
    item = packed(0) * 3 + packed(-1)
    with pytest.raises(EntryError, match="-1 items declared"):
        decode_entry(entry(ROLLBACK_START, item, 0), 17)


@pytest.mark.parametrize("fast", [False, True], ids=["plain", "compiled"])
def test_a_base_file_number_that_no_lsn_holds(fast: bool, tmp_path: Path) -> None:
    """Slots' LSNs stay in 64 bits, in both forms of the kernel."""
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
        decoded = decode(rows.take(np.flatnonzero(rows.type == BIN)), Family.NODE, fast=fast)
        assert decoded.slots is not None
        assert decoded.slots.number("lsn").tolist() == [-(1 << 63) | 5]


@pytest.mark.parametrize("file_no", [0x80000000, 0xFFFFFFFF])
def test_a_file_number_with_its_highest_bit_set(file_no: int, tmp_path: Path) -> None:
    file = LogFile(file_no, 17)
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
