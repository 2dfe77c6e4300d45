"""Segments that are made byte by byte: both byte orders, headers, arbitrary damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from je_tools.formats.files.source import Bytes, Source
from je_tools.formats.ignite.records import decode_entries, decode_type
from je_tools.formats.ignite.segments import Problem, SegmentHeader, read_segment_header
from je_tools.formats.ignite.types import NUMBERS, RECORD_TYPES, TYPE_COUNT
from je_tools.formats.ignite.walk import Cause, SegmentReader
from tests.builders import ignite as build


class _Memory:
    """Bytes of a segment in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = np.frombuffer(data, np.uint8)
        self.size = len(data)

    def read(self, start: int, stop: int) -> Bytes:
        return self._data[start:stop]


def _header(data: bytes) -> SegmentHeader:
    found = read_segment_header(data[:29])
    assert isinstance(found, SegmentHeader)
    return found


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_byte_orders(order: str, tmp_path: Path) -> None:
    records = [
        ("MEMORY_RECOVERY", build.recovery_payload(77, order)),
        ("DATA_RECORD_V2", build.data_payload(b"key", b"value", order=order)),
    ]
    data, offsets = build.segment(8, records, order=order)
    (tmp_path / "segment").write_bytes(data)
    reader = SegmentReader(Source(tmp_path / "segment"), _header(data))
    (rows,) = reader
    assert rows.columns.at.tolist() == offsets
    first, second = (rows.select(np.array([i])) for i in range(2))
    assert decode_type(first, NUMBERS["MEMORY_RECOVERY"]).columns["time_ms"].tolist() == [77]
    (batch,) = decode_entries(second)
    entries = batch.entries
    assert not batch.bad.any()
    assert (int(entries.cache_id[0]), int(entries.counter[0])) == (9, 4)
    assert reader.tail is not None
    assert reader.tail.stop.cause is Cause.SWITCH


def test_headers_that_are_none() -> None:
    good = build.header(3)
    assert read_segment_header(bytes(29)) is Problem.UNUSED
    assert read_segment_header(good[:28]) is Problem.SHORT
    assert read_segment_header(bytes(13) + good[13:]) is Problem.MAGIC
    assert read_segment_header(good[:24] + b"\x07" + good[25:]) is Problem.VERSION
    damaged = good[:9] + b"\1" + good[10:25] + b"\x07" + good[26:]
    assert read_segment_header(damaged) is Problem.CHECKSUM
    assert read_segment_header(damaged, checks_sum=False) == _header(good)
    assert read_segment_header(b"x" * 29) is Problem.MAGIC


def test_a_header_without_checksum_is_of_a_writer_that_computes_none() -> None:
    assert not _header(build.header(3)[:25] + bytes(4)).summed


def test_every_index_is_a_type_once() -> None:
    assert sorted(RECORD_TYPES) == list(range(TYPE_COUNT))
    assert len(NUMBERS) == TYPE_COUNT


_CHANGES = st.lists(st.tuples(st.integers(29, 700), st.integers(1, 255)), max_size=4)


@given(_CHANGES, st.integers(0, 700))
def test_records_of_damaged_segments_are_those_that_were_written(
    changes: list[tuple[int, int]], cut: int
) -> None:
    records = [("DATA_RECORD_V2", build.data_payload(b"k" * n, b"v" * 9)) for n in range(5)]
    good, offsets = build.segment(0, records, end=b"\x29" + bytes(40))
    data = bytearray(good)
    for at, change in changes:
        if at < len(data):
            data[at] ^= change
    data = data[: max(len(data) - cut, 29)]
    reader = SegmentReader(_Memory(bytes(data)), _header(bytes(data)))
    found = [at for rows in reader for at in rows.columns.at.tolist()]
    ends = [*offsets[1:], len(good) - 41]
    whole = zip(offsets, ends, strict=True)
    assert found == [at for at, end in whole if data[at:end] == good[at:end]]
