"""A dump into one Parquet file by worker processes: the same rows, and no leftovers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from je_tools.formats.je.log import reader
from je_tools.log.name_search import NameSearch
from je_tools.output.encoders.entry_sinks import JoinedSink
from tests.corpus import FIXTURES
from tests.je_tools.dumped import Done, je_tools

HOMES = ["v8-cleaned/env", "v17-rep-uncommitted-before/node2", "v26-dbops/env"]
HOME = FIXTURES / "v26-dbops/env"
PATIENCE_S = 600


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> list[JoinedSink]:
    """Use workers and small ranges even for a small log; collect the sinks that are used."""
    monkeypatch.setattr("je_tools.core.worker_processes.PROCESSES_FROM", 1)
    monkeypatch.setattr("je_tools.log.scan_options.ONE_THREAD_MAX", 1)
    monkeypatch.setattr("je_tools.output.encoders.entry_sinks.JOINED_FILE_SIZE", 1)
    monkeypatch.setattr(reader, "RANGE_SIZE", 20_000)
    used: list[JoinedSink] = []
    write_all = JoinedSink.write_all

    def noted(sink: JoinedSink, *arguments: object) -> None:
        used.append(sink)
        write_all(sink, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(JoinedSink, "write_all", noted)
    return used


def dumped(home: Path, out: Path, *options: str) -> Done:
    return je_tools("dump", home, "--format", "parquet", "--output", out, *options)


def rows_of(path: Path) -> pa.Table:
    """Return the rows of a file as strings, since each row group has its own dictionary."""
    table = pq.read_table(path)
    for number, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            texts = table.column(number).cast(pa.string())
            table = table.set_column(number, column.name, texts)
    return table


def hurt(home: Path, copy: Path) -> Path:
    """Copy a log, with damage across the borders of ranges."""
    shutil.copytree(home, copy)
    victim = max(copy.glob("*.jdb"), key=lambda path: path.stat().st_size)
    data = bytearray(victim.read_bytes())
    data[39_000:42_000] = bytes(3000)
    data[100_000:100_100] = bytes(100)
    victim.write_bytes(data)
    return copy


@pytest.mark.parametrize("name", HOMES)
def test_the_rows_are_the_same(name: str, tmp_path: Path, eager: list[JoinedSink]) -> None:
    alone = dumped(FIXTURES / name, tmp_path / "alone", "--threads", "1")
    assert not eager
    together = dumped(FIXTURES / name, tmp_path / "together", "--threads", "3")
    assert len(eager) == 1
    assert together == alone
    first, second = (pq.ParquetFile(tmp_path / out) for out in ("alone", "together"))
    assert second.metadata.num_row_groups > 3
    assert second.metadata.metadata == first.metadata.metadata
    assert second.metadata.created_by == first.metadata.created_by
    assert second.schema_arrow.equals(first.schema_arrow)
    assert rows_of(tmp_path / "together").equals(rows_of(tmp_path / "alone"))
    assert {path.name for path in tmp_path.iterdir()} == {"alone", "together"}


@pytest.mark.parametrize(
    "options",
    [
        ["--data", "hash"],
        ["--from-lsn", "0x3/0x0"],
        ["--to-lsn", "0x2/0x7000", "--ignore-checksum"],
        ["--from-lsn", "0x2/0xffffff", "--to-lsn", "0x2/0xffffff"],
    ],
    ids=" ".join,
)
def test_bounds_and_masks(options: list[str], tmp_path: Path, eager: list[JoinedSink]) -> None:
    """This holds even if nothing matches and the file has no row group."""
    alone = dumped(FIXTURES / HOMES[0], tmp_path / "alone", "--threads", "1", *options)
    together = dumped(FIXTURES / HOMES[0], tmp_path / "together", "--threads", "2", *options)
    assert together == alone
    assert rows_of(tmp_path / "together").equals(rows_of(tmp_path / "alone"))
    assert len(eager) == 1


def test_damage_is_told_once(tmp_path: Path, eager: list[JoinedSink]) -> None:
    """If ranges do not meet, one is read again, and its first reading does not count."""
    home = hurt(HOME, tmp_path / "env")
    alone = dumped(home, tmp_path / "alone", "--threads", "1")
    together = dumped(home, tmp_path / "together", "--threads", "3")
    assert together == alone
    assert (alone.code, len(eager)) == (3, 1)
    assert rows_of(tmp_path / "together").equals(rows_of(tmp_path / "alone"))


ALONE = [
    ["--limit", "500"],
    ["--backward"],
    ["--from-lsn", "0x99/0x0"],
    ["--type", "Commit"],
    ["--db", "id:1"],
    ["--txn", "7"],
    ["--key", "a"],
    ["--grep", "a"],
    ["--from-vlsn", "0"],
    ["--to-vlsn", "9"],
    ["--since", "1970-01-01"],
    ["--until", "1970-01-01"],
    ["--replicated"],
]


@pytest.mark.parametrize("options", ALONE, ids=" ".join)
def test_what_is_dumped_as_ever(
    options: list[str], tmp_path: Path, eager: list[JoinedSink]
) -> None:
    """With a row group per range such files would be mostly metadata."""
    assert dumped(HOME, tmp_path / "out", *options).code == 0
    assert not eager


def test_many_small_files_are_dumped_as_ever(
    tmp_path: Path, eager: list[JoinedSink], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("je_tools.output.encoders.entry_sinks.JOINED_FILE_SIZE", 1 << 20)
    assert dumped(HOME, tmp_path / "out").code == 0
    assert not eager


def test_a_pipe_is_written_as_ever(tmp_path: Path, eager: list[JoinedSink]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reading = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reading.start()
    assert dumped(HOME, pipe).code == 0
    reading.join()
    assert not eager
    (tmp_path / "got").write_bytes(got[0])
    dumped(HOME, tmp_path / "out")
    assert rows_of(tmp_path / "got").equals(rows_of(tmp_path / "out"))
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "got", "out"}


@pytest.mark.usefixtures("eager")
def test_a_file_that_vanishes_stops_the_dump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, before = shutil.copytree(HOME, tmp_path / "env"), NameSearch.read_last

    def then_vanish(search: NameSearch) -> None:
        before(search)
        for path in home.glob("*.jdb"):
            path.unlink()

    monkeypatch.setattr(NameSearch, "read_last", then_vanish)
    done = dumped(home, tmp_path / "out", "--threads", "2")
    assert done.code == 5
    assert [path.name for path in tmp_path.iterdir()] == ["env"]


def by_workers(folder: Path, *, hold: bool = False) -> list[str | Path]:
    """Return a command that dumps a small log by workers; `hold` stops it where it joins."""
    script = folder / "by_workers.py"
    script.write_text(
        "import sys, time\n"
        "from je_tools.core import worker_processes as workers\n"
        "from je_tools.log import scan_options\n"
        "from je_tools.formats.je.log import reader\n"
        "from je_tools.output.encoders import parquet_join\n"
        "from je_tools.output.encoders import entry_sinks as entries\n"
        "reader.RANGE_SIZE, entries.JOINED_FILE_SIZE = 20_000, 1\n"
        "workers.PROCESSES_FROM = scan_options.ONE_THREAD_MAX = 1\n"
        "def stand(*_): print('joins', flush=True); time.sleep(600)\n"
        + ("parquet_join.Joiner.append = stand\n" if hold else "")
        + "if __name__ == '__main__':\n"
        "    from je_tools.commands.main import main\n"
        "    main()\n"
    )
    return [sys.executable, script]


@pytest.mark.parametrize("blocks", [1, 200])
def test_a_full_disk_is_told_of_the_output(blocks: int, tmp_path: Path) -> None:
    """A worker or the joiner meets the error; the message names the output, no hidden file."""
    made, folder = tmp_path / "made", tmp_path / "script"
    made.mkdir()
    folder.mkdir()
    words = ["dump", HOME, "--format", "parquet", "--threads", "2", "--output", made / "out"]
    # Byte code that Python writes would be cut short, too, and it does not notice that.
    limited = f'ulimit -f {blocks}; PYTHONDONTWRITEBYTECODE=1 exec "$@"'
    done = subprocess.run(
        ["bash", "-c", limited, "bash", *by_workers(folder), *words],
        capture_output=True,
        text=True,
        check=False,
    )
    told = f"je-tools: {made}/out: cannot be written: File too large\n"
    assert (done.returncode, done.stderr) == (6, told)
    assert list(made.iterdir()) == []


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    made, folder = tmp_path / "made", tmp_path / "script"
    made.mkdir()
    folder.mkdir()
    words = ["dump", HOME, "--format", "parquet", "--threads", "2", "--output", made / "out"]
    process = subprocess.Popen(
        [*by_workers(folder, hold=True), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"joins\n"
    assert len(list(made.iterdir())) == 2
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    end = time.monotonic() + PATIENCE_S
    while list(made.iterdir()):
        assert time.monotonic() < end
        time.sleep(0.05)
