"""Single entries: fields as an independent decoder found them, round trips, and damage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from je_tools.formats.je.entry.entries import Entry, decode_entry, encode_entry
from je_tools.formats.je.header import EntryError, Header, entry_checksum
from je_tools.formats.je.types import ENTRY_TYPES, Family
from tests.corpus import corpus, vector_files
from tests.formats.vectors import as_vector

Line = dict[str, Any]


def _lines() -> list[Line]:
    texts = (path.read_text(encoding="utf-8").splitlines() for path in vector_files())
    return [json.loads(line) for lines in texts for line in lines]


LINES = _lines()


@pytest.mark.parametrize("name", sorted({line["type_name"] for line in LINES}))
def test_vectors_decode_to_their_fields(name: str) -> None:
    for line in LINES:
        if line["type_name"] == name:
            entry = decode_entry(bytes.fromhex(line["hex"]), line["log_version"])
            assert as_vector(entry) == line["decoded"], (line["log_version"], line["lsn"])


@pytest.mark.parametrize("version", sorted({line["log_version"] for line in LINES}))
def test_vectors_headers_and_checksums(version: int) -> None:
    for line in LINES:
        if line["log_version"] == version:
            data = bytes.fromhex(line["hex"])
            entry = decode_entry(data, version)
            told = line["header"]
            right = entry_checksum(data, version) == entry.header.checksum
            assert _header(entry.header) | {"checksum_ok": right} == told, line["lsn"]
            assert entry.header.type_no == line["entry_type"]
            assert entry.type_name == line["type_name"]


def _header(header: Header) -> dict[str, Any]:
    return {
        "checksum": header.checksum,
        "flags": header.flags,
        "prev_offset": header.prev_offset,
        "item_size": header.item_size,
        "header_size": header.size,
        "vlsn": header.vlsn,
    }


@pytest.mark.parametrize("version", sorted({line["log_version"] for line in LINES}))
def test_vectors_encode_back_to_the_same_bytes(version: int) -> None:
    for line in LINES:
        if line["log_version"] == version:
            data = bytes.fromhex(line["hex"])
            assert encode_entry(decode_entry(data, version)) == data, line["lsn"]


def test_the_vectors_are_all_there() -> None:
    assert len(LINES) == (847 if corpus() else 592)
    versions = {line["log_version"] for line in LINES}
    assert versions >= set(range(14, 27))


def test_spans_cover_the_item_without_overlap() -> None:
    for line in LINES:
        data = bytes.fromhex(line["hex"])
        entry = decode_entry(data, line["log_version"], spans=True)
        at = entry.header.size
        for span in entry.spans:
            assert span.start == at, (line["lsn"], span)
            at = span.stop
        assert at == len(data), line["lsn"]


def test_every_entry_cut_short_is_an_entry_error() -> None:
    """A truncated entry raises only `EntryError`; with its item size adjusted, it may decode."""
    for line in LINES[::7]:
        data = bytes.fromhex(line["hex"])
        for size in range(len(data)):
            with pytest.raises(EntryError):
                decode_entry(data[:size], line["log_version"])
            header_size = line["header"]["header_size"]
            if size >= header_size:
                item_size = (size - header_size).to_bytes(4, "little")
                shorter = data[:10] + item_size + data[14:size]
                _decodes_or_entry_error(shorter, line["log_version"])


def test_every_flipped_byte_decodes_or_is_an_entry_error() -> None:
    for line in LINES[::5]:
        data = bytearray.fromhex(line["hex"])
        for at in range(len(data)):
            for flip in (0x01, 0x80, 0xFF):
                data[at] ^= flip
                _decodes_or_entry_error(bytes(data), line["log_version"])
                data[at] ^= flip


def _decodes_or_entry_error(data: bytes, version: int) -> None:
    try:
        entry = decode_entry(data, version)
    except EntryError:
        return
    assert entry.header.size + entry.header.item_size <= len(data)


def test_a_flipped_bit_anywhere_is_caught_by_the_checksum() -> None:
    line = next(line for line in LINES if line["type_name"] == "Commit")
    data = bytearray.fromhex(line["hex"])
    version = line["log_version"]
    stored = int.from_bytes(data[:4], "little")
    for at in range(4, len(data)):
        for bit in range(8):
            if at == 5 and 1 << bit == 0x10 and version >= 7:
                continue  # set after the entry is written: not in the checksum
            data[at] ^= 1 << bit
            assert entry_checksum(bytes(data), version) != stored, (at, bit)
            data[at] ^= 1 << bit


def test_setting_invisible_leaves_the_checksum_right() -> None:
    for line in LINES:
        if line["log_version"] >= 7 and line["entry_type"] != 43:
            data = bytearray.fromhex(line["hex"])
            data[5] |= 0x10
            assert entry_checksum(bytes(data), line["log_version"]) == line["header"]["checksum"]


def _old(type_no: int, item: bytes, version: int) -> Entry:
    header = Header(0, type_no, 0, 0, len(item), None)
    return Entry(header, version, decode_entry(_bytes_of(header, item), version).fields)


def _bytes_of(header: Header, item: bytes) -> bytes:
    fixed = bytes([header.type_no, header.flags]) + bytes(4) + len(item).to_bytes(4, "little")
    return bytes(4) + fixed + item


def test_records_before_v6_have_fixed_numbers() -> None:
    """Transactional record: payload, database, key, abort LSN, flag, transaction, previous LSN."""

    def i64(value: int) -> bytes:
        return value.to_bytes(8, "little", signed=True)

    item = (
        i64(7) + b"\1" + b"\3\0\0\0abc" + b"\2\0\0\0" + b"\1\0\0\0k"
        + i64(-1) + b"\1" + i64(9) + i64(0x123)
    )  # fmt: skip
    entry = _old(1, item, 5)
    assert entry.fields == {
        "node_id": 7,
        "data_exists": 1,
        "data": b"abc",
        "db_id": 2,
        "key": b"k",
        "abort_lsn": -1,
        "flags": 1,
        "txn_id": 9,
        "txn_prev_lsn": 0x123,
    }
    assert encode_entry(entry)[14:] == item


@pytest.mark.parametrize("version", range(1, 6))
def test_other_types_before_v6_keep_their_bytes(version: int) -> None:
    for type_no in (4, 12, 13, 16, 17, 19, 24):
        entry = _old(type_no, b"\1\2\3", version)
        assert entry.fields == {"item": b"\1\2\3"}
        assert encode_entry(entry)[14:] == b"\1\2\3"


def test_a_type_that_is_not_one_keeps_its_bytes() -> None:
    for type_no in (0, max(ENTRY_TYPES) + 1, 255):
        assert _old(type_no, b"xyz", 17).fields == {"item": b"xyz"}


def test_text_that_is_not_utf8_encodes_back() -> None:
    item = b"\0" + b"\4" + b"a\xff\xc3b"
    entry = _old(24, item, 17)
    assert encode_entry(entry)[14:] == item


def test_null_and_empty_bytes_stay_apart() -> None:
    for length in (b"\xff", b"\0"):
        item = b"\2\0\0" + b"\5" + b"\0" + b"\1k" + length
        entry = _old(34, item, 26)
        assert entry.fields["data"] == (None if length == b"\xff" else b"")
        assert encode_entry(entry)[14:] == item


def test_bytes_left_over_are_an_error() -> None:
    item = b"\0\0\0"
    header = Header(0, 30, 0, 0, len(item), None)
    with pytest.raises(EntryError, match="1 bytes are left over at byte 16"):
        decode_entry(_bytes_of(header, item), 17)


def test_a_wild_count_ends_with_the_entry() -> None:
    """A count of four thousand million in a short entry allocates nothing."""
    count = b"\x7b\xff\xff\xff\xff"
    item = b"\0\0\0" + count + b"\1\1\1"
    header = Header(0, 28, 0, 0, len(item), None)
    with pytest.raises(EntryError):
        decode_entry(_bytes_of(header, item), 17)


def test_a_file_header_has_no_vlsn_whatever_its_flags() -> None:
    item = bytes(20) + b"\x11\0\0\0"
    header = Header(0, 25, 0x28, 0, len(item), None)
    entry = decode_entry(_bytes_of(header, item), 26)
    assert entry.header.vlsn is None
    assert ENTRY_TYPES[25].family is Family.FILE_HEADER
    assert entry.fields["log_version"] == 17
