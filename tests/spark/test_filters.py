"""Filters by options: the same rows as those of `dump`, without needless work."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from je_tools.formats.je.log.reader import RangeReader
from je_tools.formats.je.types import ENTRY_TYPES, Family, mask_of
from je_tools.log import entry_table as entries
from je_tools.log.file_scan import FilePiece
from tests.builders.logs import LogFile, write_log
from tests.corpus import FIXTURES
from tests.spark.reading import assert_same, batches, dumped, read, reader

NAMES = ["v8-cleaned/env", "v17-dups/env", "v26-dbops/env", "v26-rep-committed/node1"]

OPTIONS: list[dict[str, str]] = [
    {"type": "LN"},
    {"type": "commit, CKPT"},
    {"txn": "2,3,5"},
    {"from_lsn": "0x0/0x1000", "to_lsn": "0x0/0x8000"},
    {"from_lsn": "0x2/0x0"},
    {"from_vlsn": "5", "to_vlsn": "40"},
    {"replicated": "true"},
    {"grep": "user0000"},
    {"key": "hex:75*"},
    {"since": "2000-01-01", "until": "2100-01-01"},
    {"since": "2100-01-01"},
    {"type": "LN", "txn": "3", "from_lsn": "0x0/0x100"},
]


def as_arguments(options: dict[str, str]) -> list[str]:
    """Return the same filters as options of `dump`."""
    arguments = []
    for name, text in options.items():
        option = "--" + name.replace("_", "-")
        if name == "replicated":
            arguments.append(option)
        elif name in ("type", "txn", "db"):
            arguments += [word for value in text.split(",") for word in (option, value.strip())]
        else:
            arguments += [option, text]
    return arguments


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_options_are_the_filters_of_dump(
    name: str, options: dict[str, str], tmp_path: Path
) -> None:
    expected = dumped(FIXTURES / name, tmp_path / "out.parquet", *as_arguments(options))
    assert_same(read(FIXTURES / name, **options), expected)


def test_a_database_by_name_and_by_id(tmp_path: Path) -> None:
    home = FIXTURES / "v17-basic" / "env"
    by_name = read(home, db="people")
    assert 0 < len(by_name) < len(read(home))
    assert_same(by_name, dumped(home, tmp_path / "out.parquet", "--db", "people"))
    assert_same(read(home, db='["id:6"]'), by_name)
    both = dumped(home, tmp_path / "out.parquet", "--db", "people", "--db", "2")
    assert_same(read(home, db="people,2"), both)
    assert len(both) > len(by_name)


def test_a_window_of_time(tmp_path: Path) -> None:
    home = FIXTURES / "v8-crash-txn-ckpt" / "env"
    whole = read(home)
    times = [row["time_ms"] for row in whole.column("txn_end").to_pylist() if row is not None]
    since, until = str(times[len(times) // 4]), str(times[len(times) // 2])
    expected = dumped(home, tmp_path / "out.parquet", "--since", since, "--until", until)
    assert 0 < len(expected) < len(whole)
    assert_same(read(home, since=since, until=until), expected)


EXACT: list[dict[str, str]] = [
    {"type": "Commit"},
    {"type": "Commit, INS_LN_TX"},
    {"from_lsn": "0x0/0x1389", "to_lsn": "0x0/0x2328"},
    {"from_vlsn": "7", "to_vlsn": "7"},
    {"replicated": "true"},
]
NARROWED: list[dict[str, str]] = [
    {"db": "id:6"},
    {"db": "people"},
    {"txn": "3,4"},
    {"key": "user00000007"},
]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, frozenset[str] | None]]:
    """Return a list of decoding calls: the number of entries and their fields; None for all."""
    calls: list[tuple[int, frozenset[str] | None]] = []
    decode, single = entries.decode, entries._decode_single

    def count(rows: Any, family: Any, *, wanted: frozenset[str] | None = None) -> Any:
        calls.append((len(rows), wanted))
        return decode(rows, family, wanted=wanted)

    def count_single(rows: Any, row: int) -> Any:
        calls.append((1, None))
        return single(rows, row)

    monkeypatch.setattr(entries, "decode", count)
    monkeypatch.setattr(entries, "_decode_single", count_single)
    return calls


@pytest.mark.parametrize("options", [*EXACT, *NARROWED], ids=str)
def test_what_an_option_drops_is_not_decoded(
    options: dict[str, str], decoded: list[tuple[int, frozenset[str] | None]]
) -> None:
    home = FIXTURES / "v17-basic" / "env"
    reading = reader(home, columns="ln,txn_end,node,lsn", **options)
    tasks = reading.partitions()
    decoded.clear()
    found = pa.Table.from_batches([b for t in tasks for b in reading.read(t)], reading.schema)
    whole_entries = sum(count for count, wanted in decoded if wanted is None)
    if options in EXACT:
        # Only selected entries are decoded, not even ids of the others.
        assert sum(count for count, _ in decoded) <= len(found)
    else:
        assert whole_entries <= len(found) + other_families(home)
    assert len(found) < len(read(home, columns="lsn"))


IN_COLUMNS = mask_of(
    each.no
    for each in ENTRY_TYPES.values()
    if each.family in (Family.LN, Family.TXN_END, Family.NODE)
)


def other_families(home: Path) -> int:
    """Return the number of entries whose ids are not decoded in columns: a few of a log."""
    names = {each.name for each in ENTRY_TYPES.values() if not IN_COLUMNS[each.no]}
    types = read(home, columns="type").column("type").to_pylist()
    count = sum(name in names for name in types)
    assert count < len(types) / 50
    return count


def test_columns_of_headers_decode_nothing(
    decoded: list[tuple[int, frozenset[str] | None]],
) -> None:
    home = FIXTURES / "v17-basic" / "env"
    assert len(read(home, columns="lsn,type,vlsn,replicated,checksum,item_size")) == 1695
    assert decoded == []
    assert len(read(home, columns="txn_id,type")) == 1695
    assert {wanted for count, wanted in decoded if count > 1} == {frozenset({"txn_id"})}


def pieces_of(partition: Any) -> tuple[FilePiece, ...]:
    """Return the pieces of files that a task reads."""
    return tuple(piece for part in partition.value.parts for piece in part.pieces)


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return a list of the ranges that are read: file number and start."""
    ranges: list[tuple[int, int]] = []
    real = RangeReader.__init__

    def init(self: RangeReader, *arguments: Any, **named: Any) -> None:
        real(self, *arguments, **named)
        given = inspect.signature(real).bind(self, *arguments, **named).arguments
        ranges.append((given["file_no"], given["start"]))

    monkeypatch.setattr(RangeReader, "__init__", init)
    return ranges


