"""Log versions of files with damaged headers: inferred from the rest, and reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from je_tools.formats.je.versions import PLACE_SIZE
from je_tools.log.log_files import VersionBy
from je_tools.log.opening import open_environment
from tests.builders.logs import LogFile
from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools

VERSIONS = {
    "v6-halt": 6,
    "v8-basic": 8,
    "v15-embedded": 15,
    "v17-basic": 17,
    "v17-dups": 17,
    "v26-dbops": 26,
}
NAME = "00000000.jdb"


def flipped(at: int, bit: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[at] ^= 1 << bit

    return change


def zeroed(data: bytearray) -> None:
    """Zero a sector of the disk, and with it the version."""
    data[:4096] = bytes(4096)


def other_version(data: bytearray) -> None:
    """Set another existing version, with another layout."""
    data[34] = 13 if data[34] > 13 else 20


WHOLE = {
    "type": flipped(4, 0),
    "size": flipped(10, 2),
    "sizes": flipped(12, 7),
    "version": flipped(34, 4),
    "high version": flipped(37, 7),
    "checksum": flipped(0, 3),
    "other version": other_version,
}


def damaged(home: Path, name: str, damage: Callable[[bytearray], None]) -> Path:
    home.mkdir()
    data = bytearray((FIXTURES / name / "env" / NAME).read_bytes())
    damage(data)
    (home / NAME).write_bytes(data)
    return home


def salvage(home: Path, folder: Path) -> tuple[int, dict[str, set[bytes]], list[dict[str, Any]]]:
    """Return the exit code, the records by file, and the salvage report."""
    done = je_tools("salvage", home, "--output", folder, "--format", "jsonl")
    report = [json.loads(line) for line in (folder / "report.jsonl").read_text().splitlines()]
    records = {
        path.name: {*path.read_bytes().splitlines()}
        for path in folder.glob("*.jsonl")
        if path.name != "report.jsonl"
    }
    return done.code, records, report


def by_offset(records: dict[str, set[bytes]]) -> dict[int, tuple[str, str]]:
    """Return keys and data by the offset of their entries."""
    rows = [json.loads(line) for lines in records.values() for line in lines]
    return {int(row["lsn"].split("/")[1], 16): (row["key"], row["data"]) for row in rows}


@pytest.mark.parametrize("damage", WHOLE)
@pytest.mark.parametrize("name", VERSIONS)
def test_a_damaged_header_costs_nothing_else(name: str, damage: str, tmp_path: Path) -> None:
    home = damaged(tmp_path / "env", name, WHOLE[damage])
    (file,) = open_environment([home]).files
    assert (file.header.good, file.version, file.by) == (False, VERSIONS[name], VersionBy.ENTRIES)


@pytest.mark.parametrize("damage", ["type", "other version"])
def test_all_records_of_a_file_with_a_damaged_header_come_back(damage: str, tmp_path: Path) -> None:
    home = damaged(tmp_path / "env", "v17-basic", WHOLE[damage])
    _, whole, _ = salvage(FIXTURES / "v17-basic" / "env", tmp_path / "whole")
    code, records, report = salvage(home, tmp_path / "out")
    assert (code, records) == (3, whole)
    (row,) = (row for row in report if row["kind"] == "guessed-version")
    assert (row["file_no"], row["version"], row["by"]) == (0, 17, "entries")
    assert row["path"] == str(home / NAME)


@pytest.mark.parametrize("name", VERSIONS)
def test_without_a_first_sector_entries_tell_the_version(name: str, tmp_path: Path) -> None:
    home = damaged(tmp_path / "env", name, zeroed)
    (file,) = open_environment([home]).files
    assert VERSIONS[name] in file.fits
    code, records, report = salvage(home, tmp_path / "out")
    _, intact, _ = salvage(FIXTURES / name / "env", tmp_path / "whole")
    (gap,) = (row for row in report if row["kind"] == "gap")
    stop = int(gap["stop"].split("/")[1], 16)
    back, whole = by_offset(records), by_offset(intact)
    assert code == 3
    assert {at: row for at, row in back.items() if at >= stop} == {
        at: row for at, row in whole.items() if at >= stop
    }
    # Names of databases may be lost, and with them the assignment of records to databases.
    assert all(whole[at] == back[at] for at in back.keys() & whole.keys())


def test_of_versions_that_fit_a_file_beside_it_tells_which(tmp_path: Path) -> None:
    home = tmp_path / "env"
    home.mkdir()
    first = LogFile(0, 17)
    second = LogFile(1, 17, first.last)
    for file in (first, second):
        for size in range(30, 60):
            file.trace(size)
    (home / first.name).write_bytes(first.data)
    (home / second.name).write_bytes(bytes(38) + second.data[38:])
    files = open_environment([home]).files
    assert len(files[1].fits) > 1
    assert [(file.version, file.by) for file in files] == [
        (17, VersionBy.HEADER),
        (17, VersionBy.ENTRIES),
    ]
    (home / second.name).write_bytes(bytes(len(second.data)))
    files = open_environment([home]).files
    assert (files[1].version, files[1].by, files[1].fits) == (17, VersionBy.FILES, frozenset())


def test_entries_are_looked_for_all_over_a_file(tmp_path: Path) -> None:
    home = tmp_path / "env"
    home.mkdir()
    log = LogFile(0, 17)
    while len(log.data) < 3 * PLACE_SIZE:
        log.trace(PLACE_SIZE // 20)
    lost = len(log.data) - 77
    for _ in range(100):
        log.trace(50)
    (home / NAME).write_bytes(bytes(lost) + log.data[lost:])
    (file,) = open_environment([home]).files
    assert file.by is VersionBy.ENTRIES
    assert 17 in file.fits


def test_verify_says_as_what_such_a_file_is_read(tmp_path: Path) -> None:
    home = damaged(tmp_path / "env", "v17-basic", zeroed)
    done = je_tools("verify", home, "--format", "jsonl")
    (row,) = (r for r in map(json.loads, done.out.splitlines()) if r["code"] == "bad-file-header")
    expected = "entry type 0 instead of 25; read as log version 17, which its entries fit"
    assert row["found"] == expected
    (home / NAME).write_bytes(bytes(4096))
    done = je_tools("verify", home, "--format", "jsonl")
    (row,) = (r for r in map(json.loads, done.out.splitlines()) if r["code"] == "bad-file-header")
    assert row["found"].endswith("log version 26, the newest, since nothing shows which it is")
