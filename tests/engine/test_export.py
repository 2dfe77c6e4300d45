"""`export` and `count` compared with DbDump and Database.count, on logs that the engine opens."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from je_tools.core.masking import Masking
from je_tools.output.encoders.record_files import write_stream
from je_tools.output.encoders.record_sinks import RecordFormat, open_record_sink
from je_tools.records.export import Export
from tests.corpus import Environment, environments, marked_beyond_fixtures
from tests.engine.tools import Tools
from tests.je_tools.corpus_snapshots import database_named, snapshot_of

pytestmark = pytest.mark.engine

NOW_MS = 1_795_400_000_000
"""Time at which one record of v15-ttl has expired, and others have not."""

OPENED = [
    # The others are too old, or newer than this engine.
    each
    for each in environments()
    if not each.name.startswith(("v6-", "v26-"))
]


def listed(folder: Path) -> list[tuple[str, int]]:
    """Return the databases that the engine has dumped to a folder, with their counts."""
    lines = (folder / "databases.tsv").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("\t") for line in lines)
    return [(name, int(count)) for name, count in pairs]


@pytest.mark.parametrize(
    "environment",
    [pytest.param(each, marks=marked_beyond_fixtures(each)) for each in OPENED],
    ids=[each.name for each in OPENED],
)
def test_dumps_are_those_of_the_engine(
    tmp_path: Path, tools: Tools, environment: Environment
) -> None:
    home, folder = tmp_path / "env", tmp_path / "theirs"
    shutil.copytree(environment.home, home)
    folder.mkdir()
    with tools.clock(NOW_MS):
        tools.run("Dumps", home, folder)
    databases = listed(folder)
    snapshot = snapshot_of(environment.home, now_ms=NOW_MS)
    names = {name for name, _ in databases}
    assert names == {each.name for each in snapshot.databases.values() if not each.is_internal}
    for number, (name, count) in enumerate(databases):
        database = database_named(snapshot, name)
        assert snapshot.count(database) == count
        for is_print in (False, True):
            sink = open_record_sink(RecordFormat.DUMP, Masking(), is_print=is_print, threads=1)
            ours = tmp_path / "ours"
            with ours.open("wb") as out:
                write_stream(sink, Export(snapshot).sources([database]), out)
            suffix = "print" if is_print else "dump"
            assert ours.read_bytes() == (folder / f"{number}.{suffix}").read_bytes()
