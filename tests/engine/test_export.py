"""`export` and `count` beside the engine's DbDump and Database.count, over logs that it opens."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from je_tools.export import Export
from je_tools.masking import Masking
from je_tools.sinks.records import RecordFormat, open_record_sink, write_stream
from tests.corpus import Environment, environments, marked_beyond_fixtures
from tests.engine.recovered import QUICK_START, compile_java
from tests.je_tools.corpus_snapshots import database_named, snapshot_of

pytestmark = pytest.mark.engine

DUMPS = Path(__file__).with_name("Dumps.java")
OPENED = [
    # The others are too old, or newer than this engine.
    each
    for each in environments()
    if not each.name.startswith(("v6-", "v26-"))
]


class Dumped(NamedTuple):
    """What the engine said of the databases of an environment, and when."""

    now_ms: int
    databases: list[tuple[str, int]]
    folder: Path


@pytest.fixture(scope="module")
def dumped(java: Path, je_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dumped]:
    """Every environment, dumped by one JVM."""
    classes = tmp_path_factory.mktemp("classes")
    class_path = compile_java(java, je_jar, classes, [DUMPS])
    folders, lines = {}, []
    for number, environment in enumerate(OPENED):
        home = tmp_path_factory.mktemp(f"env{number}") / "env"
        shutil.copytree(environment.home, home)
        folders[environment.name] = home.parent
        lines.append(f"{home}\t{home.parent}\n")
    now_ms = time.time_ns() // 1_000_000
    command = [java, *QUICK_START, "-cp", class_path, "Dumps"]
    subprocess.run(command, input="".join(lines), text=True, check=True)
    return {name: Dumped(now_ms, _listed(folder), folder) for name, folder in folders.items()}


def _listed(folder: Path) -> list[tuple[str, int]]:
    lines = (folder / "databases.tsv").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("\t") for line in lines)
    return [(name, int(count)) for name, count in pairs]


@pytest.mark.parametrize(
    "environment",
    [pytest.param(each, marks=marked_beyond_fixtures(each)) for each in OPENED],
    ids=[each.name for each in OPENED],
)
def test_dumps_are_those_of_the_engine(
    tmp_path: Path, dumped: dict[str, Dumped], environment: Environment
) -> None:
    told = dumped[environment.name]
    snapshot = snapshot_of(environment.home, fast=True, now_ms=told.now_ms)
    listed = {name for name, _ in told.databases}
    assert listed == {each.name for each in snapshot.databases.values() if not each.is_internal}
    for number, (name, count) in enumerate(told.databases):
        database = database_named(snapshot, name)
        # The engine counts what has expired and is still there.
        assert snapshot.count(database, show_expired=True) == count
        for is_print in (False, True):
            sink = open_record_sink(RecordFormat.DUMP, Masking(), is_print=is_print, threads=1)
            ours = tmp_path / "ours"
            with ours.open("wb") as out:
                write_stream(sink, Export(snapshot).sources([database]), out)
            suffix = "print" if is_print else "dump"
            assert ours.read_bytes() == (told.folder / f"{number}.{suffix}").read_bytes()
