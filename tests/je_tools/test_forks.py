"""Forked processes: the same results in the same order, whatever becomes of one of them."""

from __future__ import annotations

import errno
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from je_tools import forks, turns
from je_tools.errors import StoppedError
from je_tools.forks import Step, Task, forked
from je_tools.formats.rows import Room
from je_tools.formats.source import Bytes
from je_tools.masking import Masking
from je_tools.records import Coming, Note, Records
from je_tools.recovery.reading import Reading
from je_tools.sinks.records import RecordFormat, Source, open_record_sink, write_stream
from je_tools.turns import Hands
from tests.builders.records import Row, records_of
from tests.corpus import FIXTURES
from tests.je_tools.dumped import je_tools
from tests.je_tools.test_records_sink import PEOPLE

HOME = FIXTURES / "v26-basic" / "env"
MANY_FILES = FIXTURES / "v8-cleaned" / "env"
PATIENCE_S = 60


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Processes from the first task on, and also for a small log; gives what each has made."""
    made: list[int] = []

    def counted(tasks: Iterable[Task[Any]], count: int) -> Iterator[tuple[Any, Bytes]]:
        number = 0
        for each in forked(tasks, count):
            number += 1
            yield each
        made.append(number)

    monkeypatch.setattr(turns, "forked", counted)
    monkeypatch.setattr(turns, "FORKED_FROM", 0)
    monkeypatch.setattr("je_tools.scan.ONE_THREAD_MAX", 1)
    monkeypatch.setattr(Reading.children, "__defaults__", (1,))
    return made


def fill(number: int, size: int, room: Room) -> tuple[Bytes, tuple[int, int]]:
    """A step: so many bytes of that number, by which process."""
    out = room.of(size)
    out[:] = number % 256
    return out, (number, os.getpid())


def task(number: int) -> Iterator[Step[tuple[int, int]]]:
    """No step, or some, of which each is larger than those of the task before."""
    for _ in range(number % 5):
        yield partial(fill, number, number * 100)


def tasks(count: int) -> Iterator[Task[tuple[int, int]]]:
    return (partial(task, number) for number in range(count))


@pytest.mark.parametrize("room_size", [1 << 20, 1500])
@pytest.mark.parametrize("count", [1, 3, 7])
def test_results_come_in_order(count: int, room_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a room has no place for some of them."""
    monkeypatch.setattr(forks, "_ROOM_SIZE", room_size)
    found = [(told, data.tobytes()) for told, data in forked(tasks(40), count)]
    assert [told[0] for told, _ in found] == [n for n in range(40) for _ in range(n % 5)]
    assert all(data == bytes([n]) * (100 * n) for (n, _), data in found)
    pids = {pid for (_, pid), _ in found}
    assert len(pids) == count
    assert os.getpid() not in pids


def test_bytes_that_are_in_no_room_arrive() -> None:
    def step(_: Room) -> tuple[Bytes, str]:
        return np.frombuffer(b"elsewhere", np.uint8), "told"

    assert [(told, data.tobytes()) for told, data in forked([lambda: iter([step, step])], 2)] == [
        ("told", b"elsewhere")
    ] * 2


def test_an_error_arrives_behind_what_came_before_it() -> None:
    def failing(_: Room) -> tuple[Bytes, tuple[int, int]]:
        raise StoppedError("the log went away")

    def last() -> Iterator[Step[tuple[int, int]]]:
        yield failing

    results = forked([*tasks(4), last], 2)
    assert [told[0] for told, _ in islice(results, 6)] == [1, 2, 2, 3, 3, 3]
    with pytest.raises(StoppedError, match="the log went away"):
        next(results)


def test_a_process_that_is_killed_is_told_of() -> None:
    def killed(_: Room) -> tuple[Bytes, tuple[int, int]]:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    def last() -> Iterator[Step[tuple[int, int]]]:
        yield killed

    with pytest.raises(StoppedError, match="killed"):
        list(forked([*tasks(6), last], 2))


def test_a_system_that_has_no_more_processes_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", full)
    with pytest.raises(StoppedError, match="no process can be started"):
        list(forked(tasks(6), 2))


def test_nothing_is_left_of_what_nobody_wants_any_more() -> None:
    """They are no children of anybody any more, be they at work or waiting."""
    results = forked(tasks(1000), 3)
    pids = {next(results)[0][1] for _ in range(30)}
    assert len(pids) == 3
    results.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


_ORPHANS = """
import os, signal, sys
from tests.je_tools.test_forks import tasks
from je_tools.forks import forked
results = forked(tasks(100_000), 3)
print(*{next(results)[0][1] for _ in range(30)}, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_they_end_with_the_process_that_forked_them() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ORPHANS],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == -signal.SIGKILL
    pids = {int(pid) for pid in done.stdout.split()}
    assert len(pids) == 3
    until = time.monotonic() + PATIENCE_S
    while any(map(_is_running, pids)):
        assert time.monotonic() < until
        time.sleep(0.05)


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_few_tasks_are_for_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def pids(count: int, *, forkable: bool = True, forks: bool = True) -> set[int]:
        hands = Hands(2, 1 << 20, forks)
        found = hands.in_order(tasks(count), forkable=forkable)
        return {pid for (_, pid), _ in found}

    monkeypatch.setattr(turns, "FORKED_FROM", 10)
    assert pids(19) == pids(20, forkable=False) == pids(20, forks=False) == {os.getpid()}
    assert len(pids(20) - {os.getpid()}) == 2


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("form", RecordFormat)
def test_records_are_written_as_by_one(form: RecordFormat) -> None:
    """And what was noted is told in order, whoever read what."""
    batches = [
        [Row(b"%d.%d" % (number, i), bytes([number]) * i) for i in range(number)]
        for number in range(1, 40)
    ]

    def read(number: int, note: Note) -> Records:
        note(number)
        return records_of(batches[number])

    def written(threads: int) -> tuple[list[int], int, bytes]:
        out, noted = io.BytesIO(), []
        sink = open_record_sink(form, Masking(), threads=threads, forks=True)
        coming = [Coming(partial(read, number)) for number in range(len(batches))]
        source = Source(PEOPLE, coming, noted.append, forkable=True)
        (done,) = write_stream(sink, [source], out)
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


def test_damage_is_told_as_by_one(tmp_path: Path, eager: list[int]) -> None:
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
