"""The engine and other writers of its environments: locks, and files that it ignores."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from je_tools.errors import RefusedError
from je_tools.log.opening import open_environment
from je_tools.writing.lock import EnvironmentLock, LockMode
from je_tools.writing.session import Session
from je_tools.writing.undo import list_undos
from tests.builders.logs import TRACE, entry
from tests.corpus import environment
from tests.engine.acceptance import Judge
from tests.engine.holder import Holder
from tests.engine.jars import JE_18
from tests.engine.recovered import Engine
from tests.je_tools.dumped import je_tools
from tests.je_tools.writing.operations import digests
from tests.truth.contents import Refusal

pytestmark = pytest.mark.engine


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return Path(shutil.copytree(environment("v17-crash-txn").home, tmp_path / "env"))


def test_an_engine_that_writes_keeps_us_out(holder: Holder, home: Path) -> None:
    with holder.opened(home, "rw") as said:
        assert said == "open"
        with pytest.raises(RefusedError, match=f"process {holder.pid} "):
            EnvironmentLock(home).__enter__()
        for words in (("checkpoint", home), ("erase", "run", home)):
            done = je_tools(*words, "--apply")
            assert done.code == 6
            assert f"process {holder.pid} " in done.err
        told, other = map(json.loads, je_tools("lock", home, "--format", "jsonl").out.splitlines())
        assert (told["is_read_write"], told["is_read_only"]) == (True, False)
        assert (other["mode"], other["pid"]) == ("read-write", holder.pid)
        assert "Holds" in other["command"]
    with EnvironmentLock(home):
        pass


def test_an_engine_that_reads_is_told_of(holder: Holder, home: Path) -> None:
    with holder.opened(home, "ro") as said, EnvironmentLock(home) as lock:
        assert said == "open"
        found = [(each.mode, each.pid) for each in lock.readers]
        assert found == [(LockMode.READ_ONLY, holder.pid)]
        done = je_tools("lock", home)
        assert f"open for reading  process {holder.pid} (".encode() in done.out


@pytest.mark.parametrize("is_cut", [False, True])
def test_an_engine_that_reads_while_something_is_written(
    is_cut: bool, holder: Holder, home: Path
) -> None:
    """The reader keeps what it has read unless the log is cut; then it has to reopen."""
    words = ["recover", home, "--to-lsn", "0x0/0x41000"] if is_cut else ["checkpoint", home]
    with holder.opened(home, "ro") as said:
        assert said == "open"
        done = je_tools(*words, "--apply")
    assert done.code == 0
    assert f"process {holder.pid} (" in done.err
    assert ("it fails if it reads the part that is cut off" in done.err) == is_cut
    assert ("it continues with the state that it knows" in done.err) != is_cut


def test_we_keep_an_engine_out(holder: Holder, home: Path) -> None:
    with EnvironmentLock(home):
        with holder.opened(home, "rw") as said:
            assert said == "EnvironmentLockedException"
        with holder.opened(home, "ro") as said:
            assert said == "open"
    with holder.opened(home, "rw") as said:
        assert said == "open"


@pytest.mark.parametrize("data_directories", [0, 3])
def test_the_engine_passes_over_journals(
    data_directories: int, engines: dict[str, Engine], judge: Judge, home: Path
) -> None:
    """The engine opens, recovers, checkpoints, closes and verifies; the journal is unchanged."""
    spread(home, data_directories)
    expected = engines[JE_18].ask(home, read_only=True)
    assert not isinstance(expected, Refusal)
    with Session(open_environment([home]), "test", None) as session:
        last = session.environment.files[-1]
        session.append(last.file_no + 1, 0, last.path.read_bytes()[:38])
        session.finish()
    with Session(open_environment([home]), "test", None, takes_away=True) as session:
        session.remove(last.file_no + 1)
        # The first entry after this names the last entry of the file before it.
        session.append(last.file_no, last.size, entry(TRACE, b"\x7d" + bytes(6) + b"\0", 0x43E3F))
        session.finish()
    journals = {name: one for name, one in digests(home).items() if "je-tools" in name}
    assert sum(name.endswith(".removed") for name in journals) == 1
    files = {path.name for path in home.rglob("*.jdb")}
    assert engines[JE_18].ask(home) == expected
    assert list_undos(home)[-1].is_finished
    assert not judge.told(judge.plain, home, "check", 0).problems
    assert journals.items() <= digests(home).items()
    assert files <= {path.name for path in home.rglob("*.jdb")}
    refused = je_tools("undo", home, "--apply")
    assert refused.code == 6
    assert "another program has written to the log since" in refused.err
    assert je_tools("undo", home, "--drop", "all", "--apply").code == 0
    assert engines[JE_18].ask(home) == expected


def spread(home: Path, count: int) -> None:
    """Move each file to its place in an environment with `count` data directories."""
    for i in range(count):
        (home / f"data{i + 1:03d}").mkdir()
        (home / "je.properties").write_text(f"je.log.nDataDirectories={count}\n")
    for path in sorted(home.glob("*.jdb")) if count else ():
        path.rename(home / f"data{int(path.stem, 16) % count + 1:03d}" / path.name)
