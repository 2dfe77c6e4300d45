"""Crash points: every kind is made, its number determines it, and the source is unchanged."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.builders.logs import CKPT_END, CKPT_START, random_log, write_log
from tests.engine.crashes import KINDS, Crash, Source, make_crash, read_source, write_crash
from tests.truth.log_end import HEADER_SIZE, good_entries, is_header

FILES = 4


@pytest.fixture
def source(tmp_path: Path) -> Source:
    files = random_log(random.Random(5), FILES, 9)
    files[2].add(CKPT_START, b"\0\1\0")
    files[2].trace(50)
    files[2].add(CKPT_END, bytes(20))
    files[2].trace(50)
    return read_source(write_log(tmp_path / "source", files))


def made(source: Source, number: int) -> Crash:
    return make_crash(source, random.Random(number))


def test_every_kind_is_made_and_told_by_its_number(source: Source) -> None:
    crashes = [made(source, number) for number in range(300)]
    assert {crash.kind for crash in crashes} == KINDS.keys()
    assert crashes == [made(source, number) for number in range(300)]


def test_directories(source: Source, tmp_path: Path) -> None:
    """The directory holds what the crash describes, and shares nothing with the source."""
    before = {path.name: path.read_bytes() for path in source.home.iterdir()}
    for number in range(60):
        crash = made(source, number)
        home = tmp_path / f"crash-{number}"
        write_crash(source, crash, home)
        paths = sorted(home.iterdir())
        expected = {no: data for no, data in source.files.items() if no not in crash.gone}
        assert read_source(home).files == expected | crash.files
        for path in paths:
            path.write_bytes(b"changed")
    assert {path.name: path.read_bytes() for path in source.home.iterdir()} == before


def test_files_that_the_cleaner_gave_up(source: Source, tmp_path: Path) -> None:
    """Such files are restored or missing; none is restored after the end of the log."""
    first, _, later, _ = sorted(source.files)
    for file_no in (first, later):
        path = source.home / f"{file_no:08x}.jdb"
        path.rename(path.with_suffix(".del"))
    source = read_source(source.home)
    assert source.removed == {first, later}
    seen = set()
    for number in range(60):
        crash = made(source, number)
        home = tmp_path / f"crash-{number}"
        write_crash(source, crash, home)
        there = frozenset(source.removed & read_source(home).files.keys())
        assert there == crash.restored
        assert not there or max(there) < max(read_source(home).files)
        assert bool(there) == ("restored" in crash.detail)
        seen.add(there)
    assert seen == {frozenset(), frozenset({first}), frozenset({first, later})}


@pytest.mark.parametrize("kind", KINDS)
def test_kind(source: Source, kind: str) -> None:
    """Each kind does what its name says."""
    crashes = [made(source, number) for number in range(400)]
    checked = [check(kind, source, crash) for crash in crashes if crash.kind == kind]
    assert checked
    assert all(checked)


def check(kind: str, source: Source, crash: Crash) -> bool:
    (file_no, data), *more = crash.files.items()
    whole = source.files.get(file_no, b"")
    later = {no for no in source.files if no > file_no}
    good = good_entries(data, file_no).stop
    assert not more
    match kind:
        case "whole":
            return data == whole and file_no == source.last
        case "cut at a byte" | "cut at a border":
            at_border = good == len(data) or kind == "cut at a byte"
            return file_no == source.last and whole.startswith(data) and at_border
        case "cut in an earlier file":
            return bool(later) and crash.gone == later and whole.startswith(data)
        case "cut in a checkpoint":
            return crash.gone == later and good == len(data) > good_entries(whole, file_no).stop / 2
        case "zeros behind" | "noise behind" | "foreign bytes behind":
            return good < len(data) or kind == "foreign bytes behind"
        case "a bit flipped" | "a bit flipped in an earlier file":
            return bool(later) == (kind != "a bit flipped") and good < len(data) == len(whole)
        case "a bit flipped in the header":
            return file_no == source.last and not is_header(data, file_no)
        case "cut at the header":
            return len(data) < 120 and whole.startswith(data)
        case "a file behind the last":
            return file_no == source.last + 1 and len(data) <= HEADER_SIZE + 400
    return False