@pytest.mark.parametrize(
    ("options", "files"),
    [
        ({"from_lsn": "0x3/0x0"}, {3}),
        ({"to_lsn": "0x2/0xffffffff"}, {2}),
        ({"from_lsn": "0x4/0x0"}, set()),
        ({"from_vlsn": "1"}, {2, 3}),
        ({"file_no": "3"}, {3}),
        ({"file_no": "0-2,9"}, {2}),
    ],
    ids=str,
)
def test_files_that_cannot_match_are_not_planned(
    options: dict[str, str], files: set[int], walked: list[tuple[int, int]]
) -> None:
    reading = reader(FIXTURES / "v8-cleaned" / "env", columns="lsn,vlsn,file_no", **options)
    tasks = reading.partitions()
    assert {piece.file.file_no for task in tasks for piece in pieces_of(task)} == files
    walked.clear()
    for task in tasks:
        list(reading.read(task))
    assert {file_no for file_no, _ in walked} == files


def test_pieces_that_cannot_match_are_not_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("je_tools.formats.je.log.reader.RANGE_SIZE", 10_000)
    home = FIXTURES / "v17-basic" / "env"
    every = [pieces_of(t)[0] for t in reader(home, columns="lsn", tasks="8").partitions()]
    assert len(every) > 4
    lsn = every[2].place.at
    place = f"0x{lsn >> 32:x}/0x{lsn & 0xFFFFFFFF:x}"
    planned = reader(home, columns="lsn", from_lsn=place, to_lsn=place, tasks="8")
    assert [pieces_of(t) for t in planned.partitions()] == [(every[2],)]
    assert pa.Table.from_batches(batches(planned)).column("lsn").to_pylist() == [lsn]


def test_lsns_of_files_with_the_highest_numbers(tmp_path: Path) -> None:
    """As int64 they are negative; options compare the LSNs."""
    files = [LogFile(no, 17) for no in (0, 5, 0x80000000, 0xFFFFFFFE)]
    for file in files:
        for size in (20, 30, 40):
            file.trace(size)
    home = write_log(tmp_path / "env", files)
    table = read(home, columns="lsn,file_no,type")
    lsns = table.column("lsn").to_pylist()
    assert lsns[-1] == (0xFFFFFFFE << 32 | files[-1].last) - (1 << 64)
    for at in (0, 1, 5, len(lsns) - 2, len(lsns) - 1):
        place = f"0x{lsns[at] >> 32 & 0xFFFFFFFF:x}/0x{lsns[at] & 0xFFFFFFFF:x}"
        assert_same(read(home, columns="lsn,file_no,type", from_lsn=place), table[at:])
        assert_same(read(home, columns="lsn,file_no,type", to_lsn=place), table[: at + 1])
