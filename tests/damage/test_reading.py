"""Damage of many kinds to known entries: exactly those are lost, and every byte is covered.

Ranges are small, so that every kind of damage meets every place in a range and its borders.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from je_tools.formats.je.log import reader
from tests.builders.logs import LogFile, Placed, random_log, write_log
from tests.damage.reading import Seen, read_log

HEADER_SIZE = 14
INVISIBLE_AT, INVISIBLE = 5, 0x10


def damage_entry(rng: random.Random, data: bytearray, place: Placed) -> None:
    """Change bytes of one entry so that it does not become another good one."""
    kind = rng.randrange(5)
    at = rng.randrange(place.start, min(place.stop, place.start + HEADER_SIZE))
    if kind == 0:
        at = rng.randrange(place.start, place.stop)
    if kind <= 2:
        # The checksum does not cover the invisible bit, and 43 is a type without a checksum.
        mask = rng.randrange(1, 256) & ~(INVISIBLE if at - place.start == INVISIBLE_AT else 0) or 1
        data[at] ^= mask
        if at - place.start == 4 and data[at] == 43:
            data[at] = 24 ^ 1
    elif kind == 3:
        data[place.start : place.stop] = bytes(place.stop - place.start)
    else:
        data[place.start : place.stop] = rng.randbytes(place.stop - place.start)


def assert_lost_exactly(file: LogFile, damaged: set[Placed], seen: Seen) -> None:
    """Assert that exactly the damaged entries are lost, each by itself unless a neighbour is."""
    seen.assert_covers_every_byte()
    assert seen.good == [place for place in file.placed if place not in damaged]
    lost = [byte for start, stop in seen.damaged() for byte in (start, stop)]
    borders = {byte for place in damaged for byte in place}
    assert set(lost) <= borders
    around = [Placed(-1, -1), *file.placed, Placed(-1, -1)]
    alone = {
        place
        for before, place, behind in zip(around, around[1:], around[2:], strict=False)
        if place in damaged and before not in damaged and behind not in damaged
    }
    assert alone <= set(seen.damaged())


@pytest.mark.parametrize("seed", range(60))
def test_damaged_entries_are_lost_and_no_others(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(reader, "RANGE_SIZE", rng.choice([64, 500, 1000, 4096]))
    monkeypatch.setattr(reader, "_SLACK", rng.choice([22, 100, 5000]))
    files = random_log(rng, files=3, entries=60)
    damaged: list[set[Placed]] = []
    for file in files:
        # No entry follows the last one of a file to show its end.
        several = rng.sample(file.placed[:-1], rng.randrange(6))
        for place in several:
            damage_entry(rng, file.data, place)
        damaged.append(set(several))
    write_log(tmp_path / "env", files)
    for file, lost, seen in zip(files, damaged, read_log(tmp_path / "env"), strict=True):
        assert_lost_exactly(file, lost, seen)
        assert not seen.breaks


@pytest.mark.parametrize("seed", range(40))
def test_zeroed_and_overwritten_sectors(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(reader, "RANGE_SIZE", rng.choice([64, 500, 1000, 4096]))
    files = random_log(rng, files=2, entries=80)
    damaged: list[set[Placed]] = []
    for file in files:
        before = bytes(file.data)
        for _ in range(rng.randrange(1, 4)):
            size = 512 * rng.randrange(1, 4)
            at = 512 * rng.randrange(len(before) // 512)
            size = max(min(size, file.last - at), 0)
            file.data[at : at + size] = bytes(size) if rng.random() < 0.5 else rng.randbytes(size)
        changed = [place for place in file.placed if is_changed(before, file.data, place)]
        damaged.append(set(changed))
    write_log(tmp_path / "env", files)
    for file, lost, seen in zip(files, damaged, read_log(tmp_path / "env"), strict=True):
        assert_lost_exactly(file, lost, seen)


def is_changed(before: bytes, data: bytearray, place: Placed) -> bool:
    return before[place.start : place.stop] != data[place.start : place.stop]


@pytest.mark.parametrize("seed", range(40))
def test_bytes_inserted_or_missing_move_the_rest(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entries after it are still found, and the chain is broken once, not once per entry."""
    rng = random.Random(seed)
    monkeypatch.setattr(reader, "RANGE_SIZE", rng.choice([64, 500, 1000, 4096]))
    (file,) = random_log(rng, files=1, entries=120)
    at = rng.randrange(38, file.placed[-30].start)
    if rng.random() < 0.3:
        at = rng.choice(file.placed[1:-30]).start
    if rng.random() < 0.5:
        wrong = rng.randbytes(rng.randrange(1, 3000))
        file.data[at:at] = wrong
        moved, kept_from = len(wrong), at
    else:
        moved = -rng.randrange(1, 3000)
        kept_from = at - moved
        del file.data[at:kept_from]
    write_log(tmp_path / "env", [file])
    (seen,) = read_log(tmp_path / "env")
    seen.assert_covers_every_byte()
    before = [place for place in file.placed if place.stop <= at]
    behind = [
        (place.start + moved, place.stop + moved)
        for place in file.placed
        if place.start >= kept_from
    ]
    # The first entry after it may still seem to be in its place, and then proves nothing.
    assert seen.good[: len(before)] == before
    assert seen.good[len(before) :] in (behind, behind[1:])
    assert len(seen.breaks) == 1
    assert seen.breaks[0].shift == moved


def test_a_long_last_entry_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No entry after it names it, so its checksum decides, whatever that costs."""
    monkeypatch.setattr(reader, "RANGE_SIZE", 64)
    file = LogFile()
    file.trace(100)
    file.trace(100_000)
    write_log(tmp_path / "env", [file])
    (seen,) = read_log(tmp_path / "env")
    assert seen.good == file.placed
    assert seen.tail == seen.size


@pytest.mark.parametrize("slack", [22, 5000, 1 << 16])
def test_a_long_last_entry_behind_a_gap_is_found(
    slack: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checksum is computed at the end of the gap; reading it must not cost that again."""
    monkeypatch.setattr(reader, "RANGE_SIZE", 64)
    monkeypatch.setattr(reader, "_SLACK", slack)
    file = LogFile()
    for size in (100, 300, 100, 50_000):
        file.trace(size)
    damaged = set(file.placed[2:4])
    for start, stop in damaged:
        file.data[start + 4 : stop] = b"\xfe" * (stop - start - 4)
    write_log(tmp_path / "env", [file])
    (seen,) = read_log(tmp_path / "env")
    assert seen.good == [place for place in file.placed if place not in damaged]
    assert seen.tail == seen.size
