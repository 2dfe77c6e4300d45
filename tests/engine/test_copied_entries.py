"""Entries of a log are copied to its end: the engine gives the same answer as the snapshot.

Backward passes follow the copies' prevOffsets: `je_tools.recovery.backward`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.crashes import Crash, Source, read_source, write_crash
from tests.engine.cuts import NOW_MS, CutReport, Judge, fast_folder, sums_of
from tests.engine.hardlogs import Cut
from tests.engine.jars import JE_18
from tests.engine.snapshots import recovered
from tests.truth.contents import Refusal

SEED, COPIES, MOST = 300, 25, 11

pytestmark = pytest.mark.engine


def copies(source: Source, rng: random.Random) -> Iterator[Crash]:
    """Cut the last file at the end of an entry, and copy some entries of a file there."""
    last, data = source.last, source.files[source.last]
    entries = source.entries(last)
    for _ in range(COPIES):
        end = rng.randrange(len(entries) // 2, len(entries))
        file_no = rng.choice([last, last, *source.files])
        some = source.entries(file_no)
        first = rng.choice([max(end - rng.randrange(1, MOST), 1), rng.randrange(1, len(some) - 1)])
        first = min(first, len(some) - 2)
        stop = min(first + rng.randrange(1, MOST), len(some) - 1)
        start, behind = (some[i].lsn & 0xFFFFFFFF for i in (first, stop))
        piece = source.files[file_no][start:behind]
        yield Crash("", "", {last: data[: entries[end].lsn & 0xFFFFFFFF] + piece})


def leads_into_an_entry(home: Path, last: int) -> bool:
    """Return True if a prevOffset names a place of the last file where no entry begins.

    The engine fails there, unless the bytes happen to look like a header.
    """
    entries = read_source(home).entries(last)
    begins = {0, *(each.lsn & 0xFFFFFFFF for each in entries)}
    return any(each.prev_offset not in begins for each in entries)


def outcome(judge: Judge, home: Path, last: int) -> str:
    cut = Cut(last, (home / f"{last:08x}.jdb").stat().st_size)
    engine = judge.look(home, [cut])[cut]
    told = recovered(home, NOW_MS, threads=1)
    ours = told.contents
    if isinstance(engine, Refusal) or isinstance(ours, Refusal):
        is_engine, is_ours = isinstance(engine, Refusal), isinstance(ours, Refusal)
        if is_engine and is_ours:
            return "refused"
        if is_ours:
            return "by luck" if leads_into_an_entry(home, last) else "ours alone"
        return "foretold" if told.warnings else f"engine alone: {engine}"
    if told.warnings or engine.failed:
        return "foretold"
    return "equal" if sums_of(ours) == engine.sums else "different"


def test_copied_entries() -> None:
    found: Counter[str] = Counter()
    with fast_folder() as folder, Judge(JE_18, folder) as judge:
        for seed, home in judge.write([SEED], CutReport("")):
            source = read_source(home)
            for number, crash in enumerate(copies(source, random.Random(seed))):
                place = folder / f"copied-{number}"
                write_crash(source, crash, place)
                found[outcome(judge, place, source.last)] += 1
    print(found)
    assert found["equal"] > COPIES // 10
    assert found["refused"]
    assert not found["different"]
    assert not found["ours alone"]
    assert not [each for each in found if each.startswith("engine alone")], found
    assert found["by luck"] < found["refused"]
