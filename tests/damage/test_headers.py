"""Every byte of every header changed, one at a time: findings, and entries still readable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from je_tools.findings import Finding
from je_tools.formats.je.log.entry_rows import Rows
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.verify.judge import Judge
from je_tools.verify.totals import Totals
from tests.builders.logs import INVISIBLE, REPLICATED, LogFile, Placed, write_log
from tests.corpus import log_files
from tests.damage.expected import Damaged, Said, said
from tests.damage.reading import Seen, Spans, spans_of, take
from tests.damage.small import small_log

VERSIONS = (6, 8, 15, 17, 26)
LIKE_OTHERS, FEW = (15, 26), 5
"""Versions whose headers are those of 8 and of 17: one in so many of their bytes is changed."""

SOME_FLIPS = (0x01, 0x08, 0x20, 0x80, 0xFF)
HEADER_SIZE, VLSN_SIZE, FLAGS_AT = 14, 8, 5


def header_bytes(file: LogFile) -> list[tuple[Placed, int]]:
    """Return each entry with the offset of each byte of its header, the file header included."""
    mask = 0x28 if file.version >= 8 else 0x20
    found = []
    for place in file.placed:
        is_long = place.start > 0 and file.data[place.start + 5] & mask
        size = HEADER_SIZE + (VLSN_SIZE if is_long else 0)
        found += [(place, at) for at in range(place.start, place.start + size)]
    return found


def judged(home: Path) -> tuple[list[Said], list[Seen]]:
    """Return the findings of `verify` and the entries, by one scan: a million logs are read.

    The files are named one by one: such a log need not have a root.
    """
    environment = open_environment(log_files(home))
    judge = Judge(environment, Totals(""))

    def work(rows: Rows) -> tuple[Any, Spans]:
        return judge.inspector(rows), spans_of(rows)

    found: list[Finding] = []
    seen: list[Seen] = []
    for part in Scanner(threads=1).scan(environment, work):
        found += judge.merge(part, [looked for looked, _ in part.results])
        take(seen, part, [spans for _, spans in part.results])
    found += judge.finish()
    # A log of version 8 has old BIN-deltas, which are no damage.
    return [said(each.row()) for each in found if each.code != "old-delta-in-v8"], seen


def check_flip(home: Path, files: list[LogFile], i: int, at: int, value: int) -> None:
    """Change one byte of one file of a log, and check the findings and the entries."""
    file = files[i]
    after = bytearray(file.data)
    after[at] = value
    write_byte(home / file.name, at, value)
    damaged = Damaged(
        bytes(file.data), bytes(after), file.placed, file.version, is_last=i == len(files) - 1
    )
    found, seen = judged(home)
    expected = damaged.findings() or left_out(files, i, at, value)
    assert found == expected, (file.no, at, value)
    for each in seen:
        each.assert_covers_every_byte()
    listed = sorted(damaged.intact() + damaged.taken_for_erased())
    assert without_header(seen[i]) == listed
    others = [each for j, each in enumerate(seen) if j != i]
    assert all(not each.damaged() for each in others)
    write_byte(home / file.name, at, file.data[at])


def left_out(files: list[LogFile], i: int, at: int, value: int) -> list[Said]:
    """Return the VLSN gap of an entry that is invisible although no rollback covers it.

    The checksum does not cover that bit, so the entry is not damaged.
    """
    if files[i].version < 7 or value ^ files[i].data[at] != INVISIBLE:
        return []
    stream = replicated_entries(files)
    places = [(j, start + FLAGS_AT) for j, start in stream]
    nth = places.index((i, at)) if (i, at) in places else 0
    # Nothing shows that the first or the last VLSN is left out.
    if not 0 < nth < len(stream) - 1:
        return []
    return [Said("vlsn-gap", "warning", stream[nth + 1][1], None, None)]


def replicated_entries(files: list[LogFile]) -> list[tuple[int, int]]:
    """Return the entries of the replication stream: index in `files`, and start offset."""
    return [
        (i, place.start)
        for i, file in enumerate(files)
        for place in file.placed[1:]
        if file.data[place.start + FLAGS_AT] & REPLICATED
    ]


def write_byte(path: Path, at: int, value: int) -> None:
    """Change a byte in place: truncating and rewriting a file takes longer than reading it."""
    with path.open("r+b", buffering=0) as file:
        file.seek(at)
        file.write(bytes([value]))


def without_header(seen: Seen) -> list[tuple[int, int]]:
    return [(start, stop) for start, stop in seen.good if start]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_byte_of_each_header(version: int, tmp_path: Path) -> None:
    files = small_log(version)
    home = write_log(tmp_path / "env", files)
    assert judged(home)[0] == []
    for i, file in enumerate(files):
        chosen = list(enumerate(header_bytes(file)))[:: FEW if version in LIKE_OTHERS else 1]
        for n, (_, at) in chosen:
            flip = SOME_FLIPS[(n + at) % len(SOME_FLIPS)]
            check_flip(home, files, i, at, file.data[at] ^ flip)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_entry_made_invisible_without_a_rollback(version: int, tmp_path: Path) -> None:
    files = small_log(version)
    home = write_log(tmp_path / "env", files)
    for i, start in replicated_entries(files):
        at = start + FLAGS_AT
        check_flip(home, files, i, at, files[i].data[at] ^ INVISIBLE)


def values_for(place: Placed, at: int, old: int) -> set[int]:
    """Return values for a byte of a header: all for type and flags, the telling ones for others."""
    if at - place.start in (FLAGS_AT - 1, FLAGS_AT):
        return set(range(256)) - {old}
    near = {0, 0xFF, (old + 1) & 0xFF, (old - 1) & 0xFF}
    return (near | {old ^ 1 << bit for bit in range(8)}) - {old}


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("version", VERSIONS)
def test_many_values_of_each_byte_of_each_header(version: int, tmp_path: Path) -> None:
    files = small_log(version)
    home = write_log(tmp_path / "env", files)
    for i, file in enumerate(files):
        for place, at in header_bytes(file):
            for value in values_for(place, at, file.data[at]):
                check_flip(home, files, i, at, value)
