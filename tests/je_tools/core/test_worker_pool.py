"""The worker pool: the same results in the same order as with one thread."""

from __future__ import annotations

import io
import shutil
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from je_tools.core import worker_pool
from je_tools.core.masking import Masking
from je_tools.core.worker_pool import Step, Task, WorkerPool
from je_tools.errors import StoppedError
from je_tools.formats.files.source import Bytes
from je_tools.formats.rows import Buffer
from je_tools.log.records import Note, Records, UnreadRecords
from je_tools.output.encoders.record_files import write_stream
from je_tools.output.encoders.record_sinks import RecordFormat, open_record_sink
from je_tools.output.encoders.record_sources import DatabaseSource
from je_tools.recovery.record_reader import RecordReader
from tests.builders.records import Row, records_of
from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools
from tests.je_tools.output.test_record_sinks import PEOPLE

HOME = FIXTURES / "v26-basic" / "env"
MANY_FILES = FIXTURES / "v8-cleaned" / "env"


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Use threads for a small log, with one node a task; return the tasks of each run."""
    counts: list[int] = []
    by_threads = WorkerPool._by_threads

    def counted(pool: WorkerPool, tasks: Iterable[Task[Any]]) -> Iterator[tuple[Any, Bytes]]:
        every = list(tasks)
        counts.append(len(every))
        return by_threads(pool, iter(every))

    monkeypatch.setattr(WorkerPool, "_by_threads", counted)
    monkeypatch.setattr("je_tools.log.scan_options.ONE_THREAD_MAX", 1)
    monkeypatch.setattr(RecordReader.children, "__defaults__", (1,))
    return counts


def fill(number: int, size: int, buffer: Buffer) -> tuple[Bytes, tuple[int, int]]:
    """Fill a buffer with a number, and return the number and the thread."""
    out = buffer.of(size)
    out[:] = number % 256
    return out, (number, threading.get_ident())


def task(number: int) -> Iterator[Step[tuple[int, int]]]:
    """Yield up to four steps, each larger than those of the task before."""
    for _ in range(number % 5):
        yield partial(fill, number, number * 100)


def tasks(count: int) -> Iterator[Task[tuple[int, int]]]:
    return (partial(task, number) for number in range(count))


@pytest.mark.parametrize("ahead_size", [1 << 20, 150])
@pytest.mark.parametrize("count", [1, 3, 7])
def test_results_come_in_order(
    count: int, ahead_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a size, the steps of a task run only as their results are taken."""
    monkeypatch.setattr(worker_pool, "_DONE_AHEAD", ahead_size)
    pool = WorkerPool(count, 1500)
    found = [(told, data.tobytes()) for told, data in pool.in_order(tasks(40))]
    assert [told[0] for told, _ in found] == [n for n in range(40) for _ in range(n % 5)]
    assert all(data == bytes([n]) * (100 * n) for (n, _), data in found)
    assert all(buffer.size <= 1500 for buffer in pool.buffers)


def test_bytes_that_are_in_no_room_arrive() -> None:
    def step(_: Buffer) -> tuple[Bytes, str]:
        return np.frombuffer(b"elsewhere", np.uint8), "told"

    found = WorkerPool(2, 1).in_order([lambda: iter([step, step])])
    assert [(told, data.tobytes()) for told, data in found] == [("told", b"elsewhere")] * 2


def test_an_error_comes_after_the_results_before_it() -> None:
    def failing(_: Buffer) -> tuple[Bytes, tuple[int, int]]:
        raise StoppedError("the log went away")

    def last() -> Iterator[Step[tuple[int, int]]]:
        yield failing

    results = WorkerPool(2, 1).in_order([*tasks(4), last])
    assert [told[0] for told, _ in islice(results, 6)] == [1, 2, 2, 3, 3, 3]
    with pytest.raises(StoppedError, match="the log went away"):
        next(results)


def test_no_more_is_begun_than_is_wanted() -> None:
    begun: list[int] = []

    def noted(number: int) -> Iterator[Step[tuple[int, int]]]:
        begun.append(number)
        yield partial(fill, number, 10)

    results = WorkerPool(3, 1).in_order(partial(noted, number) for number in range(1000))
    assert [told[0] for told, _ in islice(results, 10)] == list(range(10))
    results.close()  # type: ignore[attr-defined]
    assert len(begun) <= 10 + 3 + worker_pool.AHEAD


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("form", RecordFormat)
def test_records_are_written_as_by_one(form: RecordFormat) -> None:
    """Notes come in order too, whichever thread made them."""
    batches = [
        [Row(b"%d.%d" % (number, i), bytes([number]) * i) for i in range(number)]
        for number in range(1, 40)
    ]

    def read(number: int, note: Note) -> Records:
        note(number)
        return records_of(batches[number])

    def written(threads: int) -> tuple[list[int], int, bytes]:
        out, noted = io.BytesIO(), []
        sink = open_record_sink(form, Masking(), threads=threads)
        coming = [UnreadRecords(partial(read, number)) for number in range(len(batches))]
        (done,) = write_stream(sink, [DatabaseSource(PEOPLE, coming, noted.append)], out)
        return noted, done.records, out.getvalue()

    alone = written(1)
    assert alone[:2] == (list(range(39)), sum(map(len, batches)))
    assert written(3) == alone


@pytest.mark.parametrize("form", ["dump", "jsonl", "csv", "parquet"])
def test_an_environment_is_written_as_by_one(form: str, tmp_path: Path, eager: list[int]) -> None:
    def written(threads: int) -> dict[str, bytes]:
        out = tmp_path / str(threads)
        command = ("export", HOME, "--all", "--format", form, "--output", out)
        assert je_tools(*command, "--threads", str(threads)).code == 0
        return {path.name: path.read_bytes() for path in out.iterdir()}

    alone = written(1)
    assert not eager
    assert written(3) == alone
    assert max(eager) > 3


def test_damage_is_reported_as_by_one(tmp_path: Path, eager: list[int]) -> None:
    home = tmp_path / "env"
    shutil.copytree(MANY_FILES, home)
    for victim in sorted(home.glob("*.jdb"))[:-1]:
        data = bytearray(victim.read_bytes())
        for at in range(5_000, len(data), 20_000):
            data[at : at + 40] = bytes(40)
        victim.write_bytes(data)
    alone = je_tools("export", home, "--all", "--format", "jsonl", "--threads", "1")
    together = je_tools("export", home, "--all", "--format", "jsonl", "--threads", "3")
    assert together == alone
    assert alone.code == 3
    assert alone.err
    assert max(eager) > 3
