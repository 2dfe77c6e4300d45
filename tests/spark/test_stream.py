"""Streams over logs that grow between micro-batches: each entry once, and none half written."""

from __future__ import annotations

import itertools
import pickle
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from je_tools.errors import StoppedError, UsageError
from je_tools.spark.jelog import JelogSource
from je_tools.spark.stream import JelogStreamReader
from tests.corpus import FIXTURES
from tests.spark.reading import assert_same, read, source

BASIC = FIXTURES / "v17-basic" / "env"
FILES = FIXTURES / "v8-cleaned" / "env"


def stream(path: Path, **options: str) -> JelogStreamReader:
    """Return the reader as Spark makes it, also when a query is started again."""
    made = pickle.loads(pickle.dumps(source(path, **options)))
    assert isinstance(made, JelogSource)
    return made.streamReader(made.schema())


def batch(reading: JelogStreamReader, start: dict[str, str], end: dict[str, str]) -> list[Any]:
    """Return the rows of a micro-batch."""
    partitions = pickle.loads(pickle.dumps(reading.partitions(start, end)))
    worker = pickle.loads(pickle.dumps(reading))
    return [b for partition in partitions for b in worker.read(partition)]


class Growing:
    """A copy of a log, of which only the first bytes are there."""

    def __init__(self, log: Path, home: Path) -> None:
        self.home = home
        self.contents = [(file.name, file.read_bytes()) for file in sorted(log.glob("*.jdb"))]
        self.size = sum(len(content) for _, content in self.contents)
        home.mkdir()

    def grow(self, size: int) -> None:
        """Let the first `size` bytes of the log be there, across its files."""
        for name, content in self.contents:
            some, size = content[:size], max(size - len(content), 0)
            path = self.home / name
            if some and (not path.exists() or path.stat().st_size < len(some)):
                with path.open("ab") as file:
                    file.write(some[path.stat().st_size :])

    def steps(self, rng: random.Random, count: int) -> Iterator[None]:
        """Let the log grow to random sizes, mostly inside of entries."""
        for size in [*sorted(rng.randrange(self.size) for _ in range(count)), self.size]:
            self.grow(size)
            yield


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("log", [BASIC, FILES], ids=["one-file", "files"])
def test_each_entry_once_while_a_log_grows(seed: int, log: Path, tmp_path: Path) -> None:
    """Also when the query is started again from its last offset."""
    rng = random.Random(seed)
    growing = Growing(log, tmp_path / "env")
    options = {"columns": "lsn,type,checksum,db,key,data", "tasks": rng.choice(["1", "3"])}
    growing.grow(1000)
    reading = stream(growing.home, **options)
    start = reading.initialOffset()
    found: list[Any] = []
    for _ in growing.steps(rng, 12):
        end = reading.latestOffset()
        found += batch(reading, start, end)
        start = end
        if rng.random() < 0.4:
            reading = stream(growing.home, **options)
    assert reading.latestOffset() == start
    assert batch(reading, start, start) == []
    whole = read(log, columns="lsn,type,checksum,key,data")
    table = pa.Table.from_batches(found)
    assert_same(table.drop_columns("db"), whole)
    assert set(table["checksum"].to_pylist()) == {"ok"}
    last = found[-1].column("db").to_pylist()
    names = read(log, columns="db")["db"].to_pylist()
    assert last == names[len(names) - len(last) :]


def test_every_border_and_the_bytes_around_it(tmp_path: Path) -> None:
    """An entry comes with its last byte, and not before."""
    lsns = read(BASIC, columns="lsn")["lsn"].to_pylist()
    growing = Growing(BASIC, tmp_path / "env")
    growing.grow(lsns[3])
    reading = stream(growing.home, columns="lsn")
    start = reading.latestOffset()
    assert list(start.values()) == [f"0x0/0x{lsns[3]:x}"]
    for before, border in itertools.pairwise(lsns[3:41]):
        for size in (before + 1, border - 1):
            growing.grow(size)
            assert reading.latestOffset() == start
        growing.grow(border)
        end = reading.latestOffset()
        assert list(end.values()) == [f"0x0/0x{border:x}"]
        (rows,) = batch(reading, start, end)
        assert rows.column("lsn").to_pylist() == [before]
        start = end


