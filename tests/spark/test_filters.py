"""Filters by options and by Spark: the same rows as a naive filter, without needless work."""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import datasource as ds
from pyspark.sql.datasource import Filter

from je_tools.formats.je.log.reader import RangeReader
from je_tools.formats.je.types import ENTRY_TYPES, Family, mask_of
from je_tools.log import entry_table as entries
from je_tools.spark import plan
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


# Filters that Spark pushes down

_COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    ds.EqualTo: lambda a, b: a == b,
    ds.EqualNullSafe: lambda a, b: a == b,
    ds.GreaterThan: lambda a, b: a > b,
    ds.GreaterThanOrEqual: lambda a, b: a >= b,
    ds.LessThan: lambda a, b: a < b,
    ds.LessThanOrEqual: lambda a, b: a <= b,
    ds.StringStartsWith: lambda a, b: a.startswith(b),
    ds.StringEndsWith: lambda a, b: a.endswith(b),
    ds.StringContains: lambda a, b: b in a,
}


def truth(wanted: Any, value: Any) -> bool | None:
    """Return SQL's result of a filter for one value: true, false or unknown."""
    if isinstance(wanted, ds.Not):
        inner = truth(wanted.child, value)
        return None if inner is None else not inner
    if isinstance(wanted, ds.IsNull | ds.IsNotNull):
        return (value is None) is isinstance(wanted, ds.IsNull)
    if isinstance(wanted, ds.EqualNullSafe) and None in (value, wanted.value):
        return value is wanted.value
    if isinstance(wanted, ds.In):
        if value is None:
            return None
        return True if value in wanted.value else (None if None in wanted.value else False)
    if value is None or wanted.value is None:
        return None
    return _COMPARE[type(wanted)](value, wanted.value)


def filtered(table: pa.Table, filters: list[Filter]) -> pa.Table:
    """Return the rows for which all filters are true."""
    mask = np.ones(len(table), np.bool_)
    for wanted in filters:
        inner: Any = wanted.child if isinstance(wanted, ds.Not) else wanted
        values = table.column(inner.attribute[0]).to_pylist()
        mask &= np.array([truth(wanted, value) is True for value in values], np.bool_)
    return table.filter(pa.array(mask))


COLUMNS = "file_no,offset,lsn,type,version,vlsn,replicated,checksum,db_id,db_name,txn_id,key"
NUMBERS = ["file_no", "lsn", "vlsn", "version", "db_id", "txn_id", "offset"]


@functools.cache
def whole(name: str) -> pa.Table:
    return read(FIXTURES / name, columns=COLUMNS)


def some_filter(rng: random.Random, table: pa.Table) -> Filter:
    """Return a random filter on a value that is, or nearly is, in one of the columns."""
    column = rng.choice(COLUMNS.split(","))
    path = (column,)
    values = rng.sample(table.column(column).to_pylist(), 4)
    value = values[0]
    kinds: list[Any] = [ds.EqualTo, ds.EqualNullSafe]
    if column in NUMBERS:
        kinds += [ds.GreaterThan, ds.GreaterThanOrEqual, ds.LessThan, ds.LessThanOrEqual] * 2
        value = None if value is None else value + rng.choice([-1, 0, 0, 1])
    if column in ("type", "db_name", "checksum"):
        kinds += [ds.StringStartsWith, ds.StringEndsWith, ds.StringContains]
    made: Filter = rng.choice(kinds)(path, value)
    other = rng.randrange(6)
    if other == 0 or value is None:
        made = rng.choice([ds.IsNull, ds.IsNotNull])(path)
    elif other < 3:
        made = ds.In(path, tuple(values[: rng.randrange(1, 5)]))
    return ds.Not(made) if rng.random() < 0.25 else made


