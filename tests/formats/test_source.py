"""What the system says of a file that is read, and what becomes of it."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from je_tools.formats.source import (
    MAPPED_MIN,
    UNREADABLE,
    Source,
    SourceChangedError,
    SourceError,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "00000000.jdb"
    path.write_bytes(bytes(range(1, 201)) * 100)
    return path


def fail_at(monkeypatch: pytest.MonkeyPatch, code: int, start: int, stop: int) -> None:
    """Have each read that touches [start, stop) fail."""
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
        (errno.ENOMEM, SourceError),
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


def test_pickled_it_is_opened_again_when_it_is_the_same(path: Path) -> None:
    with Source(path) as source:
        pickled = pickle.dumps(source)
    again = pickle.loads(pickled)
    assert again.read(0, 3).tolist() == [1, 2, 3]
    path.rename(path.with_name("kept"))
    path.write_bytes(bytes(20_000))
    with pytest.raises(SourceChangedError, match="replaced"):
        pickle.loads(pickled).read(0, 3)


@pytest.fixture
def long_path(tmp_path: Path) -> Path:
    path = tmp_path / "00000001.jdb"
    path.write_bytes(os.urandom(3 * MAPPED_MIN))
    return path


@pytest.mark.parametrize("start", [0, 1, 4095, 4096, 5000])
def test_a_file_at_rest_is_mapped(
    long_path: Path, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at(monkeypatch, errno.EIO, 0, 3 * MAPPED_MIN)
    data = long_path.read_bytes()
    with Source(long_path, at_rest=True) as source:
        spans = [source.read(start, stop) for stop in (start + MAPPED_MIN, source.size)]
        kept = [bytes(span) for span in spans]
        assert not spans[0].flags.writeable
        assert not source.unreadable
    assert kept == [data[start : start + MAPPED_MIN], data[start:]]


def test_a_short_span_of_a_file_at_rest_is_copied(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at(monkeypatch, errno.EIO, 0, 4096)
    with Source(path, at_rest=True) as source:
        assert not source.read(0, 4096).any()
        assert source.unreadable == {(0, 4096)}


def test_a_span_that_the_system_does_not_vouch_for_is_copied(
    long_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("je_tools.formats.source._POPULATE_READ", -1)
    with Source(long_path, at_rest=True) as source:
        assert source.read(0, source.size).tobytes() == long_path.read_bytes()


def test_a_file_at_rest_that_is_cut_short_has_changed_and_kills_nobody(long_path: Path) -> None:
    with Source(long_path, at_rest=True) as source:
        os.truncate(long_path, MAPPED_MIN)
        with pytest.raises(SourceChangedError, match="shrank"):
            source.read(0, source.size)