def test_a_tail_that_is_torn_waits(tmp_path: Path) -> None:
    """Neither zeros nor a hole before later entries are passed over while the log may grow."""
    home = tmp_path / "env"
    shutil.copytree(BASIC, home)
    file = home / "00000000.jdb"
    data = file.read_bytes()
    lsns = read(BASIC, columns="lsn")["lsn"].to_pylist()
    middle, after = lsns[900], lsns[903]
    place = {str(home): f"0x0/0x{middle:x}"}
    for hole in (bytes(after - middle), b"\x07" * (after - middle)):
        file.write_bytes(data[:middle] + hole + data[after:])
        assert stream(home, columns="lsn").latestOffset() == place
        file.write_bytes(data[:middle] + hole)
        assert stream(home, columns="lsn").latestOffset() == place
    reading = stream(home, columns="lsn")
    rows = batch(reading, {}, reading.latestOffset())
    file.write_bytes(data)
    rows += batch(reading, place, reading.latestOffset())
    assert_same(pa.Table.from_batches(rows), read(BASIC, columns="lsn"))


def test_damage_in_a_file_that_is_complete(tmp_path: Path) -> None:
    """It is read as `dump` reads it, since no engine writes there any more."""
    home = tmp_path / "env"
    shutil.copytree(FILES, home)
    first = min(home.glob("*.jdb"))
    with first.open("r+b") as file:
        file.seek(300_000)
        file.write(bytes(500))
    reading = stream(home, columns="lsn,checksum")
    rows = batch(reading, {}, reading.latestOffset())
    assert_same(pa.Table.from_batches(rows), read(home, columns="lsn,checksum"))


def test_several_environments_one_of_which_is_new(tmp_path: Path) -> None:
    one = Growing(BASIC, tmp_path / "one")
    one.grow(20_000)
    reading = stream(tmp_path, columns="env,lsn")
    start = reading.latestOffset()
    rows = batch(reading, {}, start)
    shutil.copytree(FILES, tmp_path / "two")
    one.grow(one.size)
    end = reading.latestOffset()
    rows += batch(reading, start, end)
    table = pa.Table.from_batches(rows)
    for name in ("one", "two"):
        env = str(tmp_path / name)
        own = table.filter(pa.compute.equal(table["env"], env))
        assert_same(own, read(tmp_path / name, columns="env,lsn"))
    shutil.rmtree(tmp_path / "two")
    with pytest.raises(
        StoppedError, match="two: the stream has read this environment, and it is gone"
    ):
        reading.partitions(end, reading.latestOffset())


def test_what_was_not_read_in_time_is_not_passed_over(tmp_path: Path) -> None:
    home = tmp_path / "env"
    shutil.copytree(FILES, home)
    reading = stream(home, columns="lsn")
    end = reading.latestOffset()
    start = {str(home): "0x2/0x1000"}
    (home / "00000002.jdb").unlink()
    with pytest.raises(StoppedError, match=r"file 0x2 is gone, .* up to 0x2/0x1000: .*skip"):
        reading.partitions(start, end)
    rows = batch(stream(home, columns="lsn", unreadable="skip"), start, end)
    assert_same(pa.Table.from_batches(rows), read(home, columns="lsn"))


def test_a_log_that_is_cut_back(tmp_path: Path) -> None:
    home = tmp_path / "env"
    shutil.copytree(BASIC, home)
    reading = stream(home, columns="lsn")
    end = reading.latestOffset()
    file = home / "00000000.jdb"
    file.write_bytes(file.read_bytes()[:-5000])
    with pytest.raises(StoppedError, match="cut back to 282967 bytes"):
        reading.latestOffset()
    with pytest.raises(StoppedError, match="cut back to 282967 bytes"):
        stream(home, columns="lsn").partitions(end, end)


def test_options_of_a_stream(tmp_path: Path) -> None:
    options = {"columns": "lsn,type", "type": "Commit", "db": "people"}
    reading = stream(BASIC, columns="lsn,db", db="people", type="LN")
    rows = batch(reading, {}, reading.latestOffset())
    assert_same(pa.Table.from_batches(rows), read(BASIC, columns="lsn,db", db="people", type="LN"))
    with pytest.raises(UsageError, match="options since and until: a stream does not know"):
        stream(BASIC, **options, since="2000-01-01")
    with pytest.raises(UsageError, match="single files; a stream reads whole environments"):
        stream(BASIC / "00000000.jdb").latestOffset()


def test_a_query_that_is_started_again(spark: Any, tmp_path: Path) -> None:
    """In Spark itself, with a checkpoint and a sink of files."""
    growing = Growing(BASIC, tmp_path / "env")
    out, place = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    reading = spark.readStream.format("jelog").option("columns", "env,lsn,type")
    for size in (100_000, 100_000, 200_001, growing.size):
        growing.grow(size)
        query = (
            reading.load(str(growing.home))
            .writeStream.format("parquet")
            .option("checkpointLocation", place)
            .trigger(availableNow=True)
            .start(out)
        )
        query.awaitTermination()
    rows = spark.read.parquet(out).orderBy("lsn").toArrow()
    expected = read(growing.home, columns="env,lsn,type")
    assert rows.to_pylist() == expected.to_pylist()
