"""Rows that outgrow memory: the same rows come back, wherever they were kept."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from je_tools.core import spill
from je_tools.core.spill import ByteHeap, GroupedRuns, RowTable, Spill
from je_tools.core.temporary import NamelessFile
from je_tools.errors import RefusedError
from je_tools.formats.spans import Spans

LIMITS = [0, 100_000, 1 << 40]
KINDS = (np.int64, np.int32, np.bool_)


def budget(limit: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Spill:
    monkeypatch.setattr(spill, "MEMORY_MAX", limit)
    return Spill(0, lambda: folder)


@pytest.mark.parametrize("limit", LIMITS)
def test_rows_are_in_the_partition_of_their_digest(
    limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    given = budget(limit, tmp_path, monkeypatch)
    table = RowTable(given, KINDS, digest=0)
    pieces = []
    for size in (0, 1, 3000, 17, 5000, 0, 1):
        digests = rng.integers(0, 1 << 63, size, dtype=np.int64)
        numbers = np.arange(size, dtype=np.int32) + sum(len(piece[0]) for piece in pieces)
        pieces.append((digests, numbers, digests % 3 == 0))
        table.append(pieces[-1])
    every = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    assert len(table) == len(every[0])
    parts = list(table.partitions())
    assert (len(parts) > 1) == (limit < 1 << 40)
    for columns in parts:
        assert [column.dtype for column in columns] == [np.dtype(kind) for kind in KINDS]
        # In a partition rows stay in the order in which they came.
        assert (np.diff(columns[1]) > 0).all()
    found = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(found[1])
    for column, expected in zip(found, every, strict=True):
        assert np.array_equal(column[order], expected)
    owners = [np.unique(columns[0] >> 59) for columns in parts]
    assert len(parts) == 1 or all(len(each) == 1 for each in owners)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rows_read", [1, 7, 1 << 10])
@pytest.mark.parametrize("limit", LIMITS[::2])
def test_runs_of_a_group_are_merged(
    limit: int, rows_read: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spill, "_MERGED_ROWS", rows_read)
    monkeypatch.setattr(spill, "_RUN_ROWS_MIN", rows_read)
    rng = np.random.default_rng(2)
    given = budget(limit, tmp_path, monkeypatch)
    given.hold(1)
    assert given.is_spilled == (limit == 0)
    runs = GroupedRuns(given, (np.uint64, np.int32))
    lsns = rng.permutation(4000).astype(np.uint64) << np.uint64(52)
    groups = rng.integers(-3, 3, 4000)
    owners = rng.integers(0, given.partition_count, 4000)
    for owner in range(given.partition_count):
        rows = np.flatnonzero(owners == owner)
        rows = rows[np.argsort(lsns[rows])]
        runs.append(groups[rows], (lsns[rows], groups[rows].astype(np.int32)))
    assert runs.groups() == set(groups.tolist())
    for group in (*range(-3, 3), 77):
        chunks = list(runs.rows(group))
        expected = np.sort(lsns[groups == group])
        found = np.concatenate([np.empty(0, np.uint64), *(chunk[0] for chunk in chunks)])
        assert np.array_equal(found, expected)
        assert all((chunk[1] == group).all() for chunk in chunks)


@pytest.mark.parametrize("limit", LIMITS)
def test_byte_strings_are_read_by_their_offsets(
    limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spill, "_NEAR", 64)
    heap = ByteHeap(budget(limit, tmp_path, monkeypatch))
    values: list[bytes | None] = [None, b"", b"a" * 70_000]
    values += [bytes([i % 256]) * (i % 90) if i % 7 else None for i in range(4000)]
    starts = np.concatenate(
        [heap.append(Spans.of(values[at : at + 500])) for at in range(0, len(values), 500)]
    )
    sizes = np.array([-1 if value is None else len(value) for value in values])
    for rows in (slice(None), slice(0, 0), slice(2, None, 37), slice(0, 1)):
        found = heap.read(starts[rows], sizes[rows])
        assert [found[i] for i in range(len(found))] == values[rows]


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="--tmp"):
        NamelessFile(tmp_path / "absent")


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = NamelessFile(tmp_path)
    calls = []

    def full(number: int, data: memoryview, offset: int) -> int:
        calls.append(offset)
        if len(calls) > 3:
            raise OSError(28, os.strerror(28))
        return pwrite(number, data[:1], offset)

    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", full)
    # A short write is continued.
    assert file.append(np.array([1, 2], np.uint8)) == 0
    assert file.read(0, np.uint8, 2).tolist() == [1, 2]
    with pytest.raises(RefusedError, match=r"No space left on device; name another .*--tmp"):
        file.append(np.array([1, 2], np.uint8))
