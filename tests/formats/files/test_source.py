"""Sources: errors of the system, and files that change while they are read."""

from __future__ import annotations

import errno
import gc
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from je_tools.formats import _native
from je_tools.formats.files.source import (
    UNREADABLE,
    Bytes,
    Source,
    SourceChangedError,
    SourceError,
)

PIECE = 1 << 20
"""Size of the pieces in which `is_blank` reads."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "00000000.jdb"
    path.write_bytes(bytes(range(1, 201)) * 100)
    return path


def fail_at(monkeypatch: pytest.MonkeyPatch, code: int, start: int, stop: int) -> None:
    """Make each read that touches [start, stop) fail."""
    real = os.preadv

    def preadv(fd: int, buffers: list[Any], at: int) -> int:
        if at < stop and at + len(buffers[0]) > start:
            raise OSError(code, os.strerror(code))
        return real(fd, buffers, at)

    monkeypatch.setattr(os, "preadv", preadv)


@pytest.mark.parametrize("code", sorted(UNREADABLE))
def test_a_sector_that_cannot_be_read_is_zeros_and_a_range(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    fail_at(monkeypatch, code, 4096, 8192)
    data = path.read_bytes()
    with Source(path) as source:
        read = source.read(0, len(data)).tobytes()
    assert read == data[:4096] + bytes(4096) + data[8192:]
    assert source.unreadable == {(4096, 8192)}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.EACCES, SourceError),
        (errno.EPERM, SourceError),
        (errno.ESTALE, SourceChangedError),
        (errno.ENOENT, SourceChangedError),
    ],
)
def test_another_error_says_which_file(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[SourceError]
) -> None:
    fail_at(monkeypatch, code, 0, 1)
    with Source(path) as source, pytest.raises(SourceError) as raised:
        source.read(0, 100)
    assert type(raised.value) is kind
    assert raised.value.path == path
    again = pickle.loads(pickle.dumps(raised.value))
    assert (type(again), str(again)) == (kind, str(raised.value))


def test_a_file_that_shrinks_or_goes_has_changed(path: Path) -> None:
    with Source(path) as source:
        os.truncate(path, 10)
        with pytest.raises(SourceChangedError, match="shrank"):
            source.read(0, source.size)
        with pytest.raises(SourceChangedError, match="shrank"):
            source.check_unchanged()
        path.unlink()
        with pytest.raises(SourceChangedError, match="removed"):
            source.check_unchanged()
    with pytest.raises(SourceChangedError):
        Source(path)


def test_a_range_is_blank_if_all_its_bytes_are_zero(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 2 * PIECE + 1000
    path.write_bytes(b"a" + bytes(size - 2) + b"b")
    sizes: list[int] = []
    real = Source.read

    def read(source: Source, start: int, stop: int) -> Bytes:
        sizes.append(stop - start)
        return real(source, start, stop)

    monkeypatch.setattr(Source, "read", read)
    with Source(path) as source:
        assert source.is_blank(1, size - 1)
        assert sizes == [PIECE, PIECE, 998]
        assert not source.is_blank(1, size), "a byte in the last piece"
        assert not source.is_blank(size - 1, size)
        assert not source.is_blank(0, size), "a byte in the first piece"
        assert source.is_blank(0, 0)
        assert source.is_blank(size, size)


@pytest.mark.parametrize(
    ("start", "stop"), [(19_999, 20_001), (20_000, 20_001), (-1, 1), (0, 3 * PIECE)]
)
def test_a_range_outside_of_the_file_is_not_called_blank(path: Path, start: int, stop: int) -> None:
    path.write_bytes(bytes(20_000))
    with Source(path) as source, pytest.raises(ValueError, match=r"is not in 0\.\.20000"):
        source.is_blank(start, stop)


def test_bytes_after_the_end_of_a_file_that_shrank_are_no_hole(path: Path) -> None:
    os.truncate(path, 1 << 20)
    with Source(path) as source:
        has_holes = source.is_hole(1 << 19, 1 << 20)
        os.truncate(path, (1 << 20) - 4096)
        assert not source.is_hole(1 << 19, 1 << 20)
        assert not source.is_hole((1 << 20) - 4096, 1 << 20)
        assert source.is_hole(1 << 19, (1 << 20) - 4096) == has_holes


def test_pickled_it_is_opened_again_when_it_is_the_same(path: Path) -> None:
    with Source(path) as source:
        pickled = pickle.dumps(source)
    again = pickle.loads(pickled)
    assert again.read(0, 3).tolist() == [1, 2, 3]
    path.rename(path.with_name("kept"))
    path.write_bytes(bytes(20_000))
    with pytest.raises(SourceChangedError, match="replaced"):
        pickle.loads(pickled).read(0, 3)


def test_one_whose_opening_was_interrupted_goes_without_a_word() -> None:
    """A signal can arrive before the first line of `__init__` has run."""
    source = Source.__new__(Source)
    del source
    gc.collect()


def test_opening_fails_as_it_does_for_python(tmp_path: Path) -> None:
    for path in (tmp_path / "none", path_through_a_file(tmp_path)):
        with pytest.raises(OSError, match="No") as native:
            _native.File(path)
        with pytest.raises(OSError, match="No") as plain:
            os.open(path, os.O_RDONLY)
        expected = plain.value
        found = native.value
        assert type(found) is type(expected)
        told = found.errno, found.strerror, str(found.filename)
        assert told == (expected.errno, expected.strerror, str(path))


def path_through_a_file(folder: Path) -> Path:
    """Return a path below a regular file, which cannot exist."""
    (folder / "file").write_bytes(b"")
    return folder / "file" / "below"
