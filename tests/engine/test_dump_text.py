"""The text of dumps and the engine: its DbLoad reads ours, its DbDump writes the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from je_tools.core.masking import DataMode, Masking
from je_tools.output.encoders.record_files import stems_of, write_files
from je_tools.output.encoders.record_lines import OutputDatabase
from je_tools.output.encoders.record_sinks import RecordFormat, open_record_sink
from je_tools.output.encoders.record_sources import DatabaseSource
from tests.builders.records import Row, records_of
from tests.engine.tools import Tools
from tests.je_tools.dumped import je_tools, rows_of

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("is_print", [False, True])
@pytest.mark.parametrize("has_duplicates", [False, True])
def test_loaded_and_dumped_again(
    tools: Tools, tmp_path: Path, is_print: bool, has_duplicates: bool
) -> None:
    chance = random.Random(11)
    rows = {(bytes([byte]), bytes([255 - byte]) * 3) for byte in range(256)}
    rows |= {(chance.randbytes(chance.randrange(9)), chance.randbytes(50)) for _ in range(300)}
    rows |= {(b"", b""), (b"  two  words ", b"")}
    if has_duplicates:
        rows |= {(b"many", b"%d" % i) for i in range(50)}
    else:
        rows = set(dict(sorted(rows)).items())
    name = OutputDatabase("a/b: c", 5, has_duplicates)
    batch = records_of([Row(*row) for row in sorted(rows)])
    sink = open_record_sink(RecordFormat.DUMP, Masking(), is_print=is_print)
    (done,) = write_files(
        sink, [DatabaseSource(name, [batch])], stems_of(sink, [name]), tmp_path, tmp_path
    )
    ours = tmp_path / (done.file or "")
    home = tmp_path / "env"
    home.mkdir()
    tools.run("DbLoad", "-h", home, "-s", name.shown, "-f", ours)
    printed = ["-p"] if is_print else []
    theirs = tools.run("DbDump", "-h", home, "-s", name.shown, *printed)
    assert theirs == ours.read_bytes()


def test_masked_text_is_refused(tools: Tools, tmp_path: Path) -> None:
    name = OutputDatabase("people", 5, has_duplicates=False)
    for mode in DataMode:
        folder = tmp_path / mode.value
        folder.mkdir()
        sink = open_record_sink(RecordFormat.DUMP, Masking(mode))
        source = DatabaseSource(name, [records_of([Row(b"key", b"data")])])
        (done,) = write_files(sink, [source], stems_of(sink, [name]), folder, folder)
        words = ["-h", folder, "-s", "people", "-f", folder / (done.file or "")]
        tools.run("DbLoad", *words)
        names = [row["db"] for row in rows_of(je_tools("count", folder, "--format", "jsonl").out)]
        assert names == (["people"] if mode is DataMode.SHOW else [])
