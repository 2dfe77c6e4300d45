"""Planted disasters: `je-tools doctor` against the engine, which opens and reads the same logs.

No false all-clear: if `doctor` finds nothing, the engine opens the log and gives every record that
the log held before. No false alarm: if it exits with 3, the engine refuses, fails, or gives other
records.
"""

from __future__ import annotations

import fcntl
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.engine.disasters import BASIC, DISASTERS, NODES, Disaster, every_disaster, planted
from tests.engine.jars import JE_18
from tests.engine.recovered import Engine
from tests.je_tools.dumped import Done, je_tools, rows_of
from tests.je_tools.writing.test_lock import held
from tests.truth.contents import Contents, Refusal

RELEASE = (18, 3)
"""Release of the engine that judges."""

NOT_KNOWABLE = {
    "last file cut inside an entry": "a crash at this time leaves the same bytes",
}
"""Disasters after which records are missing although nothing in the log shows it."""

SAME_RECORDS = {
    "an empty restore marker": "the file alone says that a network restore did not finish: the "
    "log may be a mixture of two, which the engine does not notice",
    "first file of another node": "a check of the origin of files may report it, although nodes "
    "in agreement hold the same records",
    "last file of another node": "a check of the origin of files may report it, although nodes "
    "in agreement hold the same records",
}
"""Disasters that may be reported although the engine gives all records."""

pytestmark = pytest.mark.engine

Sorted = dict[str, list[tuple[bytes, bytes]]]


@pytest.fixture(scope="module")
def whole(
    engines: dict[str, Engine], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Contents | Refusal]:
    """Return what the engine says of each environment before the disaster."""
    found = {}
    for base in {disaster.base for disaster in DISASTERS}:
        nothing = Disaster("", base, lambda _: None, "")
        home = planted(nothing, tmp_path_factory.mktemp("whole"))
        found[base] = ask(engines, home, base)
    return found


def ask(engines: dict[str, Engine], home: Path, base: str) -> Contents | Refusal:
    """Return the records that the engine finds; a node of a group is opened to read only."""
    return engines[JE_18].ask(home, read_only=base.startswith(NODES))


def records(contents: Contents) -> Sorted:
    return {name: sorted(pairs) for name, pairs in contents.items()}


def examined(home: Path) -> tuple[Done, list[dict[str, Any]]]:
    done = je_tools("doctor", home, "--format", "jsonl")
    return done, rows_of(done.out)


def release_of(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def is_for_this_engine(rows: list[dict[str, Any]]) -> bool:
    """Return whether the answer says that this release opens the log as others do."""
    opening = next(row for row in rows if row["section"] == "opening")
    if release_of(opening["opened_from"]) > RELEASE:
        return False
    refusing = [each for each in opening["not_opened_by"] if "refuse it" in each]
    return all(release_of(each.split()[0]) > RELEASE for each in refusing)


@pytest.mark.parametrize("disaster", DISASTERS, ids=[each.name for each in DISASTERS])
def test_the_answer_holds_before_the_engine(
    disaster: Disaster,
    engines: dict[str, Engine],
    whole: dict[str, Contents | Refusal],
    tmp_path: Path,
) -> None:
    home = planted(disaster, tmp_path)
    done, rows = examined(home)
    verdict = rows[0]["verdict"]
    if disaster.name not in SAME_RECORDS:
        assert rows[0]["outcome"] == disaster.outcome, verdict
    assert_commands_run(rows, tmp_path)
    answer = ask(engines, home, disaster.base)
    before = whole[disaster.base]
    is_same = (
        not isinstance(answer, Refusal)
        and not isinstance(before, Refusal)
        and records(answer) == records(before)
    )
    if done.code == 0:
        assert is_same or disaster.name in NOT_KNOWABLE or not is_for_this_engine(rows), verdict
    elif done.code == 3:
        assert not is_same or disaster.name in SAME_RECORDS, verdict
    else:
        assert done.code == 4
        assert isinstance(answer, Refusal), verdict


def assert_commands_run(rows: list[dict[str, Any]], folder: Path) -> None:
    """Run the commands of ours that only read: they are no wrong use, and show no bug.

    A change comes only after a dry run of the same command.
    """
    commands = [row["command"] for row in rows if row["section"] == "step"]
    assert len(set(commands)) == len(commands)
    for at, command in enumerate(commands):
        words = shlex.split(command)
        if "--apply" in words:
            assert command.partition(" --apply")[0] in commands[:at]
        elif words[0] == "je-tools" and "--output" not in words:
            assert je_tools(*words[1:]).code in (0, 3, 4), command
        elif "--output" in words:
            output = Path(words[words.index("--output") + 1])
            assert output.parent == folder
            assert not output.exists()


def test_every_exception_is_a_disaster() -> None:
    names = {each.name for each in every_disaster()}
    assert len(names) >= 40
    assert NOT_KNOWABLE.keys() | SAME_RECORDS.keys() <= names


@pytest.mark.parametrize(
    ("kind", "start", "outcome"),
    [(fcntl.LOCK_EX, 0, "locked"), (fcntl.LOCK_SH, 1, "opens")],
    ids=["by a writer", "by a reader"],
)
def test_a_lock_that_is_held(
    kind: int, start: int, outcome: str, engines: dict[str, Engine], tmp_path: Path
) -> None:
    home = planted(Disaster("", BASIC, lambda _: None, outcome), tmp_path)
    with held(home, kind, start) as pid:
        done, rows = examined(home)
        answer = ask(engines, home, BASIC)
    assert (done.code, rows[0]["outcome"]) == (0, outcome)
    assert f"process {pid} " in next(row["text"] for row in rows if row.get("name") == "lock")
    assert isinstance(answer, Refusal) == (outcome == "locked")
    if isinstance(answer, Refusal):
        assert "EnvironmentLocked" in answer.reason


def test_a_full_disk(
    engines: dict[str, Engine], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The engine opens a log on a full disk, and then prohibits writes."""
    home = planted(Disaster("", BASIC, lambda _: None, "opens"), tmp_path)
    real = os.statvfs(tmp_path)
    values = [0 if name == "f_bavail" else getattr(real, name) for name in FIELDS]
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(values))
    done, rows = examined(home)
    assert (done.code, rows[0]["outcome"]) == (0, "opens")
    assert "but the disk limits allow it no writes" in rows[0]["verdict"]
    disk = next(row for row in rows if row.get("name") == "disk")
    assert disk["state"] == "warning"
    assert disk["text"].startswith("the disk is full; ")
    assert not isinstance(ask(engines, home, BASIC), Refusal)


FIELDS = (
    "f_bsize",
    "f_frsize",
    "f_blocks",
    "f_bfree",
    "f_bavail",
    "f_files",
    "f_ffree",
    "f_favail",
    "f_flag",
    "f_namemax",
)
"""Fields of `os.statvfs_result`, in its order."""
