"""Salvage of logs whose records do not fit in memory: the same output, from temporary files."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from je_tools.core import spill
from je_tools.salvage.choice import Confidence, LnOutcome, Mode
from je_tools.salvage.gaps import GapKind
from tests.builders.logs import LogFile
from tests.builders.trees import TreeLog, slot
from tests.corpus import FIXTURES
from tests.damage.running import je_tools, states
from tests.je_tools.salvage.test_salvage import copied, damage_files
from tests.je_tools.salvaging import lost_pieces, records_back, salvaged

# Those at even places are written as dumps by default, which takes a quarter of the time.
NAMES = ["v17-dups", "v26-basic", "v17-crash-txn", "v8-dbops", "v6-halt", "v15-ttl"]
OPTIONS = [("--format", "dump"), ("--format", "jsonl", "--mode", "everything", "--internal")]


def damaged(name: str, folder: Path, spots: int) -> Path:
    home = copied(name, folder)
    damage_files(home, random.Random(name), spots)
    path = home / "00000000.jdb"
    data = path.read_bytes()
    path.write_bytes(
        data[:100] + random.Random(name).randbytes(len(data) // 3) + data[100 + len(data) // 3 :]
    )
    return home


def written(home: Path, out: Path, options: tuple[str, ...]) -> tuple[int, dict[str, bytes]]:
    """Return the exit code of a salvage, and its files."""
    done = je_tools("salvage", home, "--output", out, *options)
    assert done.code in (0, 3), done.err
    return done.code, {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param(
            name,
            options,
            marks=[pytest.mark.exhaustive] if (at + number) % len(OPTIONS) else [],
            id=f"{name}-{options[1]}",
        )
        for at, name in enumerate(NAMES)
        for number, options in enumerate(OPTIONS)
    ],
)
def test_the_output_is_the_same_to_the_byte(
    name: str, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = damaged(name, tmp_path, 3)
    expected = written(home, tmp_path / "whole", options)
    assert any(b'"lost-key"' in data or b'"record"' in data for data in expected[1].values())
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    for limit, merged in ((0, 50), (50_000, 1 << 20)):
        monkeypatch.setattr(spill, "MEMORY_MAX", limit)
        monkeypatch.setattr(spill, "_MERGED_ROWS", merged)
        monkeypatch.setattr(spill, "_RUN_ROWS_MIN", 3)
        assert written(home, tmp_path / f"spilled-{limit}", options) == expected
    assert list(folder.iterdir()) == []


def test_parquet_has_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    home = damaged("v17-dups", tmp_path, 3)
    options = ("--format", "parquet")
    written(home, tmp_path / "whole", options)
    monkeypatch.setattr(spill, "MEMORY_MAX", 0)
    written(home, tmp_path / "spilled", options)
    for path in (tmp_path / "whole").glob("*.parquet"):
        assert pq.read_table(path).equals(pq.read_table(tmp_path / "spilled" / path.name))


def test_a_directory_is_chosen_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = copied("v17-dups", tmp_path)
    out = tmp_path / "out"
    monkeypatch.setattr(spill, "MEMORY_MAX", 0)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "absent"))
    done = je_tools("salvage", home, "--output", out)
    assert done.code == 6
    assert f"{tmp_path / 'absent'}: no such directory for temporary files" in done.err
    assert not out.exists()
    (tmp_path / "there").mkdir()
    assert je_tools("salvage", home, "--output", out, "--tmp", tmp_path / "there").code == 0
    done = je_tools("salvage", home, "--output", tmp_path / "2", "--tmp", tmp_path / "absent")
    assert done.code == 2
    assert not (tmp_path / "2").exists()


@pytest.mark.parametrize("is_named", [True, False])
def test_nothing_is_written_inside_the_environment(
    is_named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = copied("v17-dups", tmp_path)
    inside = home / "more"
    inside.mkdir()
    before = states(home)
    monkeypatch.setattr(spill, "MEMORY_MAX", 0)
    monkeypatch.setenv("TMPDIR", str(inside))
    more = ("--tmp", inside) if is_named else ()
    done = je_tools("salvage", home, "--output", tmp_path / "out", *more)
    assert done.code == 6
    assert "lies inside the environment" in done.err
    assert states(home) == before
    assert not (tmp_path / "out").exists()


INTERRUPTED = """
import sys
from je_tools.core import spill
from je_tools.salvage import run
spill.MEMORY_MAX = 0
decide = run.decide
def waiting(*values, **named):
    print("spilled", flush=True)
    sys.stdin.read()
    return decide(*values, **named)
run.decide = waiting
from je_tools.commands.main import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_temporary_file_is_left(number: signal.Signals, tmp_path: Path) -> None:
    home, folder = FIXTURES / "v17-dups" / "env", tmp_path / "temporary"
    folder.mkdir()
    words = ["salvage", str(home), "--output", str(tmp_path / "out"), "--tmp", str(folder)]
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"spilled\n"
        names = Path(f"/proc/{process.pid}/fd")
        opened = [str(each.readlink()) for each in names.iterdir()]
        assert any(name.startswith(str(folder)) for name in opened)
        assert list(folder.iterdir()) == []
        process.send_signal(number)
        process.communicate()
    assert process.returncode != 0
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("first", [5, 0x7FFFFFFE, 0x80000000])
def test_newer_is_later_in_files_of_any_number(first: int, tmp_path: Path) -> None:
    """LSNs of files from 0x80000000 on are negative in int64 columns."""
    log = TreeLog(files=[LogFile(first)])
    log.ln(b"a", b"old")
    log.next_file()
    lost = log.ln(b"a", b"lost")
    log.next_file()
    log.tree([slot(b"a", lost)])
    home = log.write(tmp_path / "env")
    (home / f"{first + 1:08x}.jdb").unlink()
    done = salvaged(home)
    (back,) = records_back(done)[6]
    assert (back.data, back.confidence.label) == (b"old", "older")
    (piece,) = lost_pieces(done)
    assert piece.has_older.tolist() == [True]
    gaps = [gap for gap in done.gaps if gap.kind is GapKind.NO_FILE]
    assert [gap.stop >> 32 for gap in gaps] == [first, first + 2]
    assert [(gap.dangling, gap.keys) for gap in gaps] == [(0, 0), (1, 1)]


@pytest.mark.parametrize("later", [6, 0x80000000])
def test_an_end_may_have_been_in_damage_in_any_file(later: int, tmp_path: Path) -> None:
    log = TreeLog(files=[LogFile(5)])
    log.ln(b"a", b"1", txn=7)
    log.files.append(LogFile(later))
    log.file.trace(50)
    hurt = log.file.trace(50)
    log.file.data[hurt.start + 20] ^= 1
    log.file.trace(50)
    log.ln(b"b", b"2", txn=8)
    done = salvaged(log.write(tmp_path / "env"), Mode.EVERYTHING)
    (one,) = done.databases()
    found = {}
    for batch in done.batches(one, LnOutcome.APART):
        records = batch.read()
        grades = records.confidence.tolist()
        found |= {records.key[i]: Confidence(grade) for i, grade in enumerate(grades)}
    assert found == {b"a": Confidence.END_NOT_FOUND, b"b": Confidence.UNCOMMITTED}
