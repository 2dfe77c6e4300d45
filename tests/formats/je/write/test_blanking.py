"""Blank entries: the same entries, with zeros in place of keys and data."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from je_tools.formats.je.entry.entries import decode_entry
from je_tools.formats.je.log.entry_rows import Rows
from je_tools.formats.je.types import type_name
from je_tools.formats.je.write.blanking import blank_checksums, blanking_of
from je_tools.formats.spans import Spans
from tests.builders.logs import LogFile, write_log
from tests.corpus import Environment, log_files, vector_files
from tests.formats.logs import log_rows, sampled
from tests.formats.vectors import as_vector

NODES = ("IN", "BIN", "NewBINDelta", "BINDelta")
USERS = ("INS_LN", "INS_LN_TX", "UPD_LN", "UPD_LN_TX", "DEL_LN", "DEL_LN_TX")
NO_IDS = np.empty(0, np.int64)

HELD = ("key", "data", "abortKey", "abortData", "idKey", "prefix", "bloom", "keySuffix", "embData")
"""Names in the vectors of what an entry holds of records."""


def blanked(rows: Rows, duplicates_ids: np.ndarray = NO_IDS) -> list[bytes]:
    """Return entries with zeros in their ranges and with their new checksums."""
    blanking = blanking_of(rows, duplicates_ids)
    assert not blanking.is_unknown.any()
    data = rows.data.copy()
    for start, size in zip(blanking.ranges.starts, blanking.ranges.sizes, strict=True):
        data[start : start + size] = 0
    found = []
    for row, checksum in enumerate(blanking.checksums()):
        start = int(rows.offset[row]) - rows.base
        entry = bytearray(data[start : start + rows.size_of(row)].tobytes())
        entry[:4] = int(checksum).to_bytes(4, "little")
        found.append(bytes(entry))
    return found


def zeros(value: Any) -> Any:
    """Return hexadecimal text of as many zeros; None for null."""
    return value if value is None else "0" * len(value)


def blank_vector(decoded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a vector as those of the blank entry.

    A two-part key keeps the length at its end.
    """
    fields = {name: zeros(value) if name in HELD else value for name, value in decoded.items()}
    if "embData" in decoded:
        known = len(decoded["keySuffix"] + decoded["embData"])
        fields["key"] = "0" * known + decoded["key"][known:]
    for name in ("slots", "deltas"):
        if name in decoded:
            fields[name] = [blank_vector(slot) for slot in decoded[name]]
    return fields


def test_vectors(tmp_path: Path) -> None:
    """Each entry decodes as before, except for what it holds of records."""
    vectors: dict[int, list[dict[str, Any]]] = {}
    for path in vector_files():
        for line in path.read_text().splitlines():
            vector = json.loads(line)
            if vector["log_version"] >= 8 and vector["type_name"] in (*NODES, *USERS):
                vectors.setdefault(vector["log_version"], []).append(vector)
    seen = set()
    for version, some in vectors.items():
        file = LogFile(0, version=version)
        for vector in some:
            header = vector["header"]
            item = bytes.fromhex(vector["hex"])[header["header_size"] :]
            file.add(vector["entry_type"], item, flags=header["flags"], vlsn=header["vlsn"])
        write_log(tmp_path, [file])
        rows = next(log_rows(tmp_path / file.name))
        rows = rows.select(rows.type != 25)
        for vector, entry in zip(some, blanked(rows), strict=True):
            seen.add(vector["type_name"])
            found = decode_entry(entry, version)
            assert as_vector(found) == blank_vector(vector["decoded"])
            masked = entry[4:5] + bytes([entry[5] & ~0x10]) + entry[6:]
            assert int.from_bytes(entry[:4], "little") == zlib.adler32(masked)
    assert seen >= {"IN", "BIN", "NewBINDelta", "BINDelta", "INS_LN_TX", "UPD_LN_TX"}


def candidates(rows: Rows) -> Rows:
    """Return the records and nodes among entries."""
    return rows.select(np.isin([type_name(no) for no in rows.type.tolist()], [*NODES, *USERS]))


def held_part(before: Any, after: Any) -> None:
    """Check that fields differ in nothing but byte strings, which keep their lengths."""
    if isinstance(before, bytes):
        assert len(before) == len(after)
        length = after.lstrip(b"\0")
        assert len(length) <= 5
        assert before.endswith(length)
    elif isinstance(before, Mapping):
        assert before.keys() == after.keys()
        for name, value in before.items():
            held_part(value, after[name])
    elif isinstance(before, list | tuple):
        assert len(before) == len(after)
        for one, other in zip(before, after, strict=True):
            held_part(one, other)
    else:
        assert before == after


def test_logs(some_environment: Environment) -> None:
    """Entries of an engine decode as before, and a second blanking finds them blank."""
    for path in log_files(some_environment.home):
        for rows in log_rows(path):
            if not 8 <= rows.version <= 16:
                return
            some = candidates(rows)
            some = sampled(some, 40) if len(some) else some
            for row, entry in enumerate(blanked(some)):
                old = decode_entry(some.entry_bytes(row), rows.version)
                held_part(old.fields, decode_entry(entry, rows.version).fields)
                assert entry[4 : old.header.size] == some.entry_bytes(row)[4 : old.header.size]


@pytest.fixture
def two_part_file(tmp_path: Path) -> Path:
    """Write a file with a record of database 5, whose key has two parts."""
    file = LogFile(0, version=15)
    key = b"key-and-" + b"data" + bytes([8])
    # Flags, database, data of no bytes, key.
    file.add(34, bytes([0, 5, 0]) + key)
    file.add(34, bytes([0, 5, 0]) + bytes(12) + bytes([8]))
    file.add(34, bytes([0, 6, 3]) + b"abc" + key)
    # A length that is longer than the key.
    file.add(34, bytes([0, 5, 0]) + b"secret" + bytes([99]))
    write_log(tmp_path, [file])
    return tmp_path / file.name


def test_the_length_of_a_two_part_key_stays(two_part_file: Path) -> None:
    rows = next(log_rows(two_part_file))
    rows = rows.select(rows.type == 34)
    duplicates_ids = np.array([5], np.int64)
    whole, again, other, wrong = blanked(rows, duplicates_ids)
    assert whole[-13:] == bytes(12) + bytes([8])
    assert again == rows.entry_bytes(1)
    assert not any(other[17:])
    assert not any(wrong[17:])
    assert blanking_of(rows, duplicates_ids).is_blank.tolist() == [False, True, False, False]


def test_an_entry_that_does_not_decode_has_no_ranges(tmp_path: Path) -> None:
    file = LogFile(0, version=15)
    file.add(13, b"\x05\xff")
    file.add(34, bytes([0, 5, 90]) + b"ab")
    file.add(34, bytes([0, 5, 1]) + b"ab")
    write_log(tmp_path, [file])
    rows = next(log_rows(tmp_path / file.name))
    rows = rows.select(rows.type != 25)
    blanking = blanking_of(rows, NO_IDS)
    assert blanking.is_unknown.tolist() == [True, True, False]
    assert blanking.is_blank.tolist() == [False, False, False]
    assert blanking.first.tolist() == [0, 0, 0, 2]


def test_checksums_of_entries_as_they_are(two_part_file: Path) -> None:
    rows = next(log_rows(two_part_file))
    entries = Spans(rows.data, rows.offset.astype(np.int64) - rows.base, rows.size)
    assert (blank_checksums(entries, rows.version) == rows.stored_checksum).all()