@pytest.mark.parametrize("seed", range(10))
def test_what_is_pushed_down_changes_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows read, filtered by the filters left over, are those of a naive filter."""
    monkeypatch.setattr(plan, "TASK_SIZE", 1)
    rng = random.Random(seed)
    seen = 0
    for _ in range(15):
        name = rng.choice(NAMES)
        filters = [some_filter(rng, whole(name)) for _ in range(rng.randrange(1, 4))]
        reading, left = reader(FIXTURES / name, filters, columns=COLUMNS)
        assert all(any(each is one for one in filters) for each in left)
        found = pa.Table.from_batches(batches(reading), whole(name).schema)
        expected = filtered(whole(name), filters)
        assert_same(filtered(found, left), expected)
        seen += len(expected)
    assert seen


def test_a_key_that_is_hashed_is_not_looked_for_as_it_is() -> None:
    home = FIXTURES / "v17-basic" / "env"
    hashed = read(home, columns="key", data="hash")
    key = next(each for each in hashed.column("key").to_pylist() if each is not None)
    wanted = [ds.EqualTo(("key",), key)]
    reading, left = reader(home, wanted, columns="key", data="hash")
    assert left == wanted
    found = pa.Table.from_batches(batches(reading), hashed.schema)
    assert_same(filtered(found, left), filtered(hashed, wanted))
    assert len(filtered(found, left))


EXACT: list[list[Filter]] = [
    [ds.EqualTo(("type",), "Commit")],
    [ds.In(("type",), ("Commit", "INS_LN_TX")), ds.IsNotNull(("type",))],
    [ds.Not(ds.StringContains(("type",), "LN"))],
    [ds.GreaterThan(("lsn",), 5000), ds.LessThanOrEqual(("lsn",), 9000)],
    [ds.EqualTo(("vlsn",), 7), ds.IsNotNull(("vlsn",))],
    [ds.EqualTo(("replicated",), True)],
]
NARROWED: list[list[Filter]] = [
    [ds.EqualTo(("db_id",), 6)],
    [ds.EqualTo(("db_name",), "people")],
    [ds.In(("txn_id",), (3, 4))],
    [ds.EqualTo(("key",), b"user00000007")],
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


@pytest.mark.parametrize("filters", [*EXACT, *NARROWED], ids=str)
def test_what_a_filter_drops_is_not_decoded(
    filters: list[Filter], decoded: list[tuple[int, frozenset[str] | None]]
) -> None:
    home = FIXTURES / "v17-basic" / "env"
    reading, left = reader(home, filters, columns="ln,txn_end,node,lsn")
    tasks = reading.partitions()
    decoded.clear()
    found = pa.Table.from_batches(
        [b for t in tasks for b in reading.read(t)], reading.planner.schema
    )
    whole_entries = sum(count for count, wanted in decoded if wanted is None)
    if filters in EXACT:
        assert left == []
        # Only selected entries are decoded, not even ids of the others.
        assert sum(count for count, _ in decoded) <= len(found)
    else:
        assert left == filters
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
    ("filters", "files"),
    [
        ([ds.EqualTo(("file_no",), 3)], {3}),
        ([ds.In(("file_no",), (2, 9))], {2}),
        ([ds.GreaterThanOrEqual(("lsn",), 3 << 32)], {3}),
        ([ds.LessThan(("lsn",), 3 << 32)], {2}),
        ([ds.EqualTo(("version",), 17)], set()),
        ([ds.EqualTo(("type",), "NoSuchType")], set()),
        ([ds.EqualTo(("db_name",), "no such database")], set()),
        ([ds.GreaterThan(("vlsn",), 0)], {2, 3}),
    ],
    ids=str,
)
def test_files_that_cannot_match_are_not_planned(
    filters: list[Filter], files: set[int], walked: list[tuple[int, int]]
) -> None:
    reading, _ = reader(FIXTURES / "v8-cleaned" / "env", filters, columns="lsn,vlsn,file_no")
    tasks = reading.partitions()
    assert {piece.file.file_no for task in tasks for piece in task.value.pieces} == files
    walked.clear()
    for task in tasks:
        list(reading.read(task))
    assert {file_no for file_no, _ in walked} == files


def test_pieces_that_cannot_match_are_not_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("je_tools.formats.je.log.reader.RANGE_SIZE", 10_000)
    monkeypatch.setattr(plan, "CUT_FROM", 0)
    monkeypatch.setattr(plan, "TASK_SIZE", 40_000)
    home = FIXTURES / "v17-basic" / "env"
    every = [t.value.pieces[0] for t in reader(home, columns="lsn")[0].partitions()]
    assert len(every) > 4
    lsn = every[2].place.at
    planned = reader(home, [ds.EqualTo(("lsn",), lsn)], columns="lsn")[0]
    assert [t.value.pieces for t in planned.partitions()] == [(every[2],)]
    assert pa.Table.from_batches(batches(planned)).column("lsn").to_pylist() == [lsn]


def test_lsns_of_files_with_the_highest_numbers(tmp_path: Path) -> None:
    """As int64 they are negative, and Spark orders them accordingly."""
    files = [LogFile(no, 17) for no in (0, 5, 0x80000000, 0xFFFFFFFE)]
    for file in files:
        for size in (20, 30, 40):
            file.trace(size)
    home = write_log(tmp_path / "env", files)
    table = read(home, columns="lsn,file_no,type")
    lsns = table.column("lsn").to_pylist()
    assert lsns[-1] == (0xFFFFFFFE << 32 | files[-1].last) - (1 << 64)
    for bound in (0, lsns[1], lsns[5], lsns[-2], lsns[-1], -1):
        for kind in (ds.LessThan, ds.LessThanOrEqual, ds.GreaterThan, ds.EqualTo):
            filters: list[Filter] = [kind(("lsn",), bound)]
            reading, left = reader(home, filters, columns="lsn,file_no,type")
            found = pa.Table.from_batches(batches(reading), table.schema)
            assert_same(filtered(found, left), filtered(table, filters))
