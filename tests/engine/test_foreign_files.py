"""The engine's answers to logs with a file of another log, and with flags that no checksum covers.

The engine opens some of them: it never reads the files that its trees do not need. `verify` reports
all of them.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from je_tools.formats.je.flags import HeaderFlag
from je_tools.formats.je.header import FLAGS_AT
from tests.corpus import environment, log_files
from tests.damage.running import je_tools
from tests.engine.jars import JE_5, JE_18
from tests.engine.recovered import Engine
from tests.engine.workloads import CLOSE, SERIAL, sessions_of, write_environment
from tests.truth.contents import Refusal
from tests.truth.headers import NAMES, USER_TYPES, Header, walk_file

pytestmark = pytest.mark.engine

NOW_MS = 1
SIZES = {"transactions": 1600, "load": 1500, "large": 2_000, "checkpoints": 3, "structure": 0}
OPTIONS = SERIAL | SIZES | {"ttl": 0, "clean": 0, "deferred": 0, "extinct": 0, "end": CLOSE}


@pytest.fixture(scope="module")
def homes(java: Path, class_path: str, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Let the engine write two logs of several files, with the same kinds of records."""
    folder = tmp_path_factory.mktemp("logs")
    made = []
    for seed in (1, 2):
        session = sessions_of(7, ttl=False)[0] | OPTIONS | {"seed": seed}
        write_environment(java, class_path, folder / str(seed), [session])
        made.append(folder / str(seed))
    return made


def copied(home: Path, folder: Path) -> Path:
    """Copy the log files alone."""
    folder.mkdir()
    for path in log_files(home):
        shutil.copyfile(path, folder / path.name)
    return folder


def test_a_file_of_another_log(
    homes: list[Path], engines: dict[str, Engine], tmp_path: Path
) -> None:
    home, other = homes
    assert je_tools("verify", home).code == je_tools("verify", other).code == 0
    expected = engines[JE_18].ask(copied(home, tmp_path / "whole"), NOW_MS)
    answers: Counter[str] = Counter()
    names = [path.name for path in log_files(home)]
    assert len(names) > 3
    for name in names:
        mixed = copied(home, tmp_path / name)
        shutil.copyfile(other / name, mixed / name)
        outcome = je_tools("verify", mixed, "--format", "jsonl")
        codes = {row["code"] for row in outcome.rows if row["severity"] == "error"}
        assert outcome.code == 3, name
        assert codes & {"foreign-file", "last-entry-mismatch", "truncated-file"}, name
        if name not in (names[0], names[-1]):
            named = [row["file_no"] for row in outcome.rows if row["code"] == "foreign-file"]
            assert named == [int(name[:8], 16)]
        answer = engines[JE_18].ask(mixed, NOW_MS)
        answers["refused" if isinstance(answer, Refusal) else str(answer == expected)] += 1
    print(answers)
    assert answers["refused"]


RECORD = "record"
FLIPPED = (RECORD, "BIN", "CkptEnd", "FileHeader")
"""Types whose last entry gets the flag, and the last record that is committed."""


def chosen(path: Path, type_name: str) -> Header:
    """Return the entry of a file that gets the flag."""
    entries = list(walk_file(path))
    if type_name == RECORD:
        commit = max(i for i, each in enumerate(entries) if NAMES[each.type_no] == "Commit")
        return [each for each in entries[:commit] if each.type_no in USER_TYPES][-1]
    return [each for each in entries if NAMES[each.type_no] == type_name][-1]


@pytest.mark.parametrize(
    ("name", "coordinate"), [("v17-crash-txn", JE_18), ("v8-crash-txn-ckpt", JE_5)]
)
def test_the_invisible_flag(
    name: str, coordinate: str, engines: dict[str, Engine], tmp_path: Path
) -> None:
    """Recovery leaves such a record out, and the engine fails where a tree leads to the entry."""
    engine = engines[coordinate]
    whole = engine.ask(copied(environment(name).home, tmp_path / "whole"), NOW_MS)
    for type_name in FLIPPED:
        home = copied(environment(name).home, tmp_path / type_name)
        path = log_files(home)[-1]
        lsn = chosen(path, type_name).lsn
        data = bytearray(path.read_bytes())
        data[(lsn & 0xFFFFFFFF) + FLAGS_AT] |= HeaderFlag.INVISIBLE
        path.write_bytes(data)
        outcome = je_tools("verify", home, "--format", "jsonl")
        codes = {row["code"] for row in outcome.rows if row["severity"] == "error"}
        expected = "bad-file-header" if type_name == "FileHeader" else "impossible-flags"
        assert (outcome.code, codes) == (3, {expected})
        answer = engine.ask(home, NOW_MS)
        kind = "refused" if isinstance(answer, Refusal) else str(answer == whole)
        print(name, type_name, kind)
        if type_name in ("CkptEnd", "FileHeader"):
            assert kind == "refused"
        if type_name == RECORD:
            assert kind == "False"
