"""File summaries as columns, compared with single entries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from je_tools.formats.files.image import Image
from je_tools.formats.je.header import entry_checksum
from je_tools.formats.je.layout import SUMMARY_TOTALS
from je_tools.formats.je.log.fetch import fetch_entry
from je_tools.formats.je.log.summaries import read_summaries
from je_tools.formats.je.types import FILE_SUMMARY_NO
from tests.builders.logs import write_log
from tests.builders.trees import TreeLog
from tests.corpus import Environment, log_files
from tests.formats.je.log.test_fetch import image_of
from tests.formats.logs import log_rows

OFFSETS = [0, 1, 0x7FFF, 0xFFFF, 1 << 20, (1 << 30) + 5, (1 << 32) - 1]


def singly(image: Image, lsns: list[int]) -> list[tuple[int, int, list[int], list[int]]]:
    """Return the place, file number, counts and obsolete offsets of each summary."""
    found = []
    for place, lsn in enumerate(lsns):
        entry = fetch_entry(image, lsn)
        if entry is not None and "summary" in entry.fields:
            fields = entry.fields
            file_no = int.from_bytes(fields["key"][:4], "big")
            totals = [fields["summary"].get(name, 0) for name in SUMMARY_TOTALS]
            found.append((place, file_no, totals, fields["obsolete_offsets"]))
    return found


def assert_same(image: Image, lsns: list[int]) -> int:
    """Assert that columns equal single entries, and return the number of summaries."""
    found = read_summaries(image, np.array(lsns, np.int64))
    expected = singly(image, lsns)
    assert found.row.tolist() == [place for place, _, _, _ in expected]
    assert found.file_no.tolist() == [file_no for _, file_no, _, _ in expected]
    assert found.totals.tolist() == [totals for _, _, totals, _ in expected]
    high = {file_no: (file_no ^ 1 << 31) - (1 << 31) << 32 for _, file_no, _, _ in expected}
    obsolete = [high[file_no] | offset for _, file_no, _, some in expected for offset in some]
    assert sorted(found.obsolete.tolist()) == sorted(obsolete)
    assert len(found) == len(expected)
    return len(found)


def test_columns_say_what_single_entries_do(environment: Environment) -> None:
    image = image_of(log_files(environment.home))
    lsns: list[int] = []
    for path in log_files(environment.home):
        for rows in log_rows(path):
            summaries = np.flatnonzero(rows.type == FILE_SUMMARY_NO)
            lsns += rows.lsn[summaries].tolist()
            # Mix in entries that are no summaries.
            lsns += rows.lsn[:3].tolist()
    assert assert_same(image, lsns[::-1]) <= len(lsns)


def put(log: TreeLog, offsets: list[int] | None, **more: Any) -> int:
    """Append a summary of file 3, or its deletion, and return the LSN."""
    fields: dict[str, Any] = {"flags": 0, "flags2": 0, "db_id": 2, "data": None}
    if offsets is not None:
        fields |= {"data": b"", "obsolete_offsets": offsets}
        fields["summary"] = {name: i for i, name in enumerate(SUMMARY_TOTALS)}
    return log.put("FileSummaryLN", fields | {"key": (3 << 32 | 9).to_bytes(8, "big")} | more)


def test_summaries_of_every_shape(tmp_path: Path) -> None:
    log = TreeLog()
    lsns = [
        put(log, []),
        put(log, OFFSETS),
        put(log, None),
        put(log, [7], key=b"abc"),
        put(log, [7], key=b"longer than a key is"),
        put(log, [7], key=b""),
        put(log, [7], data=b"more"),
        log.ln(b"k", b"v"),
        put(log, [500]),
        put(log, [7], key=(0x9000_0000 << 32 | 9).to_bytes(8, "big")),
        put(log, [7], key=b"\x90 longer than a key is"),
    ]
    home = write_log(tmp_path / "env", log.files)
    image = image_of(log_files(home))
    assert read_summaries(image, np.array(lsns)).row.tolist() == [0, 1, 3, 4, 6, 8, 9, 10]
    kept = [lsn for lsn in lsns if lsn != lsns[5]]
    assert assert_same(image, [*kept, *kept[::-1], lsns[0] + 1, -1]) == 16


def test_damaged_summaries_say_nothing(tmp_path: Path) -> None:
    log = TreeLog()
    lsns = [put(log, OFFSETS), put(log, OFFSETS)]
    (path,) = log_files(write_log(tmp_path / "env", log.files))
    data = bytearray(path.read_bytes())
    data[lsns[1] + 30] ^= 1
    path.write_bytes(data)
    assert assert_same(image_of([path]), lsns) == 1


def test_offsets_that_are_not_as_many_as_is_said(tmp_path: Path) -> None:
    """The counts of offsets are wrong, but the checksums are right."""
    log = TreeLog()
    lsns = [put(log, OFFSETS) for _ in range(3)]
    (path,) = log_files(write_log(tmp_path / "env", log.files))
    data = path.read_bytes()
    counts = bytes([len(OFFSETS)])
    for lsn, wrong in ((lsns[0], b"\x06"), (lsns[1], b"\x08")):
        at = data.index(counts, lsn + 14 + 4 + 4 * len(SUMMARY_TOTALS))
        data = data[:at] + wrong + data[at + 1 :]
    path.write_bytes(summed(data, lsns))
    assert assert_same(image_of([path]), lsns) == 1


def summed(data: bytes, lsns: list[int]) -> bytes:
    """Return the file with the right checksums in the given entries."""
    for lsn in lsns:
        size = 14 + int.from_bytes(data[lsn + 10 : lsn + 14], "little")
        total = entry_checksum(memoryview(data)[lsn : lsn + size], 17)
        data = data[:lsn] + total.to_bytes(4, "little") + data[lsn + 4 :]
    return data
