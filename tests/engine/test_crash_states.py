"""Crash states that workloads do not reach: what continues, and what must not remain."""

from __future__ import annotations

import shutil
import socket
import time
from pathlib import Path

import pytest

from je_tools.checkpoint.apply import apply_checkpoint
from je_tools.checkpoint.options import CheckpointOptions
from je_tools.formats.je.flags import DatabaseFlag
from je_tools.formats.je.write.transactions import NO_LN
from je_tools.formats.je.write.writer import Appender, LogTail
from je_tools.log.scan import Scanner
from je_tools.recovery.database import NAME_DB
from tests.engine.acceptance import Judge, Verdict
from tests.je_tools.checkpoint.nodes import FILE_MAX, appending, copy_up_to, entries_of
from tests.je_tools.snapshots import snapshot_of
from tests.truth.contents import Refusal

pytestmark = pytest.mark.engine


def leave(judge: Judge, home: Path, state: str, argument: object) -> None:
    """Let the engine leave an environment in a state of Crashes.java."""
    home.mkdir()
    assert not judge.told(judge.plain, home, "crash", 0, state, argument).problems
    shutil.rmtree(home.with_name(f"{home.name}.used"))


def written(judge: Judge, crashed: Path, folder: Path, *, node: str | None = None) -> Verdict:
    """Return the verdict on a copy written by `checkpoint --apply`."""
    now_ms = time.time_ns() // 1_000_000
    home = folder / "written"
    home.mkdir()
    for path in crashed.glob("*.jdb"):
        (home / path.name).write_bytes(path.read_bytes())
    apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(), now_ms)
    return judge.verdict(crashed, home, now_ms, node=node)


def free_port() -> int:
    with socket.create_server(("localhost", 0)) as server:
        return int(server.getsockname()[1])


def test_a_transaction_of_the_group_goes_on(judge: Judge, tmp_path: Path) -> None:
    """The engine resumes and ends it: deletions, changes and insertions are rolled back."""
    node = f"group/n1/localhost:{free_port()}"
    leave(judge, tmp_path / "crashed", "unfinished", node)
    verdict = written(judge, tmp_path / "crashed", tmp_path, node=node)
    print(*verdict.notes)
    assert not verdict.problems


@pytest.mark.parametrize("records", [300, 5000])
def test_a_temporary_database_is_gone(records: int, judge: Judge, tmp_path: Path) -> None:
    """Recovery removes it; with many records its nodes are in the log, too."""
    crashed = tmp_path / "crashed"
    leave(judge, crashed, "temporary", records)
    (named,) = snapshot_of(crashed).temporary.values()
    assert named == "scratch"
    verdict = written(judge, crashed, tmp_path)
    print(*verdict.notes)
    assert not verdict.problems
    after = snapshot_of(tmp_path / "written")
    assert not any(each.flags & DatabaseFlag.TEMPORARY for each in after.databases.values())
    assert "scratch" not in after.names.values()


def test_a_crash_while_a_temporary_database_goes(judge: Judge, tmp_path: Path) -> None:
    """The engine never finds a descriptor without its name: it could not open such a log."""
    crashed, home = tmp_path / "crashed", tmp_path / "written"
    leave(judge, crashed, "temporary", 60)
    assert not written(judge, crashed, tmp_path).problems
    known = {header.lsn for header in entries_of(crashed)}
    new = [header for header in entries_of(home) if header.lsn not in known]
    expected = judge.plain.ask(copy_up_to(crashed, new[0].lsn, tmp_path / "before"))
    assert not isinstance(expected, Refusal)
    assert list(expected) == ["people"]
    for header in new[1:]:
        part = copy_up_to(home, header.lsn, tmp_path / f"{header.lsn:x}")
        assert snapshot_of(part).temporary
        assert judge.plain.ask(part) == expected, f"cut in front of {header.lsn:#x}"
    assert judge.plain.ask(home) == expected


def test_a_removal_of_a_temporary_database_that_was_cut_short(judge: Judge, tmp_path: Path) -> None:
    """Its name is gone, but not its descriptor; only je-tools repairs that."""
    home = tmp_path / "crashed"
    leave(judge, home, "temporary", 60)
    expected = judge.plain.ask(shutil.copytree(home, tmp_path / "before"))
    snapshot = snapshot_of(home)
    (db_id,) = snapshot.temporary
    name = NO_LN | {"db_id": NAME_DB, "key": b"scratch", "data": None, "operation": 2}
    end = snapshot.end
    last = LogTail(0, end.next_offset, end.last_lsn, end.files[-1].version)
    log = Appender(last, file_max=FILE_MAX, created_ms=0, emit=appending(home))
    log.append("NameLN", name | {"name_db_id": db_id, "deleted": 1})
    log.flush()
    refused = judge.plain.ask(shutil.copytree(home, tmp_path / "refused"))
    assert isinstance(refused, Refusal)
    assert refused.stage == "open"
    apply_checkpoint(home, Scanner(threads=1), CheckpointOptions(), time.time_ns() // 1_000_000)
    assert judge.plain.ask(home) == expected
