"""Files of a salvage: each database has one, whatever its name, and so has the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from je_tools.core.masking import DataMode, Masking
from je_tools.log.names import NamedDatabase
from je_tools.output.encoders.record_sinks import RecordFormat, open_record_sink
from je_tools.salvage.choice import Mode
from je_tools.salvage.output import REPORT, SUMMARY, confidence_marks, write
from tests.corpus import FIXTURES
from tests.je_tools.salvaging import salvaged

HOSTILE = ("report", "REPORT", "summary", "people.unfinished", "People.Unfinished", "people~3")


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("form", RecordFormat)
def test_no_name_of_a_database_is_in_the_way(
    form: RecordFormat, mode: Mode, tmp_path: Path
) -> None:
    found = salvaged(FIXTURES / "v17-crash-txn" / "env", mode)
    more = {90 + i: NamedDatabase(90 + i, name) for i, name in enumerate(HOSTILE)}
    content = replace(found.content, databases={**found.content.databases, **more})
    done = replace(found, content=content)
    databases = done.databases()
    sink = open_record_sink(form, Masking(DataMode.SHOW), confidence_marks())
    output = write(done, databases, sink, tmp_path, tmp_path)
    files = [written.file for written in (*output.records, *output.apart)]
    assert len(output.records) == len(HOSTILE) + 1
    assert len(output.apart) == (mode is Mode.EVERYTHING)
    assert len({str(file).lower() for file in files} | {REPORT, SUMMARY}) == len(files) + 2
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(map(str, files))
    people = next(w for w in output.records if w.database.name == "people")
    assert people.file == f"people{sink.suffix}"
