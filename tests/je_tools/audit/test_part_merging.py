"""Merging of small part files: no row is lost, large files stay, few files remain."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from je_tools.audit import part_merging
from je_tools.audit.part_merging import merge_parts
from je_tools.audit.table_writer import TableWriter
from je_tools.audit.tables import FILES, FINDINGS, AuditTable


def part(folder: Path, table: AuditTable, first: int, count: int) -> tuple[str, str]:
    """Write a file of rows with numbers; return its table and path."""
    columns = [
        pa.array([f"e{number}" for number in range(first, first + count)])
        if field.name == "env"
        else pa.nulls(count, field.type)
        for field in table.schema
    ]
    writer = TableWriter(folder / table.name, table.schema)
    writer.write(pa.table(columns, table.schema))
    path = writer.close()
    assert path is not None
    return table.name, str(path)


def test_small_files_of_a_table_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_merging, "PARTS_MAX", 8)
    few = [part(tmp_path, FINDINGS, number, 1) for number in range(8)]
    large = part(tmp_path, FILES, 0, 5_000)
    monkeypatch.setattr(part_merging, "SMALL_SIZE", Path(large[1]).stat().st_size)
    many = [part(tmp_path, FILES, 5_000 + 3 * number, 3) for number in range(20)]
    monkeypatch.setattr(part_merging, "MERGED_SIZE", 7 * Path(many[0][1]).stat().st_size)
    found = merge_parts([*few, large, *many], tmp_path)
    assert found[:8] == few
    assert large in found
    assert 2 <= len(found) - 9 <= 4
    assert not any(Path(path).exists() for _, path in many)
    assert {path for _, path in found} == set(map(str, tmp_path.glob("*/*")))
    tables = [pq.read_table(path) for name, path in found if name == FILES.name]
    assert all(table.schema.equals(FILES.schema) for table in tables)
    envs = sorted(env for table in tables for env in table["env"].to_pylist())
    assert envs == sorted(f"e{number}" for number in range(5_060))


def test_files_that_later_runs_take_over_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_merging, "PARTS_MAX", 4)
    kept = [part(tmp_path, FILES, number, 1) for number in range(3)]
    for number, (_, path) in enumerate(kept):
        (tmp_path / f"link-{number}").hardlink_to(path)
    others = [part(tmp_path, FILES, 10 + number, 1) for number in range(3)]
    found = merge_parts([*kept, *others], tmp_path)
    assert found[:3] == kept
    assert len(found) == 4
    assert sorted(pq.read_table(found[3][1])["env"].to_pylist()) == ["e10", "e11", "e12"]
