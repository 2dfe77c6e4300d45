"""Records and deltas of old log versions, decoded in columns as they are one by one."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

from je_tools.core.masking import DataMode, Masking
from je_tools.formats.je.entry.entries import decode_entry
from je_tools.formats.je.header import EntryError
from je_tools.formats.je.log.entry_rows import Rows
from je_tools.formats.je.types import BY_NAME, type_name
from je_tools.log.entry_table import EntryTable, build_table
from je_tools.log.opening import open_environment
from je_tools.log.scan import Scanner
from je_tools.output.encoders.arrow_texts import entry_texts
from je_tools.output.encoders.entry_batches import entry_batch, entry_schema
from je_tools.output.encoders.entry_jsonl import single_json
from tests.builders.busy import busy_log
from tests.builders.logs import LogFile, packed, write_log
from tests.builders.planted import planted_log

OLD = {
    *("DelDupLN_TX", "DelDupLN", "DupCountLN_TX", "DupCountLN"),
    *("BINDelta", "DupBINDelta", "INDelete", "INDupDelete"),
}
VERSIONS = [6, 7, 8]


def known(version: int) -> set[str]:
    return {name for name in OLD if BY_NAME[name].last_version >= version}


def tables(home: Path) -> list[EntryTable]:
    """Return tables of all entries, including those with a wrong checksum."""
    parts = Scanner(threads=1).scan(
        open_environment([home]), lambda rows: replace(rows, data=rows.data.copy())
    )
    return [build_table(rows) for part in parts for rows in part.results if len(rows)]


def types_of(rows: Rows) -> list[str]:
    return [type_name(int(no)) for no in rows.type]


@pytest.mark.parametrize("version", VERSIONS)
def test_none_is_decoded_by_itself(version: int, tmp_path: Path) -> None:
    seen = set()
    for table in tables(planted_log(tmp_path / "env", version)):
        types = types_of(table.rows)
        seen |= known(version) & set(types)
        assert not {types[row] for row in table.singles} & OLD
    assert seen == known(version)


@pytest.mark.parametrize("mode", [DataMode.SHOW, DataMode.LENGTH])
@pytest.mark.parametrize("version", VERSIONS)
def test_they_are_what_single_entries_are(version: int, mode: DataMode, tmp_path: Path) -> None:
    """Bytes are changed so that some entries end inside a field or hold wild numbers."""
    rng = random.Random(f"{version}{mode}")
    home = busy_log(rng, tmp_path / "env", version, 3000)
    for path in home.iterdir():
        data = bytearray(path.read_bytes())
        for at in rng.sample(range(60, len(data)), len(data) // 200):
            data[at] = rng.randrange(256)
        path.write_bytes(data)
    masking = Masking(mode)
    compared, damaged = 0, 0
    for table in tables(home):
        objects = entry_texts(table, masking).to_pylist()
        for row, name in enumerate(types_of(table.rows)):
            if name not in known(version):
                continue
            try:
                fields = decode_entry(table.rows.entry_bytes(row), version).fields
            except EntryError:
                damaged += 1
                assert "undecodable" in objects[row]
                continue
            compared += 1
            assert objects[row] == single_json(fields, None, masking)
    assert compared > 20
    assert damaged or version == 8  # it has only one of these types


def test_deltas_without_slots(tmp_path: Path) -> None:
    file = LogFile(0, 7)
    file.add(22, packed(5) + packed(-1) + packed(0))
    (table,) = tables(write_log(tmp_path / "env", [file]))
    text = '{"db_id":5,"last_full_lsn":"0xffffffff/0xffffffff","slot_count":0,"slots":[]}'
    assert entry_texts(table, Masking()).to_pylist()[1] == text
    versions = frozenset({7})
    batch = entry_batch(table, {}, Masking(), versions=versions)
    assert batch.schema == entry_schema(versions)
    assert pa.Table.from_batches([batch])["old_delta"].to_pylist()[1]["slots"] == []
