"""`diff` of records, compared with plain sets for any batch sizes, and of files."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from je_tools.diff.files import CopyState, compare_files
from je_tools.diff.records import Comparison, RecordChange, blocks
from je_tools.formats.je.btree.keys import join_two_part
from je_tools.formats.je.btree.slots import split_two_part_keys
from je_tools.formats.spans import Spans
from je_tools.log.opening import open_environment
from je_tools.log.records import Records
from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools

Pairs = list[tuple[bytes, bytes]]


def column(strings: list[bytes]) -> Spans:
    sizes = np.array([len(each) for each in strings], np.int64)
    data = np.frombuffer(b"".join(strings) or b"\0", np.uint8)
    return Spans(data, np.cumsum(sizes) - sizes, sizes)


def records_of(pairs: Pairs, two_part: bool) -> Records:
    n = len(pairs)
    if two_part:
        joined = column([join_two_part(key, data) for key, data in pairs])
        keys, data = split_two_part_keys(joined)
    else:
        keys, data = column([key for key, _ in pairs]), column([value for _, value in pairs])
    numbers = [np.arange(n, dtype=np.int64) for _ in range(5)]
    return Records(keys, data, *numbers, np.zeros(n, np.bool_))


def apart(pairs: Pairs) -> Records:
    """Return records whose keys and data are in separate arrays, with no bytes after either."""
    together = records_of(pairs, False)
    return replace(together, key=together.key.packed(), data=together.data.packed())


def test_duplicates_of_which_key_and_data_lie_apart_and_long_keys() -> None:
    sizes = (0, 1, 118, 119, 120, 121, 373, 374, 375, 65_654, 65_655)
    a = sorted((b"k" * size, data) for size in sizes for data in (b"", b"one", b"two"))
    b = [pair for i, pair in enumerate(a) if i % 5] + [(b"z", b"")]
    for forms in ((apart, apart), (apart, in_one), (in_one, in_one), (in_one, apart)):
        how = Comparison(by_data=True, ordered=True)
        sides = [iter([form(pairs)]) for form, pairs in zip(forms, (a, b), strict=True)]
        found = [
            (batch.key[row], batch.data[row], int(batch.change[row]))
            for batch in how.differences(*sides)
            for row in range(len(batch))
        ]
        assert found == expected(a, b, True)


def in_one(pairs: Pairs) -> Records:
    """Return records as slots hold them."""
    return records_of(pairs, True)


def test_duplicates_whose_data_is_lost_are_told_apart_by_their_key() -> None:
    a = apart([(b"a" * 130, b"1"), (b"b", b"1"), (b"b", b"2")])
    lost = replace(a, data=Spans(a.data.data, a.data.starts, np.array([-1, 1, -1])))
    how = Comparison(by_data=True, ordered=True)
    assert not any(len(each) for each in how.differences(iter([lost]), iter([lost])))
    found = [
        (batch.key[row], batch.data[row], int(batch.change[row]))
        for batch in how.differences(iter([a]), iter([lost]))
        for row in range(len(batch))
    ]
    assert found == [
        (b"a" * 130, None, RecordChange.ONLY_B),
        (b"a" * 130, b"1", RecordChange.ONLY_A),
        (b"b", None, RecordChange.ONLY_B),
        (b"b", b"2", RecordChange.ONLY_A),
    ]


def batches(pairs: Pairs, two_part: bool, chance: random.Random) -> Iterator[Records]:
    at = 0
    while at < len(pairs):
        size = chance.randint(0, 7)
        yield records_of(pairs[at : at + size], two_part)
        at += size


def side(chance: random.Random, two_part: bool) -> Pairs:
    count = chance.choice([0, 1, 30, 60])
    found = [
        (bytes(chance.choices(b"ab", k=chance.randint(0, 4))), bytes(chance.choices(b"xy", k=2)))
        for _ in range(count)
    ]
    return sorted(set(found)) if two_part else sorted(dict(found).items())


def expected(a: Pairs, b: Pairs, two_part: bool) -> list[tuple[bytes, bytes, int]]:
    if two_part:
        lone = [(*pair, RecordChange.ONLY_A) for pair in set(a) - set(b)]
        return sorted(lone + [(*pair, RecordChange.ONLY_B) for pair in set(b) - set(a)])
    ours, theirs = dict(a), dict(b)
    rows = []
    for key in sorted(ours | theirs):
        if key not in theirs:
            rows.append((key, ours[key], RecordChange.ONLY_A))
        elif key not in ours:
            rows.append((key, theirs[key], RecordChange.ONLY_B))
        elif ours[key] != theirs[key]:
            rows.append((key, ours[key], RecordChange.CHANGED_A))
            rows.append((key, theirs[key], RecordChange.CHANGED_B))
    return [(key, data, int(change)) for key, data, change in rows]


@pytest.mark.parametrize("two_part", [False, True])
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_differences_are_those_of_plain_sets(two_part: bool, ordered: bool) -> None:
    for seed in range(60):
        chance = random.Random(seed)
        a, b = side(chance, two_part), side(chance, two_part)
        how = Comparison(by_data=two_part, ordered=ordered)
        given = [list(pairs) for pairs in (a, b)]
        if not ordered:
            for pairs in given:
                chance.shuffle(pairs)
        streams = [batches(pairs, two_part, chance) for pairs in given]
        found = [
            (batch.key[row], batch.data[row], int(batch.change[row]), int(batch.position[row]))
            for batch in how.differences(*streams)
            for row in range(len(batch))
        ]
        wanted = expected(a, b, two_part)
        assert [row[:3] for row in found] == wanted, seed
        union = sorted(set(a) | set(b)) if two_part else sorted(dict(a) | dict(b))
        keys = [row[:2] if two_part else row[0] for row in found]
        assert [row[3] for row in found] == [union.index(key) for key in keys], seed


def test_blocks_join_differences_with_few_equal_records_in_between() -> None:
    a = [(b"%03d" % i, b"same") for i in range(100)]
    b = [(key, b"other" if i in (10, 13, 50) else data) for i, (key, data) in enumerate(a)]
    b.remove((b"052", b"same"))
    how = Comparison(by_data=False, ordered=True)

    def found(most_equal: int) -> list[tuple[bytes, bytes, int, int, int]]:
        chance = random.Random(most_equal)
        changes = how.differences(batches(a, False, chance), batches(b, False, chance))
        return [
            (
                each.first_key,
                each.last_key,
                each.only_a_count,
                each.only_b_count,
                each.changed_count,
            )
            for each in blocks(changes, most_equal)
        ]

    assert found(1) == [
        (b"010", b"010", 0, 0, 1),
        (b"013", b"013", 0, 0, 1),
        (b"050", b"050", 0, 0, 1),
        (b"052", b"052", 1, 0, 0),
    ]
    assert found(3) == [(b"010", b"013", 0, 0, 2), (b"050", b"052", 1, 0, 1)]
    assert found(100) == [(b"010", b"052", 1, 0, 3)]


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path]:
    """Return an environment of several files, and a copy."""
    source = FIXTURES / "v17-erase-after" / "env"
    for name in ("a", "b"):
        shutil.copytree(source, tmp_path / name)
    return tmp_path / "a", tmp_path / "b"


def states(homes: tuple[Path, Path]) -> list[tuple[int, CopyState, int | None]]:
    a, b = (open_environment([home]) for home in homes)
    return [(pair.file_no, pair.state, pair.differ_offset) for pair in compare_files(a, b)]


def test_a_whole_copy_is_the_same_and_one_of_an_earlier_time_its_beginning(
    homes: tuple[Path, Path],
) -> None:
    assert {state for _, state, _ in states(homes)} == {CopyState.SAME}
    last = sorted(homes[1].glob("*.jdb"))[-1]
    last.write_bytes(last.read_bytes()[:-100])
    assert [state for _, state, _ in states(homes)][-1] is CopyState.SHORTER
    last.unlink()
    assert [state for _, state, _ in states(homes)][-1] is CopyState.NEWER


def test_what_no_whole_copy_has(homes: tuple[Path, Path]) -> None:
    first, *_, last = sorted(homes[1].glob("*.jdb"))
    data = bytearray(first.read_bytes())
    data[777] ^= 1
    first.write_bytes(data)
    with last.open("ab") as file:
        file.write(b"more")
    found = states(homes)
    assert found[0][1:] == (CopyState.CHANGED, 777)
    assert found[-1][1] is CopyState.LONGER
    first.unlink()
    assert states(homes)[0][1] is CopyState.NOT_COPIED


def test_what_has_become_of_the_environment_since(homes: tuple[Path, Path]) -> None:
    first, *_, last = sorted(homes[0].glob("*.jdb"))
    first.unlink()
    last.unlink()
    found = [state for _, state, _ in states(homes)]
    assert (found[0], found[-1]) == (CopyState.GONE, CopyState.AHEAD)


def test_a_file_that_was_cut_off_is_in_no_whole_copy(homes: tuple[Path, Path]) -> None:
    """A file is complete before the next one begins, so only the last may be a beginning."""
    for path in sorted(homes[1].glob("*.jdb")):
        path.write_bytes(path.read_bytes()[:1000])
    *earlier, last = [state for _, state, _ in states(homes)]
    assert set(earlier) == {CopyState.TRUNCATED}
    assert last is CopyState.SHORTER
    done = je_tools("diff", *homes, "--show", "files")
    assert done.code == 3
    assert done.err == (
        f"je-tools: {homes[1]} is not a complete copy of {homes[0]}: {len(earlier)} of "
        f"{len(earlier) + 1} files are wrong, first 00000000.jdb (truncated)\n"
    )


def test_what_is_said_of_a_copy_counts_as_people_do(homes: tuple[Path, Path]) -> None:
    done = je_tools("diff", *homes, "--show", "files")
    assert done.err == f"je-tools: {homes[1]} is a copy of {homes[0]}; nothing has changed since\n"
    last = sorted(homes[1].glob("*.jdb"))[-1]
    last.write_bytes(last.read_bytes()[:-100])
    done = je_tools("diff", *homes, "--show", "files")
    assert done.err.endswith("; 1 file changed since\n")
    with sorted(homes[1].glob("*.jdb"))[0].open("ab") as file:
        file.write(b"more")
    done = je_tools("diff", *homes, "--show", "files")
    assert "files is wrong, first 00000000.jdb (longer)" in done.err


A, B = (FIXTURES / name / "env" for name in ("v17-crash-txn", "v26-crash-txn-ckpt"))


def test_records_are_a_table_that_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = je_tools("diff", A, B, "--show", "records")
    head, *lines = done.out.decode().splitlines()
    assert done.code == 3
    assert head.split()[:4] == ["database", "change", "key", "data"]
    assert max(map(len, lines)) <= 80
    *lines, blank, note = lines
    assert (blank, note[:13]) == ("", "No room for: ")
    # A cut key shows its end, where it differs from its neighbours.
    whole = je_tools("diff", A, B, "--show", "records", "--format", "jsonl").out.splitlines()
    listed = [json.loads(line) for line in whole[: len(lines)]]
    assert len(lines) == 1000
    assert f"{len(whole) - 1000:,} more rows; --format jsonl" in done.err
    for line, row in zip(lines, listed, strict=True):
        key = bytes.fromhex(row["key"]).decode()
        assert line.split()[:2] == ["people", row["change"]]
        assert key[-6:] in line


def test_nothing_that_differs_is_no_table() -> None:
    assert je_tools("diff", A, A, "--show", "records").out == b""


def test_blocks_spell_keys_as_they_can_be_given() -> None:
    done = je_tools("diff", A, B, "--blocks", "100")
    assert b"people    user" in done.out
    assert b"7573657" in je_tools("diff", A, B, "--blocks", "100", "--format", "csv").out
